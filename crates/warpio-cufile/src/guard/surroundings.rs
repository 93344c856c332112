use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What of the machine decides over cuFile, as it stands in files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Surroundings {
    /// `/proc/modules` can be read. Where it cannot, libcufile hangs when its driver is opened.
    pub modules: bool,
    /// `/run/udev` is there. Without it, libcufile registers no file of a local file system.
    pub udev: bool,
    /// This is Windows Subsystem for Linux.
    pub wsl: bool,
    /// The version of the kernel module nvidia-fs, if it is loaded.
    pub nvidia_fs: Option<String>,
    /// Numbers of the kernel's release, for peer-to-peer DMA.
    pub kernel: Option<(u32, u32)>,
    /// The NVIDIA driver maps all of the GPU's memory from the beginning, as peer-to-peer DMA asks for.
    pub static_bar1: bool,
    /// The parameters of the NVIDIA driver, which `static_bar1` stands in, can be read.
    pub parameters: bool,
    /// The processor translates the addresses that devices use, which peer-to-peer traffic takes a detour for.
    pub iommu: bool,
    /// The configuration file that libcufile reads.
    pub configuration: Option<PathBuf>,
    /// The variable that forces compatibility mode is set.
    pub forced_compat: bool,
}

/// The first kernel whose peer-to-peer DMA cuFile uses.
const PEER_TO_PEER_KERNEL: (u32, u32) = (6, 2);

impl Surroundings {
    /// Looks at this machine.
    pub fn probe() -> Self {
        Self::probe_under(Path::new("/"))
    }

    /// As [`probe`](Self::probe), with `/proc`, `/run`, `/sys` and `/etc` looked up under another root.
    pub fn probe_under(root: &Path) -> Self {
        let release = text(root, "proc/sys/kernel/osrelease");
        let version = text(root, "proc/version");
        let parameters = std::fs::read_to_string(root.join("proc/driver/nvidia/params"));
        let named = std::env::var_os("CUFILE_ENV_PATH_JSON").map(PathBuf::from);
        Self {
            modules: can_fopen(&root.join("proc/modules")),
            udev: std::fs::read_dir(root.join("run/udev")).is_ok(),
            wsl: [&release, &version].iter().any(|text| text.to_ascii_lowercase().contains("microsoft")),
            nvidia_fs: nvidia_fs(root),
            kernel: numbers(&release),
            static_bar1: parameters.as_ref().is_ok_and(|text| text.contains("RMForceStaticBar1=1")),
            parameters: parameters.is_ok(),
            iommu: std::fs::read_dir(root.join("sys/class/iommu")).is_ok_and(|mut units| units.next().is_some()),
            configuration: named.or_else(|| Some(root.join("etc/cufile.json"))).filter(|path| path.is_file()),
            forced_compat: std::env::var("CUFILE_FORCE_COMPAT_MODE").is_ok_and(|value| is_true(&value)),
        }
    }

    /// Whether bytes cannot go past host memory here, whatever the driver is asked: nvidia-fs is not loaded, and the
    /// NVIDIA driver is known not to map memory as peer-to-peer DMA asks for. `false` where that is not known.
    pub fn rules_gds_out(&self) -> bool {
        // Other processors need no such mapping.
        cfg!(target_arch = "x86_64") && self.nvidia_fs.is_none() && self.parameters && !self.static_bar1
    }

    /// Whether the kernel is new enough for peer-to-peer DMA.
    pub fn has_peer_to_peer_kernel(&self) -> bool {
        self.kernel.is_some_and(|release| release >= PEER_TO_PEER_KERNEL)
    }
}

/// Opens a file as libcufile does, so that whatever lets that succeed counts here too.
fn can_fopen(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: texts that end with NUL.
    let file = unsafe { libc::fopen(path.as_ptr(), c"r".as_ptr()) };
    if file.is_null() {
        return false;
    }
    // SAFETY: just opened.
    unsafe { libc::fclose(file) };
    true
}

fn text(root: &Path, path: &str) -> String {
    let mut text = Vec::new();
    if let Ok(file) = File::open(root.join(path)) {
        // What could be read is better than nothing.
        let _ = file.take(64 << 10).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn nvidia_fs(root: &Path) -> Option<String> {
    // "version: 2.28 (…)", or the module's own file, which holds the number alone.
    let told = [text(root, "proc/driver/nvidia-fs/version"), text(root, "sys/module/nvidia_fs/version")];
    told.into_iter()
        .find(|text| !text.trim().is_empty())
        .map(|text| text.trim().trim_start_matches("version:").trim().to_owned())
}

fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("warpio-cufile-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_bare_microvm_has_nothing() {
        let root = Root::new("microvm", &[("proc/sys/kernel/osrelease", "6.1.0\n")]);
        let found = Surroundings::probe_under(&root.0);
        assert!(!found.modules && !found.udev && !found.wsl && !found.static_bar1 && !found.iommu);
        assert_eq!(
            (found.nvidia_fs.as_deref(), found.kernel, found.configuration.as_deref()),
            (None, Some((6, 1)), None)
        );
        assert!(!found.has_peer_to_peer_kernel());
    }

    #[test]
    fn a_server_with_everything_is_seen() {
        let files = [
            ("proc/modules", ""),
            ("run/udev/data/b8:1", ""),
            ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
            ("proc/driver/nvidia-fs/version", "version: 2.28\n"),
            ("proc/driver/nvidia/params", "RegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n"),
            ("sys/class/iommu/dmar0/address", ""),
            ("etc/cufile.json", "{}"),
        ];
        let root = Root::new("server", &files);
        let found = Surroundings::probe_under(&root.0);
        assert!(found.modules && found.udev && found.static_bar1 && !found.wsl && found.has_peer_to_peer_kernel());
        assert!(found.iommu);
        assert_eq!(found.nvidia_fs.as_deref(), Some("2.28"));
        assert_eq!(found.configuration, Some(root.0.join("etc/cufile.json")));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn gpudirect_storage_is_ruled_out_only_where_all_is_known() {
        let plain = ("proc/driver/nvidia/params", "RegistryDwords: \"\"\n");
        let mapped = ("proc/driver/nvidia/params", "RegistryDwords: \"RMForceStaticBar1=1\"\n");
        let module = ("proc/driver/nvidia-fs/version", "version: 2.28\n");
        let ruled_out =
            |name: &str, files: &[(&str, &str)]| Surroundings::probe_under(&Root::new(name, files).0).rules_gds_out();
        assert!(ruled_out("plain", &[plain]));
        assert!(!ruled_out("unknown", &[("proc/modules", "")]));
        assert!(!ruled_out("mapped", &[mapped]));
        assert!(!ruled_out("module", &[plain, module]));
    }

    #[test]
    fn windows_is_seen_by_its_kernel() {
        let root = Root::new("wsl", &[("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")]);
        assert!(Surroundings::probe_under(&root.0).wsl);
    }
}
