//! What the page shows of training steps that were replayed: times by mode, exposed communication,
//! collectives, timelines.

use std::borrow::Cow;

use serde::Serialize;

use super::{
    drawing::fitting,
    estimate::Estimate,
    figure::Figure,
    picture::Picture,
    replay_modes::{in_milliseconds, modes_figure},
    replay_parts::ReplayParts,
    replays::{CollectiveTimes, ReplayedStep},
    table::{MOST_ROWS, Table, distinct, end_table, figure, is_are, limited, words},
    timeline::TimelineOfRank,
    timeline_drawing,
};
use crate::{
    backend::step::StepMode,
    units::{Bytes, counted},
    visible,
};

/// Training steps that are described.
const MOST_SECTIONS: usize = 40;

/// Characters of what a workload says of itself.
const MOST_LETTERS: usize = 400;

/// Operations with wrong data that are named.
const MOST_NAMES: usize = 20;

/// A training step on the page.
#[derive(Serialize)]
pub(super) struct ReplaySection {
    name: String,
    sentences: Vec<String>,
    pub(super) modes: Vec<Figure>,
    collectives: Table,
    /// What the table does not list.
    left_out: String,
    pub(super) timelines: Vec<Figure>,
    /// Which ranks have a timeline.
    timelines_note: String,
}

/// Returns the main numbers of each step.
pub(super) fn overview(replays: &[ReplayedStep], left_out: &mut Vec<String>) -> Table {
    note_others(replays.len(), left_out);
    let mut rows = Vec::new();
    for replay in replays {
        let exposed = replay.summary.exposed.as_ref();
        let step = replay.time(StepMode::Overlapped);
        let milliseconds =
            |estimate: Option<&Estimate>| figure(estimate.map(|estimate| estimate.value / 1e3));
        rows.push(vec![
            replay.name.clone(),
            replay.summary.workload.clone(),
            replay.label.clone(),
            replay.ranks.to_string(),
            milliseconds(step),
            in_milliseconds(step.and_then(|step| step.interval)),
            milliseconds(replay.time(StepMode::Computation)),
            figure(exposed.map(|exposed| exposed.time_us / 1e3)),
            figure(exposed.map(|exposed| 100.0 * exposed.share)),
            match replay.summary.checked {
                0 => "not checked".to_owned(),
                _ => replay.summary.wrong.to_string(),
            },
        ]);
    }
    Table {
        caption: "Training steps".to_owned(),
        head: words(&[
            "run",
            "workload",
            "level",
            "ranks",
            "step (ms)",
            "95 % interval",
            "computation (ms)",
            "exposed (ms)",
            "% of the step",
            "wrong elements",
        ]),
        rows: limited(rows, "training step", left_out),
    }
}

/// Notes how many training steps have no section.
fn note_others(replays: usize, left_out: &mut Vec<String>) {
    if replays > MOST_SECTIONS {
        let others = is_are(replays - MOST_SECTIONS, "further training step");
        left_out.push(format!("{others} not described."));
    }
}

/// Keeps those figures that the page has room for; the noun says what they show.
pub(super) type TakeFigures<'a> = dyn FnMut(Vec<Figure>, &str) -> anyhow::Result<Vec<Figure>> + 'a;

/// Returns the sections. `take` decides which of their figures there is room for: the times of the
/// modes, and the timelines.
///
/// # Errors
///
/// Returns an error if `take` does.
pub(super) fn sections(
    replays: &[ReplayedStep],
    take: &mut TakeFigures<'_>,
) -> anyhow::Result<Vec<ReplaySection>> {
    let names = distinct(replays.iter().map(|replay| replay.name.clone()));
    let mut sections = Vec::new();
    for (number, (replay, name)) in (1..).zip(replays.iter().zip(names).take(MOST_SECTIONS)) {
        let mut left_out = Vec::new();
        let collectives = collectives(replay, &name, &mut left_out);
        let (chosen, timelines_note) = chosen(&replay.timelines);
        let mut timelines = Vec::new();
        for (timeline, what) in chosen {
            timelines.push(timeline_figure(timeline, what, number, &name));
        }
        let modes = match replay.modes.is_empty() {
            true => Vec::new(),
            false => vec![modes_figure(&replay.modes, number, &name)],
        };
        sections.push(ReplaySection {
            sentences: sentences(replay),
            modes: take(modes, "training step")?,
            collectives,
            left_out: left_out.join(" "),
            timelines: take(timelines, "timeline")?,
            timelines_note,
            name,
        });
    }
    Ok(sections)
}

