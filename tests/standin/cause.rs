//! A GPU or NCCL that fails on one rank: what the job says and records of it, also where the
//! launcher stops rank 0 for it.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use pxnbench::world::placement::host_name;

use crate::{
    common::{
        self, BINARY, alone, json, launcher, process_of_mpi_rank, run, send_signal, wait_until,
    },
    machine::Machine,
};

#[test]
fn the_rank_whose_gpu_or_nccl_fails_is_recorded_and_not_the_signal_to_rank_0() {
    let Some(machine) = Machine::in_memory(3) else {
        return;
    };
    let host = host_name();
    for (fault, code, says) in [
        (
            "cuLaunchKernel:40:719:2",
            2,
            "cannot launch one of the data kernels",
        ),
        ("broken:60:700:1", 2, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (
            "ncclAllReduce:90:2:1",
            3,
            "ncclAllReduce failed: unhandled system error (code 2)",
        ),
        ("async:90:3:2", 3, "NCCL reports"),
    ] {
        let rank = fault.rsplit(':').next().expect("a rank");
        let _ = fs::remove_dir_all(machine.path().join("run"));
        let words = "all_reduce -b 1K -e 64K -f 2 -n 20 -w 1 -N 0 --out run";
        let mut command = machine.start(3, words);
        command
            .env("STANDIN_FAULT", fault)
            .env("TMPDIR", machine.path());
        let ended = run(&mut command);
        let named = format!("rank {rank} on {host}: ");
        let first = ended
            .sentences()
            .into_iter()
            .find(|line| line.contains(&named) && line.contains(says));
        assert!(first.is_some(), "{fault}\n{}", ended.stderr);
        assert_eq!(ended.code, Some(code), "{fault}\n{}", ended.stderr);
        let end = &json(&machine.path().join("run/run.json"))["end"];
        assert_eq!(end["code"], code, "{fault}: {end}");
        let message = end["message"].as_str().expect("a message");
        assert!(
            message.starts_with(&named) && message.contains(says),
            "{fault}: {end}"
        );
        assert_eq!(end["failed"]["rank"].to_string(), rank, "{fault}: {end}");
        assert_eq!(end["failed"]["host"], host.as_str(), "{fault}: {end}");
        assert!(!ended.stdout.contains("stopped by SIG"), "{}", ended.stdout);
    }
}

#[test]
fn a_rank_without_its_gpu_is_named_with_what_it_sees() {
    let Some(machine) = Machine::in_memory(2) else {
        return;
    };
    let program = BINARY;
    let words = "all_reduce -b 8 -e 8 --backend nccl";
    let mut command = machine.on(launcher(machine.path()));
    command
        .args(["-np", "1", program])
        .args(words.split(' '))
        .args([":", "-np", "1", "-x", "CUDA_VISIBLE_DEVICES=7", program])
        .args(words.split(' '));
    let ended = run(&mut command).expect_code(2);
    let sentences = ended.sentences();
    let says = format!("rank 1 on {} cannot use a GPU", host_name());
    assert_eq!(sentences.len(), 1, "{}", ended.stderr);
    assert!(
        sentences[0].contains(&says)
            && sentences[0].contains("CUDA_VISIBLE_DEVICES=7")
            && sentences[0].contains(&format!("; rank 0 on {} sees 2 GPUs", host_name())),
        "{}",
        ended.stderr
    );
}

/// An srun that has mpirun start the ranks, on this machine.
const SRUN: &str = r#"#!/bin/sh
for word; do
    case $word in
        --ntasks=*) tasks=${word#*=} ;;
        --mpi=*) mpi=${word#*=} ;;
        --list) exit 1 ;;
    esac
done
while case $1 in --*) ;; *) false ;; esac; do shift; done
[ "$mpi" = none ] && exec "$@"
for name in $(env | sed -n 's/^\(SLURM_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
exec mpirun -np "$tasks" "$@"
"#;

/// `pxnbench launch` of three ranks on `machine`, in a Slurm job of this host.
fn launch(machine: &Machine, words: &str) -> Command {
    let folder = machine.path().join("slurm");
    fs::create_dir_all(&folder).expect("made");
    let srun = folder.join("srun");
    fs::write(&srun, SRUN).expect("written");
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = std::env::var("PATH").expect("a PATH");
    let mut command = machine.on(alone(machine.path()));
    command
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("TMPDIR", machine.path())
        .envs(common::MPIRUN_VARIABLES)
        .envs([
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_NODELIST", &*host_name()),
            ("SLURM_JOB_NUM_NODES", "1"),
            ("SLURM_GPUS_ON_NODE", "3"),
        ])
        .args(["launch", "--tasks-per-node", "3"])
        .args(words.split_whitespace());
    command
}

#[test]
fn launch_returns_the_code_and_the_sentence_of_the_rank_that_failed() {
    let Some(machine) = Machine::in_memory(3) else {
        return;
    };
    let host = host_name();
    for (fault, code, says) in [
        (
            "cuLaunchKernel:40:719:1",
            2,
            "cannot launch one of the data kernels",
        ),
        ("ncclAllReduce:90:2:2", 3, "ncclAllReduce failed"),
    ] {
        let rank = fault.rsplit(':').next().expect("a rank");
        let _ = fs::remove_dir_all(machine.path().join("run"));
        let words = "all_reduce -b 1K -e 64K -f 2 -n 20 -N 0 --backend nccl --out run";
        let mut command = launch(&machine, words);
        let ended = run(command.env("STANDIN_FAULT", fault)).expect_code(code);
        let last = *ended.sentences().last().expect("a sentence");
        let named = format!("rank {rank} on {host}: ");
        assert!(
            last.contains(&named) && last.contains(says) && last.contains("did not finish: "),
            "{fault}\n{}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("stopped by SIG"), "{}", ended.stderr);
        let end = &json(&machine.path().join("run/run.json"))["end"];
        assert_eq!(end["code"], code, "{end}");
    }
}

#[test]
fn launch_completes_the_record_of_a_run_whose_rank_0_was_killed() {
    let Some(machine) = Machine::in_memory(3) else {
        return;
    };
    let marker = machine.path().join("run").display().to_string();
    let words = "all_reduce -b 1K -e 64K -f 2 -n 20 -N 0 --backend nccl --out";
    let mut command = launch(&machine, &format!("{words} {marker}"));
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("started");
    let csv = machine.path().join("run/results.csv");
    wait_until("rows", || {
        fs::read_to_string(&csv).map_or(0, |text| text.lines().count()) > 3
    });
    let process = process_of_mpi_rank(&marker, 0).expect("rank 0");
    assert!(send_signal("-KILL", process));
    let ended = common::ended(child).expect_code(8);
    let last = *ended.sentences().last().expect("a sentence");
    let named = format!("rank 0 on {} ", host_name());
    assert!(
        last.contains(&named) && last.contains("ended the run") || last.contains("was killed"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("did not finish: "),
        "{}",
        ended.stderr
    );
    let end = &json(&machine.path().join("run/run.json"))["end"];
    assert_eq!(end["code"], 8, "{end}");
    assert_eq!(end["failed"]["pid"], process, "{end}");
}
