//! Slurm's node lists: `node[0001-0010,12]-x,login1` and the names it stands for.

use crate::visible::excerpt;

/// The most nodes in a list: a typo such as `node[1-1000000000]` must not exhaust the memory.
const MOST: u64 = 100_000;

/// The longest name: that of a host in DNS. Each name of a list could be as long as the list.
const LONGEST: usize = 255;

/// The most digits of a node's number.
const MOST_DIGITS: usize = 20;

/// Returns the names that `list` stands for, in its order.
///
/// # Errors
/// Returns an error if the list is malformed or has too many names.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in parts(list)? {
        names.extend(expand_part(part)?);
        check_count(names.len() as u64)?;
    }
    Ok(names)
}

/// Splits a list at the commas outside brackets.
///
/// # Errors
/// Returns an error if brackets do not match, or if there is nothing between two commas.
pub fn parts(list: &str) -> Result<Vec<&str>, String> {
    let list = list.trim();
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (at, c) in list.char_indices() {
        match (c, inside) {
            ('[', false) | (']', true) => inside = !inside,
            ('[', true) | (']', false) => return Err("its brackets do not match".into()),
            (',', false) => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("a bracket is not closed".into());
    }
    parts.push(&list[start..]);
    if parts.contains(&"") {
        return Err("a name is empty".into());
    }
    Ok(parts)
}

/// Expands the brackets of one part; the last one varies fastest.
fn expand_part(part: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((before, bracket)) = rest.split_once('[') {
        let (inside, after) = bracket.split_once(']').unwrap_or((bracket, ""));
        let numbers = expand_numbers(inside)?;
        check_count(names.len() as u64 * numbers.len() as u64)?;
        check_length(before.len() + names.first().map_or(0, String::len))?;
        let mut longer = Vec::new();
        for name in &names {
            for number in &numbers {
                longer.push(format!("{name}{before}{number}"));
            }
        }
        names = longer;
        rest = after;
    }
    for name in &mut names {
        check_length(name.len() + rest.len())?;
        name.push_str(rest);
    }
    Ok(names)
}

/// Expands the ranges in a bracket, and keeps the leading zeros.
fn expand_numbers(inside: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in inside.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let first = parse_number(low)?;
        let last = parse_number(high)?;
        if first > last {
            return Err(format!("the range {} runs backwards", excerpt(range)));
        }
        check_count((last - first).saturating_add(1 + numbers.len() as u64))?;
        let width = width(low);
        for number in first..=last {
            numbers.push(format!("{number:0width$}"));
        }
    }
    Ok(numbers)
}

fn check_count(names: u64) -> Result<(), String> {
    if names > MOST {
        return Err(format!("it stands for more than {MOST} nodes"));
    }
    Ok(())
}

fn check_length(name: usize) -> Result<(), String> {
    if name > LONGEST {
        return Err(format!("a name has more than {LONGEST} characters"));
    }
    Ok(())
}

fn parse_number(digits: &str) -> Result<u64, String> {
    let error = || format!("'{}' is not a node number", excerpt(digits));
    // Parsing alone would accept a sign.
    if digits.len() > MOST_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(error());
    }
    digits.parse().map_err(|_| error())
}

/// Returns the number of digits to which a range is padded: those of its first number if that
/// begins with a zero.
fn width(low: &str) -> usize {
    if low.starts_with('0') { low.len() } else { 1 }
}

/// Returns the shortest list of `names` in their order: neighbours that differ only in their last
/// number share a bracket.
pub fn compress(names: &[impl AsRef<str>]) -> String {
    let mut groups: Vec<Group> = Vec::new();
    for name in names {
        let name = NumberedName::split(name.as_ref());
        let fits = groups.last_mut().is_some_and(|group| group.add(name));
        if !fits {
            groups.push(Group::new(name));
        }
    }
    let groups: Vec<String> = groups.iter().map(Group::text).collect();
    groups.join(",")
}

/// A name, split around its last number.
#[derive(Clone, Copy)]
struct NumberedName<'a> {
    before: &'a str,
    /// The number as written; empty if the name has none, or one that is too large to count.
    digits: &'a str,
    after: &'a str,
}

impl<'a> NumberedName<'a> {
    fn split(name: &'a str) -> NumberedName<'a> {
        let head = name.trim_end_matches(|c: char| !c.is_ascii_digit());
        let before = head.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &head[before.len()..];
        let after = &name[head.len()..];
        if digits.is_empty() || digits.len() > 18 {
            return NumberedName {
                before: name,
                digits: "",
                after: "",
            };
        }
        NumberedName {
            before,
            digits,
            after,
        }
    }
}

/// A range of numbers, as written.
struct Range<'a> {
    low: &'a str,
    high: &'a str,
}

