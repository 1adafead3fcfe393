//! What can be read of the box without a GPU library: host, kernel, CPU, environment, NCCL's configuration files.

use std::path::{Path, PathBuf};

use crate::plan::env_set::Vars;
use crate::plan::environment::is_nccl;
use crate::record::run::ConfFile;

/// Longest configuration file that is stored.
const MAX_CONF: u64 = 64 << 10;

/// Name of this host.
#[must_use]
pub fn host() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Release of the running kernel.
#[must_use]
pub fn kernel() -> String {
    nix::sys::utsname::uname()
        .map_or_else(|_| "unknown".to_owned(), |name| name.release().to_string_lossy().into_owned())
}

/// Model of the CPU.
#[must_use]
pub fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    model.unwrap_or("unknown").to_owned()
}

/// Logical CPUs this process may use.
#[must_use]
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Whether this process may run on a CPU.
#[must_use]
pub fn may_use(cpu: u32) -> bool {
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0));
    allowed.is_ok_and(|allowed| allowed.is_set(cpu as usize) == Ok(true))
}

/// The environment as text; what is no UTF-8 NCCL could not use either.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Inherited `NCCL_*` variables.
#[must_use]
pub fn inherited() -> Vars {
    let mut variables: Vec<_> = environment().filter(|(name, _)| is_nccl(name)).collect();
    variables.sort();
    Vars::from_iter(variables)
}

/// NCCL's configuration files that exist: the user's and the system's.
#[must_use]
pub fn conf_files(variable: impl Fn(&str) -> Option<String>) -> Vec<ConfFile> {
    let user = variable("NCCL_CONF_FILE").map(PathBuf::from);
    let user = user.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".nccl.conf")));
    user.into_iter().chain([PathBuf::from("/etc/nccl.conf")]).filter_map(|path| conf_file(&path)).collect()
}

fn conf_file(path: &Path) -> Option<ConfFile> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    let text = if size <= MAX_CONF { std::fs::read(path).ok()? } else { b"(too large to be stored)".to_vec() };
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect();
    Some(ConfFile { path: path.display().to_string(), lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_file_is_the_one_the_variable_names_else_the_one_at_home() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".nccl.conf"), "# a note\n\nNCCL_PROTO=LL\n").unwrap();
        std::fs::write(home.path().join("other"), "NCCL_ALGO=Ring\n").unwrap();
        let at_home = |name: &str| (name == "HOME").then(|| home.path().display().to_string());
        let found = conf_files(at_home);
        assert_eq!(found[0].lines, ["NCCL_PROTO=LL"]);
        let named = |name: &str| match name {
            "NCCL_CONF_FILE" => Some(home.path().join("other").display().to_string()),
            _ => at_home(name),
        };
        assert_eq!(conf_files(named)[0].lines, ["NCCL_ALGO=Ring"]);
    }
}
