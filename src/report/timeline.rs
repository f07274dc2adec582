//! The timeline of a step on one rank: streams as lanes, operations as bars.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    drawing::{Anchor, Area, Drawing, fitting, tick},
    palette::{Colour, GRID, LINES},
};
use crate::{
    units::{Bytes, counted},
    visible,
};

/// Operations of a rank that are drawn.
pub(super) const MOST_DRAWN: usize = 2000;

/// Streams of a rank that are drawn.
const MOST_LANES: usize = 24;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 10.0;
const LANE: f64 = 26.0;
const LEGEND_ROW: f64 = 20.0;

/// The narrowest bar that is seen.
const LEAST_WIDTH: f64 = 0.8;

/// The colour of computation. Those of communication are the others, in the order in which they appear.
const COMPUTATION: Colour = LINES[7];

/// The shortest axis, in microseconds, and the longest time on one: a file can have values without bound.
const LEAST_TIME: f64 = 1e-3;
const MOST_TIME: f64 = 1e12;

/// Characters of a name: a file can have names without bound.
const MOST_LETTERS: usize = 100;

/// An operation of a step on one rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimelineOperation {
    pub(super) name: String,
    /// The collective, or copies; `None` for computation.
    pub(super) communication: Option<String>,
    /// Its size, pieces, group and ranks, in words; empty for computation.
    pub(super) details: String,
    /// The number of its stream.
    pub(super) stream: u64,
    /// When it begins after the begin of the step, in microseconds.
    pub(super) begin: f64,
    /// How long it takes.
    pub(super) time: f64,
}

impl TimelineOperation {
    /// Returns when it ends.
    pub(super) fn end(&self) -> f64 {
        self.begin + self.time
    }
}

/// What one rank did in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TimelineOfRank {
    pub(super) rank: u64,
    /// The names of the streams.
    pub(super) streams: BTreeMap<u64, String>,
    /// The operations, by when they begin.
    pub(super) operations: Vec<TimelineOperation>,
}

impl TimelineOfRank {
    /// Returns when the last operation ends.
    pub(super) fn end(&self) -> f64 {
        let ends = self.operations.iter().map(TimelineOperation::end);
        ends.fold(0.0, f64::max)
    }

    /// Returns the name of a stream.
    pub(super) fn stream(&self, number: u64) -> String {
        match self.streams.get(&number) {
            Some(name) => name.clone(),
            None => format!("stream {number}"),
        }
    }
}

/// An event of a Chrome trace, as far as it is read.
#[derive(Deserialize)]
struct TraceEvent {
    ph: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: TraceArguments,
}

#[derive(Default, Deserialize)]
struct TraceArguments {
    name: Option<String>,
    collective: Option<String>,
    size_bytes: Option<u64>,
    /// How many copies there are, of an operation that copies.
    pieces: Option<u64>,
    group: Option<String>,
    ranks: Option<u64>,
}

#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<TraceEvent>,
}

/// Reads the timelines of all ranks in a `timeline.json`.
///
/// # Errors
///
/// Returns a sentence if it is none.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<TimelineOfRank>, String> {
    let trace: Trace = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut ranks: BTreeMap<u64, TimelineOfRank> = BTreeMap::new();
    for event in trace.events {
        let rank = ranks.entry(event.pid).or_default();
        rank.rank = event.pid;
        match &*event.ph {
            "M" if event.name == "thread_name" => {
                let name = event.args.name.unwrap_or_default();
                rank.streams.insert(event.tid, short(&name));
            }
            "X" if event.ts.is_finite() && event.dur.is_finite() => {
                rank.operations.push(TimelineOperation {
                    name: short(&event.name),
                    communication: event.args.communication(),
                    details: event.args.details(),
                    stream: event.tid,
                    begin: event.ts.clamp(0.0, MOST_TIME),
                    time: event.dur.clamp(0.0, MOST_TIME),
                });
            }
            _ => {}
        }
    }
    let mut all: Vec<TimelineOfRank> = ranks.into_values().collect();
    for rank in &mut all {
        rank.operations
            .sort_by(|one, other| one.begin.total_cmp(&other.begin));
    }
    all.retain(|rank| !rank.operations.is_empty());
    Ok(all)
}

fn short(name: &str) -> String {
    visible::beginning(name, MOST_LETTERS).into_owned()
}

impl TraceArguments {
    fn communication(&self) -> Option<String> {
        match &self.collective {
            Some(collective) => Some(short(collective)),
            None => self.pieces.map(|_| "copies".to_owned()),
        }
    }

