//! No file and no message holds a value in the form that Rust prints for debugging.

use std::path::{Path, PathBuf};

use crate::{
    MODEL,
    common::{alone, run},
    folder,
};

/// Where such a form is compared with another one, and never shown.
const ONLY_COMPARED: [&str; 1] = ["run/request.rs"];

/// All files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all
}

#[test]
fn no_text_is_made_from_a_debug_form() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in files(&source) {
        let name = path
            .strip_prefix(&source)
            .expect("below src")
            .to_string_lossy()
            .into_owned();
        let is_test = name.ends_with("tests.rs") || name.contains("tests/");
        if is_test || !name.ends_with(".rs") || ONLY_COMPARED.contains(&name.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let code = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let is_form = line.contains(":?}") || line.contains(":#?}");
            assert!(!is_form, "src/{name}:{}: {}", number + 1, line.trim());
        }
    }
}

#[test]
fn the_files_of_a_run_hold_no_rust() {
    let folder = folder();
    let arguments = [
        "all", "-b", "8", "-e", "8", "-o", "all", "-r", "all", "--level", "balanced", "--out", "x",
    ];
    run(alone(folder.path())
        .args(arguments)
        .args(MODEL)
        .args(["-J", "n.json"]))
    .expect_code(0);
    run(alone(folder.path()).args(["topo", "--format", "json"]));
    for path in files(folder.path()) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for form in [
            "Some(",
            "Ok(",
            "Err(",
            "None\"",
            "\\\"None",
            "Collective::",
            " { ",
        ] {
            assert!(!text.contains(form), "{}: {form}", path.display());
        }
    }
}
