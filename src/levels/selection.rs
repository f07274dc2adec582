//! Lists of names in NCCL_SOCKET_IFNAME and NCCL_IB_HCA: `^` before the list excludes the names
//! instead of selecting them, `=` matches exact names instead of prefixes.

use crate::levels::ports::Port;

/// Such a list, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Whether the names are excluded instead of selected.
    pub excludes: bool,
    /// Whether a name matches only itself, instead of every name that begins with it.
    pub is_exact: bool,
    /// The list without `^` and `=`.
    pub list: &'a str,
}

impl<'a> Selection<'a> {
    /// Parses the value of a variable.
    pub fn parse(value: &'a str) -> Selection<'a> {
        let selected = value.strip_prefix('^').unwrap_or(value);
        let list = selected.strip_prefix('=').unwrap_or(selected);
        Selection {
            excludes: selected.len() < value.len(),
            is_exact: list.len() < selected.len(),
            list,
        }
    }

    /// Returns the entries as written: an adapter may be followed by a port, a rail and a plane.
    pub fn entries(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list.split(',')
    }

    /// Returns the names alone.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries()
            .filter_map(|entry| entry.split(':').next())
            .filter(|name| !name.is_empty())
    }

    fn has_names(&self) -> bool {
        self.names().next().is_some()
    }

    fn matches(&self, name: &str, there: &str) -> bool {
        if self.is_exact {
            there == name
        } else {
            there.starts_with(name)
        }
    }

    /// Returns whether an entry, `name` or `name:port`, matches this port. NCCL reads a port that
    /// is not a number as 0, which no device has.
    fn matches_port(&self, entry: &str, there: &Port) -> bool {
        let mut parts = entry.split(':');
        let name = parts.next().unwrap_or_default();
        let number = parts.next().unwrap_or_default();
        if name.is_empty() || !self.matches(name, &there.device) {
            return false;
        }
        number.is_empty() || number.parse() == Ok(there.number)
    }

    /// Returns the entries that select none of these ports. Exclusions may name what a node does
    /// not have.
    pub fn missing(&self, there: &[Port]) -> Vec<&'a str> {
        if self.excludes {
            return Vec::new();
        }
        let entries = self.entries().filter(|entry| !entry.is_empty());
        entries
            .filter(|entry| !there.iter().any(|port| self.matches_port(entry, port)))
            .collect()
    }

    /// Returns whether the interface of this name is selected. As with NCCL, a list without names
    /// matches every interface.
    pub fn takes(&self, there: &str) -> bool {
        let matches = !self.has_names() || self.names().any(|name| self.matches(name, there));
        matches != self.excludes
    }

    /// Returns whether this port of an adapter is selected. A list without names matches every
    /// port.
    pub fn takes_port(&self, there: &Port) -> bool {
        let matches =
            !self.has_names() || self.entries().any(|entry| self.matches_port(entry, there));
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
            let selection = Selection::parse(value);
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
            let selection = Selection::parse(value);
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
            Selection::parse("=mlx5_1:1,mlx5_1:3,mlx5_9").missing(&there),
            ["mlx5_1:3", "mlx5_9"]
        );
        assert_eq!(
            Selection::parse("^=mlx5_9").missing(&there),
            [] as [&str; 0]
        );
    }
}
