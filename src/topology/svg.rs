//! A node as a picture: one self-contained SVG file.

use std::fmt::Write as _;

/// The size of a line of text, a step of indentation, the margin and a letter, in pixels.
const LINE: usize = 26;
const STEP: usize = 24;
const MARGIN: usize = 16;
const LETTER: usize = 8;

/// The colour of the box around a line, by how the line begins.
const COLOURS: [(&str, &str); 6] = [
    ("GPU", "#d5ecc2"),
    ("NIC", "#c7dcf5"),
    ("PCIe switch", "#e8e8e8"),
    ("device", "#f3f3f3"),
    ("NUMA", "#fbe6c2"),
    ("processor", "#fbe6c2"),
];

/// Draws the lines of a tree with a box per device, and what is noted below it.
pub fn draw(tree: &str) -> String {
    let lines: Vec<&str> = tree.lines().collect();
    let longest = lines.iter().map(|line| line.chars().count()).max();
    let width = longest.unwrap_or_default() * LETTER + 4 * MARGIN + STEP;
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"13\">\n<rect \
         width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        draw_line(&mut out, row, line);
    }
    out.push_str("</svg>\n");
    out
}

fn draw_line(out: &mut String, row: usize, line: &str) {
    let words = line.trim_start();
    // The tree is indented by two letters per step.
    let x = MARGIN + (line.len() - words.len()) / 2 * STEP;
    let y = MARGIN + row * LINE;
    if let Some((_, colour)) = COLOURS.iter().find(|(start, _)| words.starts_with(start)) {
        let width = words.chars().count() * LETTER + 16;
        let height = LINE - 4;
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" \
             fill=\"{colour}\" stroke=\"#666666\"/>"
        );
    }
    let (x, y) = (x + 8, y + 15);
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">{}</text>", escaped(words));
}

/// Returns text as the content of an element or an attribute of XML.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // XML cannot represent these.
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
