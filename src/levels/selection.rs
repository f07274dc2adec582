//! How NCCL_SOCKET_IFNAME and NCCL_IB_HCA choose: a list of names, `^` before it for all but these, `=` before it for exact
//! names instead of beginnings.

use crate::levels::ports::Port;

/// Such a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Are these the names to leave out?
    pub excludes: bool,
    /// Do the names match only themselves?
    pub is_exact: bool,
    /// The list without its signs.
    pub list: &'a str,
}

impl<'a> Selection<'a> {
    /// Reads a value.
    pub fn of(value: &'a str) -> Selection<'a> {
        let (excludes, rest) = value
            .strip_prefix('^')
            .map_or((false, value), |rest| (true, rest));
        let (is_exact, list) = rest
            .strip_prefix('=')
            .map_or((false, rest), |rest| (true, rest));
        Selection {
            excludes,
            is_exact,
            list,
        }
    }

    /// The names, as they are written: an adapter's may be followed by a port, rail and plane.
    pub fn entries(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list.split(',')
    }

    /// The names alone.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries()
            .filter_map(|entry| entry.split(':').next())
            .filter(|name| !name.is_empty())
    }

    fn matches(&self, name: &str, there: &str) -> bool {
        if self.is_exact {
            there == name
        } else {
            there.starts_with(name)
        }
    }

    /// Does this entry, `name` or `name:port`, match that port? A port that is no number is NCCL's 0, which no device has.
    fn matches_port(&self, entry: &str, there: &Port) -> bool {
        let mut parts = entry.split(':');
        let name = parts.next().unwrap_or_default();
        let number = parts.next().filter(|number| !number.is_empty());
        !name.is_empty()
            && self.matches(name, &there.device)
            && number.is_none_or(|number| number.parse() == Ok(there.number))
    }

    /// Entries that choose no port of what is there. A list of exclusions may name what a node does not have.
    pub fn missing(&self, there: &[Port]) -> Vec<&'a str> {
        let is_missing = |entry: &&str| {
            !entry.is_empty() && !there.iter().any(|port| self.matches_port(entry, port))
        };
        if self.excludes {
            Vec::new()
        } else {
            self.entries().filter(is_missing).collect()
        }
    }

    /// Does it choose the interface of this name? A list without a name matches all, as with NCCL.
    pub fn takes(&self, there: &str) -> bool {
        let matches =
            self.names().next().is_none() || self.names().any(|name| self.matches(name, there));
        matches != self.excludes
    }

    /// Does it choose this port of an adapter? A list without a name matches all.
    pub fn takes_port(&self, there: &Port) -> bool {
        let matches = self.names().next().is_none()
            || self.entries().any(|entry| self.matches_port(entry, there));
        matches != self.excludes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::ports::tests::port;

    #[test]
    fn names_are_chosen_as_nccl_chooses_them() {
        let there = ["eth1", "eth10", "lo"];
        let taken = |value| {
            let selection = Selection::of(value);
            there
                .into_iter()
                .filter(|name| selection.takes(name))
                .collect::<Vec<_>>()
        };
        assert_eq!(taken("eth1"), ["eth1", "eth10"], "a beginning");
        assert_eq!(taken("=eth1:1,eth9"), ["eth1"]);
        assert_eq!(taken("^eth10"), ["eth1", "lo"]);
        assert_eq!(taken("^=eth1"), ["eth10", "lo"]);
        assert_eq!(taken(""), there, "no list");
        assert_eq!(taken("^"), [] as [&str; 0]);
    }

    #[test]
    fn ports_are_chosen_by_name_and_number() {
        let there = [
            "mlx5_1 1 InfiniBand",
            "mlx5_1 2 InfiniBand",
            "mlx5_10 1 InfiniBand",
        ]
        .map(port);
        let taken = |value| {
            let selection = Selection::of(value);
            let taken = there.iter().filter(|port| selection.takes_port(port));
            taken
                .map(|port| format!("{}:{}", port.device, port.number))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(taken("mlx5_1"), "mlx5_1:1 mlx5_1:2 mlx5_10:1");
        assert_eq!(taken("=mlx5_1"), "mlx5_1:1 mlx5_1:2");
        assert_eq!(taken("=mlx5_1:2:0:1"), "mlx5_1:2", "a rail and a plane");
        assert_eq!(taken("=mlx5_1::0"), "mlx5_1:1 mlx5_1:2", "a rail alone");
        assert_eq!(taken("=mlx5_1:x"), "");
        assert_eq!(taken("^=mlx5_1:1"), "mlx5_1:2 mlx5_10:1");
        assert_eq!(taken(""), "mlx5_1:1 mlx5_1:2 mlx5_10:1");
        assert_eq!(
            Selection::of("=mlx5_1:1,mlx5_1:3,mlx5_9").missing(&there),
            ["mlx5_1:3", "mlx5_9"]
        );
        assert_eq!(Selection::of("^=mlx5_9").missing(&there), [] as [&str; 0]);
    }
}
