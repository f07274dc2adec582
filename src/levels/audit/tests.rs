//! The audit as a whole: against the names of five libraries, rule by rule, and with whatever may
//! be set.

use proptest::prelude::*;

use super::{
    names::tests::{LISTS, list},
    *,
};
use crate::levels::conf::NcclSettings;

fn settings(env: &[(&str, &str)], files: &[(String, String)]) -> NcclSettings {
    let env = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    NcclSettings::new(
        env,
        files
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str())),
    )
}

/// What is found with library `which` of [`LISTS`], in a job.
fn found_by(which: usize, env: &[(&str, &str)], files: &[(&str, &str)]) -> Vec<AuditFinding> {
    let files: Vec<_> = files
        .iter()
        .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
        .collect();
    let (settings, names) = (settings(env, &files), list(LISTS[which].2));
    let known = AuditContext {
        settings: &settings,
        files: &files,
        names: Ok(&names),
        nccl: Some(LISTS[which].1),
        cumem: Some(true),
        adapters: None,
        in_job: true,
    };
    findings(&known)
}

fn found(env: &[(&str, &str)]) -> Vec<AuditFinding> {
    found_by(3, env, &[])
}

fn ids(found: &[AuditFinding]) -> Vec<&str> {
    found.iter().map(|finding| finding.id).collect()
}

const OF_NAMES: [&str; 9] = [
    "env.unknown-name",
    "env.never-existed",
    "env.pytorch",
    "env.removed",
    "env.too-new",
    "env.elsewhere",
    "env.legacy",
    "env.nccl-tests-name",
    "env.retired",
];

#[test]
fn every_rule_has_its_place_and_an_id_of_its_own() {
    for (at, check) in CHECKS.iter().enumerate() {
        assert_eq!(check.rule as usize, at, "{}", check.id);
        assert!(
            check.id.starts_with("env.") && !check.about.is_empty(),
            "{}",
            check.id
        );
        assert!(
            CHECKS[..at].iter().all(|other| other.id != check.id),
            "{}",
            check.id
        );
    }
}

/// A value that means something, by the tables.
fn legal(name: &str) -> &'static str {
    match name {
        "NCCL_P2P_LEVEL" | "NCCL_NET_GDR_LEVEL" => "SYS",
        "NCCL_ALGO" => "Ring",
        "NCCL_PROTO" => "Simple",
        "NCCL_NTHREADS" | "NCCL_LL128_NTHREADS" => "256",
        "NCCL_DEBUG" => "WARN",
        "NCCL_DEBUG_SUBSYS" => "ALL",
        "NCCL_DEBUG_FILE" => "/tmp/%h.%p",
        "NCCL_SOCKET_FAMILY" | "NCCL_IB_ADDR_FAMILY" => "AF_INET",
        "NCCL_CHECK_MODE" | "NCCL_CTA_POLICY" => "DEFAULT",
        "NCCL_LAUNCH_MODE" => "PARALLEL",
        "NCCL_NETDEVS_POLICY" => "MAX:2",
        "NCCL_NET_MERGE_POLICY" | "NCCL_DEBUG_TIMESTAMP_LEVELS" => "ALL",
        "NCCL_IB_HCA" => "=mlx5_1:1,mlx5_10:1",
        "NCCL_SOCKET_IFNAME" | "NCCL_OOB_NET_IFNAME" => "^docker,lo",
        name if name.ends_with("CHUNKSIZE") || name == "NCCL_BUFFSIZE" => "524288",
        _ => "1",
    }
}

#[test]
fn no_name_that_a_library_reads_is_a_finding_with_that_library() {
    for (which, (version, _, names)) in LISTS.into_iter().enumerate() {
        for name in list(names) {
            let found = found_by(which, &[(&name, legal(&name))], &[]);
            let of_name: Vec<_> = found
                .iter()
                .filter(|finding| OF_NAMES.contains(&finding.id))
                .collect();
            assert!(
                of_name
                    .iter()
                    .all(|finding| finding.severity == Severity::Note),
                "{version}: {of_name:?}"
            );
            let of_value = [
                "env.misread-integer",
                "env.ignored-value",
                "env.no-meaning",
                "env.unknown-word",
            ];
            let of_value = found.iter().find(|finding| of_value.contains(&finding.id));
            assert_eq!(of_value, None, "{version}");
        }
    }
}

