//! Text of files on a terminal: a host, a note or a level may hold characters that a terminal obeys
//! instead of showing them, such as the escape character that begins its commands. Every line that
//! is printed goes through [`visible`]. What a message quotes of a file goes through [`excerpt`],
//! because it may be the whole file.

use std::{borrow::Cow, fmt::Write};

/// Returns `text` with control characters, except for line ends and tabs, and those that turn the
/// direction of writing as JSON writes them: `\u001b`.
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, is_hidden)
}

/// Returns a `line` as [`visible`] does, without its end. A line end in it, which a name may hold,
/// is shown too: what follows would look like a message of its own.
pub fn visible_line(line: &str) -> Cow<'_, str> {
    shown(line, |letter| letter == '\n' || is_hidden(letter))
}

fn shown(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_hidden(letter) {
            // Writing to a string does not fail. All of them have four digits.
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// The most characters of a text that a message quotes.
const EXCERPT: usize = 60;

/// Returns the beginning of `text` for a message, with an ellipsis if more follows.
pub fn excerpt(text: &str) -> Cow<'_, str> {
    beginning(text, EXCERPT)
}

/// Returns the first `most` characters of `text` for a message, with an ellipsis if more follows.
pub fn beginning(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", visible_line(&text[..end]))),
        None => visible_line(text),
    }
}

fn is_hidden(letter: char) -> bool {
    let turns_direction = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns_direction || letter.is_control() && letter != '\n' && letter != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_is_left(text in any::<String>(), long in "(?s).{0,400}") {
            for text in [text, long] {
                let shown = visible(&text).into_owned();
                prop_assert!(!shown.contains(is_hidden));
                prop_assert_eq!(visible(&shown), shown.as_str(), "it is shown as it is");
                let quoted = excerpt(&text);
                prop_assert!(!quoted.contains(is_hidden) && !quoted.contains('\n') && quoted.len() <= 6 * EXCERPT + '…'.len_utf8());
            }
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_shown_instead() {
        let text = "a\x1b[2J\r\x07\u{9b}31m\u{7f}\u{202e}b";
        assert_eq!(
            visible(text),
            "a\\u001b[2J\\u000d\\u0007\\u009b31m\\u007f\\u202eb"
        );
        assert_eq!(visible("\tµs\nGB/s"), "\tµs\nGB/s");
        assert_eq!(visible_line("a\nb\tc"), "a\\u000ab\tc");
    }

    #[test]
    fn a_message_quotes_no_more_than_a_line() {
        assert_eq!(excerpt("1.5\x1b"), "1.5\\u001b");
        let quoted = excerpt(&"µ".repeat(1 << 20)).into_owned();
        assert_eq!(quoted, "µ".repeat(60) + "…");
        assert!(excerpt(&"\0".repeat(1 << 20)).len() < 400);
    }
}
