//! Libraries that tests preload, each built once for all tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{fnv, run, skip};

/// Builds `tests/common/NAME.cpp`, which is `source`. Returns the library; `None`, with a message,
/// if there is no C++ compiler.
pub fn library(name: &str, source: &str) -> Option<PathBuf> {
    if Command::new("c++").arg("--version").output().is_err() {
        let _ = skip("c++", "c++ does not run, so that no library can be built");
        return None;
    }
    let hash = fnv(source.bytes());
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = all.join(format!("lib{name}-{hash:016x}.so"));
    if !built.exists() {
        let fresh = tempfile::tempdir_in(all).expect("a folder");
        let library = fresh.path().join("library");
        let file = format!("tests/common/{name}.cpp");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-O1", "-Wall", "-fPIC", "-shared", "-o"]);
        run(compiler.arg(&library).arg(source).arg("-ldl")).expect_code(0);
        // Whole or not at all, whoever is faster.
        fs::rename(library, &built).expect("renamed");
    }
    Some(built)
}
