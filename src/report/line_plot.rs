//! A plot of lines with intervals, drawn by plotters.

use std::ops::Range;

use plotters::{
    coord::{
        Shift,
        ranged1d::{Ranged, ValueFormatter},
    },
    prelude::*,
    style::RelativeSize,
};

use super::{
    palette::{Colour, GRID, INK, LINES, PAPER, PEAK, SHAPES},
    plot::{LinePlot, PlotLine, Scale},
    table::distinct,
};
use crate::units::{Bytes, significant};

const WIDTH: u32 = 760;
const CHART_HEIGHT: u32 = 380;
const LEGEND_ROW: i32 = 20;
const FONT: &str = "sans-serif";
/// The factor by which the axis of sizes is longer than the sizes, at both ends.
const SIDE: f64 = 1.3;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the plot as SVG. Points whose values nobody can have measured are left out.
///
/// # Errors
///
/// Returns an error if the library does.
pub(super) fn draw(plot: &LinePlot) -> anyhow::Result<String> {
    let rows = plot.lines.len() + usize::from(plot.limit.is_some());
    let height = CHART_HEIGHT + (rows as i32 * LEGEND_ROW) as u32 + 8;
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    draw_on(&area, plot).map_err(|why| anyhow::anyhow!("a plot cannot be drawn: {why}"))?;
    drop(area);
    Ok(svg)
}

fn draw_on(area: &Area, plot: &LinePlot) -> Result<(), String> {
    area.fill(&PAPER.rgb()).map_err(words)?;
    let (chart, legend) = area.split_vertically(CHART_HEIGHT);
    let plot = &plot.drawable();
    let (x, y) = plot.extents();
    match plot.scale {
        Scale::SizesAndLogarithm => {
            let x = whole_powers(x, 2.0);
            // Points on the frame would be cut by it.
            let x = x.start / SIDE..x.end * SIDE;
            let y = whole_powers(y, 10.0);
            let mut builder = builder(&chart);
            let context = builder
                .build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())
                .map_err(words)?;
            draw_chart(context, plot, &|size| {
                Bytes(size.round() as u64).to_string()
            })?;
        }
        Scale::Linear => {
            let mut builder = builder(&chart);
            let context = builder
                .build_cartesian_2d(padded(x, 0.0), padded(y, 0.05))
                .map_err(words)?;
            draw_chart(context, plot, &short)?;
        }
    }
    draw_legend(&legend, plot)?;
    area.present().map_err(words)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn builder<'a, 'b>(area: &'a Area<'b>) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(10)
        .margin_right(28)
        .x_label_area_size(44)
        .y_label_area_size(72);
    builder
}

fn draw_chart<X, Y>(
    mut chart: ChartContext<SVGBackend, Cartesian2d<X, Y>>,
    plot: &LinePlot,
    x_label: &dyn Fn(&f64) -> String,
) -> Result<(), String>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let font = |size| (FONT, size).into_font().color(&INK.rgb());
    chart
        .configure_mesh()
        .x_desc(plot.x_name)
        .y_desc(plot.y_name.as_str())
        .x_labels(12)
        .y_labels(8)
        .x_label_formatter(x_label)
        .y_label_formatter(&short)
        .label_style(font(16))
        .axis_desc_style(font(17))
        .axis_style(INK.rgb())
        .bold_line_style(GRID.rgb())
        .light_line_style(TRANSPARENT)
        .set_all_tick_mark_size(RelativeSize::Smaller(0.008))
        .draw()
        .map_err(words)?;
    if let Some(limit) = &plot.limit {
        let style = PEAK.rgb().stroke_width(2);
        let line = DashedLineSeries::new(limit.places(), 8, 5, style);
        chart.draw_series(line).map_err(words)?;
    }
    for (number, line) in plot.lines.iter().enumerate() {
        draw_line(&mut chart, line, number)?;
    }
    Ok(())
}

