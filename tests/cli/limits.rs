//! Limits of the system that leave too little: each is a sentence with its remedy, and never a bare
//! signal.

use std::{os::unix::fs::MetadataExt, path::Path, process::Command};

use crate::{
    MODEL,
    common::{self, BINARY, Ended, after, clean, csv, run},
    folder,
};

/// Runs the program under `limit`, such as `-n 16`, which a shell sets before.
fn under(limit: &str, folder: &Path, words: &[&str]) -> Ended {
    run(after(&format!("ulimit {limit} || exit"), folder).args(words))
}

const SWEEP: [&str; 11] = [
    "all_reduce",
    "-b",
    "8",
    "-e",
    "64",
    "-f",
    "2",
    "--backend",
    "model",
    "--ranks",
    "4",
];

#[test]
fn a_limit_that_is_too_small_is_named_with_its_remedy_before_anything_starts() {
    let folder = folder();
    for (limit, sentence) in [
        (
            "-s 64",
            "the stack of a process is limited to 64K (ulimit -s), which is too little. Raise it",
        ),
        (
            "-n 16",
            "only 16 files may be open at once (ulimit -n), which is too few",
        ),
        (
            "-t 1",
            "CPU time is limited to 1 s (ulimit -t), which is too little",
        ),
        (
            "-v 200000",
            "the address space of a process is limited to 200000K (ulimit -v)",
        ),
    ] {
        let ended = under(limit, folder.path(), &SWEEP).expect_code(8);
        let sentences = ended.sentences();
        assert_eq!(sentences.len(), 1, "{limit}: {}", ended.stderr);
        assert!(sentences[0].contains(sentence), "{limit}: {}", sentences[0]);
    }
    assert!(!folder.path().join("results").exists());
}

#[test]
fn a_limit_that_may_be_raised_is_raised() {
    let folder = folder();
    for limit in ["-Ss 64", "-Sn 16", "-St 1", "-Sv 200000"] {
        under(limit, folder.path(), &SWEEP).expect_code(0);
    }
}

#[test]
fn a_file_that_may_not_grow_ends_the_run_with_a_sentence_and_whole_rows() {
    let folder = folder();
    let words = [
        &SWEEP[..1],
        &["-b", "8", "-e", "1G", "-f", "2", "--out", "out"],
        &MODEL,
    ]
    .concat();
    let ended = under("-f 8", folder.path(), &words).expect_code(11);
    assert!(
        ended
            .stderr
            .contains("out/results.json cannot be written: ")
            || ended.stderr.contains("out/results.csv cannot be written: "),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("File too large"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("internal error"), "{}", ended.stderr);
}

#[test]
fn cpu_time_that_runs_out_keeps_what_was_measured() {
    let folder = folder();
    // What each of so many ranks sends takes time to compute, of which writing rows takes little.
    let words = [
        "alltoallv",
        "-b",
        "1M",
        "-e",
        "1M",
        "-N",
        "0",
        "--csv",
        "x.csv",
        "--backend",
        "model",
        "--ranks",
        "3000",
    ];
    let ended = under("-t 2", folder.path(), &words).expect_code(9);
    assert!(
        ended
            .stderr
            .contains("stopped by SIGXCPU, the limit of CPU time (ulimit -t)"),
        "{}",
        ended.stderr
    );
    assert!(!csv(&folder.path().join("x.csv")).is_empty());
}

#[test]
fn no_thread_to_start_is_a_sentence_with_its_remedy() {
    let folder = folder();
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if !is_root {
        common::skip(
            "root",
            "only root can become a user without other processes",
        );
        return;
    }
    // A user that nobody else is: its processes are counted together.
    let user = (4_000_000 + std::process::id()).to_string();
    for (processes, code) in [("1", 8), ("2", 8), ("16", 0)] {
        let mut command = Command::new("setpriv");
        clean(&mut command);
        command
            .current_dir("/")
            .args(["--reuid", &user, "--clear-groups", "prlimit"])
            .args([&format!("--nproc={processes}"), BINARY])
            .args(SWEEP)
            .args(["--csv", "/dev/null"]);
        let ended = run(&mut command).expect_code(code);
        if code != 0 {
            let last = ended.sentences().pop().unwrap_or_default().to_owned();
            assert!(
                last.contains("no thread can be started: ")
                    && last.ends_with(
                        "Raise the limit of processes (ulimit -u, or pids.max of the container or \
                         job)"
                    ),
                "{}",
                ended.stderr
            );
        }
    }
    drop(folder);
}
