//! What can be read of the box without a GPU library: host, kernel, CPU, environment, NCCL's configuration files.

use super::agents::token;
use std::path::Path;

use crate::nccl::conf::{Files, Home, SYSTEM_FILE};
use crate::nccl::is_variable;
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::Vars;
use crate::plan::environment::Environment;
use crate::plan::schedule::Arm;
use crate::record::run::ConfFile;

/// Longest configuration file that is stored.
const MAX_CONF: u64 = 64 << 10;

/// Name of this host.
#[must_use]
pub fn host() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// What tells this machine from others, whatever they are called: the id of the running kernel.
#[must_use]
pub fn machine() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if id.trim().is_empty() { host() } else { id.trim().to_owned() }
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

/// The environment as far as it is text; [`left_out`] names what of it NCCL would have read. The token of the agents is nobody
/// else's.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let all = std::env::vars_os().filter(|(name, _)| name != token::VARIABLE);
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Inherited `NCCL_*` variables that are no text, and do not reach any worker therefore; their names as far as they are text.
#[must_use]
pub fn left_out() -> Vec<String> {
    let all = std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), name, value));
    let nccls = all.filter(|(shown, ..)| is_variable(shown));
    let mut names: Vec<String> = nccls
        .filter(|(_, name, value)| name.to_str().is_none() || value.to_str().is_none())
        .map(|(shown, ..)| shown)
        .collect();
    names.sort();
    names
}

/// Inherited `NCCL_*` variables.
#[must_use]
pub fn inherited() -> Vars {
    let mut variables: Vec<_> = environment().filter(|(name, _)| is_variable(name)).collect();
    variables.sort();
    Vars::from_iter(variables)
}

/// The configuration files that exist, as the NCCL of each arm reads them: `arms` are arms with the version of their library
/// and their environment.
#[must_use]
pub fn conf_files<'a>(arms: impl IntoIterator<Item = (Arm, NcclVersion, &'a Environment)>) -> Vec<ConfFile> {
    let passwd = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.dir);
    let passwd = passwd.and_then(|folder| folder.into_os_string().into_string().ok());
    let (mut all, mut files): (Vec<Arm>, Vec<ConfFile>) = (Vec::new(), Vec::new());
    for (arm, version, environment) in arms {
        all.push(arm);
        let (conf_file, home) = (environment.get("NCCL_CONF_FILE"), environment.get("HOME"));
        let Files { user, system } = Files::of(Some(version), Home { conf_file, home, passwd: passwd.as_deref() });
        for path in user.into_iter().chain([system]) {
            let shown = path.display().to_string();
            match files.iter_mut().find(|file| file.path == shown) {
                Some(known) => known.arms.push(arm),
                None => files.extend(conf_file_at(&path).map(|lines| ConfFile { path: shown, lines, arms: vec![arm] })),
            }
        }
    }
    for file in &mut files {
        if file.arms == all {
            file.arms.clear();
        }
    }
    // In the order in which NCCL reads them: the system's last.
    files.sort_by_key(|file| file.path == SYSTEM_FILE);
    files
}

/// The lines of the file at `path`, if there is one.
fn conf_file_at(path: &Path) -> Option<Vec<String>> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    let text = if size <= MAX_CONF { std::fs::read(path).ok()? } else { b"# too large to be stored".to_vec() };
    let text = String::from_utf8_lossy(&text);
    // What ends a line is a line feed alone: a carriage return is part of the value.
    Some(text.strip_suffix('\n').unwrap_or(&text).split('\n').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::environment::Origin;

    #[test]
    fn each_arm_reads_the_file_that_its_environment_and_its_version_lead_to() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".nccl.conf"), "# a note\n\nNCCL_PROTO=LL\r\n").unwrap();
        std::fs::write(home.path().join("other"), "NCCL_ALGO=Ring\n").unwrap();
        let mut plain = Environment::default();
        plain.set("HOME", &home.path().display().to_string(), Origin::Inherited);
        let mut named = plain.clone();
        named.set("NCCL_CONF_FILE", &home.path().join("other").display().to_string(), Origin::Set);
        let arm = |set| Arm { set, ..Arm::default() };
        let version = NcclVersion::new(2, 30, 7);
        let found = conf_files([(arm(0), version, &plain), (arm(1), version, &named), (arm(2), version, &plain)]);
        let ours: Vec<_> = found.iter().filter(|file| file.path != SYSTEM_FILE).collect();
        assert_eq!(ours.len(), 2, "{found:?}");
        assert_eq!(ours[0].arms, [arm(0), arm(2)]);
        assert_eq!(ours[0].lines, ["# a note", "", "NCCL_PROTO=LL\r"]);
        let setting = &ours[0].settings(Some(version))[0];
        assert_eq!((&*setting.name, &*setting.value, setting.line), ("NCCL_PROTO", "LL", 3));
        assert_eq!(ours[0].settings(Some(NcclVersion::new(2, 28, 3)))[0].value, "LL\r", "kept up to 2.29");
        assert_eq!((ours[1].arms.as_slice(), &*ours[1].lines[0]), (&[arm(1)][..], "NCCL_ALGO=Ring"));

        let all = conf_files([(arm(0), version, &plain), (arm(1), version, &plain)]);
        assert_eq!(all[0].arms, [], "every arm reads it");
        let old = conf_files([(arm(0), NcclVersion::new(2, 22, 3), &named)]);
        assert!(old.iter().all(|file| !file.path.ends_with("other")), "2.23 brought NCCL_CONF_FILE");
    }
}
