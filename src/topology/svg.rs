//! A node as a picture: one SVG file that needs nothing else.

use std::fmt::Write as _;

use super::{Topology, text};

/// Pixels: a line of text, a step of indentation, the margin, and about the width of a letter.
const LINE: usize = 26;
const STEP: usize = 24;
const MARGIN: usize = 16;
const LETTER: usize = 8;

/// The box of a line by how it begins, and the colour of that.
const COLOURS: [(&str, &str); 5] = [
    ("GPU", "#d5ecc2"),
    ("NIC", "#c7dcf5"),
    ("PCIe switch", "#e8e8e8"),
    ("NUMA", "#fbe6c2"),
    ("processor", "#fbe6c2"),
];

/// The tree with a box for each device, and what is missing below it.
pub fn draw(all: &Topology) -> String {
    let tree = text::tree(all);
    let missing = all.missing.iter().map(|what| format!("Missing: {what}"));
    let lines: Vec<String> = tree.lines().map(str::to_owned).chain(missing).collect();
    let width = lines
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or_default()
        * LETTER
        + 4 * MARGIN
        + STEP;
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"monospace\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let words = line.trim_start();
        // The tree steps by two letters.
        let x = MARGIN + (line.len() - words.len()) / 2 * STEP;
        let y = MARGIN + row * LINE;
        if let Some((_, colour)) = COLOURS.iter().find(|(start, _)| words.starts_with(start)) {
            let wide = words.chars().count() * LETTER + 16;
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{}\" rx=\"4\" fill=\"{colour}\" stroke=\"#666666\"/>",
                LINE - 4
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            x + 8,
            y + 15,
            escaped(words)
        );
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // XML has no way to write these.
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
