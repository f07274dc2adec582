//! What this project prints, to compare with what its pages quote.

use std::{fs, path::Path};

/// The texts from which messages can come.
#[derive(Default)]
pub struct SourceTexts(Vec<String>);

impl SourceTexts {
    /// Reads every file below the folders.
    pub fn below(folders: &[&str]) -> SourceTexts {
        let mut sources = SourceTexts::default();
        for folder in folders {
            sources.read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
        }
        sources
    }

    fn read(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.read(&path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                self.0.push(joined_lines(&text));
            }
        }
    }

    /// Adds a page.
    pub fn add(&mut self, page: &Path) {
        self.0.push(fs::read_to_string(page).expect("a page"));
    }

    /// Returns whether one of the texts has all fixed parts of a message, between which `…` stands
    /// for what differs.
    pub fn have(&self, message: &str) -> bool {
        let mut parts = message
            .split('…')
            .map(str::trim)
            .filter(|part| part.len() > 2);
        self.0
            .iter()
            .any(|text| parts.clone().all(|part| text.contains(part)))
            && parts.next().is_some()
    }
}

/// Returns a source with the lines of each string literal joined, and without escapes of quotes.
fn joined_lines(text: &str) -> String {
    let mut pieces = text.split("\\\n");
    let mut joined = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        joined += piece.trim_start();
    }
    joined.replace("\\\"", "\"")
}

/// Returns what `text` has in backticks.
pub fn quotes(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
