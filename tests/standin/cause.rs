//! A GPU or NCCL that fails on one rank: what the job says and records of it, also where the launcher stops rank 0 for it.

use std::fs;

use pxnbench::world::placement::host_name;

use crate::{
    common::{json, launcher, run},
    machine::Machine,
};

#[test]
fn the_rank_whose_gpu_or_nccl_fails_is_recorded_and_not_the_signal_to_rank_0() {
    let Some(machine) = Machine::with(3) else {
        return;
    };
    let host = host_name();
    for (fault, code, says) in [
        ("cuLaunchKernel:40:719:2", 2, "cannot launch a data kernel"),
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
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let program = crate::common::BINARY;
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
