//! [`Picture`]: a plot as SVG with the words that stand for it.

use minijinja::HtmlEscape;
use serde::Serialize;

use super::palette;
use crate::visible::visible;

/// A plot as SVG.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Picture {
    /// A name for a file and for the page, of letters, digits and `-`.
    pub(super) name: String,
    /// What it shows.
    pub(super) title: String,
    /// What one sees in it, for those who do not.
    pub(super) description: String,
    /// The SVG, with title and description.
    pub(super) svg: String,
}

impl Picture {
    /// Puts title and description into `svg`, as a library of plots drew it.
    pub(super) fn new(name: &str, title: String, description: String, svg: &str) -> Picture {
        let name = Picture::file_name(name);
        let words = format!(
            "<title id=\"{name}-title\">{}</title>\n<desc id=\"{name}-desc\">{}</desc>",
            HtmlEscape(&title),
            HtmlEscape(&description)
        );
        let attributes = format!(" role=\"img\" aria-labelledby=\"{name}-title {name}-desc\"");
        let svg = match svg.split_once('>') {
            Some((head, rest)) => format!("{head}{attributes}>\n{words}{rest}"),
            None => String::new(),
        };
        Picture {
            name,
            title,
            description,
            svg,
        }
    }

    /// Returns `words` as letters, digits and `-`.
    pub(super) fn file_name(words: &str) -> String {
        let mut name = String::new();
        for letter in words.chars() {
            if letter.is_ascii_alphanumeric() {
                name.push(letter.to_ascii_lowercase());
            } else if !name.ends_with('-') && !name.is_empty() {
                name.push('-');
            }
        }
        name.truncate(80);
        name.trim_end_matches('-').to_owned()
    }

    /// Returns the picture as a file of its own, which is dark where the reader's system is.
    pub(super) fn standalone(&self) -> String {
        let style = format!(
            "<style>\n@media screen and (prefers-color-scheme: dark) {{\n{}}}\n</style>\n",
            palette::dark_rules()
        );
        let svg = self.svg.replacen("<title", &(style + "<title"), 1);
        visible(&svg).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_files_are_escaped() {
        let title = "<script>&\"'".to_owned();
        let picture = Picture::new("a b/../c", title, "d".into(), "<svg width=\"1\"></svg>");
        assert_eq!(picture.name, "a-b-c");
        let whole = roxmltree::Document::parse(&picture.svg).expect("XML");
        let title = whole.descendants().find(|one| one.has_tag_name("title"));
        assert_eq!(title.and_then(|one| one.text()), Some("<script>&\"'"));
        roxmltree::Document::parse(&picture.standalone()).expect("XML");
    }
}
