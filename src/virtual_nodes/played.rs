//! [`PlayedOnRails`]: rails that are slow or stand still, as the plugin reads it.

use std::{fmt::Display, str::FromStr};

use crate::{rehearsal::rehearsed::MOST_RAILS, units::counted};

/// A rail with a number for it: `1=0.5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RailNumber {
    /// The rail.
    pub rail: u32,
    /// The number.
    pub number: f64,
}

/// A rail that sends no more: `1`, or `1:100` after 100 messages of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailStall {
    /// The rail.
    pub rail: u32,
    /// The messages that each process still sends over it.
    pub after: u64,
}

impl FromStr for RailNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<RailNumber, String> {
        let refused = || format!("'{text}' is not RAIL=NUMBER, such as 1=0.5");
        let (rail, number) = text.split_once('=').ok_or_else(refused)?;
        let number: f64 = number.parse().map_err(|_| refused())?;
        if !number.is_finite() || number <= 0.0 {
            return Err(refused());
        }
        Ok(RailNumber {
            rail: rail.parse().map_err(|_| refused())?,
            number,
        })
    }
}

impl FromStr for RailStall {
    type Err = String;

    fn from_str(text: &str) -> Result<RailStall, String> {
        let refused = || format!("'{text}' is not RAIL or RAIL:MESSAGES, such as 1 or 1:100");
        let (rail, after) = text.split_once(':').unwrap_or((text, "0"));
        Ok(RailStall {
            rail: rail.parse().map_err(|_| refused())?,
            after: after.parse().map_err(|_| refused())?,
        })
    }
}

/// What is played on rails.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayedOnRails {
    /// Rails that send no faster than so many 10⁹ bytes per second.
    pub bandwidth: Vec<RailNumber>,
    /// Rails that hold each message back for so many microseconds.
    pub latency: Vec<RailNumber>,
    /// Rails that stand still.
    pub stalls: Vec<RailStall>,
}

/// The longest time that the plugin holds a message back, in microseconds.
const LONGEST_LATENCY: f64 = 60e6;

/// The least bandwidth that the plugin plays, in GB/s.
const LEAST_BANDWIDTH: f64 = 1e-6;

impl PlayedOnRails {
    /// Checks that the plugin can play it on so many rails per node.
    ///
    /// # Errors
    /// Returns a sentence if a rail does not exist or is named twice, or if a number is out of
    /// range.
    pub(super) fn check(&self, rails: usize) -> Result<(), String> {
        if rails as u64 > MOST_RAILS {
            return Err(format!(
                "a node has {rails} rails, and the plugin plays {MOST_RAILS} at most. Use a \
                 smaller --rails"
            ));
        }
        self.check_rails(rails)?;
        let is_out_of_range = |one: &RailNumber| {
            let is_whole = one.number.fract() == 0.0;
            !is_whole || one.number > LONGEST_LATENCY
        };
        if self.latency.iter().any(is_out_of_range) {
            return Err(format!(
                "--latency takes whole microseconds from 1 to {LONGEST_LATENCY}"
            ));
        }
        if self
            .bandwidth
            .iter()
            .any(|one| one.number < LEAST_BANDWIDTH)
        {
            return Err(format!("--bandwidth takes {LEAST_BANDWIDTH} GB/s or more"));
        }
        Ok(())
    }