/// Names that no libnccl of the five reads, with the rule that tells them and a word of its
/// sentence or remedy.
const INVENTED: [(&str, &str, &str); 42] = [
    (
        "NCCL_AVOID_RECORD_STREAMS",
        "env.pytorch",
        "TORCH_NCCL_AVOID_RECORD_STREAMS",
    ),
    (
        "NCCL_DUMP_ON_TIMEOUT",
        "env.pytorch",
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
    ),
    (
        "NCCL_HIGH_PRIORITY",
        "env.pytorch",
        "TORCH_NCCL_HIGH_PRIORITY",
    ),
    (
        "NCCL_ENABLE_MONITORING",
        "env.pytorch",
        "TORCH_NCCL_ENABLE_MONITORING",
    ),
    (
        "NCCL_HEARTBEAT_TIMEOUT_SEC",
        "env.pytorch",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    ),
    (
        "NCCL_TEST_SPLIT_MASK",
        "env.nccl-tests-name",
        "did you mean NCCL_TESTS_SPLIT_MASK?",
    ),
    (
        "NCCL_TESTS_MINBW",
        "env.nccl-tests-name",
        "did you mean NCCL_TESTS_MIN_BW?",
    ),
    (
        "NCCL_TESTS_MASK_SPLIT",
        "env.nccl-tests-name",
        "did you mean NCCL_TESTS_SPLIT_MASK?",
    ),
    (
        "NCCL_TESTS_NOBODY_KNOWS_IT",
        "env.nccl-tests-name",
        "find out which variable was meant",
    ),
    (
        "FI_OFI_RXR_RX_COPY_UNEXP",
        "env.retired",
        "set FI_EFA_RX_COPY_UNEXP instead",
    ),
    (
        "FI_OFI_RXR_RX_COPY_OOO",
        "env.retired",
        "set FI_EFA_RX_COPY_OOO instead",
    ),
    (
        "FI_OFI_RXR_INLINE_MR_ENABLE",
        "env.retired",
        "nothing replaced it",
    ),
    ("NCCL_ALGO_ALL", "env.never-existed", "NCCL_ALGO,"),
    ("NCCL_ALGO_TREE", "env.never-existed", "NCCL_ALGO,"),
    ("NCCL_PXN_ENABLE", "env.never-existed", "NCCL_PXN_DISABLE"),
    ("NCCL_PXN_LEVEL", "env.never-existed", "NCCL_P2P_PXN_LEVEL"),
    (
        "NCCL_COMM_BLOCKING_WAIT",
        "env.never-existed",
        "NCCL_COMM_BLOCKING (since 2.14)",
    ),
    ("NCCL_COMM_WAIT_TIMEOUT", "env.never-existed", "no timeout"),
    ("NCCL_TIMEOUT", "env.never-existed", "no timeout"),
    ("NCCL_RINGS", "env.removed", "NCCL_MIN_CTAS"),
    ("NCCL_BUFFER_SIZE", "env.never-existed", "NCCL_BUFFSIZE"),
    (
        "NCCL_MIN_CHANNELS",
        "env.never-existed",
        "NCCL_MIN_NCHANNELS",
    ),
    ("NCCL_DEBUG_LEVEL", "env.never-existed", "NCCL_DEBUG"),
    (
        "NCCL_NVLS_DISABLE",
        "env.never-existed",
        "NCCL_NVLS_ENABLE=0",
    ),
    (
        "NCCL_IB_NUM_QPS",
        "env.never-existed",
        "NCCL_IB_QPS_PER_CONNECTION",
    ),
    (
        "NCCL_BLOCKING_WAIT",
        "env.pytorch",
        "TORCH_NCCL_BLOCKING_WAIT",
    ),
    (
        "NCCL_ASYNC_ERROR_HANDLING",
        "env.pytorch",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    ),
    (
        "NCCL_DESYNC_DEBUG",
        "env.pytorch",
        "TORCH_NCCL_DESYNC_DEBUG",
    ),
    (
        "NCCL_ENABLE_TIMING",
        "env.pytorch",
        "TORCH_NCCL_ENABLE_TIMING",
    ),
    ("NCCL_IB_CUDA_SUPPORT", "env.removed", "NCCL_NET_GDR_LEVEL"),
    ("NCCL_IB_GDR_LEVEL", "env.removed", "NCCL_NET_GDR_LEVEL"),
    ("NCCL_CHECKS_DISABLE", "env.removed", "2.2.12"),
    ("NCCL_TREE_THRESHOLD", "env.removed", "2.5"),
    ("NCCL_LL_THRESHOLD", "env.removed", "2.5"),
    ("NCCL_SINGLE_RING_THRESHOLD", "env.removed", "2.3"),
    ("NCCL_PROXY_PROFILE", "env.removed", "2.18"),
    ("NCCL_DYNAMIC_CHUNK_SIZE", "env.elsewhere", "Google"),
    ("NCCL_IB_NET_LATENCY", "env.elsewhere", "CoreWeave"),
    (
        "NCCL_DEBUGG",
        "env.unknown-name",
        "did you mean NCCL_DEBUG?",
    ),
    (
        "NCCL_DISABLE_P2P",
        "env.unknown-name",
        "did you mean NCCL_P2P_DISABLE?",
    ),
    (
        "NCCL_NET_GDRLEVEL",
        "env.unknown-name",
        "did you mean NCCL_NET_GDR_LEVEL?",
    ),
    ("NCCL_NOBODY_KNOWS_THIS_ONE", "env.unknown-name", "unset it"),
];

