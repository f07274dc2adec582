//! Rust source text cut into the pieces that tell what a file imports.

/// Returns the words of `source`, `::`, and every other character as a token of its own. Comments,
/// spaces, lifetimes, and what stands between quotes are left out.
pub(crate) fn tokens(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = match ignored(rest) {
            0 => {
                let length = if is_word(first) {
                    word(rest)
                } else if rest.starts_with("::") {
                    2
                } else {
                    first.len_utf8()
                };
                found.push(&rest[..length]);
                length
            }
            length => length,
        };
        rest = &rest[length..];
    }
    found
}

/// Returns true if `c` can be in a word: an identifier, a keyword, or a number.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// Returns how many bytes at the start of `text` are no part of any path; 0 if a token starts here.
fn ignored(text: &str) -> usize {
    let to = |end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
    if text.starts_with(char::is_whitespace) {
        text.len() - text.trim_start().len()
    } else if text.starts_with("//") {
        to("\n")
    } else if text.starts_with("/*") {
        to("*/")
    } else if text.starts_with('\'') {
        character_or_lifetime(text)
    } else {
        string(text)
    }
}

/// Returns the length of `'a'`, `'\n'` or `'lifetime`.
fn character_or_lifetime(text: &str) -> usize {
    let inside = &text[1..];
    if let Some(escape) = inside.strip_prefix('\\') {
        // The escaped character may itself be a quote.
        let end = escape.char_indices().skip(1).find(|(_, c)| *c == '\'');
        return end.map_or(text.len(), |(at, _)| at + 3);
    }
    let first = inside.chars().next().map_or(0, char::len_utf8);
    if inside[first..].starts_with('\'') {
        first + 2
    } else {
        1 + word(inside)
    }
}

/// Returns the length of the string literal at the start of `text`, prefix included; 0 if there is
/// none.
fn string(text: &str) -> usize {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| {
            let hashes = if prefix.ends_with('r') { "#" } else { "" };
            rest.trim_start_matches(|c| hashes.contains(c))
                .starts_with('"')
        })
    });
    let Some(prefix) = prefix else {
        return 0;
    };
    let quoted = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = quoted.find('"').unwrap_or_default();
        let end = format!("\"{}", &quoted[..hashes]);
        let inside = hashes + 1;
        let length = quoted[inside..]
            .find(&end)
            .map(|at| inside + at + end.len());
        return prefix.len() + length.unwrap_or(quoted.len());
    }
    let mut escaped = false;
    for (at, c) in quoted.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return prefix.len() + at + 1,
            _ => {}
        }
    }
    text.len()
}

#[test]
fn quotes_and_comments_are_left_out() {
    for (source, expected) in [
        ("a::b // crate::c\n;", &["a", "::", "b", ";"] as &[&str]),
        ("a /* crate::b */ c", &["a", "c"]),
        (r#"f("crate::a \" {", b)"#, &["f", "(", ",", "b", ")"]),
        ("r#\"crate::\"a\"#; b", &[";", "b"]),
        (r"'{' '\'' '\u{7b}' &'a str", &["&", "str"]),
        ("x: b'\"'", &["x", ":", "b"]),
    ] {
        assert_eq!(tokens(source), expected, "{source}");
    }
}
