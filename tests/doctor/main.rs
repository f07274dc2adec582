//! `pxnbench doctor` on machines made of files: a good one, and one for each way of being bad. The files go through the real
//! gatherers, the report is the binary's.

#[path = "../common/mod.rs"]
mod common;
mod faultless;
mod machine;
mod said;
mod spoiled;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use common::{BINARY, Ended, alone, has_mpi, launcher, run};
use faultless::{NO_FAULT, RULES};
use machine::*;
use pxnbench::{
    doctor::{self, RankFacts},
    facts::health,
    levels::{audit, conf::NcclSettings},
};
use serde_json::json;

use said::*;
use spoiled::{SPOILED, SPOILED_TOGETHER};

#[test]
fn a_good_machine_has_nothing_wrong() {
    let ended = examine(&good()).expect_code(0);
    assert_eq!(findings(&ended), BTreeSet::new(), "{}", ended.stdout);
    let unread = verdicts(&ended)
        .into_iter()
        .filter(|(_, rows)| rows.iter().any(|(v, _)| v == "not_applicable"));
    let unread: Vec<String> = unread
        .map(|(id, _)| id)
        .filter(|id| !id.contains("same"))
        .collect();
    // What needs several ranks, and settings that a good machine does not make.
    let expected = [
        "gpu.imex",
        "host.clock",
        "host.container",
        "host.cpus-shared",
        "lib.nccl-file",
        "lib.plugin",
        "net.gid",
        "net.mixed-ports",
    ];
    let own: Vec<&String> = unread
        .iter()
        .filter(|id| !id.starts_with("env.") && !id.starts_with("mpi."))
        .collect();
    assert_eq!(own, expected);
}

#[test]
fn each_check_finds_what_it_is_for_and_nothing_else_does() {
    for (id, spoil, kin) in SPOILED {
        let mut machine = good();
        spoil(&mut machine);
        let found = findings(&examine(&machine));
        let expected: BTreeSet<String> =
            kin.iter().chain([id]).map(|id| (*id).to_owned()).collect();
        assert_eq!(found, expected, "{id}");
    }
}

