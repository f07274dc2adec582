//! Broken machines, by the check that has to find what is broken.

use serde_json::json;

use super::{changes::*, machine::*};

/// A good machine with something broken.
pub(super) struct BrokenMachine {
    /// The check that has to find it.
    pub(super) check: &'static str,
    pub(super) change: Change,
    /// The other checks that find it too.
    pub(super) also_found_by: &'static [&'static str],
}

pub(super) const BROKEN_MACHINES: &[BrokenMachine] = &[
    BrokenMachine {
        check: "lib.driver",
        change: |m| drop(m.files.remove("proc/driver/nvidia/version")),
        also_found_by: &[],
    },
    BrokenMachine {
        // A job with GPUs on a node without any.
        check: "lib.driver",
        change: |m| {
            m.files.retain(|path, _| !path.contains("nvidia"));
            m.nvml = json!("no inventory");
            m.set("SLURM_GPUS_ON_NODE", "2");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "start.variables",
        change: |m| m.set("NCCL_TESTS_MIN_BW", "fast"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "start.cuda",
        change: |m| m.edit("proc/driver/nvidia/version", "570.86.15", "520.61.05"),
        also_found_by: &[],
    },
    BrokenMachine {
        // Its libnccl is built for CUDA 13.
        check: "start.cuda",
        change: |m| m.nccl = CUDA_13_SINCE,
        also_found_by: &[],
    },
    BrokenMachine {
        check: "name.file",
        change: |m| m.set("NCCL_TOPO_FILE", "/nowhere/topo.xml"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "name.file",
        change: |m| m.set("NCCL_GRAPH_FILE", "/nowhere/graph.xml"),
        also_found_by: &["env.debug-left"],
    },
    BrokenMachine {
        check: "name.file",
        change: |m| m.set("NCCL_CONF_FILE", "/nowhere/nccl.conf"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "name.file",
        change: |m| m.set("NCCL_TUNER_CONFIG_PATH", "/nowhere/tuner.textproto"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "name.output",
        change: |m| {
            m.set("NCCL_DEBUG", "WARN");
            m.set("NCCL_DEBUG_FILE", "/nowhere/%h.%p");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "name.plugin",
        change: |m| m.set("NCCL_TUNER_PLUGIN", "/nowhere/libnccl-tuner.so"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "name.network",
        change: |m| m.set("NCCL_NET", "AWS Libfabric"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "name.network",
        change: |m| {
            m.set("NCCL_NET", "AWS Libfabric");
            m.set("NCCL_NET_PLUGIN", "/nowhere/libnccl-net.so");
        },
        also_found_by: &["lib.plugin"],
    },
    BrokenMachine {
        check: "name.network",
        change: |m| {
            m.set("NCCL_NET", "acme");
            m.set("NCCL_NET_PLUGIN", "none");
            m.file("usr/lib64/libnccl-net.so", "");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "lib.nvml",
        change: |m| m.nvml = json!("no inventory"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "lib.plugin",
        change: |m| m.set("NCCL_NET_PLUGIN", "nowhere"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "lib.plugin",
        change: |m| m.set("NCCL_NET_PLUGIN", "/opt/nowhere/libnccl-net.so"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "mpi.world",
        change: |m| m.set("SLURM_STEP_NUM_TASKS", "4"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "mpi.world",
        change: |m| m.set("PMI_SIZE", "4"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gdr.module",
        change: |m| m.file("proc/modules", "nvidia 1 0 - Live 0x0\n"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gdr.module-name",
        change: |m| m.nccl = 22203,
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.memlock",
        change: |m| {
            m.edit(
                "proc/self/limits",
                "locked memory         unlimited",
                "locked memory         65536    ",
            )
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.nofile",
        change: |m| m.edit("proc/self/limits", "65536  ", "1024   "),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.stack",
        change: |m| m.edit("proc/self/limits", "8388608  ", "unlimited"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.stack",
        change: |m| m.edit("proc/self/limits", "8388608  ", "2097152  "),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.shm",
        change: |m| m.edit("proc/self/mounts", "67108864k", "65536k"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.cpus",
        change: |m| m.edit("proc/self/status", "0-7", "3"),
        also_found_by: &["slurm.cpus-per-task"],
    },
    BrokenMachine {
        check: "host.numa-balancing",
        change: |m| m.file("proc/sys/kernel/numa_balancing", "1\n"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.remove-ipc",
        change: |m| m.edit("etc/systemd/logind.conf", "=no", "=yes"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.iommu",
        change: |m| m.file("sys/kernel/iommu_groups/0/type", "DMA\n"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.acs",
        change: |m| {
            drop(m.files.insert(
                "sys/bus/pci/devices/0000:00:01.0/config".into(),
                bridge(0x1d),
            ))
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.acs",
        change: |m| {
            m.files.insert(
                "sys/bus/pci/devices/0000:00:01.0/config".into(),
                bridge(0x1d),
            );
            conventional(m, 256);
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "host.container",
        change: |m| {
            m.file(".dockerenv", "");
            m.files.remove("dev/infiniband/uverbs0");
        },
        also_found_by: &["net.verbs"],
    },
    BrokenMachine {
        // Started without --gpus: /proc is that of the node.
        check: "host.container",
        change: |m| {
            m.file("run/.containerenv", "");
            m.files.retain(|path, _| !path.starts_with("dev/nvidia"));
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.lost",
        change: |m| m.nvml["gpus"][1]["bus_id"] = json!({ "value": null, "why": "GPU is lost" }),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.count",
        change: |m| m.set("CUDA_VISIBLE_DEVICES", ""),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.compute-mode",
        change: |m| m.gpu("compute_mode", "exclusive process".into()),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.mig",
        change: |m| m.gpu("mig", true.into()),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.ecc",
        change: |m| m.gpu("ecc_uncorrected", 3.into()),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.remap",
        change: |m| m.gpu("remapped", json!({ "failed": true })),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.pages",
        change: |m| m.gpu("pages_pending", true.into()),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.nvlink",
        change: |m| m.nvml["gpus"][1]["nvlinks"][2]["active"] = reading(false.into()),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.nvlink",
        change: |m| m.nvlinks([4, 3], "gpu"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.nvlink",
        change: |m| m.nvlinks([3, 3], "switch"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.nvlink",
        change: |m| {
            drop(
                m.nvml["gpus"][1]["nvlinks"]
                    .as_array_mut()
                    .expect("links")
                    .pop(),
            )
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.same",
        change: |m| m.gpu("name", "NVIDIA A100".into()),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.count",
        change: |m| m.set("CUDA_VISIBLE_DEVICES", "0,0"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.imex",
        change: |m| m.cluster(),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.throttle",
        change: |m| m.gpu("throttle", json!(["hardware thermal slowdown"])),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.pcie-width",
        change: |m| m.gpu("pcie_width", 8.into()),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.pcie-gen",
        change: |m| {
            m.gpu("pcie_gen", 3.into());
            m.gpu("throttle", json!([]));
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.persistence",
        change: |m| m.gpu("persistence", false.into()),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.port-down",
        change: |m| m.file("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.port-rate",
        change: |m| {
            m.file(
                "sys/class/infiniband/mlx5_1/ports/1/rate",
                "200 Gb/sec (4X HDR)\n",
            )
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.verbs",
        change: |m| drop(m.files.remove("dev/infiniband/uverbs0")),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.libibverbs",
        change: |m| drop(m.files.remove("usr/lib64/libibverbs.so.1")),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.libibverbs",
        change: |m| drop(m.files.remove("usr/lib64/libibverbs/libmlx5-rdmav34.so")),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.controllers",
        change: without_rdma_devices,
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.controllers",
        change: |m| {
            m.file(".dockerenv", "");
            without_rdma_devices(m);
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.gid",
        change: |m| {
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
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.hca",
        change: |m| m.set("NCCL_IB_HCA", "=mlx5_7"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.mixed-ports",
        change: |m| {
            port(
                &mut m.files,
                "mlx5_bond_0",
                "Ethernet",
                "4: ACTIVE",
                "400 Gb/sec",
            );
            m.env.remove("NCCL_IB_HCA");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.ifname",
        change: |m| m.set("NCCL_SOCKET_IFNAME", "eno1"),
        also_found_by: &["net.interface"],
    },
    BrokenMachine {
        check: "net.interface",
        change: |m| {
            m.file("sys/class/net/eth0/operstate", "down\n");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "slurm.cpus-per-task",
        change: |m| m.set("SLURM_CPUS_PER_TASK", "16"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "slurm.leaked",
        change: |m| m.set("SLURM_TRES_PER_TASK", "cpu=2"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "slurm.gpu-bind",
        change: |m| m.set("SLURM_GPUS_PER_TASK", "1"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "slurm.kill",
        change: |m| m.set("SLURM_KILL_BAD_EXIT", "0"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "slurm.kill",
        change: |m| m.scontrol("echo 'KillOnBadExit           = 0'"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "slurm.memory",
        change: |m| m.set("SLURM_MEM_PER_NODE", "4096"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "slurm.memory",
        change: |m| {
            m.env.remove("SLURM_MEM_PER_NODE");
            m.set("SLURM_MEM_PER_CPU", "512");
            m.set("SLURM_CPUS_ON_NODE", "8");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "slurm.export",
        change: |m| m.set("SLURM_EXPORT_ENV", "NONE"),
        also_found_by: &[],
    },
];

/// What is broken on the machine of the second of two ranks, for checks that compare ranks.
pub(super) const BROKEN_SECOND_MACHINES: &[BrokenMachine] = &[
    BrokenMachine {
        check: "lib.driver-same",
        change: |m| m.edit("proc/driver/nvidia/version", "570.86.15", "565.57.01"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "lib.nccl-same",
        change: |m| m.nccl = 22704,
        also_found_by: &[],
    },
    BrokenMachine {
        check: "lib.plugin-same",
        change: |m| {
            m.set("LD_LIBRARY_PATH", "/opt/plugin");
            m.file("opt/plugin/libnccl-net.so", "");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gdr.module-same",
        change: |m| m.file("proc/modules", "nvidia 1 0 - Live 0x0\n"),
        also_found_by: &["gdr.module"],
    },
    BrokenMachine {
        check: "gpu.siblings",
        change: |m| m.set("CUDA_VISIBLE_DEVICES", "1"),
        also_found_by: &[],
    },
    BrokenMachine {
        check: "gpu.same",
        change: |m| drop(m.nvml["gpus"].as_array_mut().expect("GPUs").pop()),
        also_found_by: &["gpu.siblings"],
    },
    BrokenMachine {
        check: "gpu.nvlink-same",
        change: |m| {
            (0..2).for_each(|gpu| {
                drop(
                    m.nvml["gpus"][gpu]["nvlinks"]
                        .as_array_mut()
                        .expect("links")
                        .pop(),
                )
            })
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.ports-same",
        change: |m| {
            port(
                &mut m.files,
                "mlx5_2",
                "InfiniBand",
                "4: ACTIVE",
                "400 Gb/sec",
            );
            m.set("NCCL_IB_HCA", "=mlx5_0,mlx5_1,mlx5_2");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.ports-same",
        change: |m| m.file("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
        also_found_by: &["net.port-down"],
    },
    BrokenMachine {
        check: "net.interface-same",
        change: |m| {
            m.file("sys/class/net/eth1/operstate", "up\n");
            m.file("proc/net/route", "Iface\tDestination\neth1\t00000000\n");
            m.set("NCCL_SOCKET_IFNAME", "=eth1");
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.family-same",
        change: |m| {
            m.file("proc/net/route", "Iface\tDestination\n");
            m.file(
                "proc/net/if_inet6",
                "fd000000000000000000000000000001 02 40 00 80 eth0\n",
            );
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "net.family-same",
        change: |m| {
            m.file("proc/net/route", "Iface\tDestination\n");
            m.file("proc/net/if_inet6", LINKS_OWN);
        },
        also_found_by: &[],
    },
    BrokenMachine {
        check: "env.same",
        change: |m| m.set("NCCL_PXN_DISABLE", "1"),
        also_found_by: &[],
    },
];
