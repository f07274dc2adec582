//! [`Dimension`] and [`Group`]: how ranks are divided, and which of them form a communicator.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};

use crate::{units::counted, visible::excerpt};

/// The most ranks of a step, far more than any job has: a mistyped number is refused at once.
pub(super) const MOST_RANKS: u64 = 1 << 20;

/// One way in which ranks divide the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Name, such as `data`, `tensor`, `pipeline` or `expert`.
    pub name: String,
    /// The number of ranks among which it divides the work.
    pub size: DimensionSize,
}

/// The number of ranks of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimensionSize {
    /// A fixed number.
    Ranks(u64),
    /// All ranks divided by those of the other dimensions. At most one dimension has it.
    Rest,
}

/// A division of all ranks into communicators of equal size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// For each rank of the job, the number of its communicator, from 0.
    pub colors: Vec<u32>,
    /// For each rank of the job, its rank in its communicator.
    pub ranks: Vec<u32>,
    /// The number of ranks of each communicator.
    pub size: u64,
}

/// The dimensions of a workload with their sizes on a number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankGrid {
    /// The name and size of each dimension, the fastest varying one first.
    dimensions: Vec<(String, u64)>,
    ranks: u64,
}

impl RankGrid {
    /// Divides `ranks` among `dimensions`.
    ///
    /// # Errors
    /// Returns an error if they do not divide evenly, or if more than one dimension takes the rest.
    pub(super) fn new(dimensions: &[Dimension], ranks: u64) -> anyhow::Result<RankGrid> {
        ensure!(
            (1..=MOST_RANKS).contains(&ranks),
            "a step cannot have {}; it has 1 to {MOST_RANKS}. Start so many",
            counted(ranks, "rank")
        );
        let names: BTreeSet<&str> = dimensions.iter().map(|it| it.name.as_str()).collect();
        ensure!(
            names.len() == dimensions.len(),
            "two dimensions of the workload have one name; rename one of them"
        );
        let rest = rest(dimensions, ranks)?;
        let mut sized = Vec::new();
        for dimension in dimensions {
            let size = match dimension.size {
                DimensionSize::Ranks(size) => size,
                DimensionSize::Rest => rest,
            };
            sized.push((dimension.name.clone(), size));
        }
        Ok(RankGrid {
            dimensions: sized,
            ranks,
        })
    }

    /// Returns the dimensions of `group` that have more than one rank, in their order, joined by
    /// `+`.
    pub(super) fn name(&self, group: &BTreeSet<String>) -> String {
        let differing = self
            .dimensions
            .iter()
            .filter(|(name, size)| *size > 1 && group.contains(name));
        let names: Vec<&str> = differing.map(|(name, _)| name.as_str()).collect();
        names.join("+")
    }

    /// Returns whether there is a dimension of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.dimensions.iter().any(|(known, _)| known == name)
    }

    /// Returns the size of a communicator whose ranks differ in the dimensions of `group`.
    pub(super) fn group_size(&self, group: &BTreeSet<String>) -> u64 {
        let sizes = self.dimensions.iter();
        sizes
            .filter(|(name, _)| group.contains(name))
            .map(|(_, size)| size)
            .product()
    }

    /// Returns the communicators whose ranks differ in the dimensions of `group` and agree in the
    /// others.
    pub(super) fn group(&self, group: &BTreeSet<String>) -> Group {
        let mut colors = Vec::new();
        let mut ranks = Vec::new();
        for rank in 0..self.ranks {
            let (inside, outside) = self.coordinates(rank, group);
            // Both are less than the number of ranks.
            ranks.push(inside as u32);
            colors.push(outside as u32);
        }
        Group {
            colors,
            ranks,
            size: self.group_size(group),
        }
    }

    /// Returns the number of `rank` in its communicator, and the number of this communicator among
    /// all of `group`.
    fn coordinates(&self, rank: u64, group: &BTreeSet<String>) -> (u64, u64) {
        let (mut inside, mut outside) = (0, 0);
        let (mut inside_step, mut outside_step) = (1, 1);
        let mut left = rank;
        for (name, size) in &self.dimensions {
            let coordinate = left % size;
            left /= size;
            if group.contains(name) {
                inside += coordinate * inside_step;
                inside_step *= size;
            } else {
                outside += coordinate * outside_step;
                outside_step *= size;
            }
        }
        (inside, outside)
    }
}

/// Returns the size of the dimension that takes the rest; 1 if there is none.
fn rest(dimensions: &[Dimension], ranks: u64) -> anyhow::Result<u64> {
    let mut product = 1_u64;
    let mut rest: Option<&str> = None;
    for Dimension { name, size } in dimensions {
        match (size, rest) {
            (DimensionSize::Ranks(0), _) => {
                let name = excerpt(name);
                bail!("dimension '{name}' has 0 ranks; give it at least 1")
            }
            (DimensionSize::Ranks(size), _) => {
                product = product.checked_mul(*size).with_context(|| {
                    "the dimensions have more ranks together than can be counted; make them smaller"
                })?;
            }
            (DimensionSize::Rest, None) => rest = Some(name),
            (DimensionSize::Rest, Some(first)) => {
                let (first, name) = (excerpt(first), excerpt(name));
                bail!(
                    "the dimensions '{first}' and '{name}' both take the rest of the ranks; give \
                     one of them a number"
                )
            }
        }
    }
    let needed = match rest {
        Some(_) if ranks.is_multiple_of(product) => return Ok(ranks / product),
        None if ranks == product => return Ok(1),
        Some(_) => format!("a multiple of {product}"),
        None => product.to_string(),
    };
    let sizes: Vec<String> = dimensions.iter().map(described).collect();
    let sizes = match sizes.as_slice() {
        [] => "it has none".to_owned(),
        sizes => sizes.join(" × "),
    };
    bail!(
        "{} cannot be divided by the dimensions of the workload ({sizes}). Start {needed}, or \
         change the dimensions",
        counted(ranks, "rank"),
    )
}

