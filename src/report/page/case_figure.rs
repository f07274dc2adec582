//! The figure of a case: time and bus bandwidth of its lines by size.

use crate::{
    report::{
        estimate::Estimate,
        figure::Figure,
        line_plot,
        panel::{Line, Panel, Point},
        picture::Picture,
        plot::{LinePlot, MOST_LINES, MOST_POINTS, PlotLine, PlotPoint, Scale},
        table::{MOST_ROWS, Table, end_table, figure, interval, words},
    },
    units::Bytes,
};

/// How far the peak of a single size is drawn to both sides, as a factor.
const BESIDE: f64 = 1.25;

/// A number of a point that is drawn, and its name with the unit.
struct PlottedNumber {
    name: &'static str,
    unit: &'static str,
    of: fn(&Point) -> Option<Estimate>,
}

const PLOTTED: [PlottedNumber; 2] = [
    PlottedNumber {
        name: "Time",
        unit: "µs",
        of: |point| Some(point.time),
    },
    PlottedNumber {
        name: "Bus bandwidth",
        unit: "GB/s",
        of: |point| point.busbw,
    },
];

/// Returns the plots of a case, with the table that has the same numbers.
///
/// # Errors
///
/// Returns an error if a plot cannot be drawn.
pub(super) fn case_figure(panel: &Panel) -> anyhow::Result<Figure> {
    let case = panel.case.words();
    let drawn = &panel.lines[..panel.lines.len().min(MOST_LINES)];
    let mut pictures = Vec::new();
    for number in &PLOTTED {
        pictures.extend(panel_picture(&case, drawn, number)?);
    }
    let mut thinned = not_drawn(&panel.lines, drawn);
    let table = panel_table(&case, panel, &mut thinned);
    Ok(Figure {
        name: Picture::file_name(&format!("case {case}")),
        title: case,
        pictures,
        table,
        thinned: thinned.join(" "),
    })
}

/// Returns what the plots do not show, as sentences.
fn not_drawn(all: &[Line], drawn: &[Line]) -> Vec<String> {
    let mut sentences = Vec::new();
    if drawn.len() < all.len() {
        sentences.push(format!("{} of {} lines are drawn.", drawn.len(), all.len()));
    }
    if drawn.iter().any(|line| line.points.len() > MOST_POINTS) {
        sentences.push(format!(
            "Of each line at most {MOST_POINTS} sizes are drawn."
        ));
    }
    sentences
}

/// Draws one number of each line by size; `None` if no line has it.
fn panel_picture(
    case: &str,
    lines: &[Line],
    number: &PlottedNumber,
) -> anyhow::Result<Option<Picture>> {
    let drawn = lines.iter().map(|line| plot_line(line, number));
    let drawn: Vec<PlotLine> = drawn.collect();
    if drawn.iter().all(|line| line.points.is_empty()) {
        return Ok(None);
    }
    let title = format!("{} against size: {case}", number.name);
    let mut description = format!(
        "{} in {} by size, both axes logarithmic.",
        number.name, number.unit
    );
    for line in &drawn {
        description.push(' ');
        description += &spoken(line, number.unit);
    }
    let plot = LinePlot {
        scale: Scale::SizesAndLogarithm,
        x_name: "size",
        y_name: format!("{} ({})", number.name.to_lowercase(), number.unit),
        lines: drawn,
        limit: (number.unit == "GB/s").then(|| peak_line(lines)).flatten(),
    };
    if plot.limit.is_some() {
        description += " A dashed line is the peak that the links allow.";
    }
    let svg = line_plot::draw(&plot)?;
    Ok(Some(Picture::new(
        &format!("{} {case}", number.name),
        title,
        description,
        &svg,
    )))
}

fn plot_line(line: &Line, number: &PlottedNumber) -> PlotLine {
    let points = line.points.iter().filter_map(|point| {
        let estimate = (number.of)(point).filter(|_| point.size > 0)?;
        Some(PlotPoint {
            x: point.size as f64,
            y: estimate.value,
            interval: estimate.interval,
        })
    });
    let line = PlotLine {
        label: line.label.clone(),
        points: points.collect(),
    };
    line.thinned()
}

/// Says what a line shows, for those who do not see it.
fn spoken(line: &PlotLine, unit: &str) -> String {
    let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else {
        return format!("{}: nothing.", line.label);
    };
    format!(
        "{}: from {} {unit} at {} to {} {unit} at {}.",
        line.label,
        figure(Some(first.y)),
        Bytes(first.x as u64),
        figure(Some(last.y)),
        Bytes(last.x as u64)
    )
}

/// Returns the peak of the first line that has one.
fn peak_line(lines: &[Line]) -> Option<PlotLine> {
    for line in lines {
        let points = line.points.iter().filter_map(|point| {
            Some(PlotPoint {
                x: point.size as f64,
                y: point.peak.filter(|peak| *peak > 0.0)?,
                interval: None,
            })
        });
        let mut points: Vec<PlotPoint> = points.collect();
        if let [only] = points[..] {
            // A single point is no line.
            let at = |x| PlotPoint { x, ..only };
            points = vec![at(only.x / BESIDE), at(only.x * BESIDE)];
        }
        if !points.is_empty() {
            let label = format!("peak of the links of {}", line.label);
            return Some(PlotLine { label, points }.thinned());
        }
    }
    None
}

fn panel_table(case: &str, panel: &Panel, thinned: &mut Vec<String>) -> Table {
    let mut rows = Vec::new();
    for line in &panel.lines {
        for point in &line.points {
            let busbw = point.busbw;
            rows.push(vec![
                Bytes(point.size).to_string(),
                line.label.clone(),
                figure(Some(point.time.value)),
                interval(point.time.interval),
                figure(busbw.map(|busbw| busbw.value)),
                interval(busbw.and_then(|busbw| busbw.interval)),
                figure(point.peak),
                point.time.count.to_string(),
                point
                    .wrong
                    .map_or_else(String::new, |wrong| wrong.to_string()),
            ]);
            if rows.len() > MOST_ROWS {
                break;
            }
        }
    }
    thinned.extend(end_table(&mut rows));
    Table {
        caption: format!("Time and bus bandwidth of {case}"),
        head: words(&[
            "size",
            "line",
            "time (µs)",
            "95 % interval",
            "busbw (GB/s)",
            "95 % interval of busbw",
            "peak (GB/s)",
            "repetitions",
            "wrong elements",
        ]),
        rows,
    }
}