#[test]
fn every_invented_or_removed_name_is_caught_with_the_right_word() {
    for (which, (version, ..)) in LISTS.into_iter().enumerate() {
        for (name, id, word) in INVENTED {
            let found = found_by(which, &[(name, "1")], &[]);
            assert_eq!(ids(&found), [id], "{version}: {name}");
            let AuditFinding {
                sentence,
                remedy,
                name: of,
                ..
            } = &found[0];
            assert!(
                of == name && sentence.starts_with(&format!("{name}=1")),
                "{sentence}"
            );
            assert!(
                format!("{sentence}; {remedy}").contains(word),
                "{sentence}; {remedy}"
            );
        }
        for name in [
            "NCCL_SHM_USE_CUDA_MEMCPY",
            "NCCL_SHM_MEMCPY_MODE",
            "NCCL_CREATE_THREAD_CONTEXT",
        ] {
            let expected: &[&str] = if which < 3 { &[] } else { &["env.removed"] };
            assert_eq!(
                ids(&found_by(which, &[(name, "1")], &[])),
                expected,
                "{version}: {name}"
            );
        }
    }
    assert_eq!(
        ids(&found_by(0, &[("NCCL_WORK_FIFO_DEPTH", "64")], &[])),
        [] as [&str; 0]
    );
    assert_eq!(
        ids(&found_by(1, &[("NCCL_WORK_FIFO_DEPTH", "64")], &[])),
        ["env.removed"]
    );
    assert_eq!(
        ids(&found_by(1, &[("NCCL_AGG_CHANNEL_SIZE", "64")], &[])),
        ["env.removed"]
    );
}

#[test]
fn a_name_that_is_too_new_is_told_with_its_version() {
    for (which, name, first) in [
        (0, "NCCL_RUNTIME_CONNECT", "2.22"),
        (1, "NCCL_PXN_C2C", "2.27"),
        (2, "NCCL_NETDEVS_POLICY", "2.28"),
        (2, "NCCL_IGNORE_NET_MISMATCH", "2.30"),
        (3, "NCCL_IB_RAIL_POLICY", "2.32.3"),
    ] {
        let found = found_by(which, &[(name, "1")], &[]);
        assert_eq!(ids(&found), ["env.too-new"], "{name}");
        let sentence = &found[0].sentence;
        assert!(
            sentence.contains(first) && sentence.contains(LISTS[which].0),
            "{sentence}"
        );
    }
}

#[test]
fn names_of_somebody_else_are_no_finding() {
    let names = [
        "NCCL_HOME",
        "NCCL_LIB_DIR",
        "NCCL_PLUGIN_PATH",
        "NCCL_TESTS_HOME",
        "NCCL_TESTS_SPLIT_MASK",
        "NCCL_ROOT",
        "NCCL_ROOT_DIR",
        "NCCL_DIR",
        "NCCL_INCLUDE_DIR",
        "NCCL_LIB_DIR",
        "NCCL_LIBRARY",
        "NCCL_LIBRARIES",
        "NCCL_VERSION",
        "NCCL_CONF_FILE",
        "NCCL_TESTS_DEVICE",
        "NCCL_GPUDIRECTTCPX_CTRL_DEV",
        "NCCL_FASTRAK_IFNAME",
        "NCCL_SHIMNET_SHIM_LAYERS",
        "NCCL_TUNER_CONFIG_PATH",
        "NCCL_INSPECTOR_ENABLE",
        "NCCL_EP_X",
        "NCCL_IBEXT_DISABLE",
        "NCCL_PLUGIN_P2P",
        "NCCL_SHARP_DISABLE",
        "NCCL_OFI_X",
    ];
    for which in 0..LISTS.len() {
        for name in names {
            assert_eq!(found_by(which, &[(name, "/some where")], &[]), [], "{name}");
        }
        assert_eq!(
            found_by(
                which,
                &[
                    ("OFI_NCCL_PROTOCOL", "x"),
                    ("TORCH_NCCL_BLOCKING_WAIT", "1")
                ],
                &[]
            ),
            []
        );
    }
}

