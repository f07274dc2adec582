//! What a check says of a machine, where it has to tell good from bad closely.

use super::machine::*;

/// An address that reaches no further than the cable, on each interface of these machines.
pub(super) const LINKS_OWN: &str = "00000000000000000000000000000001 01 80 10 80 lo\n\
                         fe800000000000000000000000000001 02 40 20 80 eth0\n\
                         fe800000000000000000000000000002 03 40 20 80 ib0\n";

/// The map of users of a process that is in no namespace of its own.
pub(super) const ALL_USERS: &str = "         0          0 4294967295\n";

/// A check, what makes it say more than that something is wrong, its verdict, and words of that. Where the verdict is good, no
/// other check finds anything either.
pub(super) const SAID: &[(&str, Spoil, &str, &str)] = &[
    (
        "host.memlock",
        |m| may_pin_little(m, "000001ffffffffff", ALL_USERS),
        "ok",
        "CAP_IPC_LOCK",
    ),
    (
        "host.memlock",
        |m| may_pin_little(m, "000001ffffffbfff", ALL_USERS),
        "failure",
        "64 KiB",
    ),
    (
        "host.memlock",
        |m| may_pin_little(m, "000001ffffffffff", "0 1000 1\n"),
        "failure",
        "64 KiB",
    ),
    (
        "host.remove-ipc",
        |m| logind(m, &[("etc", "[Login]\n RemoveIPC = False\n")]),
        "ok",
        "/etc/systemd/logind.conf)",
    ),
    (
        "host.remove-ipc",
        |m| logind(m, &[("etc", "[Login]\nRemoveIPC=On\n")]),
        "warning",
        "=yes",
    ),
    (
        "host.remove-ipc",
        |m| logind(m, &[("etc", "[Login]\nRemoveIPC=no\nRemoveIPC=maybe\n")]),
        "ok",
        "=no",
    ),
    (
        "host.remove-ipc",
        |m| logind(m, &[("etc", "[Login]\n#RemoveIPC=no\n")]),
        "warning",
        "systemd's default",
    ),
    (
        "host.remove-ipc",
        |m| logind(m, &[("etc", "RemoveIPC=no\n[Other]\nRemoveIPC=no\n")]),
        "warning",
        "default",
    ),
    (
        "host.remove-ipc",
        |m| logind(m, &[("usr/lib", "[Login]\nRemoveIPC=0\n")]),
        "ok",
        "/usr/lib/systemd/logind.conf",
    ),
    (
        "host.remove-ipc",
        |m| {
            logind(
                m,
                &[("etc", "[Login]\n"), ("run", "[Login]\nRemoveIPC=0\n")],
            )
        },
        "warning",
        "default",
    ),
    (
        "host.remove-ipc",
        |m| logind(m, &[]),
        "not_applicable",
        "no logind.conf",
    ),
    // The last by name counts, wherever it is; of one name the one in /etc.
    (
        "host.remove-ipc",
        |m| beside_logind(m, "run", "20-site.conf", "no"),
        "ok",
        "/run/systemd/logind.conf.d/20-site.conf",
    ),
    (
        "host.remove-ipc",
        |m| beside_logind(m, "usr/lib", "20-site.conf", "no"),
        "ok",
        "/usr/lib/systemd/logind.conf.d/20",
    ),
    (
        "host.remove-ipc",
        |m| beside_logind(m, "etc", "00-site.conf", "no"),
        "warning",
        "10-here.conf",
    ),
    (
        "host.remove-ipc",
        |m| beside_logind(m, "usr/lib", "10-here.conf", "no"),
        "warning",
        "/etc/systemd/logind.conf.d/10-",
    ),
    (
        "host.remove-ipc",
        |m| beside_logind(m, "etc", "20-site.bak", "no"),
        "warning",
        "10-here.conf",
    ),
    (
        "host.remove-ipc",
        |m| {
            release(
                m,
                "NAME=Rocky\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
            )
        },
        "ok",
        "Red Hat",
    ),
    (
        "host.remove-ipc",
        |m| release(m, "ID=rhel\n"),
        "ok",
        "Red Hat",
    ),
    (
        "host.remove-ipc",
        |m| release(m, "ID=\"ol\"\nID_LIKE=\"fedora\"\n"),
        "ok",
        "Red Hat",
    ),
    (
        "host.remove-ipc",
        |m| release(m, "ID=fedora\n"),
        "warning",
        "systemd's default",
    ),
    (
        "host.remove-ipc",
        |m| release(m, "ID=ubuntu\nID_LIKE=debian\n"),
        "warning",
        "systemd's default",
    ),
    (
        "host.remove-ipc",
        |m| of_user(m, "0", ALL_USERS),
        "ok",
        "the system's users",
    ),
    (
        "host.remove-ipc",
        |m| of_user(m, "0", "0 1000 1\n"),
        "warning",
        "=yes",
    ),
    (
        "host.remove-ipc",
        |m| of_user(m, "1000", ALL_USERS),
        "warning",
        "=yes",
    ),
    (
        "host.container",
        |m| m.file("run/.containerenv", ""),
        "ok",
        "/run/.containerenv",
    ),
    (
        "host.container",
        |m| {
            m.file(
                "proc/self/cgroup",
                "0::/system.slice/slurmstepd.scope/job_7\n",
            )
        },
        "not_applicable",
        "no",
    ),
    (
        "host.container",
        |m| m.file("proc/self/cgroup", "0::/system.slice/docker.service\n"),
        "not_applicable",
        "no",
    ),
    (
        "host.container",
        |m| {
            m.file(
                "proc/self/cgroup",
                "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-0a.scope\n",
            )
        },
        "ok",
        "kubepods.slice",
    ),
    (
        "host.container",
        |m| {
            m.file(
                "proc/self/cgroup",
                "3:cpu,cpuacct:/kubepods/besteffort/pod0a/0b\n1:name=systemd:/kubepods/0b\n",
            )
        },
        "ok",
        "besteffort",
    ),
    (
        "host.container",
        |m| m.file("proc/self/cgroup", "2:pids:/docker/0a0b\n"),
        "ok",
        "/docker/0a0b",
    ),
    (
        "host.container",
        |m| {
            m.file("proc/self/cgroup", "0::/\n");
            m.file(
                "proc/self/mountinfo",
                "812 790 259:1 /var/lib/kubelet/pods/0a/etc-hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw\n",
            );
        },
        "ok",
        "kubelet",
    ),
    (
        "host.iommu",
        |m| behind_iommu(m, "identity\n"),
        "ok",
        "0000:01:00.0",
    ),
    (
        "host.iommu",
        |m| behind_iommu(m, "DMA-FQ\n"),
        "warning",
        "mlx5_0 (DMA-FQ)",
    ),
    (
        "host.iommu",
        |m| m.file("sys/kernel/iommu_groups/0/type", "identity\n"),
        "ok",
        "all groups",
    ),
    (
        "host.iommu",
        |m| grouped(m, "ro iommu=pt quiet\n"),
        "ok",
        "iommu=pt",
    ),
    (
        "host.iommu",
        |m| grouped(m, "iommu.passthrough=1\n"),
        "ok",
        "iommu.passthrough=1",
    ),
    (
        "host.iommu",
        |m| grouped(m, "iommu.passthrough=0\n"),
        "warning",
        "not told",
    ),
    (
        "host.acs",
        |m| conventional(m, 256),
        "ok",
        "no bridge redirects",
    ),
    (
        "host.acs",
        |m| conventional(m, 64),
        "not_applicable",
        "only root",
    ),
    (
        "net.port-down",
        |m| beside(m, "InfiniBand", "1: DOWN"),
        "ok",
        "2 ports",
    ),
    (
        "net.port-down",
        |m| second_port(m, "1: DOWN", "=mlx5_0:1,mlx5_1:1"),
        "ok",
        "2 ports",
    ),
    (
        "net.port-down",
        |m| second_port(m, "1: DOWN", "=mlx5_0,mlx5_1"),
        "warning",
        "mlx5_1:2",
    ),
    (
        "net.port-down",
        |m| second_port(m, "1: DOWN", "=mlx5_1:2"),
        "failure",
        "mlx5_1:2",
    ),
    (
        "net.port-rate",
        |m| beside(m, "InfiniBand", "4: ACTIVE"),
        "ok",
        "one rate",
    ),
    (
        "net.gid",
        |m| {
            beside(m, "Ethernet", "4: ACTIVE");
            m.set("NCCL_IB_GID_INDEX", "3");
        },
        "not_applicable",
        "no active RoCE port",
    ),
    (
        "net.mixed-ports",
        |m| beside(m, "Ethernet", "4: ACTIVE"),
        "ok",
        "chooses",
    ),
    (
        "net.mixed-ports",
        |m| {
            beside(m, "Ethernet", "4: ACTIVE");
            m.set("NCCL_IB_HCA", "^=mlx5_0");
        },
        "warning",
        "mlx5_9",
    ),
    (
        "net.hca",
        |m| m.set("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"),
        "ok",
        "mlx5_0:1",
    ),
    (
        "net.hca",
        |m| m.set("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:2"),
        "warning",
        "no mlx5_1:2",
    ),
    (
        "net.hca",
        |m| m.set("NCCL_IB_HCA", "=mlx5_0:2,mlx5_1:2"),
        "failure",
        "mlx5_0:1",
    ),
    (
        "net.hca",
        |m| m.set("NCCL_IB_HCA", "^mlx5"),
        "failure",
        "leaves none",
    ),
    (
        "net.hca",
        |m| without_adapters(m, "^=mlx5_9"),
        "not_applicable",
        "to leave out",
    ),
    (
        "net.hca",
        |m| without_adapters(m, "=mlx5_0"),
        "failure",
        "no RDMA device",
    ),
    (
        "net.interface",
        |m| m.set("NCCL_SOCKET_IFNAME", "^docker"),
        "warning",
        "takes lo",
    ),
    (
        "net.interface",
        |m| m.set("NCCL_SOCKET_IFNAME", "^docker,lo"),
        "ok",
        "eth0",
    ),
    (
        "net.interface",
        |m| m.set("NCCL_SOCKET_IFNAME", "=lo"),
        "ok",
        "one node",
    ),
    (
        "net.interface",
        |m| m.set("NCCL_SOCKET_IFNAME", "^"),
        "ok",
        "eth0",
    ),
    (
        "net.interface",
        |m| interfaces(m, "3", "4"),
        "ok",
        "eno2, IPv4",
    ),
    (
        "net.interface",
        |m| interfaces(m, "4", "3"),
        "ok",
        "ens1, IPv4",
    ),
    (
        "net.interface",
        |m| {
            interfaces(m, "3", "4");
            m.file("proc/net/route", "Iface\tDestination\nens1\t00000000\n");
            m.file(
                "proc/net/if_inet6",
                "fe800000000000000000000000000001 03 40 20 80 eno2\n",
            );
        },
        "ok",
        "ens1, IPv4",
    ),
    (
        "net.interface",
        |m| {
            m.file("proc/net/if_inet6", LINKS_OWN);
            m.set("NCCL_SOCKET_FAMILY", "AF_INET6");
        },
        "ok",
        "eth0, IPv6",
    ),
];