#[test]
fn a_check_says_what_it_has_seen() {
    let mut wrong = Vec::new();
    for (at, (id, spoil, verdict, words)) in SAID.iter().enumerate() {
        let mut machine = good();
        spoil(&mut machine);
        let ended = examine(&machine);
        let rows = &verdicts(&ended)[*id];
        if !rows
            .iter()
            .any(|(v, said)| v == verdict && said.contains(words))
        {
            wrong.push(format!("{at}, {id}: {rows:?}"));
        } else if ["ok", "not_applicable"].contains(verdict) && !findings(&ended).is_empty() {
            wrong.push(format!("{at}, {id}: {:?} found", findings(&ended)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_missing_libnccl_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine { nccl: 0, ..good() };
    let mut arguments = machine.write(folder.path());
    arguments.extend(["--nccl-lib".into(), "/nowhere/libnccl.so.2".into()]);
    let ended = run(alone(folder.path()).args(arguments).envs(&machine.env)).expect_code(10);
    assert_eq!(findings(&ended), BTreeSet::from(["lib.nccl".to_owned()]));
    let old = Machine {
        nccl: 21000,
        ..good()
    };
    assert_eq!(
        findings(&examine(&old)),
        BTreeSet::from(["lib.nccl".to_owned()]),
        "one that a run would refuse"
    );
}

#[test]
fn what_looks_like_a_fault_and_is_none_is_said() {
    let mut wrong = Vec::new();
    for (id, change, word) in NO_FAULT {
        let mut machine = good();
        change(&mut machine);
        let ended = examine(&machine);
        let (found, said) = (
            findings(&ended),
            verdicts(&ended).remove(*id).unwrap_or_default(),
        );
        if !found.is_empty() || !said.iter().any(|(_, words)| words.contains(word)) {
            wrong.push(format!(
                "{id} should say '{word}': {said:?}, found {found:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_rule_of_the_audit_finds_what_it_is_for() {
    let mut wrong = Vec::new();
    for (id, settings, change) in RULES {
        let mut machine = good();
        settings
            .iter()
            .for_each(|(name, value)| machine.set(name, value));
        change(&mut machine);
        let all = verdicts(&examine(&machine));
        let found = |rows: &[(String, String)]| {
            rows.iter().any(|(verdict, said)| {
                ["warning", "failure"].contains(&verdict.as_str()) || said.starts_with("note: ")
            })
        };
        let found: BTreeSet<&str> = all
            .iter()
            .filter(|(_, rows)| found(rows))
            .map(|(id, _)| id.as_str())
            .collect();
        if found != BTreeSet::from([*id]) {
            wrong.push(format!("{id}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: Vec<&str> = RULES.iter().map(|(id, ..)| *id).collect();
    assert_eq!(
        known,
        audit::CHECKS.iter().map(|rule| rule.id).collect::<Vec<_>>(),
        "one for each rule"
    );
}

/// What is not sure is said, and is no failure.
#[test]
fn without_the_kernels_version_nobody_knows_whether_dma_buf_serves() {
    let mut machine = good();
    machine.open_modules();
    machine.nccl = 22203;
    machine.files.remove("proc/sys/kernel/osrelease");
    let said = verdicts(&examine(&machine))
        .remove("gdr.module-name")
        .expect("it");
    assert!(
        said[0].0 == "warning" && said[0].1.contains("osrelease"),
        "{said:?}"
    );
    // Settings and versions that rule it out.
    for change in [
        (|m| m.set("NCCL_DMABUF_ENABLE", "0")) as Spoil,
        |m| m.file("proc/sys/kernel/osrelease", "5.4.0\n"),
        |m| m.edit("proc/driver/nvidia/version", "570.86.15", "510.47.03"),
    ] {
        let mut machine = good();
        machine.open_modules();
        machine.nccl = 22203;
        change(&mut machine);
        assert_eq!(
            verdicts(&examine(&machine))["gdr.module-name"][0].0,
            "failure"
        );
    }
}

#[test]
fn a_scontrol_that_hangs_holds_nothing_up() {
    let mut machine = good();
    machine.scontrol("exec sleep 100");
    let ended = examine(&machine);
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
    let said = verdicts(&ended).remove("slurm.kill").expect("it");
    assert!(
        said[0].0 == "not_applicable" && said[0].1.contains("did not answer"),
        "{said:?}"
    );
}

/// Two ranks, each on a machine of its own.
fn agree(first: &Machine, second: &Machine, one_node: bool) -> Ended {
    ranks(&[first, second], one_node)
}

/// A rank on each machine.
fn ranks(machines: &[&Machine], one_node: bool) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = launcher(folder.path());
    for (rank, machine) in machines.iter().enumerate() {
        let own = folder.path().join(rank.to_string());
        fs::create_dir_all(&own).expect("a folder");
        let mut env: Vec<String> = machine
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !one_node {
            env.push(format!("NCCL_HOSTID=n{rank}"));
        }
        command.args(if rank == 0 { &[] as &[&str] } else { &[":"] });
        command
            .args(["-np", "1", "env"])
            .args(env)
            .arg(BINARY)
            .args(machine.write(&own));
    }
    run(&mut command)
}

#[test]
fn differences_between_ranks_are_found() {
    if !has_mpi() {
        return;
    }
    // Their libnccl are two files on purpose.
    let always = || BTreeSet::from(["lib.nccl-file".to_owned()]);
    assert_eq!(
        findings(&agree(&good(), &good(), false).expect_code(0)),
        always()
    );
    for (id, spoil, kin) in SPOILED_TOGETHER {
        let mut other = good();
        spoil(&mut other);
        let one_node = ["gpu.siblings", "gpu.same"].contains(id);
        let found = findings(&agree(&good(), &other, one_node));
        let expected: BTreeSet<String> = kin
            .iter()
            .chain([id])
            .map(|id| (*id).to_owned())
            .chain(always())
            .collect();
        assert_eq!(found, expected, "{id}");
    }
    // mpirun's helpers are a step of their own, which the ranks inherit: no fault.
    let mut inherited = good();
    inherited.set("SLURM_STEP_NUM_TASKS", "1");
    assert_eq!(findings(&agree(&inherited, &inherited, false)), always());
    // What both have.
    let both = |spoil: Spoil| {
        let mut machine = good();
        spoil(&mut machine);
        findings(&agree(&machine, &machine, true))
    };
    assert!(both(|m| m.set("CUDA_VISIBLE_DEVICES", "0")).contains("gpu.shared"));
    assert!(both(|m| m.edit("proc/self/status", "0-7", "3")).contains("host.cpus-shared"));
}

/// A machine of four GPUs of which a rank sees some.
fn bound(devices: &str) -> Machine {
    let mut machine = good();
    machine.nvml["gpus"] = (0..4).map(gpu).collect();
    machine.set("CUDA_VISIBLE_DEVICES", devices);
    machine
}

#[test]
fn the_gpus_of_a_node_are_those_of_all_its_ranks() {
    if !has_mpi() {
        return;
    }
    let judged = |devices: &[&str], change: Spoil| {
        let mut machines: Vec<Machine> = devices.iter().map(|devices| bound(devices)).collect();
        machines.iter_mut().for_each(change);
        let ended = ranks(&machines.iter().collect::<Vec<_>>(), true);
        let all = verdicts(&ended);
        ["gpu.count", "gpu.siblings", "gpu.shared"]
            .map(|id| (all[id][0].0.clone(), all[id][0].1.clone()))
    };
    let verdict =
        |devices: &[&str], change: Spoil| judged(devices, change).map(|(verdict, _)| verdict);
    let nothing: Spoil = |_| ();
    assert_eq!(
        verdict(&["0,1", "0,1", "2,3", "2,3"], nothing),
        ["ok", "warning", "ok"],
        "two for each pair"
    );
    assert_eq!(verdict(&["0,1", "2,3"], nothing), ["ok", "warning", "ok"]);
    assert_eq!(
        verdict(&["0,1", "0,1", "0,1"], nothing),
        ["failure", "ok", "ok"]
    );
    assert_eq!(
        verdict(&["0,1", "0,1", "0,1", "2,3"], nothing),
        ["ok", "warning", "failure"]
    );
    assert_eq!(
        verdict(&["0", "GPU-0000"], nothing),
        ["ok", "ok", "failure"],
        "one GPU by number and by UUID"
    );
    assert_eq!(
        verdict(&["0,1,2,3", "MIG-1", "MIG-1"], nothing)[2],
        "failure"
    );
    assert_eq!(verdict(&["0,1,2,3", ""], nothing)[0], "failure");
    let shares: Spoil = |m| {
        m.nccl = 23007;
        m.set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    };
    let [count, _, shared] = judged(&["0,1", "0,1", "0,1"], shares);
    assert!(
        count.0 == "ok" && count.1.contains("NCCL_MULTI_RANK_GPU_ENABLE=1"),
        "{count:?}"
    );
    assert!(shared.0 == "ok", "{shared:?}");
    let [_, _, shared] = judged(&["0", "0"], shares);
    assert!(
        shared.0 == "ok" && shared.1.contains("NCCL_MULTI_RANK_GPU_ENABLE=1"),
        "{shared:?}"
    );
    let too_old: Spoil = |m| m.set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    assert_eq!(
        verdict(&["0", "0"], too_old)[2],
        "failure",
        "2.28 does not know it"
    );
}

#[test]
fn what_may_differ_between_nodes_is_no_finding() {
    if !has_mpi() {
        return;
    }
    let always = BTreeSet::from(["lib.nccl-file".to_owned()]);
    let mut other = good();
    port(
        &mut other.files,
        "mlx5_0",
        "InfiniBand",
        "4: ACTIVE",
        "400 Gb/sec (4X NDR)",
    );
    for (name, value) in [
        ("NCCL_IB_HCA", "=mlx5_1,mlx5_0"),
        ("NCCL_DEBUG_FILE", "/tmp/x.%h.%p"),
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_TOPO_FILE", "/etc/topo.xml"),
    ] {
        other.set(name, value);
    }
    let ended = agree(&good(), &other, false);
    assert_eq!(findings(&ended), always);
    let said = verdicts(&ended).remove("env.same").expect("it");
    assert!(
        said[0].0 == "ok"
            && said[0].1.contains("NCCL_TOPO_FILE")
            && said[0].1.contains("NCCL_IB_HCA"),
        "{said:?}"
    );

    // Open modules: one rank with and one without nvidia-peermem.
    let (mut with, mut without) = (good(), good());
    with.open_modules();
    without.open_modules();
    without.file("proc/modules", "nvidia 1 0 - Live 0x0\n");
    let ended = agree(&with, &without, false);
    assert_eq!(findings(&ended), always);
    assert!(
        verdicts(&ended)["gdr.module-same"][0].1.contains("dma-buf"),
        "{}",
        ended.stdout
    );

    // Nodes of one NVLink cluster without a channel: NCCL would fail, where a node by itself only might.
    let mut clustered = good();
    clustered.cluster();
    assert_eq!(
        verdicts(&agree(&clustered, &clustered, false))["gpu.imex"][0].0,
        "failure"
    );
    assert_eq!(
        verdicts(&agree(&clustered, &clustered, true))["gpu.imex"][0].0,
        "warning"
    );

    // Bridges over some GPUs of one node, none on the other's: a difference of nodes, not of siblings.
    let mut bridged = good();
    bridged.nvlinks([2, 2], "gpu");
    let mut bare = good();
    bare.nvlinks([0, 0], "unknown");
    let expected = always
        .iter()
        .cloned()
        .chain(["gpu.nvlink-same".to_owned()])
        .collect();
    assert_eq!(findings(&agree(&bridged, &bare, false)), expected);
}

/// Two ranks of one job that differ in what one binary cannot differ in: the check is applied to what they would say.
#[test]
fn two_mpis_and_two_clocks_are_found() {
    let subject = |rank: u32, mpi: &str, clock: f64| RankFacts {
        rank,
        world: 2,
        host: format!("n{rank}"),
        node: rank,
        local: (0, 1),
        mpi: mpi.into(),
        nccl: Err("none".into()),
        settings: NcclSettings::default(),
        audited: Vec::new(),
        not_audited: Vec::new(),
        clock,
        health: health::gather(Path::new("/nowhere"), &|_| None, None, None),
    };
    let verdict = |id: &str, second: RankFacts| {
        let rows = doctor::examine(&[subject(0, "Open MPI v4.1.4", 1e9), second]);
        let row = rows.into_iter().find(|row| row.id == id).expect("it");
        (row.verdict.word(), row.verdict.words().0.to_owned())
    };
    let (word, said) = verdict("mpi.same", subject(1, "Open MPI v5.0.3", 1e9));
    assert!(
        word == "FAILURE" && said.contains("v4.1.4 on n0") && said.contains("v5.0.3 on n1"),
        "{said}"
    );
    assert_eq!(
        verdict("mpi.same", subject(1, "Open MPI v4.1.4", 1e9)).0,
        "ok"
    );
    let (word, said) = verdict("host.clock", subject(1, "Open MPI v4.1.4", 1e9 - 7.25));
    assert!(
        word == "warning" && said.contains("7.25 s") && said.contains("n1"),
        "{said}"
    );
    let (word, said) = verdict("host.clock", subject(1, "Open MPI v4.1.4", 1e9 + 0.5));
    assert!(word == "ok" && said.contains("0.5"), "{said}");
}

#[test]
fn ports_and_interfaces_of_two_nodes_are_those_that_nccl_takes() {
    if !has_mpi() {
        return;
    }
    let pair = |spoil: Spoil, spoil_other: Spoil| {
        let (mut first, mut second) = (good(), good());
        spoil(&mut first);
        spoil_other(&mut second);
        let ended = agree(&first, &second, false);
        let said = verdicts(&ended);
        move |id: &str| said[id][0].clone()
    };
    let quiet: Spoil = |m| drop(m.env.remove("NCCL_SOCKET_IFNAME"));

    // What NCCL_IB_HCA leaves out may differ; other names are legal; a node without a port is not.
    assert_eq!(
        pair(|_| {}, |m| beside(m, "InfiniBand", "4: ACTIVE"))("net.ports-same").0,
        "ok"
    );
    let all: Spoil = |m| drop(m.env.remove("NCCL_IB_HCA"));
    let more: Spoil = |m| {
        beside(m, "InfiniBand", "4: ACTIVE");
        m.env.remove("NCCL_IB_HCA");
    };
    assert_eq!(pair(all, more)("net.ports-same").0, "warning");
    let (verdict, said) = pair(|_| {}, |m| m.set("NCCL_IB_HCA", "=mlx5_7"))("net.ports-same");
    assert!(
        verdict == "failure" && said.contains("none on"),
        "{verdict}: {said}"
    );
    let bare: Spoil = |m| without_adapters(m, "");
    assert_eq!(pair(bare, bare)("net.ports-same").0, "not_applicable");

    // ib0 comes first where nobody names an interface, with whatever address it has.
    let (verdict, said) = pair(quiet, ipoib)("net.family-same");
    assert!(
        verdict == "failure" && said.contains("IPv4") && said.contains("IPv6"),
        "{verdict}: {said}"
    );
    let ipv4: Spoil = |m| m.set("NCCL_SOCKET_FAMILY", "AF_INET");
    let ipoib_ipv4: Spoil = |m| {
        ipoib(m);
        m.set("NCCL_SOCKET_FAMILY", "AF_INET");
    };
    assert_eq!(pair(ipv4, ipoib_ipv4)("net.family-same").0, "ok");
    let lo: Spoil = |m| m.set("NCCL_SOCKET_IFNAME", "^docker");
    assert_eq!(pair(lo, lo)("net.interface").0, "failure");
}

#[test]
fn what_a_rank_lacks_is_a_difference_and_what_nobody_knows_is_none() {
    if !has_mpi() {
        return;
    }
    let mut bare = good();
    bare.files.retain(|path, _| !path.contains("nvidia"));
    bare.nvml["gpus"] = json!([]);
    bare.nccl = 0;
    let found = findings(&agree(&good(), &bare, false).expect_code(10));
    for id in ["lib.driver-same", "lib.nccl-same", "gpu.same"] {
        assert!(found.contains(id), "{id} in {found:?}");
    }
    let mut unknown = good();
    unknown.nvml = json!("no inventory");
    unknown.files.remove("proc/modules");
    let all = verdicts(&agree(&unknown, &unknown, false));
    for id in ["gpu.same", "gpu.nvlink-same", "gdr.module-same"] {
        assert_eq!(all[id][0].0, "not_applicable", "{id}: {:?}", all[id]);
    }
}

#[test]
fn every_check_is_spoiled_by_some_machine() {
    let ended = examine(&good());
    let known: BTreeSet<&str> = SPOILED
        .iter()
        .chain(SPOILED_TOGETHER)
        .map(|(id, _, _)| *id)
        .collect();
    // Tested apart, above.
    let apart = [
        "gpu.shared",
        "host.clock",
        "host.cpus-shared",
        "lib.nccl",
        "lib.nccl-file",
        "mpi.same",
    ];
    let is_rule = |id: &String| audit::CHECKS.iter().any(|rule| rule.id == id);
    let ids = verdicts(&ended).into_keys();
    let left: Vec<String> = ids
        .filter(|id| !known.contains(id.as_str()) && !apart.contains(&id.as_str()))
        .filter(|id| !is_rule(id))
        .collect();
    assert_eq!(left, [] as [&str; 0]);
    assert!(verdicts(&ended).len() >= 40);
}

#[test]
fn the_report_says_where_why_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut machine = good();
    machine.set("NCCL_PXN_DISABLE", "true");
    machine.edit("proc/self/mounts", "67108864k", "65536k");
    let arguments: Vec<String> = machine
        .write(folder.path())
        .into_iter()
        .filter(|word| word != "--json")
        .collect();
    let ended = run(alone(folder.path()).args(&arguments).envs(&machine.env)).expect_code(10);
    for words in [
        "FAILURE  host.shm",
        "/dev/shm holds 64",
        "--shm-size",
        "env.misread-integer",
        "setting  NCCL_PXN_DISABLE=true",
    ] {
        assert!(
            ended.stdout.contains(words),
            "{words} is missing in\n{}",
            ended.stdout
        );
    }
    assert!(
        ended
            .stdout
            .lines()
            .last()
            .expect("a line")
            .starts_with("not ready: 1 failure, 1 warning, "),
        "{}",
        ended.stdout
    );

    machine.edit("proc/self/mounts", "65536k", "67108864k");
    let arguments: Vec<String> = machine
        .write(folder.path())
        .into_iter()
        .filter(|word| word != "--json")
        .collect();
    run(alone(folder.path()).args(&arguments).envs(&machine.env)).expect_code(0);
    run(alone(folder.path())
        .args(&arguments)
        .arg("--strict")
        .envs(&machine.env))
    .expect_code(10);
}