#[test]
fn names_with_a_successor_are_a_note() {
    for name in [
        "NCCL_MIN_NRINGS",
        "NCCL_MAX_NRINGS",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS",
    ] {
        for which in 0..LISTS.len() {
            let found = found_by(which, &[(name, "4")], &[]);
            assert_eq!(ids(&found), ["env.legacy"], "{name}");
            assert_eq!(found[0].severity, Severity::Note);
        }
    }
    assert_eq!(
        ids(&found_by(2, &[("NCCL_CHECK_POINTERS", "0")], &[])),
        [] as [&str; 0]
    );
    assert_eq!(
        ids(&found_by(3, &[("NCCL_CHECK_POINTERS", "0")], &[])),
        ["env.legacy"]
    );
}

/// Settings, and the ids of what is found with them.
fn cases(cases: &[(&str, &[&str])]) {
    for (env, expected) in cases {
        let env: Vec<_> = env
            .split("; ")
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let found = found(&env);
        assert_eq!(ids(&found), *expected, "{env:?}: {found:#?}");
    }
}

#[test]
fn a_value_that_is_not_read_as_it_looks_is_found() {
    cases(&[
        ("NCCL_PXN_DISABLE=true", &["env.misread-integer"]),
        ("NCCL_PXN_DISABLE=1", &[]),
        ("NCCL_COLLNET_NODE_THRESHOLD=two", &["env.misread-integer"]),
        (
            "NCCL_COLLNET_NODE_THRESHOLD=99999999999999999999",
            &["env.ignored-value"],
        ),
        ("NCCL_NET_GDR_LEVEL=sys", &["env.ignored-value"]),
        ("NCCL_NET_GDR_LEVEL=SYS", &[]),
        ("NCCL_NET_GDR_LEVEL=5", &[]),
        ("NCCL_P2P_LEVEL=nvl", &["env.ignored-value"]),
        ("NCCL_P2P_LEVEL=NVL", &[]),
        ("NCCL_BUFFSIZE=5000000", &["env.no-meaning"]),
        ("NCCL_BUFFSIZE=8388608", &[]),
        ("NCCL_BUFFSIZE=8M", &["env.misread-integer"]),
        ("NCCL_P2P_NET_CHUNKSIZE=500000", &["env.no-meaning"]),
        ("NCCL_P2P_NET_CHUNKSIZE=524288", &[]),
        ("NCCL_NTHREADS=100", &["env.no-meaning"]),
        ("NCCL_NTHREADS=1024", &["env.no-meaning"]),
        ("NCCL_NTHREADS=256", &[]),
        ("NCCL_IB_QPS_PER_CONNECTION=0", &["env.no-meaning"]),
        ("NCCL_IB_QPS_PER_CONNECTION=200", &["env.no-meaning"]),
        ("NCCL_IB_QPS_PER_CONNECTION=4", &[]),
        ("NCCL_IB_GID_INDEX=-3", &["env.no-meaning"]),
        ("NCCL_IB_GID_INDEX=3", &[]),
        ("NCCL_IB_GID_INDEX=-1", &[]),
        ("NCCL_IB_TIMEOUT=32", &["env.no-meaning"]),
        ("NCCL_IB_TIMEOUT=22", &[]),
        ("NCCL_IB_RETRY_CNT=8", &["env.no-meaning"]),
        ("NCCL_IB_TC=106", &[]),
        ("NCCL_SOCKET_NTHREADS=17", &["env.no-meaning"]),
        (
            "NCCL_SOCKET_NTHREADS=8; NCCL_NSOCKS_PERTHREAD=9",
            &["env.too-many-sockets"],
        ),
        ("NCCL_SOCKET_NTHREADS=8; NCCL_NSOCKS_PERTHREAD=8", &[]),
        ("NCCL_ALGO=Rings", &["env.failing-word"]),
        ("NCCL_ALGO=ring,tree;allreduce:^tree", &[]),
        ("NCCL_ALGO=ring;tree", &["env.failing-word"]),
        ("NCCL_ALGO=alltoall:ring", &["env.failing-word"]),
        ("NCCL_PROTO=simple,LL128", &[]),
        ("NCCL_PROTO=^LL129", &["env.failing-word"]),
        ("NCCL_DEBUG=debug", &["env.unknown-word"]),
        ("NCCL_DEBUG=warn", &[]),
        (
            "NCCL_DEBUG=WARN; NCCL_DEBUG_SUBSYS=INIT,NETWORK",
            &["env.unknown-word"],
        ),
        ("NCCL_DEBUG=WARN; NCCL_DEBUG_SUBSYS=^NET,COLL", &[]),
        ("NCCL_SOCKET_FAMILY=af_inet", &["env.unknown-word"]),
        ("NCCL_SOCKET_FAMILY=AF_INET6", &[]),
        ("NCCL_NETDEVS_POLICY=MAX:0", &["env.unknown-word"]),
        ("NCCL_NETDEVS_POLICY=max:1", &[]),
        ("NCCL_CTA_POLICY=EFFICIENCY|ZERO", &[]),
    ]);
    let old = found_by(1, &[("NCCL_ALGO", "Rings")], &[]);
    assert_eq!(
        ids(&old),
        ["env.unknown-word"],
        "before 2.24 it is passed over"
    );
}

