//! Lists of network interfaces and adapters: their syntax, and adapters that match more than they
//! name.

use super::{
    finding::{AuditContext, AuditFinding, describe, on_one_line, short},
    rule::Rule,
};
use crate::levels::{conf::EffectiveValue, selection::Selection};

/// Variables that are such lists.
const LISTS: [&str; 3] = ["NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_OOB_NET_IFNAME"];

/// The longest list that a remedy writes out, in characters.
const LONGEST_LIST: usize = 1000;

/// Returns whether this variable is a list of interfaces or adapters.
pub(super) fn is_list(name: &str) -> bool {
    LISTS.contains(&name)
}

/// Returns what is wrong with a list: `^` for all but these, then `=` for exactly these, then
/// names.
pub(super) fn finding(
    known: &AuditContext,
    name: &str,
    setting: &EffectiveValue,
) -> Option<AuditFinding> {
    let selection = Selection::parse(&setting.value);
    if selection.entries().any(has_stray_mark) {
        return Some(syntax_finding(name, setting, &selection));
    }
    if name == "NCCL_IB_HCA" && !selection.is_exact {
        return prefix_finding(known, name, setting, &selection);
    }
    None
}

fn has_stray_mark(entry: &str) -> bool {
    entry.starts_with(['^', '=']) || entry.contains([' ', '\t'])
}

fn syntax_finding(name: &str, setting: &EffectiveValue, selection: &Selection) -> AuditFinding {
    let sentence = format!(
        "{}: a list has no spaces, and `^` and `=` stand once each, in this order, at its start \
         only: elsewhere NCCL takes them for part of a name",
        describe(name, setting)
    );
    let mut list = String::new();
    if selection.excludes || setting.value.contains('^') {
        list.push('^');
    }
    if selection.is_exact || setting.value.contains('=') {
        list.push('=');
    }
    let entries = selection.entries();
    let names: Vec<&str> = entries
        .map(|entry| entry.trim_matches(['^', '=', ' ', '\t']))
        .collect();
    list += &on_one_line(&names.join(","), LONGEST_LIST);
    let remedy = format!("write {name}={list}");
    AuditFinding::new(Rule::ListSyntax, name, sentence, remedy)
}

fn prefix_finding(
    known: &AuditContext,
    name: &str,
    setting: &EffectiveValue,
    selection: &Selection,
) -> Option<AuditFinding> {
    let names: Vec<&str> = selection.names().collect();
    for entry in &names {
        let Some(other) = also_matched(entry, &names, known.adapters) else {
            continue;
        };
        let sentence = format!(
            "{}: without `=` an entry means every adapter whose name begins with it: {} also \
             means {other}",
            describe(name, setting),
            short(entry)
        );
        let not = if selection.excludes { "^" } else { "" };
        let list = on_one_line(selection.list, LONGEST_LIST);
        let remedy = format!("write {name}={not}={list}");
        return Some(AuditFinding::new(Rule::PrefixMatch, name, sentence, remedy));
    }
    None
}

/// Returns another adapter whose name begins with `entry` and is not in the list: one of the node,
/// or if those are unknown, one that may exist.
fn also_matched(entry: &str, list: &[&str], adapters: Option<&[String]>) -> Option<String> {
    let letters = entry.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &entry[letters.len()..];
    // `ibp` and `mlx5`, a driver's name, are meant as prefixes; no name is longer than `mlx5_0` and
    // begins with it.
    if digits.is_empty() || digits == "0" || ["mlx4", "mlx5"].contains(&entry) {
        return None;
    }
    let Some(adapters) = adapters else {
        return Some(format!("{}0", short(entry)));
    };
    for adapter in adapters {
        if adapter.starts_with(entry) && !list.contains(&adapter.as_str()) {
            return Some(short(adapter));
        }
    }
    None
}
