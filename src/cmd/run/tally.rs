//! How the cases of a run went, and the exit code that follows.

use crate::{exit::Code, record, world::signal};

/// What the exit code depends on.
#[derive(Default)]
pub(super) struct Tally {
    ran: u64,
    wrong: u64,
    waived: u64,
}

impl Tally {
    pub(super) fn add(&mut self, record: &record::Record) {
        match record.status {
            record::Status::Waived => self.waived += 1,
            record::Status::Wrong => (self.ran, self.wrong) = (self.ran + 1, self.wrong + 1),
            _ => self.ran += 1,
        }
    }

    /// The exit code, and the sentence for what is not plain from the table.
    pub(super) fn verdict(&self, stopped: bool) -> (Code, String) {
        let cases = |n: u64| if n == 1 { "1 case".to_owned() } else { format!("{n} cases") };
        match self {
            Tally { wrong, .. } if *wrong > 0 => (Code::WrongData, format!("wrong data in {}", cases(*wrong))),
            _ if stopped => {
                let by = signal::received().unwrap_or("a signal");
                (Code::Stopped, format!("stopped by {by} after {}, which are kept", cases(self.ran)))
            }
            Tally { ran: 0, waived, .. } => (Code::NothingRan, format!("nothing ran: waived {}", cases(*waived))),
            _ => (Code::Fine, String::new()),
        }
    }
}