#[test]
fn lists_and_stray_characters_are_found() {
    cases(&[
        ("NCCL_IB_HCA=mlx5_1,mlx5_2", &["env.prefix-match"]),
        ("NCCL_IB_HCA=mlx5_1:1", &["env.prefix-match"]),
        ("NCCL_IB_HCA==mlx5_1,mlx5_2", &[]),
        ("NCCL_IB_HCA=^=mlx5_1", &[]),
        ("NCCL_IB_HCA=mlx5_0", &[]),
        ("NCCL_IB_HCA=mlx5", &[]),
        ("NCCL_IB_HCA=ibp", &[]),
        ("NCCL_IB_HCA==^mlx5_1", &["env.list-syntax"]),
        ("NCCL_IB_HCA==mlx5_0,=mlx5_1", &["env.list-syntax"]),
        ("NCCL_IB_HCA==mlx5_0, mlx5_1", &["env.list-syntax"]),
        ("NCCL_SOCKET_IFNAME=^lo,^docker", &["env.list-syntax"]),
        ("NCCL_SOCKET_IFNAME=^lo,docker", &[]),
        ("NCCL_SOCKET_IFNAME=eth0", &[]),
        ("NCCL_SOCKET_IFNAME=", &["env.empty"]),
        ("NCCL_SOCKET_IFNAME=\"eth0\"", &["env.stray-characters"]),
        (
            "NCCL_SOCKET_IFNAME=eth0 # management",
            &["env.stray-characters"],
        ),
        ("NCCL_NET_GDR_LEVEL=SYS ", &["env.stray-characters"]),
        ("NCCL_TOPO_FILE=/x y.xml", &[]),
        ("NCCL_TOPO_FILE='/x.xml'", &["env.stray-characters"]),
        ("NCCL_NET=", &["env.fails"]),
        ("NCCL_IB_TIMEOUT=", &[]),
        ("NCCL_IB_TIMEOUT=22 ", &[]),
    ]);
    let remedy = |value| found(&[("NCCL_IB_HCA", value)])[0].remedy.clone();
    assert_eq!(
        remedy("=^mlx5_1, mlx5_2"),
        "write NCCL_IB_HCA=^=mlx5_1,mlx5_2"
    );
    assert_eq!(
        remedy("^mlx5_1,mlx5_2"),
        "write NCCL_IB_HCA=^=mlx5_1,mlx5_2"
    );
}

#[test]
fn adapters_that_are_known_decide_whether_a_list_takes_others() {
    let of = |value: &str, adapters: &[&str]| {
        let settings = settings(&[("NCCL_IB_HCA", value)], &[]);
        let adapters: Vec<String> = adapters
            .iter()
            .map(|adapter| (*adapter).to_owned())
            .collect();
        let adapters = Some(adapters.as_slice());
        findings(&AuditContext {
            settings: &settings,
            files: &[],
            names: Err("none"),
            nccl: None,
            cumem: None,
            adapters,
            in_job: false,
        })
    };
    assert_eq!(of("mlx5_1", &["mlx5_0", "mlx5_1"]), []);
    assert_eq!(of("mlx5_1,mlx5_10", &["mlx5_0", "mlx5_1", "mlx5_10"]), []);
    let found = of("^mlx5_1:1", &["mlx5_0", "mlx5_1", "mlx5_10"]);
    assert_eq!(ids(&found), ["env.prefix-match"]);
    assert!(
        found[0].sentence.ends_with("mlx5_1 also means mlx5_10"),
        "{}",
        found[0].sentence
    );
    assert_eq!(found[0].remedy, "write NCCL_IB_HCA=^=mlx5_1:1");
    let long: Vec<String> = (1..16).map(|at| format!("mlx5_{at}:1")).collect();
    let found = of(&long.join(","), &["mlx5_1", "mlx5_100"]);
    assert_eq!(
        found[0].remedy,
        format!("write NCCL_IB_HCA=={}", long.join(","))
    );
}

