//! [`FigureBudget`]: how much of the figures a page shows.

use crate::report::{figure::Figure, table::is_are};

/// Bytes of pictures and tables in a page. What comes after is left out, and the page says so.
const MOST_BYTES: usize = 3_500_000;

/// The bytes that the figures of a page may still take, and what was left out for lack of them.
pub(super) struct FigureBudget {
    bytes: usize,
    /// What was left out, as sentences.
    pub(super) left_out: Vec<String>,
}

impl Default for FigureBudget {
    fn default() -> FigureBudget {
        FigureBudget {
            bytes: MOST_BYTES,
            left_out: Vec::new(),
        }
    }
}

impl FigureBudget {
    /// Returns at most `most` of `figures`, and no more once the bytes are used up. Notes how many
    /// are left out.
    pub(super) fn take(
        &mut self,
        most: usize,
        figures: impl Iterator<Item = anyhow::Result<Figure>>,
        noun: &str,
    ) -> anyhow::Result<Vec<Figure>> {
        let mut kept = Vec::new();
        let mut more = 0;
        for figure in figures {
            if self.bytes == 0 || kept.len() == most {
                more += 1;
                continue;
            }
            let figure = figure?;
            self.bytes = self.bytes.saturating_sub(figure.bytes());
            kept.push(figure);
        }
        if more > 0 {
            self.left_out.push(format!(
                "{} not drawn, to keep the page small: name fewer runs.",
                is_are(more, noun)
            ));
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::Table;

    fn figure() -> Figure {
        Figure {
            name: String::new(),
            title: String::new(),
            pictures: Vec::new(),
            table: Table::default(),
            thinned: String::new(),
        }
    }

    #[test]
    fn figures_that_are_too_many_are_left_out_and_said() {
        let mut budget = FigureBudget {
            bytes: 1,
            left_out: Vec::new(),
        };
        let maps = (0..5).map(|_| Ok(figure()));
        let kept = budget.take(3, maps, "heat map");
        assert_eq!(kept.expect("figures").len(), 3);
        let left_out = &budget.left_out[0];
        assert!(
            left_out.starts_with("2 heat maps are not drawn"),
            "{left_out}"
        );
    }
}
