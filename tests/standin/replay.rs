//! `pxnbench replay` on stand-ins for GPUs.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    common::{BINARY, Ended, MPIRUN_VARIABLES, alone, csv, json, launcher, run},
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

/// Three modes communicate in one step that warms up and two that are timed. The copies of a step
/// are those of 161 parameters into their buckets and back, of 159 buffers, and of the buffers of
/// two types together.
#[test]
fn a_step_of_ddp_copies_each_gradient_into_its_bucket_and_back() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let steps = 3 * (1 + 2);
    // A thousandth of the large and of the small gradients of each bucket in whole floats, and at
    // least an element of each: the 26 small ones of the third bucket, together 55,296 bytes. Of
    // the buffers an element each.
    let gradients = (30_212 + 44) + (26_212 + 40) + (28_308 + 4 * 26) + (16_824 + 520);
    let buffers = 212 + 4 * 106 + 8 * (1 + 53);
    for (option, copies, bytes) in [
        ("", 483, 2 * gradients + buffers),
        ("--gradient-as-bucket-view", 322, gradients + buffers),
    ] {
        let words = format!("replay ddp-resnet50 {SMALL} {option}");
        let failing = |call: u32| {
            let mut command = machine.start(2, &words);
            command.env(
                "STANDIN_FAULT",
                format!("cuMemcpyDtoDAsync_v2:{call}:700:0"),
            );
            run(&mut command)
        };
        let ended = failing(steps * copies + 1).expect_code(0);
        assert!(
            ended
                .stdout
                .contains(&format!(" MB in 1 communicator, {copies} copies of ")),
            "{}",
            ended.stdout
        );
        let summary = json(&machine.path().join("out/replay.json"));
        let part = &summary["communication"]["copies"];
        assert_eq!(part["count"], copies, "{part}");
        assert_eq!(part["bytes"], bytes, "{part}");
        assert!(part["in_step_us"].as_f64().expect("a time") > 0.0, "{part}");
        failing(steps * copies).expect_code(2);
    }
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

/// Runs `words` on four ranks of two virtual nodes, each with two GPUs that have a NIC of their
/// own.
fn on_two_nodes(machine: &Machine, words: &str) -> Ended {
    let mut command = machine.on(launcher(machine.path()));
    for node in ["n0", "n1"] {
        let hostid = format!("NCCL_HOSTID={node}");
        let separator: &[&str] = if node == "n0" { &[] } else { &[":"] };
        command
            .args(separator)
            .args(["-np", "2", "env", &hostid, "STANDIN_NETWORK=vrail", BINARY])
            .args(words.split_whitespace())
            .args(["--backend", "nccl"]);
    }
    run(&mut command)
}

/// By kind of collective: what the columns of the proof say.
fn proofs(folder: &Path) -> BTreeMap<String, String> {
    let mut proofs = BTreeMap::new();
    for row in csv(&folder.join("collectives.csv")) {
        let kind = format!("{} {}", row["collective"], row["group"]);
        let shown = format!(
            "{}, {} of {} over {}",
            row["pxn"], row["relayed_sends"], row["sends"], row["transport"]
        );
        proofs.insert(kind, shown);
    }
    proofs
}

#[test]
fn the_level_that_relays_is_shown_to_act_on_the_tokens() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    // As NCCL 2.28.3 logs an alltoall and an all_reduce on such nodes:
    // tests/data/nccl-logs/summary.tsv.
    for (level, tokens, gradients) in [
        ("off", "not used, 0 of 16", "not used, 0 of 16"),
        ("conservative", "not used, 0 of 16", "used, 16 of 16"),
        ("balanced", "used, 8 of 16", "used, 16 of 16"),
        ("aggressive", "used, 8 of 16", "used, 16 of 16"),
    ] {
        let words = format!("replay moe-8x7b --layers 1 {SMALL}-{level} --proof --level {level}");
        let ended = on_two_nodes(&machine, &words).expect_code(0);
        assert!(
            ended.stdout.contains("# Out of bounds values : 0 OK"),
            "{}",
            ended.stdout
        );
        let out = machine.path().join(format!("out-{level}"));
        let shown = proofs(&out);
        let over = |proof: &str| format!("{proof} over NET/vrail+P2P");
        assert_eq!(
            shown["alltoallv expert"],
            over(tokens),
            "{level}: {shown:?}"
        );
        assert_eq!(
            shown["all_reduce expert"],
            over(gradients),
            "{level}: {shown:?}"
        );
        let summary = json(&out.join("replay.json"));
        let relays = level != "off";
        let proof = &summary["run"]["proof"];
        assert_eq!(proof["pxn_used"], relays, "{proof:#}");
        let verdict = proof["verdict"].as_str().expect("a sentence");
        let begin = if relays {
            "PXN used: "
        } else {
            "PXN not used ("
        };
        assert!(verdict.starts_with(begin), "{verdict}");
        assert!(
            ended.stdout.contains(&format!("# {verdict}\n")),
            "{}",
            ended.stdout
        );
        assert!(ended.stdout.contains("relayed sends"), "{}", ended.stdout);
        let listed = summary["collectives"].as_array().expect("a list");
        let of_tokens = listed.iter().find(|one| one["collective"] == "alltoallv");
        let of_tokens = of_tokens.expect("the tokens");
        assert_eq!(
            format!(
                "{}, {} of {}",
                of_tokens["pxn"].as_str().expect("a word"),
                of_tokens["relayed_sends"],
                of_tokens["sends"]
            ),
            tokens
        );
        // The evidence is there: a log of each rank, which `pxnbench proof` reads.
        let logs = fs::read_dir(out.join("nccl")).expect("the logs");
        assert_eq!(logs.count(), 4);
    }
}