#[test]
fn contradictions_are_found() {
    cases(&[
        (
            "NCCL_P2P_PXN_LEVEL=1; NCCL_RUNTIME_CONNECT=0",
            &["env.crashes"],
        ),
        ("NCCL_P2P_DISABLE=1", &["env.silences-pxn"]),
        (
            "NCCL_P2P_DISABLE=1; NCCL_P2P_LEVEL=SYS",
            &["env.silences-pxn", "env.no-effect"],
        ),
        ("NCCL_CROSS_NIC=1", &["env.silences-rings"]),
        (
            "NCCL_PXN_DISABLE=1; NCCL_P2P_PXN_LEVEL=2",
            &["env.no-effect"],
        ),
        (
            "NCCL_IB_DISABLE=1; NCCL_IB_HCA==mlx5_0",
            &["env.silences-pxn", "env.no-effect"],
        ),
        (
            "NCCL_NET=Socket; NCCL_IB_HCA==mlx5_0",
            &["env.silences-pxn", "env.no-effect"],
        ),
        (
            "NCCL_NET=Socket; NCCL_NET_GDR_LEVEL=PIX",
            &["env.silences-pxn", "env.no-effect"],
        ),
        (
            "NCCL_NET=IB; NCCL_IB_DISABLE=1; NCCL_PXN_DISABLE=1",
            &["env.fails"],
        ),
        ("NCCL_MIN_CTAS=32; NCCL_MAX_CTAS=8", &["env.min-above-max"]),
        ("NCCL_MIN_CTAS=8; NCCL_MAX_CTAS=8", &[]),
        (
            "NCCL_MIN_P2P_NCHANNELS=32; NCCL_MAX_P2P_NCHANNELS=8",
            &["env.min-above-max"],
        ),
        ("NCCL_ALGO=NVLS; NCCL_NVLS_ENABLE=0", &["env.fails"]),
        (
            "NCCL_IB_GID_INDEX=3; NCCL_IB_ADDR_FAMILY=AF_INET",
            &["env.no-effect"],
        ),
        (
            "NCCL_LOCAL_REGISTER=1; NCCL_PXN_DISABLE=0",
            &["env.no-effect"],
        ),
        ("NCCL_LOCAL_REGISTER=1; NCCL_PXN_DISABLE=1", &[]),
        ("NCCL_DEBUG_FILE=/x.%h.%p", &["env.no-effect"]),
    ]);
}

#[test]
fn debugging_left_in_a_job_is_found() {
    cases(&[
        ("NCCL_DEBUG=INFO", &["env.debug-output"]),
        ("NCCL_DEBUG=trace", &["env.debug-output"]),
        ("NCCL_DEBUG=INFO; NCCL_DEBUG_FILE=/x/%h.%p.log", &[]),
        (
            "NCCL_DEBUG=INFO; NCCL_DEBUG_FILE=/x/%h.log",
            &["env.debug-file-shared"],
        ),
        (
            "NCCL_DEBUG=INFO; NCCL_DEBUG_FILE=/x/%p.log",
            &["env.debug-file-shared"],
        ),
        (
            "NCCL_DEBUG=INFO; NCCL_DEBUG_FILE=/x/%%p.%h",
            &["env.debug-file-shared"],
        ),
        (
            "NCCL_DEBUG=INFO; NCCL_DEBUG_FILE=/x/%h.%p; NCCL_DEBUG_SUBSYS=NET",
            &["env.subsystems-hidden"],
        ),
        (
            "NCCL_DEBUG=INFO; NCCL_DEBUG_FILE=/x/%h.%p; NCCL_DEBUG_SUBSYS=INIT,ENV,NET",
            &[],
        ),
        (
            "NCCL_DEBUG=INFO; NCCL_DEBUG_FILE=/x/%h.%p; NCCL_DEBUG_SUBSYS=^COLL",
            &[],
        ),
        (
            "NCCL_DEBUG=INFO; NCCL_DEBUG_FILE=/x/%h.%p; NCCL_DEBUG_SUBSYS=^ENV",
            &["env.subsystems-hidden"],
        ),
        ("NCCL_IGNORE_NET_MISMATCH=1", &["env.ignore-net-mismatch"]),
        ("NCCL_IGNORE_NET_MISMATCH=0", &[]),
        ("NCCL_CHECK_MODE=DEBUG_GLOBAL", &["env.debug-left"]),
        ("NCCL_CHECK_MODE=DEFAULT", &[]),
        ("NCCL_CHECK_POINTERS=1", &["env.debug-left", "env.legacy"]),
        ("NCCL_LAUNCH_MODE=GROUP", &["env.debug-left"]),
        ("NCCL_GRAPH_DUMP_FILE=/tmp/g.xml", &["env.debug-left"]),
    ]);
    let settings = settings(
        &[("NCCL_DEBUG", "INFO"), ("NCCL_GRAPH_DUMP_FILE", "/x")],
        &[],
    );
    let by_hand = AuditContext {
        settings: &settings,
        files: &[],
        names: Err("no libnccl"),
        nccl: None,
        cumem: None,
        adapters: None,
        in_job: false,
    };
    assert_eq!(findings(&by_hand), []);
}