/// logind.conf in these places, and no other.
pub(super) fn logind(m: &mut Machine, texts: &[(&str, &str)]) {
    m.files.remove("etc/systemd/logind.conf");
    for (place, text) in texts {
        m.file(&format!("{place}/systemd/logind.conf"), text);
    }
}

/// A file beside logind.conf, and one in /etc that says yes.
pub(super) fn beside_logind(m: &mut Machine, place: &str, name: &str, word: &str) {
    m.file(
        "etc/systemd/logind.conf.d/10-here.conf",
        "[Login]\nRemoveIPC=yes\n",
    );
    m.file(
        &format!("{place}/systemd/logind.conf.d/{name}"),
        &format!("[Login]\nRemoveIPC={word}\n"),
    );
}

/// A distribution whose logind.conf sets nothing.
pub(super) fn release(m: &mut Machine, text: &str) {
    logind(m, &[("etc", "[Login]\n#RemoveIPC=\n")]);
    m.file("etc/os-release", text);
}

/// RemoveIPC, and the user of the process.
pub(super) fn of_user(m: &mut Machine, user: &str, users: &str) {
    logind(m, &[("etc", "[Login]\nRemoveIPC=yes\n")]);
    m.edit(
        "proc/self/status",
        "Name:\tx\n",
        &format!("Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\n"),
    );
    m.file("proc/self/uid_map", users);
}

