//! Where libcufile may lie.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names the library to use, and no other: a path, or a name for the dynamic loader.
pub const OVERRIDE: &str = "WARPIO_CUFILE_LIBRARY";

/// The name that runtime packages give the library.
const SONAME: &str = "libcufile.so.0";
/// The name that only development packages add.
const DEVELOPMENT: &str = "libcufile.so";

/// What to hand to the dynamic loader, in this order. Folders are looked at under `root`.
pub(super) fn candidates(variable: impl Fn(&str) -> Option<OsString>, root: &Path) -> Vec<PathBuf> {
    if let Some(chosen) = variable(OVERRIDE).filter(|chosen| !chosen.is_empty()) {
        return vec![chosen.into()];
    }
    let mut found = vec![SONAME.into(), DEVELOPMENT.into()];
    for folder in folders(variable, root) {
        found.extend([SONAME, DEVELOPMENT].map(|name| folder.join(name)).into_iter().filter(|path| path.is_file()));
    }
    found
}

fn folders(variable: impl Fn(&str) -> Option<OsString>, root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let prefix = |name| variable(name).filter(|prefix| !prefix.is_empty()).map(PathBuf::from);
    for toolkit in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(prefix) {
        folders.push(toolkit.join("lib64"));
    }
    for packages in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(prefix) {
        let lib = packages.join("lib");
        folders.push(lib.clone());
        for python in subfolders(&lib, "python3") {
            // Where the wheels put it: for CUDA 13, and before.
            let nvidia = python.join("site-packages/nvidia");
            folders.extend([nvidia.join("cu13/lib"), nvidia.join("cufile/lib")]);
        }
    }
    folders.push(root.join("usr/local/cuda/lib64"));
    for lib in ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64"] {
        folders.push(root.join(lib));
    }
    folders
}

fn subfolders(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<OsString> {
        None
    }

    #[test]
    fn the_loader_is_asked_first_for_the_name_of_the_runtime_package() {
        let found = candidates(nothing, Path::new("/nowhere"));
        assert_eq!(found, [PathBuf::from("libcufile.so.0"), PathBuf::from("libcufile.so")]);
    }

    #[test]
    fn the_override_is_the_only_candidate_and_an_empty_one_is_none() {
        let chosen = |name: &str| (name == OVERRIDE).then(|| "/opt/mine.so".into());
        assert_eq!(candidates(chosen, Path::new("/")), [PathBuf::from("/opt/mine.so")]);
        let empty = |name: &str| (name == OVERRIDE).then(OsString::new);
        assert_eq!(candidates(empty, Path::new("/nowhere")).len(), 2);
    }

    #[test]
    fn wheels_and_toolkits_are_found_where_they_are() {
        let root = std::env::temp_dir().join(format!("warpio-cufile-search-{}", std::process::id()));
        let wheel = root.join("venv/lib/python3.12/site-packages/nvidia/cu13/lib");
        let toolkit = root.join("usr/local/cuda/lib64");
        for folder in [&wheel, &toolkit] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(wheel.join(SONAME), []).unwrap();
        std::fs::write(toolkit.join(DEVELOPMENT), []).unwrap();
        let venv = root.join("venv").into_os_string();
        let found = candidates(|name| (name == "VIRTUAL_ENV").then(|| venv.clone()), &root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found[2..], [wheel.join(SONAME), toolkit.join(DEVELOPMENT)]);
    }
}