#[test]
fn lines_of_files_are_found() {
    let file = "export NCCL_A=1\n NCCL_IB_TC=106\nNCCL_IB_SL =0\n# export \
                NCCL_B=1\nNCCL_ALGO=Ring\nLD_PRELOAD=x\nNCCL_CROSS_NIC=2\n";
    let found = found_by(
        3,
        &[("NCCL_ALGO", "Tree"), ("NCCL_CROSS_NIC", "2")],
        &[("/etc/nccl.conf", file)],
    );
    assert_eq!(
        ids(&found),
        [
            "env.dead-line",
            "env.dead-line",
            "env.dead-line",
            "env.file-overridden"
        ]
    );
    let names: Vec<_> = found.iter().map(|finding| finding.name.as_str()).collect();
    assert_eq!(names, ["NCCL_A", "NCCL_IB_SL", "NCCL_IB_TC", "NCCL_ALGO"]);
    assert_eq!(
        found[3].sentence,
        "/etc/nccl.conf sets NCCL_ALGO=Ring, but the environment sets Tree, which wins"
    );
    assert_eq!(
        found[2].remedy,
        "write NCCL_IB_TC=106 at the start of the line"
    );
    let files = [
        ("mine", "NCCL_NET_GDR_LEVEL=sys"),
        ("/etc/nccl.conf", "NCCL_NET_GDR_LEVEL=PIX"),
    ];
    let found = found_by(3, &[], &files);
    assert_eq!(ids(&found), ["env.ignored-value", "env.file-overridden"]);
    assert!(
        found[0]
            .sentence
            .starts_with("NCCL_NET_GDR_LEVEL=sys (in mine) is silently ignored"),
        "{}",
        found[0].sentence
    );
}

#[test]
fn without_a_library_names_are_not_judged_by_it() {
    let settings = settings(
        &[
            ("NCCL_DEBUGG", "1"),
            ("NCCL_PXN_ENABLE", "1"),
            ("NCCL_TREE_THRESHOLD", "0"),
        ],
        &[],
    );
    let known = AuditContext {
        settings: &settings,
        files: &[],
        names: Err("no libnccl is found"),
        nccl: None,
        cumem: None,
        adapters: None,
        in_job: true,
    };
    assert_eq!(ids(&findings(&known)), ["env.never-existed"]);
    let not: Vec<_> = CHECKS
        .iter()
        .filter(|check| known.not_applicable(check).is_some())
        .map(|check| check.id)
        .collect();
    assert_eq!(not, ["env.unknown-name", "env.removed", "env.too-new"]);
    assert_eq!(
        known.not_applicable(&CHECKS[0]).as_deref(),
        Some("no libnccl is found")
    );
}

