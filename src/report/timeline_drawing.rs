//! Draws the timeline of a step on one rank: streams as lanes, operations as bars.

use std::collections::BTreeSet;

use super::{
    drawing::{Anchor, Area, Drawing, fitting},
    palette::{Colour, LINES},
    time_axis::{LEFT, TOP, TimeAxis, WIDTH},
    timeline::{TimelineOfRank, TimelineOperation},
};

/// Operations of a rank that are drawn.
const MOST_DRAWN: usize = 2000;

/// Streams of a rank that are drawn.
const MOST_LANES: usize = 24;

const LANE: f64 = 26.0;
const LEGEND_ROW: f64 = 20.0;

/// The narrowest bar that is seen.
const LEAST_WIDTH: f64 = 0.8;

/// The colour of computation. Those of communication are the others, in the order in which they
/// appear.
const COMPUTATION: Colour = LINES[7];

/// Draws the timeline. Returns the SVG, and what it leaves out as sentences.
pub(super) fn draw(timeline: &TimelineOfRank) -> (String, Vec<String>) {
    let mut left_out = Vec::new();
    let shown = shown(&timeline.operations, &mut left_out);
    let lanes = lanes(shown, &mut left_out);
    let kinds = kinds(shown);
    let end = shown.iter().map(TimelineOperation::end).fold(0.0, f64::max);
    let axis = TimeAxis::new(end);
    let bottom = TOP + LANE * lanes.len() as f64;
    let height = bottom + 45.0 + LEGEND_ROW * kinds.len() as f64;
    let mut drawing = Drawing::new(WIDTH, height);
    axis.draw(&mut drawing, bottom);
    for (number, stream) in lanes.iter().enumerate() {
        let name = fitting(&timeline.stream(*stream), LEFT - 14.0);
        drawing.words(&name, (LEFT - 8.0, top_of(number) + 17.0), Anchor::End);
    }
    for operation in shown {
        let lane = lanes.iter().position(|lane| *lane == operation.stream);
        if let Some(lane) = lane {
            let colour = colour_of(&kinds, operation.communication.as_deref());
            draw_operation(&mut drawing, &axis, lane, operation, colour);
        }
    }
    draw_legend(&mut drawing, &kinds, bottom + 45.0);
    (drawing.end(), left_out)
}

/// Returns the operations that are drawn.
fn shown<'a>(all: &'a [TimelineOperation], left_out: &mut Vec<String>) -> &'a [TimelineOperation] {
    let shown = &all[..all.len().min(MOST_DRAWN)];
    if shown.len() < all.len() {
        left_out.push(format!(
            "The first {} of {} operations are drawn.",
            shown.len(),
            all.len()
        ));
    }
    shown
}

/// Returns the numbers of the streams that are drawn, a lane for each.
fn lanes(operations: &[TimelineOperation], left_out: &mut Vec<String>) -> Vec<u64> {
    let streams = operations.iter().map(|operation| operation.stream);
    let mut lanes = Vec::from_iter(streams.collect::<BTreeSet<u64>>());
    if lanes.len() > MOST_LANES {
        left_out.push(format!(
            "{MOST_LANES} of {} streams are drawn.",
            lanes.len()
        ));
        lanes.truncate(MOST_LANES);
    }
    lanes
}

fn top_of(lane: usize) -> f64 {
    TOP + LANE * lane as f64
}

fn draw_operation(
    drawing: &mut Drawing,
    axis: &TimeAxis,
    lane: usize,
    operation: &TimelineOperation,
    colour: Colour,
) {
    let left = axis.place(operation.begin);
    let area = Area {
        x: left,
        y: top_of(lane) + 3.0,
        width: (axis.place(operation.end()) - left).max(LEAST_WIDTH),
        height: LANE - 6.0,
    };
    drawing.bar(area, colour, &tooltip(axis, operation));
    let words = fitting(&operation.name, area.width - 6.0);
    if !words.is_empty() {
        drawing.words_on_bar(&words, (area.x + 3.0, area.y + 14.0));
    }
}

/// Returns what an operation shows under the pointer.
fn tooltip(axis: &TimeAxis, operation: &TimelineOperation) -> String {
    let (unit, name) = axis.unit();
    let mut words = operation.name.clone();
    if let Some(communication) = &operation.communication {
        words += &format!(": {communication}, {}", operation.details);
    }
    let TimelineOperation { begin, time, .. } = operation;
    format!(
        "{words}; {:.3} {name} from {:.3}",
        time / unit,
        begin / unit
    )
}

