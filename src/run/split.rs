//! Several communicators at the same time, by nccl-tests' variables `NCCL_TESTS_SPLIT` and
//! `NCCL_TESTS_SPLIT_MASK`: what a process's number comes to is the name of its communicator.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    env::{self, Env},
    exit::{Code, Failure},
    world::{self, World},
};

/// The variable that has an operator and a number.
pub(super) const SPLIT: &str = "NCCL_TESTS_SPLIT";

/// The older one, a mask in hexadecimal; it wins, as in nccl-tests.
pub(super) const MASK: &str = "NCCL_TESTS_SPLIT_MASK";

/// The way in which communicators are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Split {
    operator: Operator,
    number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Operator {
    And,
    Or,
    Mod,
    Div,
}

/// Words and signs of the operators.
const OPERATORS: [(&str, Operator); 8] = [
    ("AND", Operator::And),
    ("&", Operator::And),
    ("OR", Operator::Or),
    ("|", Operator::Or),
    ("MOD", Operator::Mod),
    ("%", Operator::Mod),
    ("DIV", Operator::Div),
    ("/", Operator::Div),
];

impl Split {
    /// Reads the variables from `env`; returns `None` if all ranks are one communicator.
    ///
    /// # Errors
    ///
    /// Returns an error if a value cannot be read. nccl-tests makes one communicator of such a
    /// value, or divides by zero.
    pub(super) fn from_env(env: Env) -> anyhow::Result<Option<Split>> {
        // The mask takes precedence, as in nccl-tests.
        let (name, value, split) = if let Some(value) = env::nccl_tests(env, MASK) {
            let split = parse_mask(value.trim());
            (MASK, value, split)
        } else if let Some(value) = env::nccl_tests(env, SPLIT) {
            let split = parse_split(value.trim());
            (SPLIT, value, split)
        } else {
            return Ok(None);
        };
        if split.is_some() {
            return Ok(split);
        }
        let what = format!(
            "{name}={value} cannot be read: {SPLIT} is AND, OR, MOD or DIV (or & | % /) and a \
             number such as 8, 0x7 or 0b111, not 0 for MOD and DIV; {MASK} is a number in \
             hexadecimal"
        );
        Err(Failure::on_all_ranks(Code::Usage, what))
    }

    /// Returns the communicator of process `process`.
    pub(super) fn group(self, process: u32) -> u32 {
        match self.operator {
            Operator::And => process & self.number,
            Operator::Or => process | self.number,
            Operator::Mod => process % self.number,
            Operator::Div => process / self.number,
        }
    }
}

