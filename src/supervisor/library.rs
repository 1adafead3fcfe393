//! Discovery of NCCL libraries: `--nccl`, then the loader's path, then known places of wheels and distributions.

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::nccl::version::NcclVersion;

/// The file names under which NCCL is installed.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// Folders the dynamic loader searches on common distributions, beside `LD_LIBRARY_PATH`.
const LOADER_FOLDERS: [&str; 7] = [
    "/usr/local/cuda/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

/// A library file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file, links resolved.
    pub path: PathBuf,
    /// How it was found: a flag, a variable, a folder.
    pub by: String,
}

/// Takes the libraries named by `--nccl`: files, or folders that hold one.
pub fn named(paths: &[PathBuf]) -> Result<Vec<Found>> {
    paths.iter().map(|path| named_one(path)).collect()
}

fn named_one(path: &Path) -> Result<Found> {
    let file = if path.is_dir() { in_folder(path) } else { path.is_file().then(|| path.to_owned()) };
    let file = file.and_then(|file| file.canonicalize().ok());
    let found = file.map(|path| Found { path, by: "--nccl".to_owned() });
    found.ok_or_else(|| {
        let what = if path.is_dir() { "the folder holds no libnccl.so.2" } else { "there is no such file" };
        Error::new(Kind::Environment, format!("no NCCL library at {}: {what}", path.display()))
            .help("--nccl takes the file (…/libnccl.so.2) or its folder")
    })
}

/// Everything that is installed, best first, each file once. `variable` reads the environment.
pub fn installed(variable: impl Fn(&str) -> Option<String>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut add = |file: PathBuf, by: &str| {
        if let Ok(path) = file.canonicalize()
            && !found.iter().any(|known| known.path == path)
        {
            found.push(Found { path, by: by.to_owned() });
        }
    };
    for folder in variable("LD_LIBRARY_PATH").iter().flat_map(|path| path.split(':')).filter(|path| !path.is_empty()) {
        in_folder(Path::new(folder)).into_iter().for_each(|file| add(file, "LD_LIBRARY_PATH"));
    }
    for folder in LOADER_FOLDERS {
        in_folder(Path::new(folder)).into_iter().for_each(|file| add(file, "the loader's folders"));
    }
    for folder in python_folders(&variable) {
        in_folder(&folder.join("nvidia/nccl/lib")).into_iter().for_each(|file| add(file, "a Python wheel"));
    }
    for folder in matching(Path::new("/opt/nvidia/hpc_sdk/Linux_x86_64"), "") {
        in_folder(&folder.join("comm_libs/nccl/lib")).into_iter().for_each(|file| add(file, "the NVIDIA HPC SDK"));
    }
    found
}

/// The places [`installed`] looks at, for the message when there is nothing.
pub fn places(variable: impl Fn(&str) -> Option<String>) -> String {
    let mut places = vec![format!("LD_LIBRARY_PATH ({})", variable("LD_LIBRARY_PATH").unwrap_or("unset".to_owned()))];
    places.extend(LOADER_FOLDERS.map(str::to_owned));
    places.extend(python_folders(&variable).iter().map(|folder| folder.join("nvidia/nccl/lib").display().to_string()));
    places.push("/opt/nvidia/hpc_sdk".to_owned());
    places.join(", ")
}

fn in_folder(folder: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| folder.join(name)).find(|file| file.is_file())
}

/// `site-packages` and `dist-packages` of the Python environments one would expect to serve from: the active ones, that of
/// the `python3` on the path, the system's, and those under /opt.
fn python_folders(variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| variable(name)).map(PathBuf::from).collect();
    let path = variable("PATH").unwrap_or_default();
    let python = path.split(':').map(|folder| Path::new(folder).join("python3")).find(|python| python.is_file());
    // An environment's python3 is a link to the system's: both the link's and the target's prefix count.
    for python in python.iter().flat_map(|python| [Some(python.clone()), python.canonicalize().ok()]).flatten() {
        prefixes.extend(python.parent().and_then(Path::parent).map(Path::to_owned));
    }
    prefixes.extend(variable("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.extend(["/usr", "/usr/local"].map(PathBuf::from));
    for folder in matching(Path::new("/opt"), "") {
        prefixes.push(folder.join(".venv"));
        prefixes.push(folder);
    }
    let mut folders = Vec::new();
    for prefix in prefixes {
        for python in matching(&prefix.join("lib"), "python3") {
            for packages in ["site-packages", "dist-packages"] {
                let folder = python.join(packages);
                if folder.is_dir() && !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
        }
    }
    folders
}

/// Entries of `folder` whose name starts with `prefix`, sorted.
fn matching(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// The version that a library's file tells without being loaded: by its name, else by the text it prints at its start.
#[must_use]
pub fn version_in_file(path: &Path) -> Option<NcclVersion> {
    let named = path.file_name().and_then(|name| NcclVersion::find(&name.to_string_lossy()));
    named.or_else(|| {
        const TEXT: &[u8] = b"NCCL version 2.";
        let bytes = std::fs::read(path).ok()?;
        let mut places = memchr::memmem::find_iter(&bytes, TEXT);
        places.find_map(|at| NcclVersion::find(&String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 40)])))
    })
}