/// Returns the kinds of work, computation first: as many as there are colours.
fn kinds(operations: &[TimelineOperation]) -> Vec<Option<&str>> {
    let mut kinds: Vec<Option<&str>> = Vec::new();
    if operations.iter().any(|one| one.communication.is_none()) {
        kinds.push(None);
    }
    for operation in operations {
        let kind = operation.communication.as_deref();
        if !kinds.contains(&kind) && kinds.len() < LINES.len() {
            kinds.push(kind);
        }
    }
    kinds
}

fn colour_of(kinds: &[Option<&str>], kind: Option<&str>) -> Colour {
    if kind.is_none() {
        return COMPUTATION;
    }
    let mut others = kinds.iter().filter(|one| one.is_some());
    let at = others.position(|one| *one == kind);
    LINES[at.unwrap_or_default() % (LINES.len() - 1)]
}

fn draw_legend(drawing: &mut Drawing, kinds: &[Option<&str>], top: f64) {
    for (number, kind) in kinds.iter().enumerate() {
        let y = top + LEGEND_ROW * number as f64;
        let area = Area {
            x: LEFT,
            y,
            width: 14.0,
            height: 12.0,
        };
        drawing.bar(area, colour_of(kinds, *kind), "");
        let name = kind.unwrap_or("computation");
        drawing.words(name, (LEFT + 20.0, y + 11.0), Anchor::Start);
    }
}

#[cfg(test)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::timeline::read;

    fn trace(operations: usize) -> Vec<u8> {
        let mut events = vec![
            r#"{"ph":"M","name":"process_name","pid":3,"tid":0,"args":{"name":"rank 3"}}"#
                .to_owned(),
            r#"{"ph":"M","name":"thread_name","pid":3,"tid":1,"args":{"name":"gradients"}}"#
                .to_owned(),
        ];
        for number in 0..operations {
            let begin = 10 * (operations - number);
            events.push(format!(
                r#"{{"ph":"X","name":"backward {number}","pid":3,"tid":0,"ts":{begin},"dur":8.5,"args":{{"alone_us":8}}}}"#
            ));
        }
        events.push(
            r#"{"ph":"X","name":"fill 1","cat":"copies","pid":3,"tid":0,"ts":8,"dur":1.5,"args":{"pieces":14,"size_bytes":1024}}"#
                .to_owned(),
        );
        events.push(
            r#"{"ph":"X","name":"<b> 1","pid":3,"tid":1,"ts":5,"dur":100,"args":{"collective":"all_reduce","size_bytes":1024,"group":"data","ranks":4}}"#
                .to_owned(),
        );
        format!("{{\"traceEvents\":[{}]}}", events.join(",")).into_bytes()
    }

    #[test]
    fn operations_are_bars_in_the_lanes_of_their_streams() {
        let all = read(&trace(2)).expect("a trace");
        let [rank] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!((rank.rank, rank.end()), (3, 105.0));
        assert_eq!(rank.stream(1), "gradients");
        let names: Vec<&str> = rank.operations.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["<b> 1", "fill 1", "backward 1", "backward 0"]);
        let (svg, left_out) = draw(rank);
        assert_eq!(left_out, [] as [String; 0]);
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let titles = document
            .descendants()
            .filter(|one| one.has_tag_name("title"));
        let titles: Vec<&str> = titles.filter_map(|one| one.text()).collect();
        assert_eq!(
            titles,
            [
                "<b> 1: all_reduce, 1K, data, 4 ranks; 100.000 µs from 5.000",
                "fill 1: copies, 1K, 14 pieces; 1.500 µs from 8.000",
                "backward 1; 8.500 µs from 10.000",
                "backward 0; 8.500 µs from 20.000"
            ]
        );
    }

    #[test]
    fn what_is_not_drawn_is_said() {
        let all = read(&trace(MOST_DRAWN - 1)).expect("a trace");
        let (svg, left_out) = draw(&all[0]);
        assert_eq!(left_out, ["The first 2000 of 2001 operations are drawn."]);
        assert_eq!(svg.matches("<title>").count(), 2000);
        assert!(read(b"[]").is_err());
    }
}
