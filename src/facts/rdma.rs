//! The RDMA ports of this node, from `/sys/class/infiniband`: without a library, so that they are
//! found on a node whose user-space drivers are broken too.

use std::{fs, path::Path};

use super::tree::{names, text};
use crate::{
    levels::ports::{Link, Port},
    native::nvml::Reading,
};

/// The prefix of the PCI class of InfiniBand controllers, as in `/sys/bus/pci/devices/*/class`.
const PCI_CLASS: &str = "0x0207";

/// Returns the ports under `root`, the root of the file system, by device and number.
pub fn ports(root: &Path) -> Vec<Port> {
    let devices = root.join("sys/class/infiniband");
    let mut ports = Vec::new();
    for device in names(&devices) {
        let folder = devices.join(&device).join("ports");
        for name in names(&folder) {
            if let Ok(number) = name.parse() {
                ports.push(port(&folder.join(&name), &device, number));
            }
        }
    }
    ports.sort_by(|a, b| (&a.device, a.number).cmp(&(&b.device, b.number)));
    ports
}

fn port(folder: &Path, device: &str, number: u32) -> Port {
    let link = match text(&folder.join("link_layer")).as_str() {
        "InfiniBand" => Link::InfiniBand,
        "Ethernet" => Link::Ethernet,
        _ => Link::Other,
    };
    Port {
        device: device.to_owned(),
        number,
        link,
        // `4: ACTIVE`; ports in the states `3: ARMED`, `2: INIT` and `1: DOWN` carry no traffic.
        active: text(&folder.join("state")).starts_with('4'),
    }
}

/// Reads which devices on the PCI bus are InfiniBand controllers, except those that are kept for
/// virtual machines. The bus is the same in each container; RDMA devices are not.
pub(super) fn controllers(root: &Path) -> Reading<Vec<String>> {
    let bus = root.join("sys/bus/pci/devices");
    let mut addresses = names(&bus);
    if addresses.is_empty() {
        return Reading::none("/sys/bus/pci/devices lists nothing");
    }
    addresses.retain(|address| {
        let device = bus.join(address);
        text(&device.join("class")).starts_with(PCI_CLASS) && !is_for_virtual_machines(&device)
    });
    Reading::of(addresses)
}

/// Returns whether the driver of a PCI device hands it to virtual machines.
fn is_for_virtual_machines(device: &Path) -> bool {
    let driver = fs::read_link(device.join("driver")).unwrap_or_default();
    let name = driver.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with("vfio")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::ports::listing;
    use std::os::unix::fs::symlink;

    #[test]
    fn controllers_are_told_by_their_class_and_driver() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(controllers(root.path()).value.is_none());
        for (address, class, driver) in [
            ("0000:17:00.0", "0x020700", "mlx5_core"),
            ("0000:18:00.0", "0x020700", "vfio-pci"),
            ("0000:19:00.0", "0x020000", "mlx5_core"),
        ] {
            let device = root.path().join("sys/bus/pci/devices").join(address);
            fs::create_dir_all(&device).expect("made");
            fs::write(device.join("class"), class).expect("written");
            let target = format!("../../../../bus/pci/drivers/{driver}");
            symlink(target, device.join("driver")).expect("linked");
        }
        let found = controllers(root.path()).value;
        assert_eq!(found, Some(vec!["0000:17:00.0".to_owned()]));
    }

    #[test]
    fn ports_are_told_by_their_link_layer_and_state() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(ports(root.path()), []);
        for (device, port, link, state) in [
            ("mlx5_1", "1", "Ethernet\n", "4: ACTIVE\n"),
            ("mlx5_0", "1", "InfiniBand\n", "4: ACTIVE\n"),
            ("mlx5_0", "2", "InfiniBand\n", "1: DOWN\n"),
            ("efa_0", "1", "Unspecified\n", "4: ACTIVE\n"),
        ] {
            let folder = root
                .path()
                .join("sys/class/infiniband")
                .join(device)
                .join("ports")
                .join(port);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join("link_layer"), link).expect("written");
            fs::write(folder.join("state"), state).expect("written");
        }
        let all = ports(root.path());
        assert_eq!(
            listing(&all),
            "efa_0:1 other, mlx5_0:1 InfiniBand, mlx5_0:2 InfiniBand (down), mlx5_1:1 Ethernet"
        );
    }
}