#[test]
fn each_communicator_has_a_proof_of_its_own() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    let words = format!("replay moe-8x7b --layers 1 --expert 2 {SMALL} --proof --level aggressive");
    on_two_nodes(&machine, &words).expect_code(0);
    let shown = proofs(&machine.path().join("out"));
    // Experts are on one node, and copies of an expert on the same rail of two.
    assert_eq!(
        shown["alltoallv expert"], "not used, 0 of 0 over P2P",
        "{shown:?}"
    );
    assert_eq!(
        shown["all_reduce data"], "not used, 0 of 32 over NET/vrail",
        "{shown:?}"
    );
    assert_eq!(
        shown["all_reduce expert+data"], "used, 16 of 16 over NET/vrail+P2P",
        "{shown:?}"
    );

    // Without a check, connections are made while several communicators run.
    let words = format!("{words} -c 0");
    on_two_nodes(&machine, &words).expect_code(0);
    let shown = proofs(&machine.path().join("out"));
    assert_eq!(
        shown["alltoallv expert"], "not used, 0 of 0 over P2P",
        "{shown:?}"
    );
    assert_eq!(
        shown["all_reduce data"], "cannot tell,  of  over ",
        "{shown:?}"
    );
}

#[test]
fn without_a_log_of_nccl_nothing_is_proved() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    let words = format!("replay ddp-resnet50 {SMALL} --proof");
    let elsewhere = |command: &mut std::process::Command| {
        command.env("NCCL_DEBUG_FILE", "/dev/null");
        run(command)
    };
    let ended = elsewhere(&mut machine.start(1, &words)).expect_code(6);
    assert!(
        ended.stderr.contains(
            "--proof reads NCCL's log, and NCCL_DEBUG_FILE=/dev/null sends it elsewhere. Unset it"
        ),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_log_of_a_replay_that_fails_is_kept() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let words = format!("replay ddp-resnet50 {SMALL} --proof");
    let mut command = machine.start(2, &words);
    command.env("STANDIN_FAULT", "ncclAllReduce:2:5");
    run(&mut command).expect_code(3);
    let logs = fs::read_dir(machine.path().join("out/nccl")).expect("the logs");
    let mut kept = 0;
    for log in logs {
        let text = fs::read_to_string(log.expect("an entry").path()).expect("text");
        assert!(text.contains("NCCL INFO NCCL version"), "{text}");
        kept += 1;
    }
    // mpirun may end the other rank before it has copied its own.
    assert!((1..=2).contains(&kept), "{kept}");
}

/// NCCL reads its level once per process, so each candidate is a job of its own. Two ranks are two
/// virtual nodes. A step has few collectives, because each of them waits until both ranks have a
/// core.
#[test]
fn a_tuning_measures_each_level_that_is_in_force() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let rank = "export NCCL_HOSTID=n$OMPI_COMM_WORLD_RANK$PMI_RANK; exec \"$0\" \"$@\"";
    let script = format!("#!/bin/sh\nexec mpirun -np 2 sh -c '{rank}' \"$@\"\n");
    let start = machine.path().join("start");
    fs::write(&start, script).expect("written");
    fs::set_permissions(&start, fs::Permissions::from_mode(0o755)).expect("executable");
    let mut command = machine.on(alone(machine.path()));
    command.envs(MPIRUN_VARIABLES);
    let words = "replay --tune --start ./start --levels off --blocks 3 tensor-70b --layers 1 \
                 --backend nccl --size-scale 0.001 --time-scale 0.01 -n 2 -w 1 --out out";
    run(command.args(words.split_whitespace())).expect_code(0);
    let out = machine.path().join("out");
    let candidates = csv(&out.join("tune.csv"));
    let cells: Vec<_> = candidates
        .iter()
        .map(|row| ["candidate", "level", "blocks"].map(|name| row[name].as_str()))
        .collect();
    let expected = [
        ["default", "default", "3"],
        ["default-again", "default", "3"],
        ["off", "off", "3"],
    ];
    assert_eq!(cells, expected);
    let record = json(&out.join("experiment.json"));
    for step in record["steps"].as_array().expect("steps") {
        let folder = out.join(step["folder"].as_str().expect("a folder"));
        let label = step["label"].as_str().expect("a label");
        let level = label.trim_end_matches("-again");
        let rows = csv(&folder.join("steps.csv"));
        assert!(rows.iter().all(|row| row["level"] == level), "{label}");
    }
}