fn sentences(replay: &ReplayedStep) -> Vec<String> {
    let summary = &replay.summary;
    let about = summary.about.split_whitespace().collect::<Vec<&str>>();
    let mut all = vec![match about.is_empty() {
        true => format!("Workload {}.", summary.workload),
        false => {
            let about = about.join(" ");
            let about = visible::beginning(&about, MOST_LETTERS);
            let about = about.trim_end_matches('.');
            format!("Workload {}: {about}.", summary.workload)
        }
    }];
    if let Some(exposed) = &summary.exposed {
        let share = |share: f64| figure(Some(100.0 * share));
        let interval = match exposed.share_interval {
            Some((low, high)) => {
                format!(" (95 % interval {} to {} %)", share(low), share(high))
            }
            None => String::new(),
        };
        all.push(format!(
            "Exposed communication, which computation does not hide: {} ms, {} % of the \
             step{interval}.",
            figure(Some(exposed.time_us / 1e3)),
            share(exposed.share),
        ));
    }
    let parts = summary.communication.as_ref();
    all.extend(parts.and_then(ReplayParts::sentence));
    let checked = counted(u64::from(summary.checked), "kind");
    all.push(match (summary.checked, summary.wrong) {
        (0, _) => "No data were checked.".to_owned(),
        (_, 0) => {
            format!("The data of {checked} of collectives were checked, and all were correct.")
        }
        (_, wrong) => format!(
            "{} in the data of {checked} of collectives: {}.",
            counted(wrong, "wrong element"),
            wrong_operations(&summary.wrong_operations)
        ),
    });
    if summary.stopped {
        all.push("A signal ended the replay after a block.".to_owned());
    }
    all
}

/// Returns the names of operations with wrong data, as many as a sentence bears.
fn wrong_operations(all: &[String]) -> String {
    let shown = all.iter().take(MOST_NAMES);
    let mut names: Vec<Cow<'_, str>> = shown.map(|name| visible::excerpt(name)).collect();
    if all.len() > MOST_NAMES {
        names.push(format!("and {} more", all.len() - MOST_NAMES).into());
    }
    names.join(", ")
}

fn collectives(replay: &ReplayedStep, name: &str, left_out: &mut Vec<String>) -> Table {
    let all = &replay.summary.collectives;
    let is_proved = all.iter().any(|one| one.pxn.is_some());
    let mut head = words(&[
        "collective",
        "size",
        "type",
        "group",
        "ranks",
        "stream",
        "times per step",
        "alone (µs)",
        "busbw alone (GB/s)",
        "in the step (µs)",
        "busbw in the step (GB/s)",
    ]);
    if is_proved {
        head.extend(words(&["PXN", "relayed sends", "transports"]));
    }
    let mut rows = Vec::new();
    for one in all {
        let mut row = collective_cells(one);
        if is_proved {
            row.extend(proof_cells(one));
        }
        rows.push(row);
    }
    Table {
        caption: format!("Collectives alone and in the step: {name}"),
        head,
        rows: limited(rows, "kind of collective", left_out),
    }
}

