//! The figure of the times of a training step, by mode.

use super::{
    drawing::{Anchor, Area, Drawing},
    figure::Figure,
    palette::{INK, LINES},
    picture::Picture,
    replays::ModeTimes,
    table::{Table, figure, interval, words},
    time_axis::{TOP, TimeAxis, WIDTH},
};
use crate::units::Micros;

/// The height of a bar and the space around it.
const BAR: f64 = 30.0;

/// Returns both ends of an interval in milliseconds.
pub(super) fn in_milliseconds(ends: Option<(f64, f64)>) -> String {
    interval(ends.map(|(low, high)| (low / 1e3, high / 1e3)))
}

/// Returns the bars of the modes of the step `name`, which is the `number`-th of the page, and
/// their table.
pub(super) fn modes_figure(modes: &[ModeTimes], number: u32, name: &str) -> Figure {
    let id = format!("modes {number} {name}");
    let title = format!("Time of the step by mode: {name}");
    let longest = modes.iter().map(|times| match times.estimate.interval {
        Some((_, high)) => high.max(times.estimate.value),
        None => times.estimate.value,
    });
    let axis = TimeAxis::new(longest.fold(0.0, f64::max));
    let bottom = TOP + BAR * modes.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 45.0);
    axis.draw(&mut drawing, bottom);
    let mut description =
        "Bars of the geometric mean over blocks, from 0, with its 95 % interval.".to_owned();
    for (place, times) in modes.iter().enumerate() {
        let words = in_words(times);
        draw_bar(&mut drawing, &axis, place, times, &words);
        description += &format!(" {words}.");
    }
    Figure {
        name: Picture::file_name(&id),
        pictures: vec![Picture::new(
            &id,
            title.clone(),
            description,
            &drawing.end(),
        )],
        table: modes_table(modes, name),
        title,
        thinned: String::new(),
    }
}

/// Returns the name of a mode and its time.
fn in_words(times: &ModeTimes) -> String {
    let time = figure(Some(times.estimate.value / 1e3));
    format!("{}: {time} ms", times.mode.name())
}

/// Draws the bar of a mode, and the interval of its time.
fn draw_bar(drawing: &mut Drawing, axis: &TimeAxis, place: usize, times: &ModeTimes, words: &str) {
    let y = TOP + BAR * place as f64;
    let left = axis.place(0.0);
    drawing.words(times.mode.name(), (left - 8.0, y + 19.0), Anchor::End);
    let area = Area {
        x: left,
        y: y + 4.0,
        width: axis.place(times.estimate.value) - left,
        height: BAR - 10.0,
    };
    drawing.bar(area, LINES[place % LINES.len()], words);
    if let Some((low, high)) = times.estimate.interval {
        let middle = y + BAR / 2.0 - 1.0;
        let (low, high) = (axis.place(low), axis.place(high));
        drawing.line((low, middle), (high, middle), INK);
        for end in [low, high] {
            drawing.line((end, middle - 5.0), (end, middle + 5.0), INK);
        }
    }
}

fn modes_table(modes: &[ModeTimes], name: &str) -> Table {
    let mut rows = Vec::new();
    for times in modes {
        let ModeTimes {
            mode,
            steps,
            quartiles,
            estimate,
        } = times;
        let quartile = |time: Micros| figure(Some(time.0 / 1e3));
        rows.push(vec![
            mode.name().to_owned(),
            mode.note().to_owned(),
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
    Table {
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
    }
}
