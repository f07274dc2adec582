//! The findings of a check: of one process, and of all.

use crate::{
    collective::guard::Damage,
    units::counted,
    world::{self, World},
};

/// Findings that a note quotes.
const MOST_QUOTED: usize = 3;

/// The findings of one process in a check of a case.
#[derive(Default)]
pub(super) struct OwnFindings {
    /// Wrong elements of the receive buffer; `None` if the data of the case are not checked.
    pub(super) wrong: Option<u64>,
    /// What changed elsewhere.
    pub(super) damage: Vec<Damage>,
}

/// The findings in a check of a case on all processes.
#[derive(Clone, Default)]
pub(super) struct Found {
    /// Wrong elements over all ranks, wherever they are; `None` if the data of the case are not
    /// checked and nothing is wrong.
    pub(super) wrong: Option<u64>,
    /// Those of them that are not in the receive buffer.
    pub(super) outside: u64,
    /// Processes that found any.
    pub(super) failed_checks: u64,
    /// Wrong elements on this process.
    pub(super) mine: Option<u64>,
    /// What changed outside the receive buffers, in words.
    pub(super) note: String,
}

impl OwnFindings {
    /// Returns the findings of all processes. Every process calls it; `group` is its communicator,
    /// if there are several.
    ///
    /// # Errors
    /// Returns an error if what a process found does not reach the others; that would be a bug.
    pub(super) fn together(self, group: Option<u32>, world: &dyn World) -> anyhow::Result<Found> {
        let outside: u64 = self.damage.iter().map(|damage| damage.elements).sum();
        let mine = self.wrong.unwrap_or(0) + outside;
        let wrong = world.all_reduce_sum(mine);
        let failed_checks = world.all_reduce_sum((mine > 0).into());
        if wrong == 0 {
            return Ok(Found {
                wrong: self.wrong,
                mine: self.wrong,
                ..Found::default()
            });
        }
        let own: Vec<String> = self
            .damage
            .iter()
            .map(|damage| match group {
                None => damage.to_string(),
                Some(group) => format!("communicator {group}, {damage}"),
            })
            .collect();
        let mut all = Vec::new();
        let mut all_outside = 0;
        for (elements, sentences) in world::all_gather(world, &(outside, own))? {
            all_outside += elements;
            all.extend(sentences);
        }
        Ok(Found {
            wrong: Some(wrong),
            outside: all_outside,
            failed_checks,
            mine: Some(mine),
            note: quoted(&all),
        })
    }
}

/// Returns the first of `sentences`, and how many more there are.
fn quoted(sentences: &[String]) -> String {
    let mut text = sentences[..sentences.len().min(MOST_QUOTED)].join("; ");
    if sentences.len() > MOST_QUOTED {
        let more = (sentences.len() - MOST_QUOTED) as u64;
        text += &format!("; and {}", counted(more, "other finding"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::solo::Solo;

    #[test]
    fn what_changed_elsewhere_is_wrong_even_if_the_data_are_not_checked() {
        let right = OwnFindings {
            wrong: Some(0),
            damage: Vec::new(),
        };
        let found = right.together(None, &Solo).expect("one process");
        assert_eq!(
            (found.wrong, found.mine, &found.note[..]),
            (Some(0), Some(0), "")
        );
        let unchecked = OwnFindings::default().together(None, &Solo);
        assert_eq!(unchecked.expect("one process").wrong, None);

        let damaged = OwnFindings {
            wrong: None,
            damage: vec![Damage::of_send_buffer(0, 2, 1); 5],
        };
        let found = damaged.together(Some(3), &Solo).expect("one process");
        assert_eq!(
            (found.wrong, found.outside, found.failed_checks),
            (Some(10), 10, 1)
        );
        let one = "communicator 3, rank 0: 2 elements of the send buffer changed, the first at 1";
        assert_eq!(
            found.note,
            format!("{one}; {one}; {one}; and 2 other findings")
        );
    }
}