fn collective_cells(one: &CollectiveTimes) -> Vec<String> {
    let dtype = match &*one.redop {
        "none" => one.r#type.clone(),
        redop => format!("{}, {redop}", one.r#type),
    };
    vec![
        one.collective.clone(),
        Bytes(one.size_bytes).to_string(),
        dtype,
        one.group.clone(),
        one.ranks.to_string(),
        one.stream.clone(),
        one.count.to_string(),
        figure(one.alone_us),
        figure(one.alone_busbw),
        figure(one.in_step_us),
        figure(one.in_step_busbw),
    ]
}

fn proof_cells(one: &CollectiveTimes) -> Vec<String> {
    let relayed = match (one.relayed_sends, one.sends) {
        (Some(relayed), Some(sends)) => format!("{relayed} of {sends}"),
        _ => String::new(),
    };
    vec![
        one.pxn.clone().unwrap_or_default(),
        relayed,
        one.transport.clone().unwrap_or_default(),
    ]
}

/// Returns the timelines that are shown, with what each is of, and what to say of the others: the
/// first rank, and those whose steps were the longest and the shortest.
fn chosen(all: &[TimelineOfRank]) -> (Vec<(&TimelineOfRank, &'static str)>, String) {
    let Some(first) = all.first() else {
        return (Vec::new(), String::new());
    };
    let by_end = |one: &&TimelineOfRank, other: &&TimelineOfRank| one.end().total_cmp(&other.end());
    let mut chosen = vec![(first, "the first")];
    for (timeline, what) in [
        (all.iter().max_by(by_end), "whose step was the longest"),
        (all.iter().min_by(by_end), "whose step was the shortest"),
    ] {
        if let Some(timeline) = timeline
            && chosen.iter().all(|(other, _)| other.rank != timeline.rank)
        {
            chosen.push((timeline, what));
        }
    }
    let note = match all.len() - chosen.len() {
        0 => String::new(),
        _ => format!(
            "Timelines of {} of the {} in timeline.json are drawn: the first, and those whose \
             steps were the longest and the shortest. Perfetto shows all of them.",
            chosen.len(),
            counted(all.len() as u64, "rank")
        ),
    };
    (chosen, note)
}

fn timeline_figure(timeline: &TimelineOfRank, what: &str, number: u32, name: &str) -> Figure {
    let rank = timeline.rank;
    let title = format!("Timeline of rank {rank}, {what}: {name}");
    let (svg, mut thinned) = timeline_drawing::draw(timeline);
    let description = format!(
        "{} of the overlapped step in {}, from its begin on this rank, {} ms. Each stream is a \
         lane. The table lists them.",
        counted(timeline.operations.len() as u64, "operation"),
        counted(timeline.streams.len() as u64, "stream"),
        figure(Some(timeline.end() / 1e3)),
    );
    let mut rows = Vec::new();
    for operation in timeline.operations.iter().take(MOST_ROWS + 1) {
        rows.push(vec![
            operation.name.clone(),
            operation
                .communication
                .clone()
                .unwrap_or_else(|| "computation".to_owned()),
            operation.details.clone(),
            timeline.stream(operation.stream),
            figure(Some(operation.begin)),
            figure(Some(operation.time)),
        ]);
    }
    thinned.extend(end_table(&mut rows));
    let id = format!("timeline {number} {rank} {name}");
    Figure {
        name: Picture::file_name(&id),
        pictures: vec![Picture::new(&id, title.clone(), description, &svg)],
        table: Table {
            caption: format!("Operations of rank {rank}: {}", fitting(name, 600.0)),
            head: words(&[
                "operation",
                "work",
                "size, group, ranks",
                "stream",
                "begin (µs)",
                "time (µs)",
            ]),
            rows,
        },
        title,
        thinned: thinned.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::timeline::TimelineOperation;

    fn of_rank(rank: u64, time: f64) -> TimelineOfRank {
        TimelineOfRank {
            rank,
            operations: vec![TimelineOperation {
                name: "a".into(),
                communication: None,
                details: String::new(),
                stream: 0,
                begin: 0.0,
                time,
            }],
            ..TimelineOfRank::default()
        }
    }

    #[test]
    fn of_many_operations_with_wrong_data_some_are_named() {
        let names: Vec<String> = (0..100_000).map(|number| format!("op {number}")).collect();
        let words = wrong_operations(&names);
        assert!(words.starts_with("op 0, op 1, "), "{words}");
        assert!(words.ends_with(", op 19, and 99980 more"), "{words}");
        assert_eq!(wrong_operations(&names[..2]), "op 0, op 1");
    }

    #[test]
    fn the_first_rank_and_the_extremes_are_shown() {
        let times = [3.0, 2.0, 5.0, 1.0, 4.0];
        let all: Vec<_> = (0..)
            .zip(times)
            .map(|(rank, time)| of_rank(rank, time))
            .collect();
        let ranks = |shown: &[(&TimelineOfRank, &str)]| -> Vec<u64> {
            shown.iter().map(|(timeline, _)| timeline.rank).collect()
        };
        let (shown, note) = chosen(&all);
        assert_eq!(ranks(&shown), [0, 2, 3]);
        assert!(
            note.starts_with("Timelines of 3 of the 5 ranks in timeline.json"),
            "{note}"
        );
        let (shown, note) = chosen(&all[..2]);
        assert_eq!((ranks(&shown), note.as_str()), (vec![0, 1], ""));
        assert!(chosen(&[]).0.is_empty());
    }
}
