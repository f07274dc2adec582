//! The version of the kernel's driver.

use std::{fs, path::Path};

/// Returns the version of NVIDIA's kernel driver, as `570.133.20`. `root` is the root of the file
/// system.
pub fn kernel_driver(root: &Path) -> Option<String> {
    if let Ok(text) = fs::read_to_string(root.join("sys/module/nvidia/version")) {
        let version = text.trim();
        if !version.is_empty() {
            return Some(version.to_owned());
        }
    }
    let text = fs::read_to_string(root.join("proc/driver/nvidia/version")).ok()?;
    version_in_proc(&text)
}

/// Finds the version in `/proc/driver/nvidia/version`: the first word of its first line that is
/// digits and dots.
fn version_in_proc(text: &str) -> Option<String> {
    let mut words = text.lines().next()?.split_whitespace();
    words.find(|word| is_version(word)).map(str::to_owned)
}

fn is_version(word: &str) -> bool {
    word.contains('.') && word.bytes().all(|c| c.is_ascii_digit() || c == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_driver_is_read_from_either_file() {
        for (text, version) in [
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 \
                 01:15:15\nGCC version: 12",
                "535.104.05",
            ),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release \
                 Build  (dvs-builder)",
                "570.133.20",
            ),
        ] {
            assert_eq!(version_in_proc(text).as_deref(), Some(version));
        }
        assert_eq!(version_in_proc(""), None);

        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(kernel_driver(root.path()), None);
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat",
        );
        assert_eq!(kernel_driver(root.path()).as_deref(), Some("535.104.05"));
        write("sys/module/nvidia/version", "550.1\n");
        assert_eq!(kernel_driver(root.path()).as_deref(), Some("550.1"));
    }
}
