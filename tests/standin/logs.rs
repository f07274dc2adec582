//! Where NCCL's log waits until the run's folder is known, and what happens to it.

use std::{fs, path::PathBuf, process::Command};

use crate::{
    common::{Ended, after, json, only_entry, run, skip},
    machine::Machine,
};

/// The program in a shell that runs `before` first: a link can be planted under a name with the
/// process's own number.
fn prepared(machine: &Machine, before: &str, words: &str) -> Command {
    let mut command = machine.on(after(before, machine.path()));
    command
        .env("TMPDIR", machine.path().join("tmp"))
        // The evidence of a GPU that the self-test asks for.
        .env("SLURM_JOB_GPUS", "0")
        .args(words.split_whitespace());
    command
}

const PROVED: &str = "all_reduce -b 8 -e 8 -n 1 --out out --proof --backend nccl";

/// What the program left in the folder for temporary files; MPI has files of its own there.
fn left(machine: &Machine) -> Vec<PathBuf> {
    let all = fs::read_dir(machine.path().join("tmp")).expect("a folder");
    let paths = all.map(|entry| entry.expect("an entry").path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with("pxnbench")) && !path.is_symlink()
    };
    paths.filter(is_ours).collect()
}

#[test]
fn nccls_log_is_not_written_through_links_that_somebody_planted() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    for folder in ["tmp", "out/nccl"] {
        fs::create_dir_all(machine.path().join(folder)).expect("made");
    }
    let precious = machine.path().join("precious");
    fs::write(&precious, "precious").expect("written");
    let plant = "host=$(cut -d. -f1 /proc/sys/kernel/hostname)
        for name in log tuning.log off.log asked.log; do
            ln -s \"$PWD/precious\" \"tmp/pxnbench-nccl.$host.$$.$name\" || exit 99
        done
        ln -s \"$PWD/precious\" \"out/nccl/$host.$$.log\"";
    run(&mut prepared(&machine, plant, PROVED)).expect_code(0);
    assert_eq!(fs::read_to_string(&precious).expect("read"), "precious");
    let log = only_entry(&machine.path().join("out/nccl"));
    assert!(!log.is_symlink());
    let text = fs::read_to_string(log).expect("NCCL's log");
    assert!(text.contains("NCCL INFO NCCL version"), "{text}");
    assert_eq!(left(&machine), [] as [PathBuf; 0]);

    let self_test = run(&mut prepared(&machine, plant, "proof --self-test")).expect_code(5);
    assert!(
        self_test.stdout.contains("cannot tell"),
        "{}",
        self_test.stdout
    );
    assert_eq!(fs::read_to_string(&precious).expect("read"), "precious");
    assert_eq!(left(&machine), [] as [PathBuf; 0]);
}

#[test]
fn nccls_log_of_a_worker_that_failed_stays_where_the_sentence_says() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    fs::create_dir(machine.path().join("tmp")).expect("made");
    let self_test = || {
        let mut command = prepared(&machine, "", "proof --self-test");
        command.env("STANDIN_FAULT", "ncclAlltoAll:1:5");
        let ended = run(&mut command).expect_code(3);
        let (_, log) = ended
            .stderr
            .trim_end()
            .split_once("NCCL's log of it is ")
            .unwrap_or_else(|| panic!("{}", ended.stderr));
        PathBuf::from(log)
    };
    let logs = [self_test(), self_test()];
    // The run that comes next does not remove what an earlier one told of.
    run(&mut prepared(&machine, "", PROVED)).expect_code(0);
    assert_eq!(left(&machine).len(), 2);
    for log in logs {
        let text = fs::read_to_string(&log).expect("NCCL's log");
        assert!(text.contains("NCCL INFO NCCL version"), "{text}");
        assert_eq!(only_entry(log.parent().expect("a folder")), log);
    }
}

#[test]
fn where_nccls_log_has_no_place_nothing_is_measured() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    fs::write(machine.path().join("tmp"), "no folder").expect("written");
    for words in [PROVED, "proof --self-test"] {
        let ended = run(&mut prepared(&machine, "", words)).expect_code(6);
        let sentences = ended.sentences();
        assert!(
            sentences.len() == 1
                && sentences[0].contains("tmp cannot hold NCCL's log: Not a directory")
                && sentences[0].ends_with(". Set TMPDIR to a folder that can be written to"),
            "{sentences:?}"
        );
    }
}

/// The same as `prepared`, where the folder for temporary files is a small file system; `None` if
/// this user may not mount one.
fn on_small_disk(machine: &Machine, size: &str, then: &str, words: &str) -> Option<Ended> {
    fs::create_dir_all(machine.path().join("tmp")).expect("made");
    let mount = format!("mount -t tmpfs -o size={size} tmpfs tmp 2>/dev/null || exit 98\n{then}");
    let ended = run(&mut prepared(machine, &mount, words));
    let tmp = machine.path().join("tmp");
    let _ = Command::new("umount").arg("-l").arg(tmp).output();
    if ended.code == Some(98) {
        let _ = skip("mount", "this user may not mount a tmpfs");
        return None;
    }
    Some(ended)
}

#[test]
fn a_log_whose_disk_is_full_proves_nothing() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    let Some(ended) = on_small_disk(&machine, "64k", "", PROVED) else {
        return;
    };
    let ended = ended.expect_code(6);
    let words = "tmp cannot hold NCCL's log: its file system has less than 1 MiB left. Set TMPDIR \
                 to a folder that can be written to";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);

    // It fills up once the program has made its folder.
    let fill = "( until ls -d tmp/pxnbench.*; do sleep 0.01; done; cat /dev/zero >tmp/ballast ) \
                >/dev/null 2>&1 &";
    let words = format!("{PROVED} --time 3s");
    let ended = on_small_disk(&machine, "4m", fill, &words).expect("mounted");
    let ended = ended.expect_code(0);
    let words = "PXN use unknown: the disk of NCCL's log of rank 0 is full, so lines of it may be \
                 missing. Set TMPDIR to a folder with more room";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    let run = json(&machine.path().join("out/run.json"));
    assert!(run["proof"]["pxn_used"].is_null(), "{run:#}");
}