/// The GNU build id of a library, in hexadecimal. Reads headers and notes only, not the whole file.
#[must_use]
pub fn build_id(path: &Path) -> Option<String> {
    use object::Object;
    let cache = object::ReadCache::new(std::io::BufReader::new(std::fs::File::open(path).ok()?));
    let file = object::File::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&'static str, String)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    #[test]
    fn a_library_on_the_loaders_path_comes_first_and_each_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("venv/lib/python3.12/site-packages/nvidia/nccl/lib");
        std::fs::create_dir_all(&wheel).unwrap();
        std::fs::write(wheel.join("libnccl.so.2"), "").unwrap();
        let loader = folder.path().join("loader");
        std::fs::create_dir(&loader).unwrap();
        std::fs::write(loader.join("libnccl.so.2.28.3"), "").unwrap();
        for name in NAMES {
            std::os::unix::fs::symlink("libnccl.so.2.28.3", loader.join(name)).unwrap();
        }
        let found = installed(environment(&[
            ("LD_LIBRARY_PATH", format!("{}:{}", loader.display(), loader.display())),
            ("VIRTUAL_ENV", folder.path().join("venv").display().to_string()),
        ]));
        let ours: Vec<_> =
            found.iter().filter(|found| found.path.starts_with(folder.path().canonicalize().unwrap())).collect();
        assert_eq!(
            ours.iter().map(|found| found.by.as_str()).collect::<Vec<_>>(),
            ["LD_LIBRARY_PATH", "a Python wheel"]
        );
        assert!(ours[0].path.ends_with("loader/libnccl.so.2.28.3"), "links are resolved");
    }

    #[test]
    fn a_wheel_of_the_python_on_the_path_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (bin, lib) =
            (folder.path().join("env/bin"), folder.path().join("env/lib/python3.13/site-packages/nvidia/nccl/lib"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(bin.join("python3"), "").unwrap();
        std::fs::write(lib.join("libnccl.so.2"), "").unwrap();
        let variables = [("PATH", format!("/nonexistent:{}", bin.display()))];
        let found = installed(environment(&variables));
        let path = lib.join("libnccl.so.2").canonicalize().unwrap();
        assert!(found.contains(&Found { path, by: "a Python wheel".to_owned() }), "{found:?}");
        let looked = places(environment(&variables));
        assert!(looked.contains(&lib.display().to_string()), "{looked}");
    }

    #[test]
    fn a_library_is_named_by_its_file_or_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libnccl.so.2");
        std::fs::write(&file, "").unwrap();
        let found = named(&[file.clone(), folder.path().to_owned()]).unwrap();
        assert_eq!(found.iter().map(|found| &found.path).collect::<Vec<_>>(), [&file.canonicalize().unwrap(); 2]);
    }

    #[test]
    fn a_file_tells_its_version_by_its_name_or_by_the_text_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            version_in_file(&path)
        };
        assert_eq!(write("libnccl.so.2.28.9", b""), Some(NcclVersion::new(2, 28, 9)));
        let text = b"\x7fELF\0\0NCCL version 2.x\0NCCL version 2.32.3+cuda13.0\0\0";
        assert_eq!(write("libnccl.so.2", text), Some(NcclVersion::new(2, 32, 3)));
        assert_eq!(write("libnccl.so", b"\x7fELF\0\0"), None);
    }

    #[test]
    fn a_named_folder_without_a_library_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = named(&[folder.path().to_owned()]).unwrap_err();
        assert_eq!(error.kind(), Kind::Environment);
        assert!(error.message().contains("holds no libnccl.so.2"), "{error}");
        let error = named(&[folder.path().join("libnccl.so.2")]).unwrap_err();
        assert!(error.message().contains("no such file"), "{error}");
    }

    #[test]
    fn a_build_id_is_that_of_the_file() {
        let id = build_id(&std::env::current_exe().unwrap());
        assert!(id.is_none_or(|id| id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit())));
        assert_eq!(build_id(Path::new("/nonexistent")), None);
    }
}
