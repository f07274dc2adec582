//! `pxnbench replay` on stand-ins for GPUs.

use crate::{
    common::{csv, json, run},
    machine::Machine,
};

/// A replay that is small enough for GPUs that are threads.
const SMALL: &str = "--size-scale 0.001 --time-scale 0.01 -n 2 -w 1 --blocks 1 --out out";

#[test]
fn a_step_of_ddp_replays_with_nccl_and_its_data_are_right() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let ended = run(&mut machine.start(2, &format!("replay ddp-resnet50 {SMALL}"))).expect_code(0);
    assert!(
        ended.stdout.contains("# Out of bounds values : 0 OK"),
        "{}",
        ended.stdout
    );
    let out = machine.path().join("out");
    let collectives = csv(&out.join("collectives.csv"));
    let count = |name: &str| {
        let of_name = collectives.iter().filter(|row| row["collective"] == name);
        let counts = of_name.map(|row| row["count"].parse::<u32>().expect("a number"));
        counts.sum::<u32>()
    };
    assert_eq!((count("all_reduce"), count("broadcast")), (4, 2));
    let summary = json(&out.join("replay.json"));
    assert_eq!(summary["run"]["backend"], "nccl");
    assert_eq!(summary["run"]["versions"]["nccl"], "2.28.3");
    assert!(
        summary["modes"]["overlapped"]["median_us"]
            .as_f64()
            .expect("a time")
            > 0.0
    );
}

#[test]
fn tokens_go_to_experts_and_gradients_to_the_other_copies() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    let words = format!("replay moe-8x7b --layers 2 --expert 2 {SMALL}");
    let ended = run(&mut machine.start(4, &words)).expect_code(0);
    assert!(
        ended.stdout.contains("# Out of bounds values : 0 OK"),
        "{}",
        ended.stdout
    );
    let collectives = csv(&machine.path().join("out/collectives.csv"));
    let groups: Vec<_> = collectives
        .iter()
        .map(|row| {
            (
                row["collective"].as_str(),
                row["group"].as_str(),
                row["ranks"].as_str(),
            )
        })
        .collect();
    assert!(groups.contains(&("alltoallv", "expert", "2")), "{groups:?}");
    assert!(groups.contains(&("all_reduce", "data", "2")), "{groups:?}");
}
