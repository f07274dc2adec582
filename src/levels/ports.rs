//! The ports of a node's RDMA devices: InfiniBand, or Ethernet with RoCE.

use serde::{Deserialize, Serialize};

/// The network that a port is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet, for RoCE.
    Ethernet,
    /// Another one, such as EFA.
    Other,
}

impl Link {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Link::InfiniBand => "InfiniBand",
            Link::Ethernet => "Ethernet",
            Link::Other => "other",
        }
    }
}

/// A port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The device, such as `mlx5_0`.
    pub device: String,
    /// Its number on the device, from 1.
    pub number: u32,
    /// The network it is connected to.
    pub link: Link,
    /// Whether the link is up; NCCL skips ports whose link is down.
    pub active: bool,
}

/// Returns the active ports of a network in the form of NCCL_IB_HCA: `=mlx5_0:1,mlx5_1:1`, where
/// `=` makes the names exact (without it, mlx5_1 also means mlx5_10). `None` if there are none.
pub fn hca_list(ports: &[Port], link: Link) -> Option<String> {
    let mut list = Vec::new();
    for port in ports {
        if port.active && port.link == link {
            list.push(format!("{}:{}", port.device, port.number));
        }
    }
    (!list.is_empty()).then(|| format!("={}", list.join(",")))
}

/// Lists all ports for a sentence: `mlx5_0:1 InfiniBand, mlx5_1:1 Ethernet (down)`.
pub fn listing(ports: &[Port]) -> String {
    let ports: Vec<String> = ports.iter().map(Port::text).collect();
    ports.join(", ")
}

impl Port {
    fn text(&self) -> String {
        let down = if self.active { "" } else { " (down)" };
        format!("{}:{} {}{down}", self.device, self.number, self.link.name())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Parses a port from `mlx5_0 1 InfiniBand`, followed by ` down` if its link is down.
    pub(crate) fn port(text: &str) -> Port {
        let words: Vec<&str> = text.split(' ').collect();
        let link = [Link::InfiniBand, Link::Ethernet]
            .into_iter()
            .find(|link| link.name() == words[2]);
        let number = words[1].parse().expect("a number");
        Port {
            device: words[0].into(),
            number,
            link: link.unwrap_or(Link::Other),
            active: words.len() == 3,
        }
    }

    #[test]
    fn only_active_ports_of_the_kind_are_listed() {
        let ports = [
            "mlx5_0 1 InfiniBand",
            "mlx5_1 1 InfiniBand down",
            "mlx5_2 2 InfiniBand",
            "mlx5_3 1 Ethernet",
        ]
        .map(port);
        assert_eq!(
            hca_list(&ports, Link::InfiniBand).as_deref(),
            Some("=mlx5_0:1,mlx5_2:2")
        );
        assert_eq!(hca_list(&ports[..1], Link::Ethernet), None);
        assert_eq!(
            listing(&ports[..2]),
            "mlx5_0:1 InfiniBand, mlx5_1:1 InfiniBand (down)"
        );
    }
}
