//! The figure of a heat map: ranks by size.

use crate::{
    report::{
        figure::Figure,
        heat_map,
        picture::Picture,
        ranks::HeatMap,
        table::{Table, figure, words},
    },
    units::{Bytes, counted},
};

/// Returns the heat map of `what`, with a table of the slowest and the fastest ranks.
///
/// # Errors
///
/// Returns an error if it cannot be drawn.
pub(super) fn heat_figure(what: &str, map: &HeatMap) -> anyhow::Result<Figure> {
    let title = format!("{what}: {}", map.title);
    let ratio = map.ratio;
    let description = format!(
        "Heat map of {} and {}. Each cell is {ratio}, from blue for shorter to orange for longer. \
         The table has the ranks with the largest and the smallest ratio of each size.",
        counted(map.ranks as u64, "rank"),
        counted(map.sizes.len() as u64, "size"),
    );
    let svg = heat_map::draw(map)?;
    let mut rows = Vec::new();
    for extremes in &map.extremes {
        let (slowest, high) = &extremes.slowest;
        let (fastest, low) = &extremes.fastest;
        rows.push(vec![
            Bytes(extremes.size).to_string(),
            slowest.clone(),
            figure(Some(*high)),
            fastest.clone(),
            figure(Some(*low)),
        ]);
    }
    Ok(Figure {
        name: Picture::file_name(&format!("heat {title}")),
        pictures: vec![Picture::new(&title, title.clone(), description, &svg)],
        table: Table {
            caption: format!("Slowest and fastest rank by size: {title}"),
            head: words(&[
                "size",
                "slowest rank",
                ratio,
                "fastest rank",
                &format!("{ratio} of the fastest"),
            ]),
            rows,
        },
        title,
        thinned: map.thinned.clone(),
    })
}
