//! Colours and shapes of the plots, in light and dark.
//!
//! The hues of the lines are those of M. Okabe and K. Ito, "Color Universal Design" (2008), which
//! people with a colour vision deficiency tell apart; they are darkened on white and lightened on
//! black until they contrast enough (WCAG 2.2, 1.4.11: 3 to 1). Each line has its own shape as
//! well.

use std::fmt::Write;

use plotters::style::RGBColor;

/// A colour in light and in dark. The light one is written into the pictures; a style sheet
/// replaces it in dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour {
    light: u32,
    dark: u32,
}

const fn colour(light: u32, dark: u32) -> Colour {
    Colour { light, dark }
}

/// Text and axes.
pub(super) const INK: Colour = colour(0x1b1b1b, 0xececec);
/// The surface.
pub(super) const PAPER: Colour = colour(0xfefefe, 0x16181b);
/// The grid.
pub(super) const GRID: Colour = colour(0xd9d9d9, 0x3a3d42);
/// The peak.
pub(super) const PEAK: Colour = colour(0x5a5a5a, 0xb0b0b0);

/// The lines of a plot.
pub(super) const LINES: [Colour; 8] = [
    colour(0x0072b2, 0x56b4e9),
    colour(0xc24e00, 0xff8a4d),
    colour(0x00795a, 0x33c497),
    colour(0xa2487a, 0xe39bc4),
    colour(0x876100, 0xe69f00),
    colour(0x1b6e85, 0x8fd3e8),
    colour(0x6b5b00, 0xf0e442),
    colour(0x444444, 0xcccccc),
];

/// The shapes of the lines' points: corners in pixels around the point.
pub(super) const SHAPES: [&[(i32, i32)]; 8] = [
    &[
        (-2, -4),
        (2, -4),
        (4, -2),
        (4, 2),
        (2, 4),
        (-2, 4),
        (-4, 2),
        (-4, -2),
    ],
    &[(0, -5), (5, 4), (-5, 4)],
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -6), (5, 0), (0, 6), (-5, 0)],
    &[(0, 5), (5, -4), (-5, -4)],
    &[
        (-5, -1),
        (-1, -1),
        (-1, -5),
        (1, -5),
        (1, -1),
        (5, -1),
        (5, 1),
        (1, 1),
        (1, 5),
        (-1, 5),
        (-1, 1),
        (-5, 1),
    ],
    &[
        (-5, -4),
        (-4, -5),
        (0, -1),
        (4, -5),
        (5, -4),
        (1, 0),
        (5, 4),
        (4, 5),
        (0, 1),
        (-4, 5),
        (-5, 4),
        (-1, 0),
    ],
    &[(-5, -2), (5, -2), (5, 2), (-5, 2)],
];

/// The steps of the heat map, from short to long.
pub(super) const HEAT: [Colour; 7] = [
    colour(0x053061, 0x9ccbf0),
    colour(0x2f79b5, 0x4b94cc),
    colour(0x92c5de, 0x1f4e79),
    colour(0xf0f0f0, 0x2b2e33),
    colour(0xf4a582, 0x7a3b12),
    colour(0xc4503f, 0xd0703a),
    colour(0x67001f, 0xffc08a),
];

impl Colour {
    /// Returns the colour as it is written into a picture.
    pub(super) fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }

    /// Returns the colour as the style sheet has it.
    pub(super) fn light(self) -> String {
        format!("#{:06X}", self.light)
    }

    fn dark(self) -> String {
        format!("#{:06X}", self.dark)
    }
}

/// Returns the rules that turn the colours of pictures into the dark ones.
pub(super) fn dark_rules() -> String {
    let mut rules = String::new();
    let all = [INK, PAPER, GRID, PEAK];
    for colour in all.into_iter().chain(LINES).chain(HEAT) {
        let (light, dark) = (colour.light(), colour.dark());
        for property in ["fill", "stroke"] {
            let _ = writeln!(
                rules,
                "  svg [{property}=\"{light}\"] {{ {property}: {dark}; }}"
            );
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2.2's relative luminance.
    fn luminance(rgb: u32) -> f64 {
        let [_, red, green, blue] = rgb.to_be_bytes();
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    #[test]
    fn colours_contrast_with_the_surface_in_light_and_dark() {
        for colour in LINES.into_iter().chain([PEAK]) {
            assert!(contrast(colour.light, PAPER.light) >= 4.5, "{colour:?}");
            assert!(contrast(colour.dark, PAPER.dark) >= 4.5, "{colour:?}");
        }
        assert!(contrast(INK.light, PAPER.light) >= 7.0);
        assert!(contrast(INK.dark, PAPER.dark) >= 7.0);
    }

    #[test]
    fn no_two_colours_are_written_alike() {
        let all = [INK, PAPER, GRID, PEAK];
        let mut lights: Vec<u32> = all
            .iter()
            .chain(&LINES)
            .chain(&HEAT)
            .map(|one| one.light)
            .collect();
        lights.sort_unstable();
        let count = lights.len();
        lights.dedup();
        assert_eq!(
            lights.len(),
            count,
            "the style sheet could not tell them apart"
        );
        assert_eq!(LINES.len(), SHAPES.len());
    }
}