/// Returns the communicator of each process, if there are several.
///
/// # Errors
///
/// Returns an error if processes have different settings, or if MPI allows no communicator of such
/// a number. All have the same error.
pub(super) fn groups(split: Option<Split>, world: &dyn World) -> anyhow::Result<Option<Vec<u32>>> {
    let all = world::all_gather(world, &split)?;
    if let Some(other) = all.iter().position(|other| *other != all[0]) {
        let what = format!(
            "ranks 0 and {other} have different settings of {SPLIT} or {MASK}: export them to all \
             ranks (mpirun -x, srun --export)"
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    let Some(split) = split else { return Ok(None) };
    let mut groups = Vec::new();
    for process in 0..world.size() {
        let group = split.group(process);
        if i32::try_from(group).is_err() {
            let what = format!(
                "{SPLIT} gives a communicator the number {group}, but MPI allows at most {}",
                i32::MAX
            );
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        groups.push(group);
    }
    Ok(Some(groups))
}

fn parse_mask(text: &str) -> Option<Split> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    Some(Split {
        operator: Operator::And,
        number: u32::from_str_radix(digits, 16).ok()?,
    })
}

fn parse_split(text: &str) -> Option<Split> {
    let upper = text.to_ascii_uppercase();
    let (word, operator) = OPERATORS
        .into_iter()
        .find(|(word, _)| upper.starts_with(word))?;
    let number = parse_number(upper[word.len()..].trim())?;
    let divides = matches!(operator, Operator::Mod | Operator::Div);
    if divides && number == 0 {
        return None;
    }
    Some(Split { operator, number })
}

/// Reads a decimal number, or one with 0X or 0B in front.
fn parse_number(text: &str) -> Option<u32> {
    if let Some(digits) = text.strip_prefix("0X") {
        u32::from_str_radix(digits, 16).ok()
    } else if let Some(digits) = text.strip_prefix("0B") {
        u32::from_str_radix(digits, 2).ok()
    } else {
        text.parse().ok()
    }
}

/// The ranks of a process in its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommRanks {
    /// The first rank of the process; its others follow.
    pub(super) first: u32,
    /// All ranks of the communicator.
    pub(super) total: u32,
}

/// Returns the ranks of each process in its communicator, if process `i` belongs to `groups[i]` and
/// each process has `ranks_per_process`.
pub(super) fn comm_ranks(groups: &[u32], ranks_per_process: u32) -> Vec<CommRanks> {
    let mut ranks_of_group: HashMap<u32, u32> = HashMap::new();
    let mut firsts = Vec::new();
    for group in groups {
        let ranks = ranks_of_group.entry(*group).or_default();
        firsts.push(*ranks);
        *ranks += ranks_per_process;
    }
    let with_total = groups.iter().zip(firsts).map(|(group, first)| CommRanks {
        first,
        total: ranks_of_group[group],
    });
    with_total.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(name: &'static str, value: &'static str) -> Result<Vec<u32>, String> {
        let env = |asked: &str| (asked == name).then(|| value.to_owned());
        let split = Split::from_env(&env).map_err(|error| error.to_string())?;
        Ok((0..8)
            .map(|process| split.map_or(0, |split| split.group(process)))
            .collect())
    }

    #[test]
    fn processes_are_grouped_as_in_nccl_tests() {
        for (value, expected) in [
            ("AND 0x3", [0, 1, 2, 3, 0, 1, 2, 3]),
            ("&0b1", [0, 1, 0, 1, 0, 1, 0, 1]),
            ("mod 4", [0, 1, 2, 3, 0, 1, 2, 3]),
            ("%2", [0, 1, 0, 1, 0, 1, 0, 1]),
            ("DIV4", [0, 0, 0, 0, 1, 1, 1, 1]),
            ("/2", [0, 0, 1, 1, 2, 2, 3, 3]),
            ("OR 6", [6, 7, 6, 7, 6, 7, 6, 7]),
        ] {
            assert_eq!(groups(SPLIT, value), Ok(expected.to_vec()), "{value}");
        }
        // A mask is hexadecimal whatever it looks like.
        assert_eq!(groups(MASK, "10"), Ok(vec![0; 8]));
        assert_eq!(groups(MASK, "0x7"), Ok((0..8).collect()));
        for bad in ["XOR 2", "MOD 0", "/0", "AND", "AND x", "7"] {
            assert!(
                groups(SPLIT, bad).expect_err("bad").contains(SPLIT),
                "{bad}"
            );
        }
        assert!(groups(MASK, "0xg").is_err());
        for name in [SPLIT, MASK] {
            assert_eq!(groups(name, " "), Ok(vec![0; 8]), "set and empty");
        }
    }

    #[test]
    fn ranks_are_counted_in_each_communicator() {
        let ranks = |groups: &[u32], per_process| {
            let all = comm_ranks(groups, per_process);
            all.iter()
                .map(|ranks| (ranks.first, ranks.total))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranks(&[0, 1, 0, 1], 1), [(0, 2), (0, 2), (1, 2), (1, 2)]);
        assert_eq!(ranks(&[0, 0, 1], 2), [(0, 4), (2, 4), (0, 2)]);
    }
}