/// An IOMMU, and the type of the group of the GPU and of both adapters.
pub(super) fn behind_iommu(m: &mut Machine, kind: &str) {
    let gpu = "sys/bus/pci/devices/0000:01:00.0";
    m.file(&format!("{gpu}/vendor"), "0x10de\n");
    m.file(&format!("{gpu}/class"), "0x030200\n");
    for device in [
        gpu,
        "sys/class/infiniband/mlx5_0/device",
        "sys/class/infiniband/mlx5_1/device",
    ] {
        m.file(&format!("{device}/iommu_group/type"), kind);
    }
    // A device of no interest.
    m.file("sys/kernel/iommu_groups/9/type", "DMA-FQ\n");
}

/// An IOMMU of which only the kernel's command line says what it does.
pub(super) fn grouped(m: &mut Machine, cmdline: &str) {
    m.file("sys/kernel/iommu_groups/0/devices/0000:00:01.0", "");
    m.file("proc/cmdline", cmdline);
}

/// Bridges before and behind the good one, of which so many bytes can be read.
pub(super) fn conventional(m: &mut Machine, bytes: usize) {
    for bridge in [
        "sys/bus/pci/devices/0000:00:00.0",
        "sys/bus/pci/devices/0000:00:1e.0",
    ] {
        m.file(&format!("{bridge}/class"), "0x060401\n");
        m.files.insert(format!("{bridge}/config"), vec![0; bytes]);
    }
}

