//! Verdicts and messages of checks on machines that are nearly good or nearly broken.

use super::{changes::*, machine::Change};

/// A check's verdict on a machine. If it is good, no other check finds anything either.
pub(super) struct CheckMessage {
    pub(super) check: &'static str,
    pub(super) change: Change,
    pub(super) verdict: &'static str,
    /// A part of the message.
    pub(super) message: &'static str,
}

pub(super) const MESSAGES: &[CheckMessage] = &[
    CheckMessage {
        check: "host.memlock",
        change: |m| may_pin_little(m, "000001ffffffffff", ALL_USERS),
        verdict: "ok",
        message: "CAP_IPC_LOCK",
    },
    CheckMessage {
        check: "host.memlock",
        change: |m| may_pin_little(m, "000001ffffffbfff", ALL_USERS),
        verdict: "failure",
        message: "64 KiB",
    },
    CheckMessage {
        check: "host.memlock",
        change: |m| may_pin_little(m, "000001ffffffffff", "0 1000 1\n"),
        verdict: "failure",
        message: "64 KiB",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| logind(m, &[("etc", "[Login]\n RemoveIPC = False\n")]),
        verdict: "ok",
        message: "/etc/systemd/logind.conf)",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| logind(m, &[("etc", "[Login]\nRemoveIPC=On\n")]),
        verdict: "warning",
        message: "=yes",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| logind(m, &[("etc", "[Login]\nRemoveIPC=no\nRemoveIPC=maybe\n")]),
        verdict: "ok",
        message: "=no",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| logind(m, &[("etc", "[Login]\n#RemoveIPC=no\n")]),
        verdict: "warning",
        message: "systemd's default",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| logind(m, &[("etc", "RemoveIPC=no\n[Other]\nRemoveIPC=no\n")]),
        verdict: "warning",
        message: "default",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| logind(m, &[("usr/lib", "[Login]\nRemoveIPC=0\n")]),
        verdict: "ok",
        message: "/usr/lib/systemd/logind.conf",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| {
            logind(
                m,
                &[("etc", "[Login]\n"), ("run", "[Login]\nRemoveIPC=0\n")],
            )
        },
        verdict: "warning",
        message: "default",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| logind(m, &[]),
        verdict: "not_applicable",
        message: "no logind.conf",
    },
    // The last by name counts, wherever it is; of one name the one in /etc.
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| beside_logind(m, "run", "20-site.conf", "no"),
        verdict: "ok",
        message: "/run/systemd/logind.conf.d/20-site.conf",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| beside_logind(m, "usr/lib", "20-site.conf", "no"),
        verdict: "ok",
        message: "/usr/lib/systemd/logind.conf.d/20",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| beside_logind(m, "etc", "00-site.conf", "no"),
        verdict: "warning",
        message: "10-here.conf",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| beside_logind(m, "usr/lib", "10-here.conf", "no"),
        verdict: "warning",
        message: "/etc/systemd/logind.conf.d/10-",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| beside_logind(m, "etc", "20-site.bak", "no"),
        verdict: "warning",
        message: "10-here.conf",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| {
            release(
                m,
                "NAME=Rocky\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
            )
        },
        verdict: "ok",
        message: "Red Hat",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| release(m, "ID=rhel\n"),
        verdict: "ok",
        message: "Red Hat",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| release(m, "ID=\"ol\"\nID_LIKE=\"fedora\"\n"),
        verdict: "ok",
        message: "Red Hat",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| release(m, "ID=fedora\n"),
        verdict: "warning",
        message: "systemd's default",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| release(m, "ID=ubuntu\nID_LIKE=debian\n"),
        verdict: "warning",
        message: "systemd's default",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| of_user(m, "0", ALL_USERS),
        verdict: "ok",
        message: "system users",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| of_user(m, "0", "0 1000 1\n"),
        verdict: "warning",
        message: "=yes",
    },
    CheckMessage {
        check: "host.remove-ipc",
        change: |m| of_user(m, "1000", ALL_USERS),
        verdict: "warning",
        message: "=yes",
    },
    CheckMessage {
        check: "host.container",
        change: |m| m.file("run/.containerenv", ""),
        verdict: "ok",
        message: "/run/.containerenv",
    },
    CheckMessage {
        check: "host.container",
        change: |m| {
            m.file(
                "proc/self/cgroup",
                "0::/system.slice/slurmstepd.scope/job_7\n",
            )
        },
        verdict: "not_applicable",
        message: "no",
    },
    CheckMessage {
        check: "host.container",
        change: |m| m.file("proc/self/cgroup", "0::/system.slice/docker.service\n"),
        verdict: "not_applicable",
        message: "no",
    },
    CheckMessage {
        check: "host.container",
        change: |m| {
            m.file(
                "proc/self/cgroup",
                "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-0a.scope\n",
            )
        },
        verdict: "ok",
        message: "kubepods.slice",
    },
    CheckMessage {
        check: "host.container",
        change: |m| {
            m.file(
                "proc/self/cgroup",
                "3:cpu,cpuacct:/kubepods/besteffort/pod0a/0b\n1:name=systemd:/kubepods/0b\n",
            )
        },
        verdict: "ok",
        message: "besteffort",
    },
    CheckMessage {
        check: "host.container",
        change: |m| m.file("proc/self/cgroup", "2:pids:/docker/0a0b\n"),
        verdict: "ok",
        message: "/docker/0a0b",
    },
    CheckMessage {
        check: "host.container",
        change: |m| {
            m.file("proc/self/cgroup", "0::/\n");
            m.file(
                "proc/self/mountinfo",
                "812 790 259:1 /var/lib/kubelet/pods/0a/etc-hosts /etc/hosts rw,relatime - ext4 \
                 /dev/sda1 rw\n",
            );
        },
        verdict: "ok",
        message: "kubelet",
    },
    CheckMessage {
        check: "host.stack",
        change: |m| m.edit("proc/self/limits", "8388608  ", "67108864 "),
        verdict: "ok",
        message: "64 MiB",
    },
    CheckMessage {
        check: "net.libibverbs",
        change: |_| (),
        verdict: "ok",
        message: "/usr/lib64/libibverbs.so.1 with mlx5",
    },
    CheckMessage {
        check: "net.libibverbs",
        change: |m| {
            m.files.remove("usr/lib64/libibverbs/libmlx5-rdmav34.so");
            m.file("etc/libibverbs.d/mlx5.driver", "driver /host/libmlx5\n");
            m.file("host/libmlx5-rdmav57.so", "");
        },
        verdict: "ok",
        message: "mlx5",
    },
    CheckMessage {
        check: "net.libibverbs",
        change: |m| without_adapters(m, "^=mlx5_9"),
        verdict: "not_applicable",
        message: "no RDMA device",
    },
    CheckMessage {
        check: "net.controllers",
        change: |_| (),
        verdict: "ok",
        message: "1 InfiniBand controller",
    },
    CheckMessage {
        check: "net.controllers",
        change: |m| without_adapters(m, "^=mlx5_9"),
        verdict: "not_applicable",
        message: "no InfiniBand controller",
    },
    CheckMessage {
        check: "net.controllers",
        change: |m| {
            m.files
                .retain(|path, _| !path.starts_with("sys/bus/pci/devices"))
        },
        verdict: "not_applicable",
        message: "/sys/bus/pci/devices lists nothing",
    },
    CheckMessage {
        check: "net.controllers",
        change: |m| {
            m.file(".dockerenv", "");
            without_rdma_devices(m);
        },
        verdict: "warning",
        message: "such as 0000:17:00.0, but /sys/class/infiniband is empty",
    },
    CheckMessage {
        check: "host.container",
        change: |m| {
            m.file("run/.containerenv", "");
            m.files.retain(|path, _| !path.starts_with("dev/nvidia"));
        },
        verdict: "failure",
        message: "no GPU has a device file",
    },
    CheckMessage {
        check: "host.iommu",
        change: |m| behind_iommu(m, "identity\n"),
        verdict: "ok",
        message: "0000:01:00.0",
    },
    CheckMessage {
        check: "host.iommu",
        change: |m| behind_iommu(m, "DMA-FQ\n"),
        verdict: "warning",
        message: "mlx5_0 (DMA-FQ)",
    },
    CheckMessage {
        check: "host.iommu",
        change: |m| m.file("sys/kernel/iommu_groups/0/type", "identity\n"),
        verdict: "ok",
        message: "all groups",
    },
    CheckMessage {
        check: "host.iommu",
        change: |m| grouped(m, "ro iommu=pt quiet\n"),
        verdict: "ok",
        message: "iommu=pt",
    },
    CheckMessage {
        check: "host.iommu",
        change: |m| grouped(m, "iommu.passthrough=1\n"),
        verdict: "ok",
        message: "iommu.passthrough=1",
    },
    CheckMessage {
        check: "host.iommu",
        change: |m| grouped(m, "iommu.passthrough=0\n"),
        verdict: "warning",
        message: "not told",
    },
    CheckMessage {
        check: "host.acs",
        change: |m| conventional(m, 256),
        verdict: "ok",
        message: "no bridge redirects",
    },
    CheckMessage {
        check: "host.acs",
        change: |m| conventional(m, 64),
        verdict: "not_applicable",
        message: "only root",
    },
    CheckMessage {
        check: "net.port-down",
        change: |m| beside(m, "InfiniBand", "1: DOWN"),
        verdict: "ok",
        message: "2 ports",
    },
    CheckMessage {
        check: "net.port-down",
        change: |m| second_port(m, "1: DOWN", "=mlx5_0:1,mlx5_1:1"),
        verdict: "ok",
        message: "2 ports",
    },
    CheckMessage {
        check: "net.port-down",
        change: |m| second_port(m, "1: DOWN", "=mlx5_0,mlx5_1"),
        verdict: "warning",
        message: "mlx5_1:2",
    },
    CheckMessage {
        check: "net.port-down",
        change: |m| second_port(m, "1: DOWN", "=mlx5_1:2"),
        verdict: "failure",
        message: "mlx5_1:2",
    },
    CheckMessage {
        check: "net.port-rate",
        change: |m| beside(m, "InfiniBand", "4: ACTIVE"),
        verdict: "ok",
        message: "one rate",
    },
    CheckMessage {
        check: "net.gid",
        change: |m| {
            beside(m, "Ethernet", "4: ACTIVE");
            m.set("NCCL_IB_GID_INDEX", "3");
        },
        verdict: "not_applicable",
        message: "no active RoCE port",
    },
    CheckMessage {
        check: "net.mixed-ports",
        change: |m| beside(m, "Ethernet", "4: ACTIVE"),
        verdict: "ok",
        message: "chooses",
    },
    CheckMessage {
        check: "net.mixed-ports",
        change: |m| {
            beside(m, "Ethernet", "4: ACTIVE");
            m.set("NCCL_IB_HCA", "^=mlx5_0");
        },
        verdict: "warning",
        message: "mlx5_9",
    },
    CheckMessage {
        check: "net.hca",
        change: |m| m.set("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"),
        verdict: "ok",
        message: "mlx5_0:1",
    },
    CheckMessage {
        check: "net.hca",
        change: |m| m.set("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:2"),
        verdict: "warning",
        message: "no mlx5_1:2",
    },
    CheckMessage {
        check: "net.hca",
        change: |m| m.set("NCCL_IB_HCA", "=mlx5_0:2,mlx5_1:2"),
        verdict: "failure",
        message: "mlx5_0:1",
    },
    CheckMessage {
        check: "net.hca",
        change: |m| m.set("NCCL_IB_HCA", "^mlx5"),
        verdict: "failure",
        message: "leaves none",
    },
    CheckMessage {
        check: "net.hca",
        change: |m| without_adapters(m, "^=mlx5_9"),
        verdict: "not_applicable",
        message: "to exclude",
    },
    CheckMessage {
        check: "net.hca",
        change: |m| without_adapters(m, "=mlx5_0"),
        verdict: "failure",
        message: "no RDMA device",
    },
    CheckMessage {
        check: "net.interface",
        change: |m| m.set("NCCL_SOCKET_IFNAME", "^docker"),
        verdict: "warning",
        message: "selects lo",
    },
    CheckMessage {
        check: "net.interface",
        change: |m| m.set("NCCL_SOCKET_IFNAME", "^docker,lo"),
        verdict: "ok",
        message: "eth0",
    },
    CheckMessage {
        check: "net.interface",
        change: |m| m.set("NCCL_SOCKET_IFNAME", "=lo"),
        verdict: "ok",
        message: "one node",
    },
    CheckMessage {
        check: "net.interface",
        change: |m| m.set("NCCL_SOCKET_IFNAME", "^"),
        verdict: "ok",
        message: "eth0",
    },
    CheckMessage {
        check: "net.interface",
        change: |m| interfaces(m, "3", "4"),
        verdict: "ok",
        message: "eno2, IPv4",
    },
    CheckMessage {
        check: "net.interface",
        change: |m| interfaces(m, "4", "3"),
        verdict: "ok",
        message: "ens1, IPv4",
    },
    CheckMessage {
        check: "net.interface",
        change: |m| {
            interfaces(m, "3", "4");
            m.file("proc/net/route", "Iface\tDestination\nens1\t00000000\n");
            m.file(
                "proc/net/if_inet6",
                "fe800000000000000000000000000001 03 40 20 80 eno2\n",
            );
        },
        verdict: "ok",
        message: "ens1, IPv4",
    },
    CheckMessage {
        check: "net.interface",
        change: |m| {
            m.file("proc/net/if_inet6", LINKS_OWN);
            m.set("NCCL_SOCKET_FAMILY", "AF_INET6");
        },
        verdict: "ok",
        message: "eth0, IPv6",
    },
];
