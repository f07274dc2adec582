//! What the page shows of training steps that were replayed: times by mode, exposed communication, collectives, timelines.

use serde::Serialize;

use super::{
    drawing::{Anchor, Area, Drawing, fitting},
    estimate::Estimate,
    figure::Figure,
    palette::{INK, LINES},
    picture::Picture,
    replays::{CollectiveTimes, ModeTimes, ReplayedStep},
    table::{MOST_ROWS, Table, distinct, end_table, figure, interval, is_are, limited, words},
    timeline::{self, TimeAxis, TimelineOfRank},
};
use crate::{
    backend::step::StepMode,
    units::{Bytes, Micros, counted},
    visible,
};

/// Training steps that are described.
const MOST_SECTIONS: usize = 40;

/// Characters of what a workload says of itself.
const MOST_LETTERS: usize = 400;

const BAR: f64 = 30.0;
const WIDTH: f64 = 760.0;

/// What a mode leaves out or changes.
fn mode_note(mode: StepMode) -> &'static str {
    match mode {
        StepMode::Computation => "computation alone",
        StepMode::Communication => "collectives alone, in their streams",
        StepMode::Serial => "one operation after another",
        StepMode::Overlapped => "as in training",
    }
}

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

fn in_milliseconds(ends: Option<(f64, f64)>) -> String {
    interval(ends.map(|(low, high)| (low / 1e3, high / 1e3)))
}

/// Keeps those figures that the page has room for; the noun says what they show.
pub(super) type TakeFigures<'a> = dyn FnMut(Vec<Figure>, &str) -> anyhow::Result<Vec<Figure>> + 'a;

/// Returns the sections. `take` decides which of their figures there is room for: the times of the modes, and the timelines.
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
            "Exposed communication, which computation does not hide: {} ms, {} % of the step{interval}.",
            figure(Some(exposed.time_us / 1e3)),
            share(exposed.share),
        ));
    }
    let checked = counted(u64::from(summary.checked), "kind");
    all.push(match (summary.checked, summary.wrong) {
        (0, _) => "No data were checked.".to_owned(),
        (_, 0) => {
            format!("The data of {checked} of collectives were checked, and all were correct.")
        }
        (_, wrong) => format!(
            "{} in the data of {checked} of collectives: {}.",
            counted(wrong, "wrong element"),
            summary.wrong_operations.join(", ")
        ),
    });
    if summary.stopped {
        all.push("A signal ended the replay after a block.".to_owned());
    }
    all
}

fn modes_figure(modes: &[ModeTimes], number: u32, name: &str) -> Figure {
    let id = format!("modes {number} {name}");
    let title = format!("Time of the step by mode: {name}");
    let mut description =
        "Bars of the geometric mean over blocks, from 0, with its 95 % interval.".to_owned();
    let longest = modes.iter().map(|times| match times.estimate.interval {
        Some((_, high)) => high.max(times.estimate.value),
        None => times.estimate.value,
    });
    let axis = TimeAxis::new(longest.fold(0.0, f64::max));
    let bottom = 10.0 + BAR * modes.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 45.0);
    axis.draw(&mut drawing, bottom);
    let mut rows = Vec::new();
    for (place, times) in modes.iter().enumerate() {
        let ModeTimes {
            mode,
            steps,
            quartiles,
            estimate,
        } = times;
        let y = 10.0 + BAR * place as f64;
        drawing.words(mode.name(), (axis.place(0.0) - 8.0, y + 19.0), Anchor::End);
        let words = format!("{}: {} ms", mode.name(), figure(Some(estimate.value / 1e3)));
        let area = Area {
            x: axis.place(0.0),
            y: y + 4.0,
            width: axis.place(estimate.value) - axis.place(0.0),
            height: BAR - 10.0,
        };
        drawing.bar(area, LINES[place % LINES.len()], &words);
        if let Some((low, high)) = estimate.interval {
            let middle = y + BAR / 2.0 - 1.0;
            let (low, high) = (axis.place(low), axis.place(high));
            drawing.line((low, middle), (high, middle), INK);
            for end in [low, high] {
                drawing.line((end, middle - 5.0), (end, middle + 5.0), INK);
            }
        }
        description += &format!(" {words}.");
        let quartile = |time: Micros| figure(Some(time.0 / 1e3));
        rows.push(vec![
            mode.name().to_owned(),
            mode_note(*mode).to_owned(),
            figure(Some(estimate.value / 1e3)),
            in_milliseconds(estimate.interval),
            quartile(quartiles.median_us),
            format!(
                "{} to {}",
                quartile(quartiles.first_us),
                quartile(quartiles.third_us)
            ),
            estimate.count.to_string(),
            steps.to_string(),
        ]);
    }
    Figure {
        name: Picture::file_name(&id),
        pictures: vec![Picture::new(
            &id,
            title.clone(),
            description,
            &drawing.end(),
        )],
        table: Table {
            caption: format!("Times of the step: {name}"),
            head: words(&[
                "mode",
                "what runs",
                "mean of the blocks (ms)",
                "95 % interval",
                "median (ms)",
                "middle half (ms)",
                "blocks",
                "steps",
            ]),
            rows,
        },
        title,
        thinned: String::new(),
    }
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

/// Returns the timelines that are shown, with what each is of, and what to say of the others: the first rank, and those whose steps
/// were the longest and the shortest.
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
            "Timelines of {} of the {} in timeline.json are drawn: the first, and those whose steps were the longest and the \
             shortest. Perfetto shows all of them.",
            chosen.len(),
            counted(all.len() as u64, "rank")
        ),
    };
    (chosen, note)
}

fn timeline_figure(timeline: &TimelineOfRank, what: &str, number: u32, name: &str) -> Figure {
    let rank = timeline.rank;
    let title = format!("Timeline of rank {rank}, {what}: {name}");
    let (svg, mut thinned) = timeline::draw(timeline);
    let description = format!(
        "{} of the overlapped step in {}, from its begin on this rank, {} ms. Each stream is a lane. The table lists them.",
        counted(timeline.operations.len() as u64, "operation"),
        counted(timeline.streams.len() as u64, "stream"),
        figure(Some(timeline.end() / 1e3)),
    );
    let mut rows = Vec::new();
    for operation in timeline.operations.iter().take(MOST_ROWS + 1) {
        rows.push(vec![
            operation.name.clone(),
            operation
                .collective
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
                collective: None,
                details: String::new(),
                stream: 0,
                begin: 0.0,
                time,
            }],
            ..TimelineOfRank::default()
        }
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
