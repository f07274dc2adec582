//! Words as a shell reads them.

use crate::exit::{Code, Failure};

/// Returns words as any shell reads them, with blanks between.
///
/// # Errors
/// Returns an error if a word has a null byte.
pub(super) fn joined(words: &[String]) -> anyhow::Result<String> {
    let quoted: anyhow::Result<Vec<String>> = words.iter().map(|word| quoted(word)).collect();
    Ok(quoted?.join(" "))
}

/// Returns a word as any shell reads it.
///
/// # Errors
/// Returns an error if it has a null byte.
pub(super) fn quoted(word: &str) -> anyhow::Result<String> {
    if is_plain(word) {
        return Ok(word.to_owned());
    }
    match shlex::try_quote(word) {
        Ok(quoted) => Ok(quoted.into_owned()),
        Err(error) => Err(Failure::on_all_ranks(
            Code::Usage,
            format!("'{}' cannot be passed on: {error}", word.escape_default()),
        )),
    }
}

/// Returns whether no shell changes `word`. More words are than shlex knows of: options with a
/// value are easier to read as they are. Some shells expand a word that begins with one of the
/// signs.
fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    !word.is_empty() && !word.starts_with(['=', '%']) && word.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        for (word, expected) in [
            ("--host=a:8,b:8", "--host=a:8,b:8"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "\"it's\""),
            ("=mlx5_0", "'=mlx5_0'"),
            ("%h", "'%h'"),
            ("NCCL_IB_HCA==mlx5_0", "NCCL_IB_HCA==mlx5_0"),
        ] {
            assert_eq!(quoted(word).expect("no null byte"), expected);
        }
        let error = quoted("a\0b").expect_err("a null byte").to_string();
        assert!(error.contains("'a\\u{0}b' cannot be passed on"), "{error}");
    }
}