/// Draws a line with its intervals and its points. Its number decides on the colour and the shape.
fn draw_line<X, Y>(
    chart: &mut ChartContext<SVGBackend, Cartesian2d<X, Y>>,
    line: &PlotLine,
    number: usize,
) -> Result<(), String>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let colour = LINES[number].rgb();
    chart
        .draw_series(LineSeries::new(line.places(), colour.stroke_width(2)))
        .map_err(words)?;
    let bars = line.points.iter().filter_map(|point| {
        let (low, high) = point.interval?;
        let bar = ErrorBar::new_vertical(point.x, low, point.y, high, colour.filled(), 6);
        Some(bar)
    });
    chart.draw_series(bars).map_err(words)?;
    let marks = line.places().map(|place| {
        let corners = SHAPES[number].to_vec();
        EmptyElement::at(place) + Polygon::new(corners, colour.filled())
    });
    chart.draw_series(marks).map_err(words)?;
    Ok(())
}

/// Draws a row per line: its shape, and its label.
fn draw_legend(area: &Area, plot: &LinePlot) -> Result<(), String> {
    const LEFT: i32 = 84;
    let mut row = LEGEND_ROW / 2;
    let names = distinct(plot.lines.iter().map(|line| shortened(&line.label)));
    for (number, name) in names.iter().enumerate() {
        let colour = LINES[number];
        draw_key(area, (LEFT, row), colour, name)?;
        let corners = SHAPES[number].to_vec();
        let shape =
            EmptyElement::at((LEFT + 15, row)) + Polygon::new(corners, colour.rgb().filled());
        area.draw(&shape).map_err(words)?;
        row += LEGEND_ROW;
    }
    if let Some(limit) = &plot.limit {
        draw_key(area, (LEFT, row), PEAK, &shortened(&limit.label))?;
    }
    Ok(())
}

fn draw_key(area: &Area, (x, y): (i32, i32), colour: Colour, label: &str) -> Result<(), String> {
    let stroke = PathElement::new([(x, y), (x + 30, y)], colour.rgb().stroke_width(2));
    area.draw(&stroke).map_err(words)?;
    let font = (FONT, 16).into_font().color(&INK.rgb());
    let text = Text::new(label.to_owned(), (x + 40, y - 8), font);
    area.draw(&text).map_err(words)
}

/// Returns `label` as long as it fits beside its shape.
fn shortened(label: &str) -> String {
    const MOST: usize = 80;
    if label.chars().count() <= MOST {
        return label.to_owned();
    }
    let kept: String = label.chars().take(MOST - 1).collect();
    kept + "…"
}

/// Returns a number as an axis shows it.
fn short(value: &f64) -> String {
    let rounded = significant(*value, 4);
    match rounded.abs() {
        size if size >= 1e6 || (size > 0.0 && size < 1e-4) => format!("{rounded:e}"),
        _ => rounded.to_string(),
    }
}

/// Returns the least range between powers of `base` that `range` is in.
fn whole_powers(range: Range<f64>, base: f64) -> Range<f64> {
    let low = range.start.log(base).floor();
    let high = range.end.log(base).ceil().max(low + 1.0);
    base.powf(low)..base.powf(high)
}

