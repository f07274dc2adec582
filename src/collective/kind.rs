//! [`Collective`]: the list of collectives.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{
    all_gather, all_reduce, alltoall, alltoallv, broadcast, gather, hypercube, reduce,
    reduce_scatter, scatter, sendrecv, spec::Spec,
};

/// A collective that the tool can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each collective is described in its file")]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    #[serde(rename = "alltoall")]
    AllToAll,
    Gather,
    Scatter,
    #[serde(rename = "sendrecv")]
    SendRecv,
    #[serde(rename = "hypercube")]
    HyperCube,
    #[serde(rename = "alltoallv")]
    AllToAllV,
}

impl Collective {
    /// All collectives, in the order of `pxnbench all`.
    pub const ALL: [Collective; 11] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllToAll,
        Collective::Gather,
        Collective::Scatter,
        Collective::SendRecv,
        Collective::HyperCube,
        Collective::AllToAllV,
    ];

    /// Returns everything about this collective that is not a library call.
    pub fn spec(self) -> &'static Spec {
        match self {
            Collective::AllReduce => &all_reduce::SPEC,
            Collective::AllGather => &all_gather::SPEC,
            Collective::ReduceScatter => &reduce_scatter::SPEC,
            Collective::Broadcast => &broadcast::SPEC,
            Collective::Reduce => &reduce::SPEC,
            Collective::AllToAll => &alltoall::SPEC,
            Collective::Gather => &gather::SPEC,
            Collective::Scatter => &scatter::SPEC,
            Collective::SendRecv => &sendrecv::SPEC,
            Collective::HyperCube => &hypercube::SPEC,
            Collective::AllToAllV => &alltoallv::SPEC,
        }
    }

    /// Returns nccl-tests' name, without `_perf`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Returns the names of all collectives, in the order of [`Collective::ALL`].
    pub fn names() -> Vec<&'static str> {
        Self::ALL.into_iter().map(Collective::name).collect()
    }

    /// Returns the names of the collectives made of sends and receives, in the order of
    /// [`Collective::ALL`].
    pub fn pairwise_names() -> Vec<&'static str> {
        Self::ALL
            .into_iter()
            .filter(|collective| collective.spec().pairwise)
            .map(Collective::name)
            .collect()
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Collective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        for collective in Self::ALL {
            if collective.name() == text {
                return Ok(collective);
            }
        }
        Err(format!(
            "unknown collective; there are {}",
            Self::names().join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of serde for an unknown word lists all variants.
    #[test]
    fn all_has_every_variant() {
        let error = serde_json::from_str::<Collective>("\"none\"")
            .expect_err("an error")
            .to_string();
        let known: Vec<&str> = error
            .split("expected one of")
            .nth(1)
            .expect("a list")
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        assert_eq!(known, Collective::names(), "{error}");
    }

    #[test]
    fn send_and_receive_collectives_are_listed() {
        let expected = [
            "alltoall",
            "gather",
            "scatter",
            "sendrecv",
            "hypercube",
            "alltoallv",
        ];
        assert_eq!(Collective::pairwise_names(), expected);
    }
}
