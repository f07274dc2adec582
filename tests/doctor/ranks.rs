//! Several ranks: what must be the same on them, and what one report says of all.

use std::{collections::BTreeSet, fs, path::Path};

use pxnbench::{
    doctor,
    facts::{health, ranks::RankFacts, start::StartFacts},
    levels::conf::NcclSettings,
    world::placement::ProcessIdentity,
};
use serde_json::json;

use super::{
    broken_machines::BROKEN_SECOND_MACHINES,
    changes::*,
    common::{BINARY, Ended, has_mpi, launcher, run},
    found_by,
    machine::*,
};

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
    for broken in BROKEN_SECOND_MACHINES {
        let mut other = good();
        (broken.change)(&mut other);
        let one_node = ["gpu.siblings", "gpu.same"].contains(&broken.check);
        let found = findings(&agree(&good(), &other, one_node));
        let mut expected = found_by(broken);
        expected.extend(always());
        assert_eq!(found, expected, "{}", broken.check);
    }
    // mpirun's helpers are a step of their own, which the ranks inherit: no fault.
    let mut inherited = good();
    inherited.set("SLURM_STEP_NUM_TASKS", "1");
    assert_eq!(findings(&agree(&inherited, &inherited, false)), always());
    // What both have.
    let both = |change: Change| {
        let mut machine = good();
        change(&mut machine);
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
    let rows = |devices: &[&str], change: Change| {
        let mut machines: Vec<Machine> = devices.iter().map(|devices| bound(devices)).collect();
        machines.iter_mut().for_each(change);
        let ended = ranks(&machines.iter().collect::<Vec<_>>(), true);
        let all = report_rows(&ended);
        ["gpu.count", "gpu.siblings", "gpu.shared"].map(|id| all[id][0].clone())
    };
    let verdict = |devices: &[&str], change: Change| rows(devices, change).map(|row| row.verdict);
    let nothing: Change = |_| ();
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
    let shares: Change = |m| {
        m.nccl = 23007;
        m.set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    };
    let [count, _, shared] = rows(&["0,1", "0,1", "0,1"], shares);
    assert!(
        count.verdict == "ok" && count.message.contains("NCCL_MULTI_RANK_GPU_ENABLE=1"),
        "{count:?}"
    );
    assert!(shared.verdict == "ok", "{shared:?}");
    let [_, _, shared] = rows(&["0", "0"], shares);
    assert!(
        shared.verdict == "ok" && shared.message.contains("NCCL_MULTI_RANK_GPU_ENABLE=1"),
        "{shared:?}"
    );
    let too_old: Change = |m| m.set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
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
    other.file("etc/topo.xml", "");
    other.file("tmp/earlier", "");
    let ended = agree(&good(), &other, false);
    assert_eq!(findings(&ended), always);
    let rows = report_rows(&ended).remove("env.same").expect("it");
    assert!(
        rows[0].verdict == "ok"
            && rows[0].message.contains("NCCL_TOPO_FILE")
            && rows[0].message.contains("NCCL_IB_HCA"),
        "{rows:?}"
    );

    // Open modules: one rank with and one without nvidia-peermem.
    let (mut with, mut without) = (good(), good());
    with.open_modules();
    without.open_modules();
    without.file("proc/modules", "nvidia 1 0 - Live 0x0\n");
    let ended = agree(&with, &without, false);
    assert_eq!(findings(&ended), always);
    assert!(
        report_rows(&ended)["gdr.module-same"][0]
            .message
            .contains("dma-buf"),
        "{}",
        ended.stdout
    );

    // Nodes of one NVLink cluster without a channel: NCCL would fail, where a node by itself only
    // might.
    let mut clustered = good();
    clustered.cluster();
    assert_eq!(
        report_rows(&agree(&clustered, &clustered, false))["gpu.imex"][0].verdict,
        "failure"
    );
    assert_eq!(
        report_rows(&agree(&clustered, &clustered, true))["gpu.imex"][0].verdict,
        "warning"
    );

    // Bridges over some GPUs of one node, none on the other's: a difference of nodes, not of
    // siblings.
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

/// Two ranks of one job that differ in what one binary cannot differ in: the check is applied to
/// what they would say.
#[test]
fn two_mpis_and_two_clocks_are_found() {
    let subject = |rank: u32, mpi: &str, clock: f64| RankFacts {
        rank,
        world: 2,
        host: format!("n{rank}"),
        node: rank,
        local_size: 1,
        mpi: mpi.into(),
        nccl: Err("none".into()),
        settings: NcclSettings::default(),
        audited: Vec::new(),
        not_audited: Vec::new(),
        clock,
        health: health::gather(
            Path::new("/nowhere"),
            &|_| None,
            None,
            &NcclSettings::default(),
        ),
        start: StartFacts::default(),
        identity: ProcessIdentity {
            host: format!("n{rank}"),
            host_id: format!("n{rank}"),
            pid: rank,
            gpus: Vec::new(),
            first_gpu: None,
        },
    };
    let verdict = |id: &str, second: RankFacts| {
        let rows = doctor::examine(&[subject(0, "Open MPI v4.1.4", 1e9), second]);
        let row = rows.into_iter().find(|row| row.id == id).expect("it");
        (row.verdict.name(), row.verdict.evidence().to_owned())
    };
    let (word, message) = verdict("mpi.same", subject(1, "Open MPI v5.0.3", 1e9));
    assert!(
        word == "FAILURE" && message.contains("v4.1.4 on n0") && message.contains("v5.0.3 on n1"),
        "{message}"
    );
    assert_eq!(
        verdict("mpi.same", subject(1, "Open MPI v4.1.4", 1e9)).0,
        "ok"
    );
    let (word, message) = verdict("host.clock", subject(1, "Open MPI v4.1.4", 1e9 - 7.25));
    assert!(
        word == "warning" && message.contains("7.25 s") && message.contains("n1"),
        "{message}"
    );
    let (word, message) = verdict("host.clock", subject(1, "Open MPI v4.1.4", 1e9 + 0.5));
    assert!(word == "ok" && message.contains("0.5"), "{message}");
}

#[test]
fn ports_and_interfaces_of_two_nodes_are_those_that_nccl_takes() {
    if !has_mpi() {
        return;
    }
    let pair = |change: Change, change_second: Change| {
        let (mut first, mut second) = (good(), good());
        change(&mut first);
        change_second(&mut second);
        let ended = agree(&first, &second, false);
        let rows = report_rows(&ended);
        move |id: &str| rows[id][0].clone()
    };
    let quiet: Change = |m| drop(m.env.remove("NCCL_SOCKET_IFNAME"));

    // What NCCL_IB_HCA leaves out may differ; other names are legal; a node without a port is not.
    assert_eq!(
        pair(|_| {}, |m| beside(m, "InfiniBand", "4: ACTIVE"))("net.ports-same").verdict,
        "ok"
    );
    let all: Change = |m| drop(m.env.remove("NCCL_IB_HCA"));
    let more: Change = |m| {
        beside(m, "InfiniBand", "4: ACTIVE");
        m.env.remove("NCCL_IB_HCA");
    };
    assert_eq!(pair(all, more)("net.ports-same").verdict, "warning");
    let row = pair(|_| {}, |m| m.set("NCCL_IB_HCA", "=mlx5_7"))("net.ports-same");
    assert!(
        row.verdict == "failure" && row.message.contains("none on"),
        "{row:?}"
    );
    let bare: Change = |m| without_adapters(m, "");
    assert_eq!(pair(bare, bare)("net.ports-same").verdict, "not_applicable");

    // ib0 comes first where nobody names an interface, with whatever address it has.
    let row = pair(quiet, ipoib)("net.family-same");
    assert!(
        row.verdict == "failure" && row.message.contains("IPv4") && row.message.contains("IPv6"),
        "{row:?}"
    );
    let ipv4: Change = |m| m.set("NCCL_SOCKET_FAMILY", "AF_INET");
    let ipoib_ipv4: Change = |m| {
        ipoib(m);
        m.set("NCCL_SOCKET_FAMILY", "AF_INET");
    };
    assert_eq!(pair(ipv4, ipoib_ipv4)("net.family-same").verdict, "ok");
    let lo: Change = |m| m.set("NCCL_SOCKET_IFNAME", "^docker");
    assert_eq!(pair(lo, lo)("net.interface").verdict, "failure");
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
    let all = report_rows(&agree(&unknown, &unknown, false));
    for id in ["gpu.same", "gpu.nvlink-same", "gdr.module-same"] {
        assert_eq!(all[id][0].verdict, "not_applicable", "{id}: {:?}", all[id]);
    }
}