impl Range<'_> {
    fn text(&self) -> String {
        let Range { low, high } = self;
        if low == high {
            (*low).to_owned()
        } else {
            format!("{low}-{high}")
        }
    }

    /// Returns the number after the range, written alike.
    fn next(&self) -> Option<String> {
        let last = self.high.parse::<u64>().ok()?;
        let width = width(self.low);
        Some(format!("{:0width$}", last + 1))
    }
}

/// Names that differ only in one number.
struct Group<'a> {
    before: &'a str,
    after: &'a str,
    ranges: Vec<Range<'a>>,
}

impl<'a> Group<'a> {
    fn new(name: NumberedName<'a>) -> Group<'a> {
        let NumberedName {
            before,
            digits,
            after,
        } = name;
        let mut ranges = Vec::new();
        if !digits.is_empty() {
            ranges.push(Range {
                low: digits,
                high: digits,
            });
        }
        Group {
            before,
            after,
            ranges,
        }
    }

    /// Adds a name; returns whether it fits.
    fn add(&mut self, name: NumberedName<'a>) -> bool {
        let is_alike = (name.before, name.after) == (self.before, self.after);
        let Some(range) = self.ranges.last_mut() else {
            return false;
        };
        if !is_alike || name.digits.is_empty() {
            return false;
        }
        if range.next().as_deref() == Some(name.digits) {
            range.high = name.digits;
        } else {
            self.ranges.push(Range {
                low: name.digits,
                high: name.digits,
            });
        }
        true
    }

    fn text(&self) -> String {
        let ranges: Vec<String> = self.ranges.iter().map(Range::text).collect();
        let ranges = ranges.join(",");
        let (before, after) = (self.before, self.after);
        match &self.ranges[..] {
            [] => before.to_owned(),
            [Range { low, high }] if low == high => format!("{before}{low}{after}"),
            _ => format!("{before}[{ranges}]{after}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn node_lists_are_expanded() {
        for (list, names) in [
            ("", &[] as &[&str]),
            ("login1", &["login1"]),
            ("node[1-3]", &["node1", "node2", "node3"]),
            ("node[08-11]", &["node08", "node09", "node10", "node11"]),
            (
                "node[0001-0002,12]-x,gpu7",
                &["node0001-x", "node0002-x", "node12-x", "gpu7"],
            ),
            ("r[1-2]n[3-4]", &["r1n3", "r1n4", "r2n3", "r2n4"]),
            ("a,b", &["a", "b"]),
        ] {
            assert_eq!(
                expand(list).as_deref(),
                Ok(&names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        for list in [
            "node[1-",
            "node1]",
            "n[[1]]",
            "n[]",
            "n[3-1]",
            "n[a-b]",
            "a,,b",
            "n[1-99999999999999]",
            "n[-1]",
        ] {
            assert!(expand(list).is_err(), "{list}");
        }
        assert!(expand("a[1-1000]b[1-1000]").is_err(), "a million nodes");
        let largest = format!("n[0-{}]", u64::MAX);
        assert!(expand(&largest).is_err(), "all numbers there are");
        let long = "x".repeat(10_000) + "[1-100000]";
        assert_eq!(
            expand(&long),
            Err("a name has more than 255 characters".to_owned())
        );
        let zeros = format!("n[{}-99999]", "0".repeat(10_000));
        assert!(expand(&zeros).expect_err("no number").len() < 100);
    }

    #[test]
    fn names_are_compressed_as_slurm_does() {
        for list in [
            "node[1-4]",
            "node[0001-0010,12]-x,login1",
            "gpu[1,3,5-6]",
            "a,b",
            "n[8-11]",
            "n[08-11]",
            "",
        ] {
            assert_eq!(compress(&expand(list).expect("a list")), list);
        }
    }

    proptest! {
        #[test]
        fn compressing_loses_nothing(names in prop::collection::vec("[a-z]{0,3}[0-9]{0,3}(-[a-z0-9]{1,3})?", 0..40)) {
            let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
            prop_assert_eq!(expand(&compress(&names)), Ok(names));
        }

        #[test]
        fn consecutive_nodes_take_one_bracket(first in 0_u64..5000, count in 2_u64..200, width in 1_usize..6, end in "(-[a-z]{2})?") {
            let names: Vec<String> = (first..first + count).map(|n| format!("node{n:0width$}{end}")).collect();
            let list = compress(&names);
            prop_assert_eq!(expand(&list), Ok(names));
            // A range whose numbers outgrow their zeros stays one range.
            prop_assert!(list.matches('[').count() == 1 && list.matches('-').count() <= 1 + end.matches('-').count(), "{}", list);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = expand(&text);
        }

        #[test]
        fn any_name_survives(text in "[^\\[\\],\\s]{1,20}") {
            prop_assert_eq!(expand(&compress(&[&text])), Ok(vec![text]));
        }
    }
}
