//! Machines that look broken and are not, and what each rule of the audit finds.

use super::machine::*;

/// A machine that looks broken to a check and is not.
pub(super) struct FalsePositive {
    pub(super) check: &'static str,
    pub(super) change: Change,
    /// A part of the message in which the check says so.
    pub(super) message: &'static str,
}

pub(super) const FALSE_POSITIVES: &[FalsePositive] = &[
    FalsePositive {
        check: "gpu.nvlink",
        change: |m| m.nvlinks([0, 0], "unknown"),
        message: "no NVLink is up",
    },
    FalsePositive {
        check: "gpu.nvlink",
        change: |m| m.nvlinks([2, 2], "gpu"),
        message: "2 of 4",
    },
    FalsePositive {
        check: "gpu.count",
        change: |m| {
            m.set(
                "CUDA_VISIBLE_DEVICES",
                "MIG-8a5b7c2e-0000-0000-0000-000000000001",
            )
        },
        message: "1 GPU",
    },
    FalsePositive {
        check: "gpu.count",
        change: |m| m.set("CUDA_VISIBLE_DEVICES", "MIG-GPU-1000/1/0"),
        message: "1 GPU",
    },
    FalsePositive {
        check: "gpu.imex",
        change: |m| {
            m.cluster();
            m.file("dev/nvidia-caps-imex-channels/channel3", "");
        },
        message: "channel3",
    },
    FalsePositive {
        check: "gpu.imex",
        change: |m| {
            m.cluster();
            m.set("NCCL_MNNVL_ENABLE", "0");
        },
        message: "NCCL_MNNVL_ENABLE=0",
    },
    // The driver makes room for channels on every machine.
    FalsePositive {
        check: "gpu.imex",
        change: |m| m.file("proc/devices", "242 nvidia-caps-imex-channels\n"),
        message: "no GPU is in",
    },
    FalsePositive {
        check: "gdr.module",
        change: |m| {
            m.open_modules();
            m.file("proc/modules", "nvidia 1 0 - Live 0x0\n");
        },
        message: "dma-buf",
    },
    FalsePositive {
        check: "gdr.module-name",
        change: |m| {
            m.open_modules();
            m.nccl = 22203;
        },
        message: "dma-buf",
    },
    FalsePositive {
        check: "name.file",
        change: |m| {
            m.set("NCCL_TOPO_FILE", "/opt/topo.xml");
            m.file("opt/topo.xml", "");
        },
        message: "all of them",
    },
    FalsePositive {
        check: "name.output",
        change: |m| {
            m.set("NCCL_DEBUG", "WARN");
            m.set("NCCL_DEBUG_FILE", "/logs/%h.%p");
            m.file("logs/earlier", "");
        },
        message: "all of them",
    },
    FalsePositive {
        check: "name.plugin",
        change: |m| m.set("NCCL_TUNER_PLUGIN", "NONE"),
        message: "all of them",
    },
    FalsePositive {
        check: "name.plugin",
        change: |m| {
            m.set("NCCL_TUNER_PLUGIN", "acme");
            m.file("usr/lib64/libnccl-tuner-acme.so", "");
        },
        message: "all of them",
    },
    FalsePositive {
        check: "name.network",
        change: |m| m.set("NCCL_NET", "ib"),
        message: "IB is part of NCCL",
    },
    FalsePositive {
        check: "name.network",
        change: |m| {
            m.set("NCCL_NET", "AWS Libfabric");
            m.file("usr/lib64/libnccl-net.so", "");
        },
        message: "/usr/lib64/libnccl-net.so",
    },
    FalsePositive {
        check: "name.network",
        change: |m| {
            m.set("NCCL_NET", "acme");
            m.set("NCCL_NET_PLUGIN", "acme");
            m.file("usr/lib64/libnccl-net-acme.so", "");
        },
        message: "libnccl-net-acme.so",
    },
    FalsePositive {
        check: "start.cuda",
        change: |m| {
            m.nccl = CUDA_13_SINCE;
            m.edit("proc/driver/nvidia/version", "570.86.15", "580.65.06");
        },
        message: "libnccl needs 13.0",
    },
    FalsePositive {
        check: "lib.plugin",
        change: |m| {
            m.set("NCCL_NET_PLUGIN", "/opt/x/libfoo.so");
            m.file("opt/x/libfoo.so", "");
        },
        message: "/opt/x/libfoo.so",
    },
    FalsePositive {
        check: "lib.plugin",
        change: |m| {
            m.set("NCCL_NET_PLUGIN", "acme");
            m.file("usr/lib64/libnccl-net-acme.so", "");
        },
        message: "/usr/lib64/",
    },
    FalsePositive {
        check: "lib.plugin",
        change: |m| {
            m.set("NCCL_NET_PLUGIN", "acme");
            m.file(
                "etc/ld.so.cache",
                "glibc-ld.so.cache1.1\x01\x02libnccl-net-acme.so\0/opt/acme/libnccl-net-acme.so\0",
            );
            m.file("opt/acme/libnccl-net-acme.so", "");
        },
        message: "/opt/acme/",
    },
    FalsePositive {
        check: "slurm.kill",
        change: |m| m.scontrol("echo 'KillOnBadExit           = 1'"),
        message: "KillOnBadExit=1",
    },
    FalsePositive {
        check: "slurm.kill",
        change: |m| m.scontrol("echo no controller >&2; exit 1"),
        message: "no controller",
    },
    FalsePositive {
        check: "slurm.memory",
        change: |m| {
            m.env.remove("SLURM_MEM_PER_NODE");
            m.set("SLURM_MEM_PER_CPU", "0");
        },
        message: "all",
    },
];