    fn details(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.size_bytes.map(|size| Bytes(size).to_string()));
        words.extend(self.pieces.map(|pieces| counted(pieces, "piece")));
        words.extend(self.group.as_deref().map(short));
        words.extend(self.ranks.map(|ranks| counted(ranks, "rank")));
        words.join(", ")
    }
}

/// Draws the timeline. Returns the SVG, and what it leaves out as sentences.
pub(super) fn draw(timeline: &TimelineOfRank) -> (String, Vec<String>) {
    let mut left_out = Vec::new();
    let all = &timeline.operations;
    let shown = &all[..all.len().min(MOST_DRAWN)];
    if shown.len() < all.len() {
        left_out.push(format!(
            "The first {} of {} operations are drawn.",
            shown.len(),
            all.len()
        ));
    }
    let mut lanes: Vec<u64> = Vec::new();
    for operation in shown {
        if !lanes.contains(&operation.stream) {
            lanes.push(operation.stream);
        }
    }
    lanes.sort_unstable();
    if lanes.len() > MOST_LANES {
        left_out.push(format!(
            "{MOST_LANES} of {} streams are drawn.",
            lanes.len()
        ));
        lanes.truncate(MOST_LANES);
    }
    let end = shown.iter().map(TimelineOperation::end).fold(0.0, f64::max);
    let kinds = kinds(shown);
    let axis = TimeAxis::new(end);
    let bottom = TOP + LANE * lanes.len() as f64;
    let height = bottom + 45.0 + LEGEND_ROW * kinds.len() as f64;
    let mut drawing = Drawing::new(WIDTH, height);
    axis.draw(&mut drawing, bottom);
    for (number, stream) in lanes.iter().enumerate() {
        let y = TOP + LANE * number as f64;
        let name = fitting(&timeline.stream(*stream), LEFT - 14.0);
        drawing.words(&name, (LEFT - 8.0, y + 17.0), Anchor::End);
    }
    for operation in shown {
        let Some(lane) = lanes.iter().position(|lane| *lane == operation.stream) else {
            continue;
        };
        let area = Area {
            x: axis.place(operation.begin),
            y: TOP + LANE * lane as f64 + 3.0,
            width: (axis.place(operation.end()) - axis.place(operation.begin)).max(LEAST_WIDTH),
            height: LANE - 6.0,
        };
        let colour = colour_of(&kinds, operation.communication.as_deref());
        drawing.bar(area, colour, &axis.tooltip(operation));
        let words = fitting(&operation.name, area.width - 6.0);
        if !words.is_empty() {
            drawing.words_on_bar(&words, (area.x + 3.0, area.y + 14.0));
        }
    }
    draw_legend(&mut drawing, &kinds, bottom + 45.0);
    (drawing.end(), left_out)
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

/// The axis of a time, from 0.
pub(super) struct TimeAxis {
    end: f64,
    /// Microseconds in the unit of the marks, and its name.
    unit: (f64, &'static str),
}

impl TimeAxis {
    /// Returns an axis to `end` microseconds.
    pub(super) fn new(end: f64) -> TimeAxis {
        let end = end.clamp(LEAST_TIME, MOST_TIME);
        TimeAxis {
            end,
            unit: if end < 1e3 { (1.0, "µs") } else { (1e3, "ms") },
        }
    }

    /// Returns the place of a time.
    pub(super) fn place(&self, time: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (time / self.end).clamp(0.0, 1.0)
    }

    /// Draws the marks below the lanes that end at `bottom`.
    pub(super) fn draw(&self, drawing: &mut Drawing, bottom: f64) {
        let (unit, name) = self.unit;
        let distance = tick(self.end / unit);
        let marks = (self.end / unit / distance).floor() as u32;
        for mark in 0..=marks {
            let value = f64::from(mark) * distance;
            let x = self.place(value * unit);
            drawing.line((x, TOP), (x, bottom + 4.0), GRID);
            let decimals = (-distance.log10().floor()).max(0.0) as usize;
            let label = format!("{value:.decimals$}");
            drawing.words(&label, (x, bottom + 18.0), Anchor::Middle);
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        drawing.words(
            &format!("time ({name})"),
            (middle, bottom + 34.0),
            Anchor::Middle,
        );
    }

    /// Returns what an operation shows under the pointer.
    fn tooltip(&self, operation: &TimelineOperation) -> String {
        let (unit, name) = self.unit;
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
