//! What is refused before anything is made.

use crate::{
    common::{alone, run},
    folder,
};

#[test]
fn what_could_not_run_is_refused_with_a_sentence() {
    let home = folder();
    for (arguments, says) in [
        ("", "--image"),
        ("--image x Pxn", "small letters"),
        ("--image x --gpus 0", "at least 1"),
        (
            "--image x --rdma hca",
            "such as rdma/hca_shared_devices_a:1",
        ),
        ("--image x --size 8:1G:1", "such as 8:1G:4"),
        ("--image x --env NCCL_DEBUG", "it must be NAME=VALUE"),
        ("--image x --level agressive", "Did you mean aggressive?"),
        ("--image x --port 80", "1024"),
        (
            "--image x --memory 1G",
            "Set a larger --memory or a smaller --shm",
        ),
        (
            "--image x --mpi-operator --keep 60",
            "Use --keep without --mpi-operator",
        ),
        ("--image x -- allreduce", "did you mean all_reduce?"),
        (
            "--image x -- doctor",
            "kube runs sweeps and replays only. Name collectives or replay",
        ),
        (
            "--image x -- replay ddp-resnet50 --level off",
            "Put --level and --network before the --",
        ),
        (
            "--image x -- replay ddp-resnet50 --out here",
            "kube decides where the ranks write",
        ),
        (
            "--image x -- replay ddp-resnet50 --backend host",
            "kube measures GPUs",
        ),
        (
            "--image x --size 1G -- replay ddp-resnet50",
            "--size and --time are for sweeps, and a replay has steps. Leave them out",
        ),
        (
            "--image x -- replay --from-trace trace.json",
            "the pods do not have the file of this workload. Name one that is built in",
        ),
        (
            "--image x -- all_reduce --level off",
            "Put --level and --network before the --",
        ),
        (
            "--image x -- all_reduce --out here",
            "kube decides where the ranks write",
        ),
        (
            "--image x -- all_reduce --backend host",
            "kube measures GPUs",
        ),
        (
            "--image x --gpus 2 -- all_reduce -g 4",
            "more GPUs (-t times -g) than the 2 of a pod",
        ),
    ] {
        let mut command = alone(home.path());
        command
            .args(["kube", "render"])
            .args(arguments.split_whitespace());
        let ended = run(&mut command).expect_code(6);
        assert!(ended.stderr.contains(says), "{arguments}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments}");
    }
}

#[test]
fn the_largest_numbers_are_no_bugs() {
    let home = folder();
    for arguments in [
        "--gpus 4294967295",
        "--nodes 100000 --gpus 4294967295 --mpi-operator",
        "--deadline 18446744073709551615s --time 2s --ttl 18446744073709551615s",
    ] {
        let mut command = alone(home.path());
        command.args(["kube", "render", "--image", "x"]);
        run(command.args(arguments.split_whitespace())).expect_code(0);
    }
}
