//! [`Figure`]: pictures with their numbers.

use serde::Serialize;

use super::{picture::Picture, table::Table};

/// Pictures with the table that has the same numbers.
#[derive(Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) pictures: Vec<Picture>,
    pub(super) table: Table,
    /// What is not drawn or listed, as sentences.
    pub(super) thinned: String,
}

impl Figure {
    /// Returns about how many bytes of a page it takes.
    pub(super) fn bytes(&self) -> usize {
        let pictures: usize = self
            .pictures
            .iter()
            .map(|picture| picture.svg.len() + 500)
            .sum();
        let cells: usize = self
            .table
            .rows
            .iter()
            .flatten()
            .map(|cell| cell.len() + 12)
            .sum();
        pictures + cells
    }
}
