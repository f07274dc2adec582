//! The table of levels, resources and networks as text, JSON and shell lines.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    self as levels, Axis, Preset, Setting,
    conflict::{Conflict, Effect},
};

/// Returns the heading of an axis, above its rows.
fn title(axis: Axis) -> &'static str {
    match axis {
        Axis::Level => {
            "PXN levels (--level): how far NCCL may relay through the GPU beside the peer's rail NIC.\n\
             NCCL_P2P_PXN_LEVEL moves send/recv only: alltoall, alltoallv, gather, scatter, sendrecv and hypercube. For the others only off differs."
        }
        Axis::Resources => "Resources (--resources): how many channels NCCL may use.",
        Axis::Network => {
            "Networks (--network): which transport NCCL is asked to use. One that cannot work here \
             is refused."
        }
    }
}

fn does(conflict: &Conflict) -> &'static str {
    match conflict.does {
        Effect::Crashes => "crashes NCCL; refused",
        Effect::Fails => "makes NCCL fail",
        Effect::Silences => "keeps NCCL from using PXN",
        Effect::SilencesRings => "keeps rings from using PXN",
        Effect::Nothing => "has no effect",
    }
}

/// Renders the whole table.
pub fn all() -> String {
    let mut text = String::new();
    for axis in Axis::ALL {
        let _ = write!(text, "{}\n\n", title(axis));
        levels::rows(axis)
            .iter()
            .for_each(|row| text.push_str(&self::row(row)));
        text.push('\n');
    }
    text.push_str("Harmful combinations, as NCCL reads the values:\n\n");
    for conflict in levels::table::conflicts() {
        let versions = conflict
            .versions()
            .map_or_else(String::new, |versions| format!(" ({versions})"));
        let _ = writeln!(
            text,
            "{}: {}{versions}",
            conflict.combination(),
            does(conflict)
        );
        let _ = writeln!(text, "    {}; {}", conflict.why, conflict.remedy);
    }
    text
}

/// Renders one row.
pub fn row(row: &Preset) -> String {
    let mut text = format!("{:<14}{}\n", row.name, row.summary);
    let assignments: Vec<String> = row.set.iter().map(assignment).collect();
    let width = assignments.iter().map(String::len).max().unwrap_or(0);
    for (assignment, Setting { why, since, .. }) in assignments.iter().zip(&row.set) {
        let _ = writeln!(text, "    {assignment:<width$}  {why} (since NCCL {since})");
    }
    text
}

fn assignment(setting: &Setting) -> String {
    format!("{}={}", setting.name, value(setting))
}

/// Returns the value as a reader takes it.
fn value(setting: &Setting) -> String {
    setting.value.strip_prefix('@').map_or_else(
        || setting.value.clone(),
        |kind| format!("<active {kind} ports>"),
    )
}

/// Renders one row for a shell.
pub fn export(row: &Preset) -> String {
    row.exports().into_iter().map(|line| line + "\n").collect()
}

/// Returns what differs from `a` to `b`.
pub fn diff(a: &Preset, b: &Preset) -> String {
    let of =
        |row: &Preset, name: &str| row.set.iter().find(|setting| setting.name == name).cloned();
    let mut names: Vec<&str> = a
        .set
        .iter()
        .chain(&b.set)
        .map(|setting| setting.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let (differ, same): (Vec<&str>, Vec<&str>) = names
        .into_iter()
        .partition(|name| of(a, name).map(|s| s.value) != of(b, name).map(|s| s.value));
    let mut text = format!(
        "{:<14}{}\n{:<14}{}\n\n",
        a.name, a.summary, b.name, b.summary
    );
    let said = |setting: &Option<Setting>| match setting {
        None => "not set".to_owned(),
        Some(setting) if setting.value.is_empty() => "empty".to_owned(),
        Some(setting) => value(setting),
    };
    for name in &differ {
        let (from, to) = (of(a, name), of(b, name));
        let _ = writeln!(text, "{name}: {} -> {}", said(&from), said(&to));
        for (row, setting) in [(a, from), (b, to)] {
            if let Some(setting) = setting {
                let _ = writeln!(text, "    {}: {}", row.name, setting.why);
            }
        }
    }
    if differ.is_empty() {
        text.push_str("they set the same\n");
    }
    for name in same {
        let _ = writeln!(text, "{name}: {} in both", said(&of(a, name)));
    }
    text
}

/// Renders the whole table as JSON.
pub fn json() -> anyhow::Result<String> {
    let rows = |axis| serde_json::to_value(levels::rows(axis));
    let table: Value = json!({
        "levels": rows(Axis::Level)?,
        "resources": rows(Axis::Resources)?,
        "networks": rows(Axis::Network)?,
        "harms": levels::table::conflicts().iter().map(json_harm).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&table)? + "\n")
}

/// Renders one row as JSON.
pub fn json_row(row: &Preset) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(row)? + "\n")
}

fn json_harm(conflict: &Conflict) -> Value {
    json!({
        "combination": conflict.combination(),
        "does": conflict.does,
        "versions": conflict.versions(),
        "why": conflict.why,
        "remedy": conflict.remedy,
    })
}
