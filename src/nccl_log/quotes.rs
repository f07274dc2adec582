//! Quoted lines: the first few of each topic, for the evidence of a proof.

use super::limits::quoted;

/// Lines that are kept per topic.
const LINES: usize = 2;

/// The subject of a quoted line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    RelayUse,
    SendRecv,
    Collective,
    Receive,
    Local,
    CollNet,
    Network,
    GpuDirect,
    GpuDirectTooFar,
    PluginTooOld,
    Size,
    Rings,
    Trees,
    RingPattern,
    TreePattern,
    Paths,
    HostBuffers,
    Warning,
    SegmentationFault,
    Start,
    Version,
    Unclear,
    Torn,
}

const TOPICS: usize = Topic::Torn as usize + 1;

/// The first lines of each topic.
#[derive(Debug, Default)]
pub(super) struct Quotes([Vec<String>; TOPICS]);

impl Quotes {
    /// Keeps `line` if its topic has room.
    pub(super) fn add(&mut self, topic: Topic, line: &[u8]) {
        let lines = &mut self.0[topic as usize];
        if lines.len() < LINES {
            lines.push(quoted(line));
        }
    }

    /// Returns the kept lines of `topic`.
    pub(super) fn lines(&self, topic: Topic) -> &[String] {
        &self.0[topic as usize]
    }

    /// Returns the first line of `topic`.
    pub(super) fn first(&self, topic: Topic) -> Option<&String> {
        self.lines(topic).first()
    }
}
