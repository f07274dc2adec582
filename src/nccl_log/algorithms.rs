//! Algorithms and protocols that NCCL chose.

use serde::{Deserialize, Serialize};

use super::{
    limits::{SOME, clipped_text},
    line::Algorithm,
};

/// Names of algorithms, in the order of the numbers that NCCL 2.20 to 2.23 prints.
const ALGORITHMS: [&[u8]; 7] = [
    b"TREE",
    b"RING",
    b"COLLNET_DIRECT",
    b"COLLNET_CHAIN",
    b"NVLS",
    b"NVLS_TREE",
    b"PAT",
];
/// Names of protocols, in the order of their numbers.
const PROTOCOLS: [&[u8]; 3] = [b"LL", b"LL128", b"SIMPLE"];

/// An algorithm and protocol that NCCL chose, and for which sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlgorithmChoice {
    /// NCCL's name of the operation; empty before 2.23.
    pub function: String,
    /// NCCL's name of the algorithm.
    pub algorithm: String,
    /// NCCL's name of the protocol; empty for kernels without one.
    pub protocol: String,
    /// The smallest size it was chosen for, in bytes.
    pub from_bytes: u64,
    /// The largest size, in bytes.
    pub to_bytes: u64,
    /// How often it was chosen.
    pub times: u64,
    /// The most channels that an operation used; `None` if the log does not tell.
    #[serde(default)]
    pub channels: Option<u64>,
}

/// All choices, in the order in which they first appear.
#[derive(Debug, Default)]
pub(super) struct AlgorithmChoices(Vec<AlgorithmChoice>);

impl AlgorithmChoices {
    /// Adds a choice for one operation.
    pub(super) fn add(&mut self, chosen: &Algorithm<'_>) {
        let algorithm = name_of(&ALGORITHMS, chosen.algorithm);
        let protocol = name_of(&PROTOCOLS, chosen.protocol);
        for known in &mut self.0 {
            let is_same = known.function.as_bytes() == chosen.function
                && known.algorithm.as_bytes() == algorithm
                && known.protocol.as_bytes() == protocol;
            if is_same {
                known.from_bytes = known.from_bytes.min(chosen.bytes);
                known.to_bytes = known.to_bytes.max(chosen.bytes);
                known.times += 1;
                known.channels = known.channels.max(chosen.channels);
                return;
            }
        }
        if self.0.len() < SOME {
            self.0.push(AlgorithmChoice {
                function: clipped_text(chosen.function),
                algorithm: clipped_text(algorithm),
                protocol: clipped_text(protocol),
                from_bytes: chosen.bytes,
                to_bytes: chosen.bytes,
                times: 1,
                channels: chosen.channels,
            });
        }
    }

    /// Returns all of them.
    pub(super) fn as_slice(&self) -> &[AlgorithmChoice] {
        &self.0
    }

    /// Returns whether there are choices and all of them are trees.
    pub(super) fn are_all_trees(&self) -> bool {
        let is_tree = |choice: &AlgorithmChoice| choice.algorithm.eq_ignore_ascii_case("tree");
        !self.0.is_empty() && self.0.iter().all(is_tree)
    }
}

/// Returns the name for a number. A text that is not a digit is a name already.
fn name_of<'a>(names: &[&'a [u8]], text: &'a [u8]) -> &'a [u8] {
    let [digit @ b'0'..=b'9'] = text else {
        return text;
    };
    let at = usize::from(digit - b'0');
    names.get(at).copied().unwrap_or(text)
}
