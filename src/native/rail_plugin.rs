//! Where the net plugin of a rehearsal is: the shared object that the package `rail-plugin` builds.

use std::path::{Path, PathBuf};

use crate::exit::{Code, Failure};

/// Its possible paths, relative to the folder of the program: in a build, in a build for tests, and
/// as `scripts/install.sh` installs it.
const PLACES: [&str; 3] = [
    "libnccl_net_pxnbench.so",
    "deps/libnccl_net_pxnbench.so",
    "../lib/pxnbench/libnccl-net-pxnbench.so",
];

/// Returns the plugin that belongs to a program, with links resolved: NCCL gets this path.
///
/// # Errors
/// Returns an error if it was not built or installed.
pub fn find(program: &Path) -> anyhow::Result<PathBuf> {
    let program = program
        .canonicalize()
        .unwrap_or_else(|_| program.to_owned());
    let folder = program.parent().unwrap_or(Path::new("."));
    let found = PLACES.iter().find_map(|place| {
        let plugin = folder.join(place).canonicalize().ok()?;
        plugin.is_file().then_some(plugin)
    });
    found.ok_or_else(|| {
        Failure::on_all_ranks(
            Code::Usage,
            format!(
                "{} has no plugin for rehearsals beside it, nor in ../lib/pxnbench. cargo build \
                 --release builds it, and scripts/install.sh installs it.",
                program.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn write(file: &Path) {
        fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
        fs::write(file, "").expect("written");
    }

    #[test]
    fn the_plugin_is_beside_the_program_or_where_it_is_installed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a folder");
        let program = folder.join("bin/pxnbench");
        write(&program);
        let failure = find(&program).expect_err("it is missing");
        assert!(
            failure.to_string().contains("cargo build --release"),
            "{failure}"
        );
        let installed = folder.join("lib/pxnbench/libnccl-net-pxnbench.so");
        write(&installed);
        assert_eq!(find(&program).expect("installed"), installed);
        let link = folder.join("elsewhere");
        symlink(&program, &link).expect("a link");
        assert_eq!(find(&link).expect("through the link"), installed);
        let built = folder.join("bin/libnccl_net_pxnbench.so");
        write(&built);
        assert_eq!(find(&program).expect("built"), built);
    }
}
