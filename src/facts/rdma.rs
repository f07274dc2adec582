//! The RDMA ports of this node, from `/sys/class/infiniband`: without a library, so that they are
//! found on a node whose user-space drivers are broken too.

use std::path::Path;

use super::tree::{names, text};
use crate::levels::ports::{Link, Port};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::ports::listing;
    use std::fs;

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
