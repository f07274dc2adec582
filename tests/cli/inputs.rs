//! Files that are none: pipes through which nothing comes, devices without an end, pipes that
//! nobody reads. Each is refused with a sentence within seconds.

use std::{fs, path::Path, process::Command, time::Duration};

use crate::{
    common::{Ended, alone, run},
    folder,
};

fn fifo(folder: &Path) {
    let made = Command::new("mkfifo").arg(folder.join("fifo")).status();
    assert!(made.expect("mkfifo").success());
}

/// Runs the program with words, in which `@` stands for the path, and variables.
fn with_path(folder: &Path, words: &str, path: &str, variable: Option<&str>) -> Ended {
    let words = words.split(' ').map(|word| word.replace('@', path));
    let mut command = alone(folder);
    command.args(words);
    if let Some(name) = variable {
        command.env(name, path);
    }
    run(&mut command)
}

const SWEEP: &str = "all_reduce -b 8 -e 64 -f 2 --backend model --ranks 4";

#[test]
fn what_nothing_comes_through_and_what_has_no_end_is_refused_in_a_sentence() {
    let folder = folder();
    fifo(folder.path());
    with_path(folder.path(), &format!("{SWEEP} --out run"), "", None).expect_code(0);
    const MATRIX: &str = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE";
    let alltoallv = "alltoallv -b 64 -e 64 --backend model --ranks 2 --csv x.csv --quiet";
    let baseline = format!("{SWEEP} --csv y.csv --quiet --baseline @ --tolerance 5%");
    for (path, why) in [
        ("fifo", "it is a pipe, and nothing came through it for 5 s"),
        (
            "/dev/zero",
            "it is a device, of which no end can be expected",
        ),
    ] {
        for (words, variable) in [
            ("proof @", None),
            ("check run --baseline @ --tolerance 5%", None),
            (baseline.as_str(), None),
            ("doctor --env @", None),
            ("topo --xml @", None),
            ("launch --hostfile @ all_reduce", None),
            (alltoallv, Some(MATRIX)),
        ] {
            let ended = with_path(folder.path(), words, path, variable).expect_code(6);
            let sentences = ended.sentences();
            assert_eq!(sentences.len(), 1, "{words}: {}", ended.stderr);
            assert!(
                sentences[0].contains(path) && sentences[0].contains(why),
                "{words}: {}",
                sentences[0]
            );
            assert!(
                ended.took < Duration::from_secs(60),
                "{words}: {:?}",
                ended.took
            );
        }
        for words in ["compare @ run", "report @"] {
            let ended = with_path(folder.path(), words, path, None).expect_code(6);
            let said = format!(
                "{path} is a pipe or a device. Write what it gives to a file, and name that"
            );
            assert!(ended.stderr.contains(&said), "{words}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_pipe_in_place_of_a_file_of_a_run_holds_nobody_up() {
    let folder = folder();
    let replaced = |path: &str| {
        let path = folder.path().join(path);
        let _ = fs::remove_file(&path);
        fifo(folder.path());
        fs::rename(folder.path().join("fifo"), path).expect("replaced");
    };
    for name in ["steps/1-off-0", "steps/2-on-0"] {
        with_path(folder.path(), &format!("{SWEEP} --out @"), name, None).expect_code(0);
    }
    replaced("steps/1-off-0/run.json");
    replaced("steps/1-off-0/doctor.json");
    let report = with_path(folder.path(), "report @", "steps/1-off-0", None).expect_code(0);
    replaced("steps/experiment.json");
    let compare = with_path(folder.path(), "compare @", "steps", None).expect_code(6);
    let why = "experiment.json cannot be read: it is a pipe, and nothing came through it for 5 s";
    assert!(compare.stderr.contains(why), "{}", compare.stderr);
    for ended in [report, compare] {
        assert!(ended.took < Duration::from_secs(60), "{ended:?}");
    }
}

#[test]
fn a_pipe_as_the_settings_of_nccl_is_left_to_nccl_and_found_by_the_doctor() {
    let folder = folder();
    fifo(folder.path());
    let path = folder.path().join("fifo").to_string_lossy().into_owned();
    let ended = with_path(folder.path(), "doctor -v", &path, Some("NCCL_CONF_FILE"));
    let finding = "it is a pipe, at which NCCL waits until something writes into it";
    assert!(ended.stdout.contains(finding), "{}", ended.stdout);
    with_path(
        folder.path(),
        &format!("{SWEEP} --csv x.csv"),
        &path,
        Some("NCCL_CONF_FILE"),
    )
    .expect_code(0);
}

#[test]
fn a_pipe_that_nobody_reads_is_said_to_be_one() {
    let folder = folder();
    fifo(folder.path());
    for option in ["--csv", "--json"] {
        // Whichever comes first: nobody opens the pipe within ten seconds, or the deadline.
        let words = format!("{SWEEP} {option} @");
        let ended = with_path(folder.path(), &words, "fifo", None);
        // The CSV is opened before anything is measured, and the JSON written at the end.
        assert_eq!(ended.code == Some(6), option == "--csv", "{ended:?}");
        assert_ne!(ended.code, Some(0));
        assert!(
            ended
                .stderr
                .contains("fifo cannot be written: nobody reads this pipe"),
            "{}",
            ended.stderr
        );
        let ended = with_path(folder.path(), &format!("{words} -T 4"), "fifo", None).expect_code(4);
        assert!(
            ended
                .stderr
                .contains("fifo is not read: a write has not ended for "),
            "{}",
            ended.stderr
        );
    }
    let ended = with_path(folder.path(), "topo --xml /dev/null -o @", "fifo", None);
    assert!(ended.code.is_some_and(|code| code == 6), "{ended:?}");
}

#[test]
fn numbers_that_would_take_days_are_refused() {
    let folder = folder();
    for (options, sentence) in [
        (
            "-n 4000000000",
            "-n, -m and -G make 4000000000 timed operations of each case, more than 100000000",
        ),
        ("-n 1000000 -m 1000", "make 1000000000 timed operations"),
        ("-n 1000000 -G 1000", "make 1000000000 timed operations"),
        (
            "-w 4000000000",
            "-w 4000000000 is too many. Use at most 1000000",
        ),
        ("-c 1000001", "-c 1000001 is too many"),
        ("-m 4000000000", "-m 4000000000 is too many"),
    ] {
        let words = format!("{SWEEP} {options}");
        let ended = with_path(folder.path(), &words, "", None).expect_code(6);
        assert!(
            ended.stderr.contains(sentence),
            "{options}: {}",
            ended.stderr
        );
    }
}

#[test]
fn more_ranks_than_any_job_has_are_refused() {
    let folder = folder();
    let words = "all_reduce -b 8 -e 8 --backend model --ranks 4294967295";
    let ended = with_path(folder.path(), words, "", None).expect_code(6);
    let sentence = "no job has more than 1048576 ranks";
    assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
}

#[test]
fn a_launcher_that_prints_without_end_is_ended() {
    for stream in [1, 2] {
        let folder = folder();
        let srun = folder.path().join("srun");
        std::fs::write(&srun, format!("#!/bin/sh\nexec yes >&{stream}\n")).expect("written");
        let made = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&srun, made).expect("executable");
        let path = std::env::var("PATH").expect("a PATH");
        let mut command = alone(folder.path());
        command
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .env("SLURM_JOB_ID", "7")
            .env("SLURM_JOB_NODELIST", "n1")
            .env("SLURM_JOB_NUM_NODES", "1")
            .args(["launch", "all_reduce", "--backend", "host"]);
        let ended = run(&mut command).expect_code(8);
        assert_eq!(
            ended.sentences(),
            [
                "pxnbench: srun prints without end: more than 64M came. Check whether it is a \
                 wrapper that is broken: run srun --version"
            ]
        );
    }
}
