//! A process, and the communicators that it is a member of.

use super::{
    limits::SOME,
    line::{CommEvent, CommView},
};

/// Communicators of one process that are told apart.
const VIEWS: usize = 16 * SOME;

/// A communicator as one of its ranks sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Its address in the process.
    pointer: u64,
    /// The rank.
    pub(super) rank: u64,
    /// The number of ranks.
    pub(super) ranks: u64,
    /// Which of the log's communicators it is.
    pub(super) communicator: usize,
}

/// A process: how far it got, and its communicators.
#[derive(Debug, Default)]
pub(super) struct Process {
    started: u64,
    complete: u64,
    ended: u64,
    /// Whether a later line shows that it used a communicator.
    is_under_way: bool,
    /// Whether the process read `NCCL_PXN_DISABLE` as 1; `None` if it does not say.
    pub(super) pxn_off: Option<bool>,
    pub(super) views: Vec<View>,
}

impl Process {
    /// Counts `event`.
    pub(super) fn count(&mut self, event: CommEvent) {
        match event {
            CommEvent::Start => self.started += 1,
            CommEvent::Complete => self.complete += 1,
            CommEvent::Size => {}
        }
    }

    /// Counts the end of a communicator.
    pub(super) fn count_end(&mut self) {
        self.ended += 1;
    }

    /// Notes a connection, or the message that rings or trees are connected.
    pub(super) fn note_progress(&mut self) {
        self.is_under_way |= self.started > 0;
    }

    /// Returns whether the process started a communicator that the log does not show to be
    /// complete. One that it ended was complete, even if the line that says so is torn.
    pub(super) fn lacks_completion(&self) -> bool {
        self.started > self.complete.max(self.ended)
    }

    /// Returns whether the process completed or ended a communicator.
    pub(super) fn made_any(&self) -> bool {
        self.complete.max(self.ended) > 0
    }

    /// Returns whether a later line shows that it used a communicator.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Returns the view of the communicator of `view`. A start makes a new one, because addresses
    /// are used again.
    pub(super) fn find(&self, event: CommEvent, view: &CommView) -> Option<View> {
        let mut known = self.views.iter().rev();
        let found = known.find(|known| known.pointer == view.pointer && known.rank == view.rank)?;
        let is_same = event != CommEvent::Start && found.ranks == view.ranks;
        is_same.then_some(*found)
    }

    /// Returns how many communicators of the size of `view` have the process as this rank.
    pub(super) fn count_alike(&self, view: &CommView) -> usize {
        let is_alike = |known: &&View| known.ranks == view.ranks && known.rank == view.rank;
        self.views.iter().filter(is_alike).count()
    }

    /// Makes the process a member of `communicator`.
    pub(super) fn join(&mut self, view: &CommView, communicator: usize) {
        self.views.retain(|known| known.pointer != view.pointer);
        if self.views.len() < VIEWS {
            self.views.push(View {
                pointer: view.pointer,
                rank: view.rank,
                ranks: view.ranks,
                communicator,
            });
        }
    }
}
