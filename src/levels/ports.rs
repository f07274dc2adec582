//! The ports of a node's RDMA devices: InfiniBand, or Ethernet that can do RoCE.

use serde::{Deserialize, Serialize};

/// What a port is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
    /// Neither, such as EFA.
    Other,
}

impl Link {
    /// Its name.
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
    /// The device: `mlx5_0`.
    pub device: String,
    /// Its number on the device, from 1.
    pub number: u32,
    /// What it is connected to.
    pub link: Link,
    /// Is the link up? NCCL passes over ports that are not.
    pub active: bool,
}

/// The active ports of a kind as NCCL_IB_HCA takes them: `=mlx5_0:1,mlx5_1:1`, where `=` makes the names exact (without,
/// mlx5_1 means mlx5_10 too). `None` where there is none.
pub fn hca_list(ports: &[Port], link: Link) -> Option<String> {
    let of_kind = ports.iter().filter(|port| port.active && port.link == link);
    let list: Vec<_> = of_kind
        .map(|port| format!("{}:{}", port.device, port.number))
        .collect();
    (!list.is_empty()).then(|| format!("={}", list.join(",")))
}

/// All ports for a sentence: `mlx5_0:1 InfiniBand, mlx5_1:1 Ethernet (down)`.
pub fn listing(ports: &[Port]) -> String {
    let say = |port: &Port| {
        let down = if port.active { "" } else { " (down)" };
        format!("{}:{} {}{down}", port.device, port.number, port.link.name())
    };
    ports.iter().map(say).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A port from `mlx5_0 1 InfiniBand`, with ` down` behind it where it is.
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
