//! Names of transports.

use super::limits::{SOME, clipped, text};

/// A name that was seen, as bytes and as text.
#[derive(Debug)]
struct Name {
    bytes: Vec<u8>,
    text: String,
}

/// The names of transports that a log mentions, so that each becomes text once.
#[derive(Debug, Default)]
pub(super) struct TransportNames(Vec<Name>);

impl TransportNames {
    /// Returns `prefix` and `name` joined. Beyond the limit the last known name stands for all
    /// others.
    pub(super) fn intern(&mut self, prefix: &[u8], name: &[u8]) -> &str {
        let known = self.0.iter().position(|known| known.is(prefix, name));
        let at = match known {
            Some(at) => at,
            None if self.0.len() < SOME => self.push(prefix, name),
            None => self.0.len() - 1,
        };
        &self.0[at].text
    }

    fn push(&mut self, prefix: &[u8], name: &[u8]) -> usize {
        let bytes = [prefix, clipped(name)].concat();
        let text = text(&bytes);
        self.0.push(Name { bytes, text });
        self.0.len() - 1
    }
}

impl Name {
    fn is(&self, prefix: &[u8], name: &[u8]) -> bool {
        self.bytes.strip_prefix(prefix) == Some(name)
    }
}
