//! [`PhaseTimes`]: the time of a sweep by part.

use std::time::{Duration, Instant};

/// A part of the work on cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Untimed operations before a series, in which NCCL connects.
    WarmUp,
    /// Filling the buffers.
    Fill,
    /// The untimed operation before the timed ones.
    First,
    /// The timed operations.
    Timed,
    /// Barriers and means over the ranks, including the wait for the slowest rank.
    Together,
    /// Checked operations and their checks.
    Checks,
    /// Output to terminal and files.
    Output,
}

/// All parts, with their names in `run.json`.
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
    /// Adds the time since `began` to `part`, and returns the start of the next part.
    pub fn add(&mut self, part: Part, began: Instant) -> Instant {
        let now = Instant::now();
        self.0[part as usize] += now - began;
        now
    }

    /// Returns the name and time of each part.
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