#[test]
fn what_providers_publish_is_without_warning() {
    // facts: the settings that AWS, Azure, Google, Oracle and CoreWeave publish for their machines.
    for env in [
        "NCCL_BUFFSIZE=8388608; NCCL_P2P_NET_CHUNKSIZE=524288; \
         NCCL_NVLSTREE_MAX_CHUNKSIZE=524288; NCCL_NVLS_CHUNKSIZE=524288; NCCL_NET_FORCE_FLUSH=0; \
         NCCL_NETDEVS_POLICY=max:1; NCCL_PROTO=simple; NCCL_TUNER_PLUGIN=/opt/x.so",
        "NCCL_IB_PCI_RELAXED_ORDERING=1; NCCL_TOPO_FILE=/opt/microsoft/ndv5/topo.xml; \
         NCCL_IGNORE_CPU_AFFINITY=1; NCCL_SOCKET_IFNAME=eth0; NCCL_NET_GDR_LEVEL=5",
        "NCCL_NET=GPUDirectTCPX_v7; NCCL_CROSS_NIC=0; NCCL_ALGO=Ring; NCCL_PROTO=Simple; \
         NCCL_NET_GDR_LEVEL=PIX; NCCL_P2P_PXN_LEVEL=0; NCCL_NSOCKS_PERTHREAD=4; \
         NCCL_SOCKET_NTHREADS=1; NCCL_BUFFSIZE=4194304; NCCL_P2P_NET_CHUNKSIZE=524288; \
         NCCL_P2P_PCI_CHUNKSIZE=524288; NCCL_P2P_NVL_CHUNKSIZE=1048576; \
         NCCL_GPUDIRECTTCPX_FORCE_ACK=0",
        "NCCL_PROTO=Simple,LL128; NCCL_TUNER_PLUGIN=libnccl-tuner.so; \
         NCCL_NVLSTREE_MAX_CHUNKSIZE=131072; NCCL_NVLS_ENABLE=1; NCCL_FASTRAK_NUM_FLOWS=2; \
         NCCL_MIN_CTAS=4",
        "NCCL_CUMEM_ENABLE=0; NCCL_IB_SPLIT_DATA_ON_QPS=0; NCCL_IB_QPS_PER_CONNECTION=1; \
         NCCL_IB_GID_INDEX=3; NCCL_IB_TC=41; NCCL_IB_SL=0; NCCL_IB_TIMEOUT=22; \
         NCCL_NET_PLUGIN=none; NCCL_SOCKET_IFNAME=eth0; NCCL_IGNORE_CPU_AFFINITY=1; \
         NCCL_IB_HCA==mlx5_0,mlx5_1",
        "NCCL_SOCKET_IFNAME=eth0; NCCL_IB_HCA=ibp; NCCL_NET_PLUGIN=none; NCCL_COLLNET_ENABLE=0; \
         NCCL_IB_ADAPTIVE_ROUTING=1; NCCL_IB_TC=96; NCCL_IB_ADDR_FAMILY=AF_INET6",
    ] {
        cases(&[(env, &[])]);
    }
}

#[test]
fn findings_have_one_order_and_one_form() {
    let env = [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_CHECKS_DISABLE", "1"),
        ("NCCL_PXN_DISABLE", "yes"),
        ("NCCL_ALGO", "x"),
    ];
    let found = found(&env);
    let mut turned = env;
    turned.reverse();
    assert_eq!(found, super::tests::found(&turned));
    assert_eq!(
        ids(&found),
        [
            "env.failing-word",
            "env.removed",
            "env.misread-integer",
            "env.debug-output"
        ]
    );
    for AuditFinding {
        sentence, remedy, ..
    } in found
    {
        assert!(
            !sentence.ends_with('.') && !remedy.ends_with('.') && !remedy.is_empty(),
            "{sentence}; {remedy}"
        );
    }
}

fn name() -> impl Strategy<Value = String> {
    let known: Vec<String> = LISTS.iter().flat_map(|(_, _, names)| list(names)).collect();
    prop_oneof![
        proptest::sample::select(known),
        "NCCL_[A-Z0-9_]{0,40}",
        "NCCL_.{0,60}"
    ]
}

proptest! {
    #[test]
    fn whatever_is_set_is_answered(
        env in proptest::collection::vec((name(), prop_oneof![".{0,40}", "[-+^=,:; a-zA-Z0-9#'\"]{0,30}"]), 0..8),
        text in "(export )?[ =#\nA-Z_a-z0-9\u{e9}]{0,80}",
        which in 0..LISTS.len(),
    ) {
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let found = found_by(which, &env, &[("/etc/nccl.conf", &text)]);
        for finding in &found {
            prop_assert!(!finding.sentence.contains('\n') && !finding.remedy.contains('\n'), "{finding:?}");
        }
        prop_assert_eq!(found.clone(), found_by(which, &env, &[("/etc/nccl.conf", &text)]));
    }
}
