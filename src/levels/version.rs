//! Versions of NCCL, in words and as `ncclGetVersion` numbers them.

/// Returns the number of a version: `2.21.5` is 22105. `None` for text that is not a version.
pub(super) fn parse(text: &str) -> Option<i32> {
    let mut numbers = Vec::new();
    for part in text.split('.') {
        let number = part.parse::<i32>().ok()?;
        if !(0..100).contains(&number) {
            return None;
        }
        numbers.push(number);
    }
    match numbers[..] {
        [major, minor] => Some(major * 10_000 + minor * 100),
        [major, minor, patch] => Some(major * 10_000 + minor * 100 + patch),
        _ => None,
    }
}

/// Returns a version in words: 22105 is `2.21.5`.
pub fn text(version: i32) -> String {
    let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
    format!("{major}.{minor}.{patch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_nccl_numbers_them() {
        assert_eq!(parse("2.21.5"), Some(22105));
        assert_eq!(parse("2.12"), Some(21200));
        assert_eq!(parse("2"), None);
        assert_eq!(parse("2.x"), None);
        assert_eq!(parse("2.1.2.3"), None);
        assert_eq!(text(22105), "2.21.5");
    }
}
