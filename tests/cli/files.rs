//! Where results go: files, links, pipes and stdout.

use std::path::Path;

use crate::{
    MODEL,
    common::{self, alone, csv, run},
    folder,
};

#[test]
fn an_earlier_result_is_kept() {
    let folder = folder();
    let measure = |size: &str| {
        let arguments = ["all_reduce", "-b", size, "-e", size, "--out", "here"];
        run(alone(folder.path()).args(arguments).args(MODEL)).expect_code(0)
    };
    measure("8");
    let second = measure("1K");
    assert!(
        second
            .stderr
            .contains("keeping the earlier here/results.csv as here/results.csv.1"),
        "{}",
        second.stderr
    );
    let here = folder.path().join("here");
    assert_eq!(csv(&here.join("results.csv"))[0]["size_bytes"], "1024");
    assert_eq!(csv(&here.join("results.csv.1"))[0]["size_bytes"], "8");
}

#[test]
fn links_lead_to_the_files_that_they_stand_for() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("store")).expect("made");
    for name in ["c.csv", "j.json", "n.json"] {
        std::os::unix::fs::symlink(format!("store/{name}"), folder.path().join(name))
            .expect("linked");
    }
    let sweep = || {
        let mut command = alone(folder.path());
        command
            .args([
                "all_reduce",
                "--csv",
                "c.csv",
                "--json",
                "j.json",
                "-J",
                "n.json",
            ])
            .args(MODEL);
        run(&mut command).expect_code(0);
    };
    sweep();
    sweep();
    for name in ["c.csv", "j.json", "n.json"] {
        assert!(folder.path().join(name).is_symlink(), "{name}");
        assert!(folder.path().join("store").join(name).is_file(), "{name}");
        assert!(
            folder
                .path()
                .join("store")
                .join(format!("{name}.1"))
                .is_file(),
            "what was there is kept: {name}"
        );
    }
}

#[test]
fn what_goes_to_stdout_is_in_the_file_that_stdout_is() {
    let folder = folder();
    // Also by a link of the user's own: `/dev/stdout` is one.
    std::os::unix::fs::symlink("/proc/self/fd/1", folder.path().join("mine")).expect("linked");
    for to in ["-", "/dev/stdout", "/dev/fd/1", "mine"] {
        let table = folder.path().join("table");
        let mut command = alone(folder.path());
        command
            .args([
                "all_reduce",
                "-b",
                "8",
                "-e",
                "16",
                "-f",
                "2",
                "--csv",
                to,
                "--json",
                "x.json",
            ])
            .args(MODEL);
        let status = command
            .stdout(std::fs::File::create(&table).expect("a file"))
            .status()
            .expect("it ran");
        assert!(status.success());
        let text = std::fs::read_to_string(&table).expect("the table");
        assert_eq!(
            text.lines()
                .filter(|line| line.contains(",all_reduce,model,"))
                .count(),
            4,
            "{to}\n{text}"
        );
        assert!(text.contains("# Collective test concluded"), "{to}\n{text}");
        let mut command = alone(folder.path());
        command
            .args(["all_reduce", "--csv", "y.csv", "-J", to])
            .args(MODEL);
        let status = command
            .stdout(std::fs::File::create(&table).expect("a file"))
            .status()
            .expect("it ran");
        assert!(status.success());
        let text = std::fs::read_to_string(&table).expect("the table");
        assert!(
            text.contains("# Collective test concluded") && text.contains("\n{"),
            "{to}\n{text}"
        );
        assert!(folder.path().join("mine").is_symlink() && Path::new("/dev/stdout").is_symlink());
    }
    assert!(!folder.path().join("-").exists(), "- is no name of a file");
}

