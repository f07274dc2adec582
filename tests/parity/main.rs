//! In place of nccl-tests: the same names, flags, variables, table and exit codes.

#[path = "../common/mod.rs"]
mod common;
mod communicators;
mod flags;
mod json;
mod list;
mod readers;
mod resume;
mod table;

use std::{fs, path::Path, process::Command};

use common::{alone, program, run};
use pxnbench::collective::Collective;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The links, in `folder`.
fn links(folder: &Path) {
    let made = run(alone(folder).args(["links", "bin"])).expect_code(0);
    assert_eq!(made.stdout.lines().count(), Collective::ALL.len());
}

/// A link of `folder`, by its name.
fn by_name(folder: &Path, name: &str) -> Command {
    program(&folder.join("bin").join(name), folder)
}

const MODEL: [&str; 4] = ["--backend", "model", "--ranks", "4"];

#[test]
fn each_program_of_nccl_tests_has_a_link_that_leaves_no_files() {
    let folder = folder();
    links(folder.path());
    for collective in Collective::ALL {
        let name = format!("{collective}_perf");
        let ended = run(by_name(folder.path(), &name)
            .args(["-b", "1K", "-e", "1M", "-f", "4"])
            .args(MODEL));
        let ended = ended.expect_code(0);
        assert!(
            ended
                .stdout
                .contains(&format!("# Collective test starting: {name}\n")),
            "{}",
            ended.stdout
        );
        assert_eq!(ended.rows().len(), 6);
    }
    let entries = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(entries, 1, "bin and nothing else");
    // Made again, they are replaced; a file of the name is not.
    links(folder.path());
    fs::create_dir(folder.path().join("other")).expect("made");
    fs::write(folder.path().join("other/all_reduce_perf"), "mine").expect("written");
    let refused = run(alone(folder.path()).args(["links", "other"])).expect_code(6);
    assert!(
        refused.stderr.contains("a file of that name exists"),
        "{}",
        refused.stderr
    );
}
