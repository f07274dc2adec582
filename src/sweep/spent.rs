//! [`PhaseTimes`]: where the time of a sweep goes.

use std::time::{Duration, Instant};

/// A part of the work on cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Untimed operations before a group, in which NCCL connects.
    WarmUp,
    /// Filling the buffers.
    Fill,
    /// The untimed operation before the timed ones.
    First,
    /// The timed operations: what a benchmark is for.
    Timed,
    /// Barriers and means over the ranks: waiting for the slowest included.
    Together,
    /// Operations that are checked, and their checks.
    Checks,
    /// Showing and writing what was measured.
    Output,
}

/// All parts, with the names that `run.json` has for them.
const PARTS: [(Part, &str); 7] = [
    (Part::WarmUp, "warm-up"),
    (Part::Fill, "fill"),
    (Part::First, "first operations"),
    (Part::Timed, "timed operations"),
    (Part::Together, "over ranks"),
    (Part::Checks, "checks"),
    (Part::Output, "table, files"),
];

/// Time by part.
#[derive(Clone, Debug, Default)]
pub struct PhaseTimes([Duration; PARTS.len()]);

impl PhaseTimes {
    /// What was done since `began` is `part`; the next part begins now.
    pub fn add(&mut self, part: Part, began: Instant) -> Instant {
        let now = Instant::now();
        self.0[part as usize] += now - began;
        now
    }

    /// Each part's name and time.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        PARTS
            .into_iter()
            .map(|(part, name)| (name, self.0[part as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lists_each_part_at_its_place() {
        for (at, (part, _)) in PARTS.into_iter().enumerate() {
            assert_eq!(part as usize, at);
        }
        let mut spent = PhaseTimes::default();
        let began = Instant::now();
        spent.add(Part::Fill, spent.clone().add(Part::Timed, began));
        let named: Vec<&str> = spent
            .parts()
            .filter(|(_, time)| !time.is_zero())
            .map(|(name, _)| name)
            .collect();
        assert_eq!(named, ["fill"]);
    }
}