#[test]
fn two_results_never_go_to_one_file() {
    let folder = folder();
    for arguments in [
        ["--csv", "x", "--json", "x"],
        ["--csv", "x", "-J", "./x"],
        ["--out", "d", "--csv", "d/run.json"],
        ["--out", "d", "-J", "d/../d/results.json"],
    ] {
        let ended = run(alone(folder.path())
            .args(["all_reduce"])
            .args(MODEL)
            .args(arguments))
        .expect_code(6);
        assert!(
            ended
                .stderr
                .contains("two of the results would go to this file"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_path_that_cannot_be_a_file_leaves_all_others_as_they_are() {
    let folder = folder();
    std::fs::write(folder.path().join("q.csv"), "mine\n").expect("written");
    for path in [".", "/", "..", "sub/"] {
        std::fs::create_dir_all(folder.path().join("sub")).expect("made");
        let ended = run(alone(folder.path())
            .args(["all_reduce", "--csv", "q.csv", "-J", path])
            .args(MODEL));
        assert!(
            ended.expect_code(6).stderr.contains("cannot be written: "),
            "{path}"
        );
        assert_eq!(
            std::fs::read_to_string(folder.path().join("q.csv")).expect("the file"),
            "mine\n"
        );
        let names: Vec<_> = std::fs::read_dir(folder.path())
            .expect("read")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert!(
            names.iter().all(|name| name == "q.csv" || name == "sub"),
            "{names:?}"
        );
    }
}

#[test]
fn missing_folders_are_made_for_every_file_that_is_asked_for() {
    let folder = folder();
    let paths = ["a/b/out", "c/d/x.csv", "e/f/x.json"];
    let arguments = ["--out", paths[0], "--csv", paths[1], "--json", paths[2]];
    run(alone(folder.path())
        .arg("all_reduce")
        .args(MODEL)
        .args(arguments))
    .expect_code(0);
    assert!(folder.path().join("a/b/out/run.json").is_file());
    for path in &paths[1..] {
        assert!(folder.path().join(path).is_file(), "{path}");
    }
}

#[test]
fn two_runs_of_one_second_have_a_folder_each() {
    let folder = folder();
    for _ in 0..3 {
        run(alone(folder.path()).args(["all_reduce"]).args(MODEL)).expect_code(0);
    }
    let folders = std::fs::read_dir(folder.path().join("results")).expect("results");
    let complete = folders.filter(|run| {
        run.as_ref()
            .expect("a run")
            .path()
            .join("run.json")
            .is_file()
    });
    assert_eq!(complete.count(), 3);
}

#[test]
fn odd_bytes_and_closed_pipes_are_no_bugs() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let name = std::ffi::OsStr::from_bytes(b"o\xff");
    run(alone(folder.path())
        .args(["all_reduce", "--out"])
        .arg(name)
        .args(MODEL))
    .expect_code(0);
    let shell = |line: &str| {
        let mut command = std::process::Command::new("bash");
        command
            .current_dir(folder.path())
            .args(["-c", &format!("set -o pipefail; {line}")]);
        run(command.env("B", common::BINARY))
    };
    for line in [
        "\"$B\" all --list --ranks 4 -b 8 -e 1G -f 2 | head -n 1",
        "\"$B\" levels | head -n 1",
        "\"$B\" all_reduce --backend model 2>/dev/full",
        "\"$B\" all_reduce --backend model 2>&- >/dev/null",
    ] {
        let ended = shell(line).expect_code(0);
        assert!(
            !ended.stderr.contains("internal error"),
            "{line}: {}",
            ended.stderr
        );
    }
    let full = shell("\"$B\" all_reduce --backend model >/dev/full").expect_code(11);
    assert!(
        full.stderr
            .contains("the table cannot be written to stdout"),
        "{}",
        full.stderr
    );
}

/// Each one sentence on stderr and exit 11.
#[test]
fn what_only_prints_fails_where_nothing_can_be_printed() {
    let folder = folder();
    run(alone(folder.path())
        .args(["alltoall", "-b", "8", "-e", "8", "--out", "steps/0-default"])
        .args(MODEL))
    .expect_code(0);
    let log = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/nccl-logs/a2a.split.default.log"
    );
    for arguments in [
        &["--help"] as &[&str],
        &["--version"],
        &["topo", "--help"],
        &["all_reduce", "--list", "--ranks", "2"],
        &["levels"],
        &["levels", "balanced", "--export"],
        &["topo", "--format", "json"],
        &["doctor"],
        &["proof", log],
        &["proof", "--json", log],
        &["links", "bin"],
        &["compare", "steps"],
        &["submit", "--dry-run"],
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let ended = alone(folder.path())
            .args(arguments)
            .stdout(full)
            .output()
            .expect("started");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        let words = "cannot be written to stdout: No space left on device";
        assert_eq!(ended.status.code(), Some(11), "{arguments:?}: {stderr}");
        assert_eq!(stderr.matches(words).count(), 1, "{arguments:?}: {stderr}");
        assert!(
            !stderr.contains("internal error"),
            "{arguments:?}: {stderr}"
        );

        let (read, write) = std::io::pipe().expect("a pipe");
        drop(read);
        let ended = alone(folder.path())
            .args(arguments)
            .stdout(write)
            .output()
            .expect("started");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(
            matches!(ended.status.code(), Some(0 | 10)),
            "{arguments:?}: {stderr}"
        );
        assert!(!stderr.contains("stdout"), "{arguments:?}: {stderr}");
    }
}