/// Returns a dimension as messages name it: `tensor 8`.
fn described(dimension: &Dimension) -> String {
    let name = excerpt(&dimension.name);
    match dimension.size {
        DimensionSize::Ranks(size) => format!("{name} {size}"),
        DimensionSize::Rest => format!("{name} the rest"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dimension(name: &str, ranks: u64) -> Dimension {
        let size = match ranks {
            0 => DimensionSize::Rest,
            ranks => DimensionSize::Ranks(ranks),
        };
        Dimension {
            name: name.to_owned(),
            size,
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_first_dimension_varies_fastest() {
        let dimensions = [dimension("tensor", 2), dimension("data", 0)];
        let grid = RankGrid::new(&dimensions, 6).expect("3 pairs");
        let tensor = grid.group(&names(&["tensor"]));
        assert_eq!(tensor.colors, [0, 0, 1, 1, 2, 2]);
        assert_eq!(tensor.ranks, [0, 1, 0, 1, 0, 1]);
        assert_eq!(tensor.size, 2);
        let data = grid.group(&names(&["data"]));
        assert_eq!(data.colors, [0, 1, 0, 1, 0, 1]);
        assert_eq!(data.ranks, [0, 0, 1, 1, 2, 2]);
        assert_eq!(data.size, 3);
        let all = grid.group(&names(&["data", "tensor"]));
        assert_eq!(all.ranks, [0, 1, 2, 3, 4, 5]);
        assert_eq!(grid.name(&names(&["data", "tensor"])), "tensor+data");
    }

    #[test]
    fn a_dimension_of_one_rank_is_not_in_the_name() {
        let dimensions = [dimension("tensor", 4), dimension("data", 0)];
        let grid = RankGrid::new(&dimensions, 4).expect("4 ranks");
        assert_eq!(grid.name(&names(&["data", "tensor"])), "tensor");
        assert_eq!(grid.group_size(&names(&["data"])), 1);
    }

    #[test]
    fn ranks_that_do_not_divide_are_refused_with_a_remedy() {
        let refused = |dimensions: &[Dimension], ranks| {
            let error = RankGrid::new(dimensions, ranks).expect_err("refused");
            error.to_string()
        };
        let three = [
            dimension("tensor", 8),
            dimension("pipeline", 4),
            dimension("data", 0),
        ];
        assert_eq!(
            refused(&three, 48),
            "48 ranks cannot be divided by the dimensions of the workload (tensor 8 × pipeline 4 \
             × data the rest). Start a multiple of 32, or change the dimensions"
        );
        assert_eq!(
            refused(&three[..1], 1),
            "1 rank cannot be divided by the dimensions of the workload (tensor 8). Start 8, or \
             change the dimensions"
        );
        let huge = [dimension("a", u64::MAX), dimension("b", 2)];
        assert!(refused(&huge, 2).contains("more ranks together than can be counted"));
        let twice = [dimension("a", 0), dimension("b", 0)];
        assert!(refused(&twice, 2).contains("'a' and 'b' both take the rest"));
        assert!(refused(&[], 0).starts_with("a step cannot have 0 ranks"));
        assert!(refused(&[], 2).contains("(it has none). Start 1,"));
    }

    proptest! {
        #[test]
        fn groups_divide_the_ranks(sizes in prop::collection::vec(1..5_u64, 1..5), chosen in 0..16_u32, rest in any::<bool>()) {
            let ranks: u64 = sizes.iter().product();
            let mut dimensions = Vec::new();
            for (at, size) in sizes.iter().enumerate() {
                let size = if rest && at == 0 { 0 } else { *size };
                dimensions.push(dimension(&format!("d{at}"), size));
            }
            let chosen: BTreeSet<String> = (0..sizes.len())
                .filter(|at| chosen >> at & 1 == 1)
                .map(|at| format!("d{at}"))
                .collect();
            let grid = RankGrid::new(&dimensions, ranks).expect("a product of the sizes");
            let group = grid.group(&chosen);
            prop_assert_eq!(ranks % group.size, 0);
            for color in 0..(ranks / group.size) as u32 {
                let members = (0..ranks as usize).filter(|rank| group.colors[*rank] == color);
                let inside: Vec<u32> = members.map(|rank| group.ranks[rank]).collect();
                // Each rank once, and in the order of the job.
                prop_assert_eq!(inside, (0..group.size as u32).collect::<Vec<_>>());
            }
        }

        #[test]
        fn a_group_and_the_other_dimensions_meet_in_one_rank(sizes in prop::collection::vec(1..5_u64, 2..5)) {
            let ranks: u64 = sizes.iter().product();
            let dimensions: Vec<Dimension> =
                sizes.iter().enumerate().map(|(at, size)| dimension(&format!("d{at}"), *size)).collect();
            let grid = RankGrid::new(&dimensions, ranks).expect("a product of the sizes");
            let first = grid.group(&names(&["d0"]));
            let others: BTreeSet<String> = (1..sizes.len()).map(|at| format!("d{at}")).collect();
            let others = grid.group(&others);
            let pairs: BTreeSet<(u32, u32)> =
                first.colors.iter().copied().zip(others.colors.iter().copied()).collect();
            prop_assert_eq!(pairs.len() as u64, ranks);
            prop_assert_eq!(&first.ranks, &others.colors);
        }
    }
}
