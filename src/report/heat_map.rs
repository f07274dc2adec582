//! The heat map of stragglers: ranks by size, drawn by plotters.

use plotters::prelude::*;

use super::{
    palette::{HEAT, INK, PAPER},
    ranks::{HeatMap, STEPS},
};
use crate::units::Bytes;

const WIDTH: u32 = 760;
const LEFT: i32 = 150;
const TOP: i32 = 30;
const BOTTOM: i32 = 90;
const FONT: &str = "sans-serif";

/// Draws the heat map as SVG.
///
/// # Errors
///
/// Returns an error if the library does.
pub(super) fn draw(map: &HeatMap) -> anyhow::Result<String> {
    let cell = (600 / map.rows.len().max(1) as i32).clamp(5, 22);
    let height = TOP + BOTTOM + cell * map.rows.len() as i32;
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height as u32)).into_drawing_area();
    draw_on(&area, map, cell)
        .map_err(|why| anyhow::anyhow!("a heat map cannot be drawn: {why}"))?;
    drop(area);
    Ok(svg)
}

fn draw_on(
    area: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    map: &HeatMap,
    cell: i32,
) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    area.fill(&PAPER.rgb()).map_err(|error| words(&error))?;
    let font = |size: i32| (FONT, size).into_font().color(&INK.rgb());
    let width = (WIDTH as i32 - LEFT - 20) / map.sizes.len().max(1) as i32;
    let text = |text: String, place: (i32, i32)| {
        let text = Text::new(text, place, font(14));
        area.draw(&text).map_err(|error| words(&error))
    };
    text("rank and host".into(), (6, 8))?;
    let every_column = (60 / width.max(1)).max(1) as usize;
    for (column, size) in map.sizes.iter().enumerate().step_by(every_column) {
        text(Bytes(*size).to_string(), (LEFT + column as i32 * width, 8))?;
    }
    let every_row = (18 / cell).max(1) as usize;
    for (number, row) in map.rows.iter().enumerate() {
        let y = TOP + number as i32 * cell;
        if number % every_row == 0 {
            text(row.label(), (6, y + cell / 2 - 7))?;
        }
        for (column, ratio) in row.ratios.iter().enumerate() {
            let Some(ratio) = ratio else { continue };
            let x = LEFT + column as i32 * width;
            let corners = [(x, y), (x + width - 1, y + cell - 1)];
            let colour = HEAT[step(*ratio)].rgb().filled();
            area.draw(&Rectangle::new(corners, colour))
                .map_err(|error| words(&error))?;
        }
    }
    let y = TOP + map.rows.len() as i32 * cell + 20;
    text(map.ratio.into(), (6, y))?;
    for (number, colour) in HEAT.iter().enumerate() {
        let x = LEFT + 60 + number as i32 * 76;
        let corners = [(x, y + 20), (x + 74, y + 32)];
        area.draw(&Rectangle::new(corners, colour.rgb().filled()))
            .map_err(|error| words(&error))?;
        text(name(number), (x + 4, y + 38))?;
    }
    area.present().map_err(|error| words(&error))
}

/// Returns the step of the palette for a ratio.
fn step(ratio: f64) -> usize {
    STEPS.iter().filter(|limit| ratio >= **limit).count()
}

fn name(step: usize) -> String {
    match (step.checked_sub(1).map(|at| STEPS[at]), STEPS.get(step)) {
        (None, Some(high)) => format!("< {high}"),
        (Some(low), None) => format!("≥ {low}"),
        (Some(low), Some(high)) => format!("{low}–{high}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_a_step() {
        assert_eq!(STEPS.len() + 1, HEAT.len());
        for (ratio, expected) in [(0.1, 0), (0.85, 1), (1.0, 3), (1.03, 4), (9.0, 6)] {
            assert_eq!(step(ratio), expected, "{ratio}");
        }
        assert_eq!(name(0), "< 0.8");
        assert_eq!(name(3), "0.97–1.03");
        assert_eq!(name(6), "≥ 1.25");
    }
}
