//! What all files in `scripts/` have in common: they explain themselves, and what they are told
//! wrong ends them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Returns the scripts that users run, in the order of their names; `lib.sh` is what these source.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder).expect("scripts/ can be read") {
        let path = entry.expect("an entry").path();
        if !path.ends_with("lib.sh") {
            scripts.push(path);
        }
    }
    scripts.sort();
    assert!(scripts.len() > 10, "{scripts:?}");
    scripts
}

/// Runs `script` in a folder that is not its own.
fn run(script: &Path, arguments: &[&str]) -> Output {
    Command::new(script)
        .args(arguments)
        .current_dir("/")
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", script.display()))
}

/// Returns the comment at the beginning of `script`, without its marks.
fn comment(script: &Path) -> String {
    let text = fs::read_to_string(script).expect("a text");
    let mut comment = String::new();
    for line in text.lines().skip(1) {
        let Some(line) = line.strip_prefix('#') else {
            break;
        };
        comment += line.strip_prefix(' ').unwrap_or(line);
        comment.push('\n');
    }
    comment
}

#[test]
fn each_script_explains_itself() {
    for script in scripts() {
        let expected = comment(&script);
        let name = script.file_name().expect("a name").to_string_lossy();
        assert!(expected.contains(&format!("scripts/{name}")), "{name}");
        for option in ["-h", "--help"] {
            let output = run(&script, &[option]);
            assert_eq!(output.status.code(), Some(0), "{name} {option}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}");
            assert!(output.stderr.is_empty(), "{name} {option}: {output:?}");
        }
    }
}

#[test]
fn an_argument_that_a_script_does_not_know_is_refused_in_one_sentence() {
    for script in scripts() {
        // Its arguments are those of pxnbench, which refuses what it does not know.
        if script.ends_with("quickstart.sh") {
            continue;
        }
        let name = script.file_name().expect("a name").to_string_lossy();
        let output = run(&script, &["--nonsense"]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{name}: {told}");
        assert!(told.starts_with(&format!("{name}: ")), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(output.stdout.is_empty(), "{name}: {output:?}");
    }
}

#[test]
fn parts_of_the_checks_of_gpus_that_do_not_exist_are_refused_before_anything_runs() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/gpu-check.sh");
    for (arguments, problem) in [
        (&["--only", "sweeps,end"][..], "there is no part 'end'"),
        (&["--only", ""], "--only has no part"),
        (&["--only"], "a value is missing at the end"),
    ] {
        let output = run(&script, arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{arguments:?}: {told}");
        assert!(told.contains(problem), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}
