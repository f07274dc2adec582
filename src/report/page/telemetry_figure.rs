//! The figure of a quantity that was sampled over time.

use crate::{
    report::{
        curve::Quantity,
        figure::Figure,
        line_plot,
        picture::Picture,
        plot::{LinePlot, Scale},
        table::{Table, end_table, figure, words},
        telemetry::Telemetry,
    },
    units::counted,
};

/// Returns the plot of a quantity, with a table of its extremes.
///
/// # Errors
///
/// Returns an error if it cannot be drawn.
pub(super) fn telemetry_figure(
    telemetry: &Telemetry,
    quantity: &Quantity,
) -> anyhow::Result<Figure> {
    let title = format!("{} over time: {}", quantity.name, telemetry.run);
    let lines = quantity.drawn();
    let description = format!(
        "{} against seconds since the start, {}. The table has the least, the mean and the most.",
        quantity.name,
        counted(lines.len() as u64, "curve")
    );
    let plot = LinePlot {
        scale: Scale::Linear,
        x_name: "seconds",
        y_name: quantity.name.to_owned(),
        lines,
        limit: None,
    };
    let svg = line_plot::draw(&plot)?;
    let mut rows = Vec::new();
    let summaries = quantity.lines.iter().zip(&quantity.extents);
    for (line, summary) in summaries {
        rows.push(vec![
            line.label.clone(),
            figure(Some(summary.low)),
            figure(Some(summary.mean)),
            figure(Some(summary.high)),
            summary.samples.to_string(),
        ]);
    }
    let mut thinned = vec![quantity.thinned.clone()];
    thinned.extend(end_table(&mut rows));
    Ok(Figure {
        name: Picture::file_name(&format!("telemetry {title}")),
        pictures: vec![Picture::new(&title, title.clone(), description, &svg)],
        table: Table {
            caption: format!("{} by {}", quantity.name, quantity.noun),
            head: words(&[quantity.noun, "least", "mean", "most", "samples"]),
            rows,
        },
        title,
        thinned: thinned.join(" "),
    })
}
