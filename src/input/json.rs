//! [`why_no_json`]: what is wrong with JSON, without the file in it.

use crate::visible::beginning;

/// The most characters of what the parser says. It quotes a text of the wrong type, which may be
/// the whole file.
const MOST_LETTERS: usize = 200;

/// What the parser says that a value should have been, before the name of a type of this program.
const A_TYPE: &str = "expected struct ";

/// Returns what the parser says, cut if it is long, with the place. Types of this program are
/// objects to who wrote the file.
pub fn why_no_json(error: &serde_json::Error) -> String {
    let mut whole = error.to_string();
    if let Some((before, named)) = whole.rsplit_once(A_TYPE) {
        let behind = named.trim_start_matches(|letter: char| letter.is_alphanumeric());
        whole = format!("{before}expected an object{behind}");
    }
    let cut = beginning(&whole, MOST_LETTERS);
    if cut.ends_with('…') && error.line() > 0 {
        return format!("{cut} at line {} column {}", error.line(), error.column());
    }
    cut.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_wrong_type_is_not_quoted_as_a_whole() {
        let long = format!("[1,\n\"{}\"]", "x".repeat(1000));
        let error = serde_json::from_str::<Vec<u32>>(&long).expect_err("a text");
        let why = why_no_json(&error);
        assert!(why.starts_with("invalid type: string \"xxx"), "{why}");
        assert!(why.ends_with("x… at line 2 column 1002"), "{why}");
        assert!(why.len() < 300, "{why}");
        let error = serde_json::from_str::<u32>("{").expect_err("no number");
        assert_eq!(why_no_json(&error), error.to_string());
        #[derive(Debug, serde::Deserialize)]
        struct Named {}
        let error = serde_json::from_str::<Named>("3").expect_err("a number");
        assert_eq!(
            why_no_json(&error),
            "invalid type: integer `3`, expected an object at line 1 column 1"
        );
    }
}