/// Returns `range` with `share` of it on both sides, and wide enough that the labels of its axis,
/// which have four digits, differ.
fn padded(range: Range<f64>, share: f64) -> Range<f64> {
    const LEAST_SHARE: f64 = 0.02;
    let width = range.end - range.start;
    let middle = range.start + width / 2.0;
    let least = match middle.abs() * LEAST_SHARE {
        0.0 => 1.0,
        least => least,
    };
    let half = (width * (0.5 + share)).max(least / 2.0);
    (middle - half)..(middle + half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::PlotPoint;

    fn line(count: usize) -> PlotLine {
        let points = (0..count).map(|at| PlotPoint {
            x: 2f64.powi((at % 40) as i32),
            y: 10.0 + at as f64,
            interval: Some((9.0 + at as f64, 12.0 + at as f64)),
        });
        PlotLine {
            label: "off <b>".into(),
            points: points.collect(),
        }
    }

    #[test]
    fn a_plot_is_well_formed_and_shows_every_point() {
        let plot = LinePlot {
            scale: Scale::SizesAndLogarithm,
            x_name: "size",
            y_name: "time (µs)".into(),
            lines: vec![line(7), line(7)],
            limit: Some(line(2)),
        };
        let svg = draw(&plot).expect("drawn");
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let marks = document
            .descendants()
            .filter(|one| one.has_tag_name("polygon"));
        // Those of the points, and one per line in the legend.
        assert_eq!(marks.count(), 2 * 7 + 2);
        let texts: Vec<&str> = document
            .descendants()
            .filter_map(|one| one.text())
            .collect();
        assert!(
            texts.iter().any(|text| text.contains("off <b>")),
            "{texts:?}"
        );
        assert!(texts.iter().any(|text| text.trim() == "64"), "{texts:?}");
    }

    #[test]
    fn a_plot_of_one_value_and_one_of_none_are_drawn() {
        for scale in [Scale::SizesAndLogarithm, Scale::Linear] {
            for count in [0, 1] {
                let plot = LinePlot {
                    scale,
                    x_name: "x",
                    y_name: "y".into(),
                    lines: vec![line(count)],
                    limit: None,
                };
                draw(&plot).expect("drawn");
            }
        }
    }

    #[test]
    fn values_that_nobody_measured_do_not_keep_it_busy() {
        let values = [
            5e-324,
            1e-300,
            12.0,
            1e300,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        for scale in [Scale::SizesAndLogarithm, Scale::Linear] {
            let points = values.map(|y| PlotPoint {
                x: 8.0,
                y,
                interval: Some((0.0, f64::INFINITY)),
            });
            let plot = LinePlot {
                scale,
                x_name: "x",
                y_name: "y".into(),
                lines: vec![PlotLine {
                    label: "l".into(),
                    points: points.to_vec(),
                }],
                limit: None,
            };
            let svg = draw(&plot).expect("drawn");
            roxmltree::Document::parse(&svg).expect("XML");
        }
    }

    /// Returns the texts of a plot of one line.
    fn texts(scale: Scale, points: &[(f64, f64)], limit: Option<PlotLine>) -> Vec<String> {
        let points = points.iter().map(|(x, y)| PlotPoint {
            x: *x,
            y: *y,
            interval: None,
        });
        let plot = LinePlot {
            scale,
            x_name: "x",
            y_name: "y".into(),
            lines: vec![PlotLine {
                label: "l".into(),
                points: points.collect(),
            }],
            limit,
        };
        let svg = draw(&plot).expect("drawn");
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let nodes = document.descendants().filter(|node| node.is_text());
        let texts = nodes.filter_map(|node| node.text());
        texts.map(|text| text.trim().to_owned()).collect()
    }

    #[test]
    fn the_labels_of_an_axis_differ_for_a_constant_curve_too() {
        for value in [1980.0, 1e9, 0.001, 0.0, -7.0] {
            for step in [0.0, 1e-5] {
                let points = [(1.0, value), (2.0, value * (1.0 + step))];
                let texts = texts(Scale::Linear, &points, None);
                let mut labels: Vec<&String> = texts
                    .iter()
                    .filter(|text| text.parse::<f64>().is_ok())
                    .collect();
                let count = labels.len();
                labels.sort();
                labels.dedup();
                // Both axes may have a label in common.
                assert!(count > 8 && labels.len() + 2 >= count, "{value}: {texts:?}");
            }
        }
    }

    #[test]
    fn lines_with_the_same_name_are_told_apart() {
        let long = "x".repeat(90);
        let mut lines = vec![line(2), line(2), line(2), line(2)];
        lines[2].label = format!("{long} a");
        lines[3].label = format!("{long} b");
        let plot = LinePlot {
            scale: Scale::Linear,
            x_name: "x",
            y_name: "y".into(),
            lines,
            limit: None,
        };
        let svg = draw(&plot).expect("drawn");
        assert!(
            svg.contains("off &lt;b&gt; (2)") && svg.contains("… (2)"),
            "{svg}"
        );
    }
}