    /// Checks that all rails exist, and that no flag names one twice.
    fn check_rails(&self, rails: usize) -> Result<(), String> {
        let of_numbers =
            |numbers: &[RailNumber]| numbers.iter().map(|one| one.rail).collect::<Vec<u32>>();
        let stalls = self.stalls.iter().map(|one| one.rail);
        for (flag, named) in [
            ("--bandwidth", of_numbers(&self.bandwidth)),
            ("--latency", of_numbers(&self.latency)),
            ("--stall", stalls.collect()),
        ] {
            for (at, rail) in named.iter().enumerate() {
                if *rail as usize >= rails {
                    return Err(format!(
                        "there is no rail {rail}: a node has {}, numbered from 0",
                        counted(rails as u64, "rail")
                    ));
                }
                if named[..at].contains(rail) {
                    return Err(format!("{flag} names rail {rail} twice. Name it once"));
                }
            }
        }
        Ok(())
    }
    /// Returns the plugin's variables for it.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        let mut set = |name, entries: Vec<String>| {
            if !entries.is_empty() {
                variables.push((name, entries.join(",")));
            }
        };
        set(
            "PXNBENCH_RAIL_BANDWIDTH",
            list(&self.bandwidth, |one| {
                format!("{}={}", one.rail, one.number)
            }),
        );
        set(
            "PXNBENCH_RAIL_LATENCY",
            list(&self.latency, |one| {
                format!("{}={:.0}", one.rail, one.number)
            }),
        );
        set(
            "PXNBENCH_RAIL_FAULT",
            list(&self.stalls, |one| {
                format!("{}=stall:{}", one.rail, one.after)
            }),
        );
        variables
    }

    /// Returns it in words.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = list(&self.bandwidth, |one| {
            format!(
                "rail {} sends at most {} GB/s per process",
                one.rail, one.number
            )
        });
        words.extend(list(&self.latency, |one| {
            format!(
                "rail {} delays each message by {:.0} us",
                one.rail, one.number
            )
        }));
        words.extend(list(&self.stalls, |one| {
            let messages = counted(one.after, "message");
            format!(
                "rail {} stops sending after {messages} from each process",
                one.rail
            )
        }));
        words
    }
}

fn list<One, Text: Display>(all: &[One], text: impl Fn(&One) -> Text) -> Vec<String> {
    all.iter().map(|one| text(one).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_played_becomes_the_variables_of_the_plugin() {
        let number = |text: &str| text.parse::<RailNumber>().expect("a rail and a number");
        let stall = |text: &str| text.parse::<RailStall>().expect("a rail");
        let played = PlayedOnRails {
            bandwidth: vec![number("0=1.5"), number("1=0.25")],
            latency: vec![number("1=50")],
            stalls: vec![stall("1"), stall("0:100")],
        };
        let variables = played.variables();
        assert_eq!(
            variables,
            [
                ("PXNBENCH_RAIL_BANDWIDTH", "0=1.5,1=0.25".to_owned()),
                ("PXNBENCH_RAIL_LATENCY", "1=50".into()),
                ("PXNBENCH_RAIL_FAULT", "1=stall:0,0=stall:100".into()),
            ]
        );
        assert_eq!(played.words().len(), 5);
        assert_eq!(played.check(2), Ok(()));
        assert_eq!(
            played.check(1),
            Err("there is no rail 1: a node has 1 rail, numbered from 0".into())
        );
        assert_eq!(PlayedOnRails::default().variables(), []);
    }

    #[test]
    fn what_the_plugin_cannot_play_is_refused() {
        let number = |text: &str| text.parse::<RailNumber>().expect("a rail and a number");
        let stall = |text: &str| text.parse::<RailStall>().expect("a rail");
        let none = PlayedOnRails::default();
        for (played, rails, words) in [
            (none.clone(), 65, "the plugin plays 64 at most"),
            (
                PlayedOnRails {
                    latency: vec![number("1=0.4")],
                    ..none.clone()
                },
                2,
                "whole microseconds from 1 to 60000000",
            ),
            (
                PlayedOnRails {
                    latency: vec![number("1=1e9")],
                    ..none.clone()
                },
                2,
                "whole microseconds from 1 to 60000000",
            ),
            (
                PlayedOnRails {
                    bandwidth: vec![number("1=1e-9")],
                    ..none.clone()
                },
                2,
                "--bandwidth takes 0.000001 GB/s or more",
            ),
            (
                PlayedOnRails {
                    stalls: vec![stall("1:5"), stall("1:9")],
                    ..none.clone()
                },
                2,
                "--stall names rail 1 twice",
            ),
        ] {
            let why = played.check(rails).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn what_names_no_rail_is_refused() {
        for text in ["", "1", "1=", "=1", "1=0", "1=-1", "1=NaN", "x=1"] {
            assert!(text.parse::<RailNumber>().is_err(), "{text}");
        }
        for text in ["", "x", "1:", "1:x", ":1"] {
            assert!(text.parse::<RailStall>().is_err(), "{text}");
        }
    }
}
