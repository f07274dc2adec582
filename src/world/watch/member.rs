//! [`Member`]: the part of one process in the watch, without the connections. Pure: times are
//! passed in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    report::{ProgressReport, milliseconds},
    summary::{RankSummary, Silent, Unreached},
    verdict::{self, StuckJob},
};

/// The time after which a neighbour counts as silent: several beats.
const SILENT_AFTER: Duration = Duration::from_millis(1500);

/// How long ranks have to connect before they count as unreached.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);

/// How much longer than it may be silent a neighbour counts as silent: if the others make progress
/// meanwhile, only the connection to it is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// How much later the second of those who may say that their parent is silent does so. The end of a
/// large job takes seconds on a busy machine, and one sentence is enough.
const SECOND_SPEAKER: Duration = Duration::from_secs(5);

/// How much later the others do so.
const OTHER_SPEAKERS: Duration = Duration::from_secs(6);

/// How much later a rank says that its parent is silent if somebody above that one can say so.
const OTHERS_KNOW: Duration = Duration::from_secs(2);

/// A beat to the parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BeatUp {
    pub(super) own: ProgressReport,
    /// All ranks from the sender on down.
    pub(super) all: RankSummary,
}

/// A beat to a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BeatDown {
    pub(super) own: ProgressReport,
}

/// The place of a process in the tree.
#[derive(Clone, Debug)]
pub(super) struct TreePlace {
    pub(super) parent: Option<Parent>,
    pub(super) children: Vec<Child>,
}

/// What a process knows of its parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    pub(super) rank: u32,
    /// The order of the process among the children of its parent.
    pub(super) order: usize,
}

/// What a process knows of a child.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) rank: u32,
    /// How messages name it.
    pub(super) name: String,
    /// The ranks from it on down.
    pub(super) ranks: u32,
}

impl Child {
    fn unreached(&self) -> Unreached {
        Unreached {
            ranks: self.ranks,
            example: self.name.clone(),
        }
    }
}

/// What was heard of a neighbour, and when.
enum Heard<Beat> {
    Never,
    At(Duration, Beat),
    /// It has left as it should.
    Left,
}

/// The part of one process in the watch.
pub(super) struct Member {
    parent: Option<(Parent, Heard<BeatDown>)>,
    children: Vec<(Child, Heard<BeatUp>)>,
}

impl Member {
    /// Returns the part of a process at `place`.
    pub(super) fn new(place: TreePlace) -> Member {
        let children = place.children.into_iter();
        Member {
            parent: place.parent.map(|parent| (parent, Heard::Never)),
            children: children.map(|child| (child, Heard::Never)).collect(),
        }
    }

    /// Takes a beat of child `rank`.
    pub(super) fn hear_child(&mut self, rank: u32, now: Duration, beat: BeatUp) {
        if let Some(heard) = self.child(rank) {
            *heard = Heard::At(now, beat);
        }
    }

    /// Notes that child `rank` has left.
    pub(super) fn let_child_go(&mut self, rank: u32) {
        if let Some(heard) = self.child(rank) {
            *heard = Heard::Left;
        }
    }

    fn child(&mut self, rank: u32) -> Option<&mut Heard<BeatUp>> {
        let mut children = self.children.iter_mut();
        let found = children.find(|(child, _)| child.rank == rank)?;
        Some(&mut found.1)
    }

    /// Takes a beat of the parent.
    pub(super) fn hear_parent(&mut self, now: Duration, beat: BeatDown) {
        if let Some((_, heard)) = &mut self.parent {
            *heard = Heard::At(now, beat);
        }
    }

    /// Notes that the parent has left.
    pub(super) fn let_parent_go(&mut self) {
        if let Some((_, heard)) = &mut self.parent {
            *heard = Heard::Left;
        }
    }

    /// Returns what is known of all ranks from this one on down. A rank may be silent for
    /// `silence`.
    pub(super) fn summary(
        &self,
        own: &ProgressReport,
        now: Duration,
        silence: Duration,
    ) -> RankSummary {
        let mut all = RankSummary::of(own);
        for (child, heard) in &self.children {
            match heard {
                Heard::At(at, beat) => {
                    let age = now.saturating_sub(*at);
                    if age > silence.saturating_add(LOST_AFTER) {
                        all.add_unreached(&Unreached {
                            ranks: child.ranks,
                            example: beat.own.full_name(),
                        });
                    } else {
                        add_child(&mut all, child, age, beat);
                    }
                }
                Heard::Never if now >= CONNECTED_WITHIN => all.add_unreached(&child.unreached()),
                Heard::Never | Heard::Left => {}
            }
        }
        all
    }

    /// Returns what this process has to say of the job, if it is the one to say it: rank 0 of all
    /// ranks, the others of a parent that is silent. A rank may be silent for `silence`, and who
    /// speaks may ask for `asking` before it does.
    pub(super) fn finding(
        &self,
        own: &ProgressReport,
        now: Duration,
        silence: Duration,
        asking: Duration,
    ) -> Option<StuckJob> {
        let Some((parent, heard)) = &self.parent else {
            return verdict::find(&self.summary(own, now, silence), silence);
        };
        let Heard::At(at, beat) = heard else {
            return None;
        };
        let mut patience = silence;
        patience += match parent.order {
            0 => Duration::ZERO,
            1 => SECOND_SPEAKER,
            _ => OTHER_SPEAKERS,
        };
        if parent.rank > 0 {
            patience += OTHERS_KNOW;
        }
        if parent.rank > 0 || parent.order > 0 {
            patience = patience.saturating_add(asking);
        }
        let silent_for = now.saturating_sub(*at);
        if silent_for < patience {
            return None;
        }
        let all = self.summary(own, now, silence);
        verdict::do_wait(all.waits_ms, silence).then(|| {
            StuckJob::Silent(Silent {
                report: beat.own.clone(),
                for_ms: milliseconds(silent_for),
                behind_it: 0,
            })
        })
    }

    /// Returns whether the parent, if there is one, has been heard.
    pub(super) fn is_reached(&self) -> bool {
        match &self.parent {
            Some((_, heard)) => matches!(heard, Heard::At(..)),
            None => {
                let mut children = self.children.iter();
                children.any(|(_, heard)| matches!(heard, Heard::At(..)))
            }
        }
    }
}

/// Adds what a child said `age` ago.
fn add_child(all: &mut RankSummary, child: &Child, age: Duration, beat: &BeatUp) {
    let for_ms = milliseconds(age);
    if age < SILENT_AFTER {
        all.add(&beat.all, for_ms);
        return;
    }
    all.add_silent(Silent {
        report: beat.own.clone(),
        for_ms,
        behind_it: child.ranks - 1,
    });
    // A silence that it knew of began before its own.
    if let Some(silent) = &beat.all.silent {
        all.add_silent(Silent {
            for_ms: silent.for_ms.saturating_add(for_ms),
            ..silent.clone()
        });
    }
}
