//! A delay on one process, by which the search for stragglers tests itself.

use std::{str::FromStr, time::Duration};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::stats::lateness::Late;

/// A delay of one process in the search for stragglers.
#[derive(Clone, Debug, PartialEq)]
pub struct InjectedDelay {
    /// The process.
    pub rank: u32,
    /// How long it is.
    length: Length,
    /// The share of operations that it delays.
    share: f64,
    /// Whether it is before the operation or at its end.
    pub kind: Late,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    /// A share of the operation's time.
    Share(f64),
    Time(Duration),
}

impl InjectedDelay {
    /// Returns the delay as one of `kind`.
    pub fn of_kind(&self, kind: Late) -> InjectedDelay {
        InjectedDelay {
            kind,
            ..self.clone()
        }
    }

    /// Starts the delays of a case.
    pub(super) fn start(&self) -> Delays {
        Delays {
            length: self.length,
            share: self.share,
            random: ChaCha8Rng::seed_from_u64(self.rank.into()),
        }
    }
}

impl FromStr for InjectedDelay {
    type Err = String;

    /// Parses `RANK:20%` or `RANK:2ms`, with an optional `@0.1`: the share of operations that are
    /// delayed.
    fn from_str(text: &str) -> Result<InjectedDelay, String> {
        parse(text).ok_or_else(|| {
            "not a delay. Write RANK:20% or RANK:2ms, and RANK:2ms@0.1 for every tenth operation"
                .to_owned()
        })
    }
}

fn parse(text: &str) -> Option<InjectedDelay> {
    let (rank, rest) = text.split_once(':')?;
    let (length, share) = rest.split_once('@').unwrap_or((rest, "1"));
    let length = match length.strip_suffix('%') {
        Some(percent) => Length::Share(percent.parse::<f64>().ok()? / 100.0),
        None => Length::Time(humantime::parse_duration(length).ok()?),
    };
    let share: f64 = share.parse().ok()?;
    let is_positive = match length {
        // A thousand times the operation is more than any test needs.
        Length::Share(share) => share > 0.0 && share <= 1000.0,
        Length::Time(time) => !time.is_zero() && time <= Duration::from_secs(60),
    };
    let is_valid = is_positive && share > 0.0 && share <= 1.0;
    is_valid.then_some(InjectedDelay {
        rank: rank.parse().ok()?,
        length,
        share,
        kind: Late::Arrival,
    })
}

/// The delays of the operations of a case, one after another.
pub(super) struct Delays {
    length: Length,
    share: f64,
    random: ChaCha8Rng,
}

impl Delays {
    /// Returns the delay of the next operation, if one takes `operation_us` microseconds; zero if
    /// this one has none.
    pub(super) fn next_wait(&mut self, operation_us: f64) -> Duration {
        let drawn = f64::from(self.random.next_u32()) / (f64::from(u32::MAX) + 1.0);
        match self.length {
            _ if drawn >= self.share => Duration::ZERO,
            Length::Time(length) => length,
            Length::Share(share) => Duration::from_secs_f64(share * operation_us / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(text: &str) -> InjectedDelay {
        text.parse().expect("a delay")
    }

    #[test]
    fn a_delay_is_a_share_of_the_operation_or_a_time() {
        let mut share = delay("3:20%").start();
        assert_eq!(share.next_wait(1000.0), Duration::from_micros(200));
        let mut time = delay("0:2ms").start();
        assert_eq!(time.next_wait(1000.0), Duration::from_millis(2));
        assert_eq!(delay("3:20%").rank, 3);
        assert_eq!(delay("3:20%").of_kind(Late::Transfer).kind, Late::Transfer);
    }

    #[test]
    fn a_share_of_the_operations_is_delayed_the_same_ones_each_time() {
        let waits = || {
            let mut delays = delay("1:2ms@0.1").start();
            (0..1000).map(|_| delays.next_wait(0.0)).collect::<Vec<_>>()
        };
        let delayed = waits().iter().filter(|wait| !wait.is_zero()).count();
        assert!((70..130).contains(&delayed), "{delayed}");
        assert_eq!(waits(), waits());
    }

    #[test]
    fn what_is_no_delay() {
        for text in [
            "", "1", "1:", ":2ms", "1:2", "1:0%", "1:-5%", "1:nan%", "1:2ms@0", "1:2ms@2", "x:2ms",
            "1:2h",
        ] {
            assert!(text.parse::<InjectedDelay>().is_err(), "{text}");
        }
    }
}
