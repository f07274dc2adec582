//! [`PlayedOnRails`]: rails that are slow or stand still, as the plugin reads it.

use std::{fmt::Display, str::FromStr};

use crate::units::counted;

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

impl PlayedOnRails {
    /// Checks that all rails exist.
    ///
    /// # Errors
    /// Returns a sentence if one does not.
    pub(super) fn check(&self, rails: usize) -> Result<(), String> {
        let numbers = self.bandwidth.iter().chain(&self.latency);
        let named = numbers.map(|one| one.rail);
        let mut named = named.chain(self.stalls.iter().map(|one| one.rail));
        match named.find(|rail| *rail as usize >= rails) {
            None => Ok(()),
            Some(rail) => Err(format!(
                "there is no rail {rail}: a node has {}, numbered from 0",
                counted(rails as u64, "rail")
            )),
        }
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
                "rail {} holds each message back for {:.0} us",
                one.rail, one.number
            )
        }));
        words.extend(list(&self.stalls, |one| {
            let messages = counted(one.after, "message");
            format!(
                "rail {} sends no more after {messages} of each process",
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
    fn what_names_no_rail_is_refused() {
        for text in ["", "1", "1=", "=1", "1=0", "1=-1", "1=NaN", "x=1"] {
            assert!(text.parse::<RailNumber>().is_err(), "{text}");
        }
        for text in ["", "x", "1:", "1:x", ":1"] {
            assert!(text.parse::<RailStall>().is_err(), "{text}");
        }
    }
}