/// A machine that one rule of the audit complains about.
pub(super) struct RuleCase {
    pub(super) rule: &'static str,
    /// Variables and their values.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// What else the machine has.
    pub(super) change: Change,
}

/// One machine for each rule, in the order of the rules.
pub(super) const RULES: &[RuleCase] = &[
    RuleCase {
        rule: "env.unknown-name",
        settings: &[("NCCL_NOBODY_KNOWS_THIS_ONE", "1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.never-existed",
        settings: &[("NCCL_PXN_LEVEL", "1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.pytorch",
        settings: &[("NCCL_BLOCKING_WAIT", "1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.removed",
        settings: &[("NCCL_RINGS", "0 1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.too-new",
        settings: &[("NCCL_MULTI_RANK_GPU_ENABLE", "1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.elsewhere",
        settings: &[("NCCL_DYNAMIC_CHUNK_SIZE", "1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.legacy",
        settings: &[("NCCL_MIN_NCHANNELS", "4")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.misread-integer",
        settings: &[("NCCL_PXN_DISABLE", "true")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.ignored-value",
        settings: &[("NCCL_NET_GDR_LEVEL", "sys")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.no-meaning",
        settings: &[("NCCL_BUFFSIZE", "5000000")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.unknown-word",
        settings: &[("NCCL_SOCKET_FAMILY", "af_inet")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.failing-word",
        settings: &[("NCCL_ALGO", "Rings")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.stray-characters",
        settings: &[("NCCL_TOPO_FILE", "'/x.xml'")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.empty",
        settings: &[("NCCL_TOPO_FILE", "")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.list-syntax",
        settings: &[("NCCL_SOCKET_IFNAME", "^lo,^docker")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.prefix-match",
        settings: &[("NCCL_IB_HCA", "mlx5_1")],
        change: |m| {
            port(
                &mut m.files,
                "mlx5_10",
                "InfiniBand",
                "4: ACTIVE",
                "400 Gb/sec (4X NDR)",
            )
        },
    },
    RuleCase {
        rule: "env.crashes",
        settings: &[("NCCL_P2P_PXN_LEVEL", "1"), ("NCCL_RUNTIME_CONNECT", "0")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.fails",
        settings: &[("NCCL_NET", "")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.silences-pxn",
        settings: &[("NCCL_P2P_DISABLE", "1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.silences-rings",
        settings: &[("NCCL_CROSS_NIC", "1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.no-effect",
        settings: &[("NCCL_PXN_DISABLE", "1"), ("NCCL_P2P_PXN_LEVEL", "2")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.min-above-max",
        settings: &[("NCCL_MIN_CTAS", "32"), ("NCCL_MAX_CTAS", "8")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.too-many-sockets",
        settings: &[
            ("NCCL_SOCKET_NTHREADS", "8"),
            ("NCCL_NSOCKS_PERTHREAD", "9"),
        ],
        change: |_| (),
    },
    RuleCase {
        rule: "env.ignore-net-mismatch",
        settings: &[("NCCL_IGNORE_NET_MISMATCH", "1")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.debug-output",
        settings: &[("NCCL_DEBUG", "INFO")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.debug-file-shared",
        settings: &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", "/x.log")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.subsystems-hidden",
        settings: &[
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_FILE", "/x.%h.%p"),
            ("NCCL_DEBUG_SUBSYS", "NET"),
        ],
        change: |_| (),
    },
    RuleCase {
        rule: "env.debug-left",
        settings: &[("NCCL_GRAPH_DUMP_FILE", "/x.xml")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.dead-line",
        settings: &[],
        change: |m| m.file("etc/nccl.conf", "export NCCL_PXN_DISABLE=1\n"),
    },
    RuleCase {
        rule: "env.file-overridden",
        settings: &[],
        change: |m| m.file("etc/nccl.conf", "NCCL_SOCKET_IFNAME=eth7\n"),
    },
    RuleCase {
        rule: "env.nccl-tests-name",
        settings: &[("NCCL_TESTS_MINBW", "300")],
        change: |_| (),
    },
    RuleCase {
        rule: "env.retired",
        settings: &[("FI_OFI_RXR_RX_COPY_UNEXP", "1")],
        change: |_| (),
    },
];
