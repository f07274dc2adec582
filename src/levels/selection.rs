//! How NCCL_SOCKET_IFNAME and NCCL_IB_HCA choose: a list of names, `^` before it for all but these, `=` before it for exact
//! names instead of beginnings.

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
        let (excludes, rest) = value.strip_prefix('^').map_or((false, value), |rest| (true, rest));
        let (is_exact, list) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
        Selection { excludes, is_exact, list }
    }

    /// The names, as they are written: an adapter's may be followed by a port, rail and plane.
    pub fn entries(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list.split(',')
    }

    /// The names alone.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries().filter_map(|entry| entry.split(':').next()).filter(|name| !name.is_empty())
    }

    fn matches(&self, name: &str, there: &str) -> bool {
        if self.is_exact { there == name } else { there.starts_with(name) }
    }

    /// Names that choose nothing of what is there. A list of exclusions may name what a node does not have.
    pub fn missing(&self, there: &[String]) -> Vec<&'a str> {
        let is_missing = |name: &&str| !there.iter().any(|other| self.matches(name, other));
        if self.excludes { Vec::new() } else { self.names().filter(is_missing).collect() }
    }

    /// Does it choose this one?
    pub fn takes(&self, there: &str) -> bool {
        self.names().any(|name| self.matches(name, there)) != self.excludes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_chosen_as_nccl_chooses_them() {
        let there: Vec<String> = ["mlx5_1", "mlx5_10", "mlx5_bond_0"].map(str::to_owned).into();
        let taken = |value: &str| {
            let selection = Selection::of(value);
            there.iter().filter(|name| selection.takes(name)).map(String::as_str).collect::<Vec<_>>()
        };
        assert_eq!(taken("mlx5_1"), ["mlx5_1", "mlx5_10"], "a beginning");
        assert_eq!(taken("=mlx5_1:1,mlx5_9"), ["mlx5_1"]);
        assert_eq!(taken("^mlx5_bond"), ["mlx5_1", "mlx5_10"]);
        assert_eq!(taken("^=mlx5_1"), ["mlx5_10", "mlx5_bond_0"]);
        assert_eq!(Selection::of("=mlx5_1:1,mlx5_9").missing(&there), ["mlx5_9"]);
        assert_eq!(Selection::of("^=mlx5_9").missing(&there), [] as [&str; 0]);
    }
}
