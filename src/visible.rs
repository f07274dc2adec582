//! Text of files on a terminal: a host, a note or a level may hold characters that a terminal obeys instead of showing them,
//! such as the escape character that begins its commands. Every line that is printed goes through [`visible`].

use std::{borrow::Cow, fmt::Write};

/// Returns `text` with control characters, except for line ends and tabs, and those that turn the direction of writing as
/// JSON writes them: `\u001b`.
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, is_hidden)
}

/// Returns a `line` as [`visible`] does, without its end. A line end in it, which a name may hold, is shown too: what follows
/// would look like a message of its own.
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

fn is_hidden(letter: char) -> bool {
    let turns_direction = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns_direction || letter.is_control() && letter != '\n' && letter != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
