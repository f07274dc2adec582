//! Several communicators at the same time, by nccl-tests' variables `NCCL_TESTS_SPLIT` and `NCCL_TESTS_SPLIT_MASK`: what a
//! process's number comes to is the name of its communicator.

use serde::{Deserialize, Serialize};

use crate::{
    env::Env,
    exit::{Code, Failure},
    world::{self, World},
};

/// The variable that has an operator and a number.
const SPLIT: &str = "NCCL_TESTS_SPLIT";

/// The older one, a mask in hexadecimal; it wins, as in nccl-tests.
const MASK: &str = "NCCL_TESTS_SPLIT_MASK";

/// How communicators are told apart.
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
    /// What the environment says; `None` where all ranks are one communicator.
    ///
    /// # Errors
    /// Where it says what cannot be read; nccl-tests makes one communicator of that, or divides by zero.
    pub(super) fn from(env: Env) -> anyhow::Result<Option<Split>> {
        let (name, value, read): (_, _, fn(&str) -> Option<Split>) = match (env(MASK), env(SPLIT)) {
            (Some(mask), _) => (MASK, mask, mask_of),
            (None, Some(split)) => (SPLIT, split, split_of),
            (None, None) => return Ok(None),
        };
        let how = "NCCL_TESTS_SPLIT is AND, OR, MOD or DIV (or & | % /) and a number such as 8, 0x7 or 0b111, not 0 for MOD \
                   and DIV; NCCL_TESTS_SPLIT_MASK is a number in hexadecimal";
        let what =
            || Failure::on_all_ranks(Code::Usage, format!("{name}={value} cannot be read: {how}"));
        read(value.trim()).map(Some).ok_or_else(what)
    }

    /// The communicator of process `process`.
    pub(super) fn group(self, process: u32) -> u32 {
        match self.operator {
            Operator::And => process & self.number,
            Operator::Or => process | self.number,
            Operator::Mod => process % self.number,
            Operator::Div => process / self.number,
        }
    }
}

/// The communicator of each process, where there are several.
///
/// # Errors
/// Where processes have other settings, or MPI has no such number of a communicator. All have the same error.
pub(super) fn groups(split: Option<Split>, world: &dyn World) -> anyhow::Result<Option<Vec<u32>>> {
    let all = world::all_gather(world, &split)?;
    if let Some(other) = all.iter().position(|other| *other != all[0]) {
        let what = format!(
            "ranks 0 and {other} have different settings of {SPLIT} or {MASK}: export them to all ranks (mpirun -x, srun --export)"
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    let Some(split) = split else { return Ok(None) };
    let groups: Vec<u32> = (0..world.size())
        .map(|process| split.group(process))
        .collect();
    match groups.iter().find(|group| i32::try_from(**group).is_err()) {
        Some(group) => {
            let what = format!(
                "{SPLIT} gives a communicator the number {group}, and the largest that MPI allows is {}",
                i32::MAX
            );
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
        None => Ok(Some(groups)),
    }
}

fn mask_of(text: &str) -> Option<Split> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    Some(Split {
        operator: Operator::And,
        number: u32::from_str_radix(digits, 16).ok()?,
    })
}

fn split_of(text: &str) -> Option<Split> {
    let upper = text.to_ascii_uppercase();
    let (word, operator) = OPERATORS
        .into_iter()
        .find(|(word, _)| upper.starts_with(word))?;
    let number = number(upper[word.len()..].trim())?;
    let divides = matches!(operator, Operator::Mod | Operator::Div);
    (number > 0 || !divides).then_some(Split { operator, number })
}

/// A decimal number, or one with 0X or 0B in front.
fn number(text: &str) -> Option<u32> {
    match (text.strip_prefix("0X"), text.strip_prefix("0B")) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (_, Some(digits)) => u32::from_str_radix(digits, 2).ok(),
        _ => text.parse().ok(),
    }
}

/// The ranks that the communicator of each process has before it: its first rank there, and all ranks there, where each
/// process drives `each`.
pub(super) fn seats(groups: &[u32], each: u32) -> Vec<(u32, u32)> {
    let size = |group: u32| groups.iter().filter(|other| **other == group).count() as u32 * each;
    let before = |process: usize| {
        groups[..process]
            .iter()
            .filter(|other| **other == groups[process])
            .count() as u32
    };
    (0..groups.len())
        .map(|process| (before(process) * each, size(groups[process])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(name: &'static str, value: &'static str) -> Result<Vec<u32>, String> {
        let env = |asked: &str| (asked == name).then(|| value.to_owned());
        let split = Split::from(&env).map_err(|error| error.to_string())?;
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
        for bad in ["", "XOR 2", "MOD 0", "/0", "AND", "AND x", "7"] {
            assert!(
                groups(SPLIT, bad).expect_err("bad").contains(SPLIT),
                "{bad}"
            );
        }
        assert!(groups(MASK, "0xg").is_err());
    }

    #[test]
    fn ranks_are_counted_in_each_communicator() {
        assert_eq!(seats(&[0, 1, 0, 1], 1), [(0, 2), (0, 2), (1, 2), (1, 2)]);
        assert_eq!(seats(&[0, 0, 1], 2), [(0, 4), (2, 4), (0, 2)]);
    }
}
