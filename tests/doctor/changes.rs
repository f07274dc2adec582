//! Changes to a machine that several cases share.

use super::machine::*;

/// An address that reaches no further than the cable, on each interface of these machines.
pub(super) const LINKS_OWN: &str = "00000000000000000000000000000001 01 80 10 80 lo\n\
                         fe800000000000000000000000000001 02 40 20 80 eth0\n\
                         fe800000000000000000000000000002 03 40 20 80 ib0\n";

/// The map of users of a process that is in no namespace of its own.
pub(super) const ALL_USERS: &str = "         0          0 4294967295\n";

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
    m.files
        .retain(|path, _| !path.contains("infiniband") && !path.contains("0000:17:00.0"));
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

/// Controllers on the PCI bus, and no RDMA device, nor a setting that names one.
pub(super) fn without_rdma_devices(m: &mut Machine) {
    m.files
        .retain(|path, _| !path.starts_with("sys/class/infiniband"));
    m.env.remove("NCCL_IB_HCA");
}
