//! What is wrong with a machine, by the check that has to find it.

use serde_json::json;

use super::{machine::*, said::*};

/// Each check, what spoils the good machine for it, and the checks that find that too.
pub(super) const SPOILED: &[(&str, Spoil, &[&str])] = &[
    (
        "lib.driver",
        |m| drop(m.files.remove("proc/driver/nvidia/version")),
        &[],
    ),
    ("lib.nvml", |m| m.nvml = json!("no inventory"), &[]),
    ("lib.plugin", |m| m.set("NCCL_NET_PLUGIN", "nowhere"), &[]),
    (
        "lib.plugin",
        |m| m.set("NCCL_NET_PLUGIN", "/opt/nowhere/libnccl-net.so"),
        &[],
    ),
    ("mpi.world", |m| m.set("SLURM_STEP_NUM_TASKS", "4"), &[]),
    ("mpi.world", |m| m.set("PMI_SIZE", "4"), &[]),
    (
        "gdr.module",
        |m| m.file("proc/modules", "nvidia 1 0 - Live 0x0\n"),
        &[],
    ),
    ("gdr.module-name", |m| m.nccl = 22203, &[]),
    (
        "host.memlock",
        |m| {
            m.edit(
                "proc/self/limits",
                "locked memory         unlimited",
                "locked memory         65536    ",
            )
        },
        &[],
    ),
    (
        "host.nofile",
        |m| m.edit("proc/self/limits", "65536  ", "1024   "),
        &[],
    ),
    (
        "host.stack",
        |m| m.edit("proc/self/limits", "8388608  ", "unlimited"),
        &[],
    ),
    (
        "host.shm",
        |m| m.edit("proc/self/mounts", "67108864k", "65536k"),
        &[],
    ),
    (
        "host.cpus",
        |m| m.edit("proc/self/status", "0-7", "3"),
        &["slurm.cpus-per-task"],
    ),
    (
        "host.numa-balancing",
        |m| m.file("proc/sys/kernel/numa_balancing", "1\n"),
        &[],
    ),
    (
        "host.remove-ipc",
        |m| m.edit("etc/systemd/logind.conf", "=no", "=yes"),
        &[],
    ),
    (
        "host.iommu",
        |m| m.file("sys/kernel/iommu_groups/0/type", "DMA\n"),
        &[],
    ),
    (
        "host.acs",
        |m| {
            drop(m.files.insert(
                "sys/bus/pci/devices/0000:00:01.0/config".into(),
                bridge(0x1d),
            ))
        },
        &[],
    ),
    (
        "host.acs",
        |m| {
            m.files.insert(
                "sys/bus/pci/devices/0000:00:01.0/config".into(),
                bridge(0x1d),
            );
            conventional(m, 256);
        },
        &[],
    ),
    (
        "host.container",
        |m| {
            m.file(".dockerenv", "");
            m.files.remove("dev/infiniband/uverbs0");
        },
        &["net.verbs"],
    ),
    (
        "gpu.lost",
        |m| m.nvml["gpus"][1]["bus_id"] = json!({ "value": null, "why": "GPU is lost" }),
        &[],
    ),
    ("gpu.count", |m| m.set("CUDA_VISIBLE_DEVICES", ""), &[]),
    (
        "gpu.compute-mode",
        |m| m.gpu("compute_mode", "exclusive process".into()),
        &[],
    ),
    ("gpu.mig", |m| m.gpu("mig", true.into()), &[]),
    ("gpu.ecc", |m| m.gpu("ecc_uncorrected", 3.into()), &[]),
    (
        "gpu.remap",
        |m| m.gpu("remapped", json!({ "failed": true })),
        &[],
    ),
    ("gpu.pages", |m| m.gpu("pages_pending", true.into()), &[]),
    (
        "gpu.nvlink",
        |m| m.nvml["gpus"][1]["nvlinks"][2]["active"] = reading(false.into()),
        &[],
    ),
    ("gpu.nvlink", |m| m.nvlinks([4, 3], "gpu"), &[]),
    ("gpu.nvlink", |m| m.nvlinks([3, 3], "switch"), &[]),
    (
        "gpu.nvlink",
        |m| {
            drop(
                m.nvml["gpus"][1]["nvlinks"]
                    .as_array_mut()
                    .expect("links")
                    .pop(),
            )
        },
        &[],
    ),
    ("gpu.same", |m| m.gpu("name", "NVIDIA A100".into()), &[]),
    ("gpu.count", |m| m.set("CUDA_VISIBLE_DEVICES", "0,0"), &[]),
    ("gpu.imex", |m| m.cluster(), &[]),
    (
        "gpu.throttle",
        |m| m.gpu("throttle", json!(["hardware thermal slowdown"])),
        &[],
    ),
    ("gpu.pcie-width", |m| m.gpu("pcie_width", 8.into()), &[]),
    (
        "gpu.pcie-gen",
        |m| {
            m.gpu("pcie_gen", 3.into());
            m.gpu("throttle", json!([]));
        },
        &[],
    ),
    (
        "gpu.persistence",
        |m| m.gpu("persistence", false.into()),
        &[],
    ),
    (
        "net.port-down",
        |m| m.file("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
        &[],
    ),
    (
        "net.port-rate",
        |m| {
            m.file(
                "sys/class/infiniband/mlx5_1/ports/1/rate",
                "200 Gb/sec (4X HDR)\n",
            )
        },
        &[],
    ),
    (
        "net.verbs",
        |m| drop(m.files.remove("dev/infiniband/uverbs0")),
        &[],
    ),
    (
        "net.gid",
        |m| {
            for device in ["mlx5_0", "mlx5_1"] {
                port(&mut m.files, device, "Ethernet", "4: ACTIVE", "400 Gb/sec");
                m.file(
                    &format!("sys/class/infiniband/{device}/ports/1/gids/1"),
                    "fe80:0000::1\n",
                );
                m.file(
                    &format!("sys/class/infiniband/{device}/ports/1/gid_attrs/types/1"),
                    "IB/RoCE v1\n",
                );
            }
            m.set("NCCL_IB_GID_INDEX", "1");
        },
        &[],
    ),
    ("net.hca", |m| m.set("NCCL_IB_HCA", "=mlx5_7"), &[]),
    (
        "net.mixed-ports",
        |m| {
            port(
                &mut m.files,
                "mlx5_bond_0",
                "Ethernet",
                "4: ACTIVE",
                "400 Gb/sec",
            );
            m.env.remove("NCCL_IB_HCA");
        },
        &[],
    ),
    (
        "net.ifname",
        |m| m.set("NCCL_SOCKET_IFNAME", "eno1"),
        &["net.interface"],
    ),
    (
        "net.interface",
        |m| {
            m.file("sys/class/net/eth0/operstate", "down\n");
        },
        &[],
    ),
    (
        "slurm.cpus-per-task",
        |m| m.set("SLURM_CPUS_PER_TASK", "16"),
        &[],
    ),
    (
        "slurm.leaked",
        |m| m.set("SLURM_TRES_PER_TASK", "cpu=2"),
        &[],
    ),
    ("slurm.gpu-bind", |m| m.set("SLURM_GPUS_PER_TASK", "1"), &[]),
    ("slurm.kill", |m| m.set("SLURM_KILL_BAD_EXIT", "0"), &[]),
    (
        "slurm.kill",
        |m| m.scontrol("echo 'KillOnBadExit           = 0'"),
        &[],
    ),
    ("slurm.memory", |m| m.set("SLURM_MEM_PER_NODE", "4096"), &[]),
    (
        "slurm.memory",
        |m| {
            m.env.remove("SLURM_MEM_PER_NODE");
            m.set("SLURM_MEM_PER_CPU", "512");
            m.set("SLURM_CPUS_ON_NODE", "8");
        },
        &[],
    ),
    ("slurm.export", |m| m.set("SLURM_EXPORT_ENV", "NONE"), &[]),
];

/// The same for checks that look at several processes: what the second of two ranks has.
pub(super) const SPOILED_TOGETHER: &[(&str, Spoil, &[&str])] = &[
    (
        "lib.driver-same",
        |m| m.edit("proc/driver/nvidia/version", "570.86.15", "565.57.01"),
        &[],
    ),
    ("lib.nccl-same", |m| m.nccl = 22704, &[]),
    (
        "lib.plugin-same",
        |m| {
            m.set("LD_LIBRARY_PATH", "/opt/plugin");
            m.file("opt/plugin/libnccl-net.so", "");
        },
        &[],
    ),
    (
        "gdr.module-same",
        |m| m.file("proc/modules", "nvidia 1 0 - Live 0x0\n"),
        &["gdr.module"],
    ),
    ("gpu.siblings", |m| m.set("CUDA_VISIBLE_DEVICES", "1"), &[]),
    (
        "gpu.same",
        |m| drop(m.nvml["gpus"].as_array_mut().expect("GPUs").pop()),
        &["gpu.siblings"],
    ),
    (
        "gpu.nvlink-same",
        |m| {
            (0..2).for_each(|gpu| {
                drop(
                    m.nvml["gpus"][gpu]["nvlinks"]
                        .as_array_mut()
                        .expect("links")
                        .pop(),
                )
            })
        },
        &[],
    ),
    (
        "net.ports-same",
        |m| {
            port(
                &mut m.files,
                "mlx5_2",
                "InfiniBand",
                "4: ACTIVE",
                "400 Gb/sec",
            );
            m.set("NCCL_IB_HCA", "=mlx5_0,mlx5_1,mlx5_2");
        },
        &[],
    ),
    (
        "net.ports-same",
        |m| m.file("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
        &["net.port-down"],
    ),
    (
        "net.interface-same",
        |m| {
            m.file("sys/class/net/eth1/operstate", "up\n");
            m.file("proc/net/route", "Iface\tDestination\neth1\t00000000\n");
            m.set("NCCL_SOCKET_IFNAME", "=eth1");
        },
        &[],
    ),
    (
        "net.family-same",
        |m| {
            m.file("proc/net/route", "Iface\tDestination\n");
            m.file(
                "proc/net/if_inet6",
                "fd000000000000000000000000000001 02 40 00 80 eth0\n",
            );
        },
        &[],
    ),
    (
        "net.family-same",
        |m| {
            m.file("proc/net/route", "Iface\tDestination\n");
            m.file("proc/net/if_inet6", LINKS_OWN);
        },
        &[],
    ),
    ("env.same", |m| m.set("NCCL_PXN_DISABLE", "1"), &[]),
];
