//! [`Drawing`]: bars, lines and words as SVG, for what the library of plots does not draw.

use std::fmt::Write;

use minijinja::HtmlEscape;

use super::palette::{Colour, INK, PAPER};

/// A place and a size, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Where words stand relative to their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// An SVG while it is drawn. What comes from files is escaped.
pub(super) struct Drawing {
    svg: String,
}

impl Drawing {
    /// Begins a drawing of this size.
    pub(super) fn new(width: f64, height: f64) -> Drawing {
        let mut drawing = Drawing {
            svg: format!(
                "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n"
            ),
        };
        let area = Area {
            x: 0.0,
            y: 0.0,
            width,
            height,
        };
        drawing.bar(area, PAPER, "");
        drawing
    }

    /// Draws a bar, which shows `tooltip` under the pointer unless that is empty.
    pub(super) fn bar(&mut self, area: Area, colour: Colour, tooltip: &str) {
        let Area {
            x,
            y,
            width,
            height,
        } = area;
        let fill = colour.light();
        let _ = write!(
            self.svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{fill}\""
        );
        let _ = match tooltip {
            "" => writeln!(self.svg, "/>"),
            _ => writeln!(self.svg, "><title>{}</title></rect>", HtmlEscape(tooltip)),
        };
    }

    /// Draws a line between two points.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        let stroke = colour.light();
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
             stroke=\"{stroke}\"/>"
        );
    }

    /// Writes `words` at a place, which is that of their base line.
    pub(super) fn words(&mut self, words: &str, (x, y): (f64, f64), anchor: Anchor) {
        self.coloured_words(words, (x, y), anchor, INK);
    }

    /// Writes words on a bar.
    pub(super) fn words_on_bar(&mut self, words: &str, (x, y): (f64, f64)) {
        self.coloured_words(words, (x, y), Anchor::Start, PAPER);
    }

    fn coloured_words(&mut self, words: &str, (x, y): (f64, f64), anchor: Anchor, colour: Colour) {
        let (anchor, fill) = (anchor.name(), colour.light());
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-family=\"sans-serif\" \
             font-size=\"12\" fill=\"{fill}\">{}</text>",
            HtmlEscape(words)
        );
    }

    /// Returns the SVG.
    pub(super) fn end(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

/// Returns the distance of the marks of an axis that is `length` long: 1, 2 or 5 times a power of
/// ten, so that there are 4 to 10.
pub(super) fn tick(length: f64) -> f64 {
    let power = 10_f64.powf((length / 10.0).log10().floor());
    for factor in [1.0, 2.0, 5.0, 10.0] {
        if length / (factor * power) <= 10.0 {
            return factor * power;
        }
    }
    10.0 * power
}

/// Returns the beginning of `words` as far as it fits into `width` pixels; empty if that says
/// nothing.
pub(super) fn fitting(words: &str, width: f64) -> String {
    /// The width of a letter at the size of the words, of which few are wider.
    const LETTER: f64 = 7.0;
    /// Fewer letters say nothing.
    const FEWEST: usize = 4;
    let letters = (width / LETTER).max(0.0) as usize;
    let count = words.chars().count();
    if count <= letters {
        return words.to_owned();
    }
    match letters {
        0..=FEWEST => String::new(),
        _ => words.chars().take(letters - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_four_to_ten_marks() {
        for (length, distance) in [
            (1.0, 0.1),
            (7.3, 1.0),
            (15.0, 2.0),
            (42.0, 5.0),
            (99.0, 10.0),
        ] {
            let found = tick(length);
            assert!((found / distance - 1.0).abs() < 1e-9, "{length}: {found}");
            assert!((4.0..=10.0).contains(&(length / found)), "{length}");
        }
    }

    #[test]
    fn words_that_do_not_fit_are_cut_or_left_out() {
        assert_eq!(fitting("attention 1", 80.0), "attention 1");
        assert_eq!(fitting("attention 1", 63.0), "attentio…");
        assert_eq!(fitting("attention 1", 20.0), "");
        assert_eq!(fitting("a", 0.0), "");
    }

    #[test]
    fn words_of_files_are_escaped() {
        let mut drawing = Drawing::new(10.0, 10.0);
        let area = Area {
            x: 0.0,
            y: 0.0,
            width: 1.0,
            height: 1.0,
        };
        drawing.bar(area, INK, "<script>&\"'");
        drawing.words("<b>", (0.0, 0.0), Anchor::End);
        let svg = drawing.end();
        let whole = roxmltree::Document::parse(&svg).expect("XML");
        let title = whole.descendants().find(|one| one.has_tag_name("title"));
        assert_eq!(title.and_then(|one| one.text()), Some("<script>&\"'"));
    }
}