/// Little memory to pin; capabilities and a map of users.
pub(super) fn may_pin_little(m: &mut Machine, capabilities: &str, users: &str) {
    m.edit(
        "proc/self/limits",
        "locked memory         unlimited",
        "locked memory         65536    ",
    );
    m.edit(
        "proc/self/status",
        "Name:\tx\n",
        &format!("Name:\tx\nCapEff:\t{capabilities}\n"),
    );
    m.file("proc/self/uid_map", users);
}

/// An adapter that NCCL_IB_HCA does not name, slower than those that it names.
pub(super) fn beside(m: &mut Machine, link: &str, state: &str) {
    port(&mut m.files, "mlx5_9", link, state, "100 Gb/sec");
}

/// A second port on mlx5_1.
pub(super) fn second_port(m: &mut Machine, state: &str, hca: &str) {
    for (file, text) in [
        ("link_layer", "InfiniBand"),
        ("state", state),
        ("rate", "400 Gb/sec"),
    ] {
        m.file(&format!("sys/class/infiniband/mlx5_1/ports/2/{file}"), text);
    }
    m.set("NCCL_IB_HCA", hca);
}

pub(super) fn without_adapters(m: &mut Machine, hca: &str) {
    m.files.retain(|path, _| !path.contains("infiniband"));
    m.set("NCCL_IB_HCA", hca);
}

/// Two interfaces instead of eth0, by the number that the kernel gave them, and nobody names one.
pub(super) fn interfaces(m: &mut Machine, eno2: &str, ens1: &str) {
    m.files.retain(|path, _| !path.contains("eth0"));
    for (name, number) in [("eno2", eno2), ("ens1", ens1)] {
        m.file(&format!("sys/class/net/{name}/operstate"), "up\n");
        m.file(&format!("sys/class/net/{name}/ifindex"), number);
    }
    m.file(
        "proc/net/route",
        "Iface\tDestination\neno2\t00000000\nens1\t00000000\n",
    );
    m.env.remove("NCCL_SOCKET_IFNAME");
}

/// An interface of InfiniBand's that nobody gave an address, and nobody names an interface.
pub(super) fn ipoib(m: &mut Machine) {
    m.file("sys/class/net/ib0/operstate", "up\n");
    m.file("proc/net/if_inet6", LINKS_OWN);
    m.env.remove("NCCL_SOCKET_IFNAME");
}
