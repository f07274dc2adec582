//! What looks like a fault and is none, and what each rule of the audit finds.

use super::machine::*;

/// What looks like a fault and is none: the check that has to say so, and a word of what it says.
pub(super) const NO_FAULT: &[(&str, Spoil, &str)] = &[
    (
        "gpu.nvlink",
        |m| m.nvlinks([0, 0], "unknown"),
        "no NVLink is up",
    ),
    ("gpu.nvlink", |m| m.nvlinks([2, 2], "gpu"), "2 of 4"),
    (
        "gpu.count",
        |m| {
            m.set(
                "CUDA_VISIBLE_DEVICES",
                "MIG-8a5b7c2e-0000-0000-0000-000000000001",
            )
        },
        "1 GPU",
    ),
    (
        "gpu.count",
        |m| m.set("CUDA_VISIBLE_DEVICES", "MIG-GPU-1000/1/0"),
        "1 GPU",
    ),
    (
        "gpu.imex",
        |m| {
            m.cluster();
            m.file("dev/nvidia-caps-imex-channels/channel3", "");
        },
        "channel3",
    ),
    (
        "gpu.imex",
        |m| {
            m.cluster();
            m.set("NCCL_MNNVL_ENABLE", "0");
        },
        "NCCL_MNNVL_ENABLE=0",
    ),
    // The driver makes room for channels on every machine.
    (
        "gpu.imex",
        |m| m.file("proc/devices", "242 nvidia-caps-imex-channels\n"),
        "no GPU is in",
    ),
    (
        "gdr.module",
        |m| {
            m.open_modules();
            m.file("proc/modules", "nvidia 1 0 - Live 0x0\n");
        },
        "dma-buf",
    ),
    (
        "gdr.module-name",
        |m| {
            m.open_modules();
            m.nccl = 22203;
        },
        "dma-buf",
    ),
    (
        "lib.plugin",
        |m| {
            m.set("NCCL_NET_PLUGIN", "/opt/x/libfoo.so");
            m.file("opt/x/libfoo.so", "");
        },
        "/opt/x/libfoo.so",
    ),
    (
        "lib.plugin",
        |m| {
            m.set("NCCL_NET_PLUGIN", "acme");
            m.file("usr/lib64/libnccl-net-acme.so", "");
        },
        "/usr/lib64/",
    ),
    (
        "lib.plugin",
        |m| {
            m.set("NCCL_NET_PLUGIN", "acme");
            m.file(
                "etc/ld.so.cache",
                "glibc-ld.so.cache1.1\x01\x02libnccl-net-acme.so\0/opt/acme/libnccl-net-acme.so\0",
            );
            m.file("opt/acme/libnccl-net-acme.so", "");
        },
        "/opt/acme/",
    ),
    (
        "slurm.kill",
        |m| m.scontrol("echo 'KillOnBadExit           = 1'"),
        "KillOnBadExit=1",
    ),
    (
        "slurm.kill",
        |m| m.scontrol("echo no controller >&2; exit 1"),
        "no controller",
    ),
    (
        "slurm.memory",
        |m| {
            m.env.remove("SLURM_MEM_PER_NODE");
            m.set("SLURM_MEM_PER_CPU", "0");
        },
        "all",
    ),
];

pub(super) type Set = &'static [(&'static str, &'static str)];

/// Each rule of the audit, the settings that it finds, and what else its machine has.
pub(super) const RULES: &[(&str, Set, Spoil)] = &[
    (
        "env.unknown-name",
        &[("NCCL_NOBODY_KNOWS_THIS_ONE", "1")],
        |_| (),
    ),
    ("env.never-existed", &[("NCCL_PXN_LEVEL", "1")], |_| ()),
    ("env.pytorch", &[("NCCL_BLOCKING_WAIT", "1")], |_| ()),
    ("env.removed", &[("NCCL_RINGS", "0 1")], |_| ()),
    (
        "env.too-new",
        &[("NCCL_MULTI_RANK_GPU_ENABLE", "1")],
        |_| (),
    ),
    ("env.elsewhere", &[("NCCL_DYNAMIC_CHUNK_SIZE", "1")], |_| ()),
    ("env.legacy", &[("NCCL_MIN_NCHANNELS", "4")], |_| ()),
    (
        "env.misread-integer",
        &[("NCCL_PXN_DISABLE", "true")],
        |_| (),
    ),
    (
        "env.ignored-value",
        &[("NCCL_NET_GDR_LEVEL", "sys")],
        |_| (),
    ),
    ("env.no-meaning", &[("NCCL_BUFFSIZE", "5000000")], |_| ()),
    (
        "env.unknown-word",
        &[("NCCL_SOCKET_FAMILY", "af_inet")],
        |_| (),
    ),
    ("env.failing-word", &[("NCCL_ALGO", "Rings")], |_| ()),
    (
        "env.stray-characters",
        &[("NCCL_TOPO_FILE", "'/x.xml'")],
        |_| (),
    ),
    ("env.empty", &[("NCCL_TOPO_FILE", "")], |_| ()),
    (
        "env.list-syntax",
        &[("NCCL_SOCKET_IFNAME", "^lo,^docker")],
        |_| (),
    ),
    ("env.prefix-match", &[("NCCL_IB_HCA", "mlx5_1")], |m| {
        port(
            &mut m.files,
            "mlx5_10",
            "InfiniBand",
            "4: ACTIVE",
            "400 Gb/sec (4X NDR)",
        )
    }),
    (
        "env.crashes",
        &[("NCCL_P2P_PXN_LEVEL", "1"), ("NCCL_RUNTIME_CONNECT", "0")],
        |_| (),
    ),
    ("env.fails", &[("NCCL_NET", "")], |_| ()),
    ("env.silences-pxn", &[("NCCL_P2P_DISABLE", "1")], |_| ()),
    ("env.silences-rings", &[("NCCL_CROSS_NIC", "1")], |_| ()),
    (
        "env.no-effect",
        &[("NCCL_PXN_DISABLE", "1"), ("NCCL_P2P_PXN_LEVEL", "2")],
        |_| (),
    ),
    (
        "env.min-above-max",
        &[("NCCL_MIN_CTAS", "32"), ("NCCL_MAX_CTAS", "8")],
        |_| (),
    ),
    (
        "env.too-many-sockets",
        &[
            ("NCCL_SOCKET_NTHREADS", "8"),
            ("NCCL_NSOCKS_PERTHREAD", "9"),
        ],
        |_| (),
    ),
    (
        "env.ignore-net-mismatch",
        &[("NCCL_IGNORE_NET_MISMATCH", "1")],
        |_| (),
    ),
    ("env.debug-output", &[("NCCL_DEBUG", "INFO")], |_| ()),
    (
        "env.debug-file-shared",
        &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", "/x.log")],
        |_| (),
    ),
    (
        "env.subsystems-hidden",
        &[
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_FILE", "/x.%h.%p"),
            ("NCCL_DEBUG_SUBSYS", "NET"),
        ],
        |_| (),
    ),
    (
        "env.debug-left",
        &[("NCCL_GRAPH_DUMP_FILE", "/x.xml")],
        |_| (),
    ),
    ("env.dead-line", &[], |m| {
        m.file("etc/nccl.conf", "export NCCL_PXN_DISABLE=1\n")
    }),
    ("env.file-overridden", &[], |m| {
        m.file("etc/nccl.conf", "NCCL_SOCKET_IFNAME=eth7\n")
    }),
];
