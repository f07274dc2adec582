//! `scripts/soak.sh` on host memory: it passes where nothing grows, and finds what does.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use crate::{
    common::{self, BINARY, Ended, MPIRUN_VARIABLES, has_mpi, run_within},
    folder,
    guard::faulty_mpi,
};

/// Soaks `binary` on two ranks for half a minute.
fn soak(folder: &Path, binary: &str) -> Ended {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/soak.sh");
    let mut command = Command::new(script);
    common::clean(&mut command);
    command
        .args(["0.5", "--backend", "host", "--bin", binary])
        .args(["--", "-e", "1K", "-n", "2"])
        .current_dir(folder)
        .envs(MPIRUN_VARIABLES)
        .env("RANKS", "2");
    run_within(&mut command, Duration::from_secs(300))
}

/// The lines of the script's table: rank, what, last, a minute, growth, allowed, verdict.
fn table(ended: &Ended) -> Vec<Vec<&str>> {
    let lines = ended.stdout.lines().skip(1);
    lines
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[test]
fn a_soak_of_all_collectives_is_flat() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let ended = soak(folder.path(), BINARY).expect_code(0);
    let rows = table(&ended);
    assert_eq!(rows.len(), 6, "{}", ended.stdout);
    for row in rows {
        assert_eq!(row[6], "ok", "{}", ended.stdout);
        let last: f64 = row[2].parse().expect("a number");
        let least = match row[1] {
            "memory_KiB" => 4096.0,
            "file_descriptors" => 3.0,
            _ => 2.0,
        };
        assert!(last >= least, "{}", ended.stdout);
    }
}

#[test]
fn a_soak_finds_a_leak_and_says_where() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let library = faulty_mpi(folder.path());
    let binary = folder.path().join("leaking");
    let script = format!(
        "#!/bin/sh\nexport LD_PRELOAD={} MPI_FAULT=leak MPI_FAULT_RANK=1\nexec {BINARY} \"$@\"\n",
        library.display()
    );
    fs::write(&binary, script).expect("written");
    fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).expect("executable");
    let ended = soak(folder.path(), binary.to_str().expect("a path")).expect_code(1);
    let verdicts: Vec<(&str, &str, &str)> = table(&ended)
        .iter()
        .map(|row| (row[0], row[1], row[6]))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("0", "memory_KiB", "ok"),
            ("0", "file_descriptors", "ok"),
            ("0", "threads", "ok"),
            ("1", "memory_KiB", "GROWS"),
            ("1", "file_descriptors", "GROWS"),
            ("1", "threads", "GROWS"),
        ],
        "{}",
        ended.stdout
    );
    assert!(
        ended.stderr.contains("soak.sh: 3 of these grow."),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_soak_that_cannot_begin_or_fails_says_so() {
    let soak = |words: &[&str]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/soak.sh");
        let mut command = Command::new(script);
        common::clean(&mut command);
        run_within(
            command.args(words).envs(MPIRUN_VARIABLES).env("RANKS", "2"),
            Duration::from_secs(120),
        )
    };
    for (words, sentence) in [
        (&["ten"] as &[&str], "'ten' is no number of minutes."),
        (&["0.1"], "0.1 minutes are too short"),
        (&["1", "--backend", "gpu"], "'gpu' is no backend"),
        (
            &["1", "--backend", "host", "--bin", "/no/such"],
            "there is no program '/no/such'",
        ),
    ] {
        if words.contains(&"--bin") && !has_mpi() {
            continue;
        }
        let ended = soak(words).expect_code(6);
        assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
    }
    if has_mpi() {
        let wrong = ["1", "--backend", "host", "--bin", BINARY, "--", "-b", "12Q"];
        let ended = soak(&wrong).expect_code(6);
        assert!(
            ended.stderr.contains("the run failed with exit code 6."),
            "{}",
            ended.stderr
        );
    }
}
