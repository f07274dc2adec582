//! The templates of the page and of the summary.

use minijinja::{AutoEscape, Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

use crate::visible::visible;

const TEMPLATES: [(&str, &str); 3] = [
    ("page.html", include_str!("../templates/page.html")),
    ("style.css", include_str!("../templates/style.css")),
    ("summary.md", include_str!("../templates/summary.md")),
];

/// Renders the template of this name with what `page` has. What comes from files is escaped by the
/// engine.
///
/// # Errors
///
/// Returns an error if the template is wrong.
pub(super) fn render(template: &str, page: &impl Serialize) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|name| match name.ends_with(".html") {
        true => AutoEscape::Html,
        false => AutoEscape::None,
    });
    environment.add_filter("cell", markdown_cell);
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    let text = environment.get_template(template)?.render(Serde(page))?;
    Ok(visible(&text).into_owned())
}

/// Returns words as they stand in a table of Markdown: no markup of theirs counts, HTML included.
fn markdown_cell(words: &str) -> String {
    let mut escaped = String::new();
    for letter in words.chars() {
        match letter {
            letter if letter.is_control() => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '~' | '@' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_files_are_no_markup_in_markdown() {
        assert_eq!(
            markdown_cell("a|b <i>&`x` [l](u) @all\nc"),
            "a\\|b &lt;i>&amp;\\`x\\` \\[l\\](u) \\@all c"
        );
    }
}
