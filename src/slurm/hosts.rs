//! Slurm's lists of nodes: `node[0001-0010,12]-x,login1` and the names it stands for.

/// No list names more nodes than this: a slip like `node[1-1000000000]` must not fill the memory.
const MOST: u64 = 100_000;

/// The names that `list` stands for, in its order.
///
/// # Errors
/// What is wrong with the list.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in parts(list)? {
        names.extend(one(part)?);
        too_many(names.len() as u64)?;
    }
    Ok(names)
}

/// The parts of a list between the commas that are not in brackets.
fn parts(list: &str) -> Result<Vec<&str>, String> {
    let list = list.trim();
    let (mut inside, mut start, mut parts) = (false, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match (c, inside) {
            ('[', false) | (']', true) => inside = !inside,
            ('[', true) | (']', false) => return Err("its brackets do not pair".into()),
            (',', false) => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    match () {
        () if inside => Err("a bracket is not closed".into()),
        () if list.is_empty() => Ok(parts),
        () => {
            parts.push(&list[start..]);
            if parts.iter().any(|part| part.is_empty()) {
                Err("a name is empty".into())
            } else {
                Ok(parts)
            }
        }
    }
}

/// The names of one part: each of its brackets in turn, the last one fastest.
fn one(part: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((before, bracket)) = rest.split_once('[') {
        let (inside, after) = bracket.split_once(']').unwrap_or((bracket, ""));
        let numbers = numbers(inside)?;
        too_many(names.len() as u64 * numbers.len() as u64)?;
        names = names
            .iter()
            .flat_map(|name| {
                numbers
                    .iter()
                    .map(move |number| format!("{name}{before}{number}"))
            })
            .collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// The numbers in a bracket, with the zeros they are written with.
fn numbers(inside: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in inside.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(low)?, number(high)?);
        if first > last {
            return Err(format!("the range {range} runs backwards"));
        }
        too_many(last - first + 1 + numbers.len() as u64)?;
        numbers.extend((first..=last).map(|n| format!("{n:0width$}", width = width(low))));
    }
    Ok(numbers)
}

fn too_many(names: u64) -> Result<(), String> {
    if names > MOST {
        Err(format!("it stands for more than {MOST} nodes"))
    } else {
        Ok(())
    }
}

fn number(digits: &str) -> Result<u64, String> {
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number
        .then(|| digits.parse().ok())
        .flatten()
        .ok_or_else(|| format!("'{digits}' is not a node number"))
}

/// Digits that numbers of a range have at least: those of its first where that begins with a zero.
fn width(low: &str) -> usize {
    if low.starts_with('0') { low.len() } else { 1 }
}

/// The shortest list that stands for `names` in their order: neighbours that differ in their last number share a bracket.
pub fn compress(names: &[impl AsRef<str>]) -> String {
    let mut groups: Vec<Group> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        if !groups.last_mut().is_some_and(|group| group.take(name)) {
            groups.push(Group::new(name));
        }
    }
    groups.iter().map(Group::text).collect::<Vec<_>>().join(",")
}

/// Names that differ in one number only.
struct Group<'a> {
    before: &'a str,
    after: &'a str,
    /// First and last number of each range, as they are written.
    ranges: Vec<(&'a str, &'a str)>,
}

impl<'a> Group<'a> {
    fn new(name: &'a str) -> Group<'a> {
        match split(name) {
            Some((before, digits, after)) => Group {
                before,
                after,
                ranges: vec![(digits, digits)],
            },
            None => Group {
                before: name,
                after: "",
                ranges: Vec::new(),
            },
        }
    }

    /// Takes `name` in, if it fits.
    fn take(&mut self, name: &'a str) -> bool {
        let Some((before, digits, after)) = split(name) else {
            return false;
        };
        let Some((low, high)) = self.ranges.last_mut() else {
            return false;
        };
        if (before, after) != (self.before, self.after) {
            return false;
        }
        let next = high
            .parse::<u64>()
            .map(|last| format!("{:0width$}", last + 1, width = width(low)));
        match next {
            Ok(next) if next == digits => *high = digits,
            _ => self.ranges.push((digits, digits)),
        }
        true
    }

    fn text(&self) -> String {
        let Group {
            before,
            after,
            ranges,
        } = self;
        match ranges[..] {
            [] => (*before).to_owned(),
            [(low, high)] if low == high => format!("{before}{low}{after}"),
            _ => {
                let range = |&(low, high): &(&str, &str)| {
                    if low == high {
                        low.to_owned()
                    } else {
                        format!("{low}-{high}")
                    }
                };
                format!(
                    "{before}[{}]{after}",
                    ranges.iter().map(range).collect::<Vec<_>>().join(",")
                )
            }
        }
    }
}

/// A name around its last number; `None` where it has none that can be counted.
fn split(name: &str) -> Option<(&str, &str, &str)> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| {
            // The character before the digits may take several bytes.
            at + name[at..].chars().next().map_or(1, char::len_utf8)
        });
    let digits = &name[start..end];
    (digits.len() <= 18).then_some((&name[..start], digits, &name[end..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_of_slurm_are_expanded() {
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
    fn what_is_no_list_is_refused() {
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
            // One that grows in digits beyond its zeros still counts on.
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
