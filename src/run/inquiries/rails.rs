//! What the rails of a rehearsal hold back. The processes of a rehearsal are on one machine, and
//! the plugin of each writes about once a second what waits on its rails.

use std::{fs, path::Path, time::Duration};

use crate::{
    env,
    input::{self, InputKind},
    rehearsal::{counters::ProcessCounters, waiting},
    world::inquiry,
};

/// The folder for the counters of rails.
const FOLDER: &str = "PXNBENCH_RAIL_COUNTERS";

/// How long reading the counters may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Arranges that the counters are read if the run is stuck, where rails are played.
pub(super) fn prepare() {
    if let Some(folder) = env::var(FOLDER) {
        inquiry::add(LIMIT, move |_| clause(Path::new(&folder)));
    }
}

/// Returns which rails hold messages back; `None` if none does.
fn clause(folder: &Path) -> Option<String> {
    let mut processes = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Files that are being written begin with a dot.
        if !name.starts_with("rails-") {
            continue;
        }
        let text = input::read_text(&entry.path(), InputKind::Json).ok();
        processes.extend(text.and_then(|text| ProcessCounters::parse(&text).ok()));
    }
    let held = waiting::clause(&processes)?;
    Some(format!("The counters of the rails say that {held}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rail_that_holds_messages_back_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, rank: u32, waiting: &str| {
            let text = format!(
                r#"{{"format": 1, "rank": {rank}, "node": "node0", "rails": 2, "process": 7, "sent": [], "received": [], "waiting": [{waiting}]}}"#
            );
            fs::write(folder.path().join(name), text).expect("written");
        };
        write("rails-0.json", 0, "");
        assert_eq!(clause(folder.path()), None);
        let waiting = r#"{"rail": 1, "messages": 2, "bytes": 262144, "oldest_ms": 30200}"#;
        write("rails-2.json", 2, waiting);
        write(".rails-3.json.1-0", 3, waiting);
        fs::write(folder.path().join("rails-4.json"), "{").expect("written");
        assert_eq!(
            clause(folder.path()).as_deref(),
            Some(
                "The counters of the rails say that rail 1 of rank 2 holds 2 messages back, the \
                 oldest for 30.2 s"
            )
        );
        assert_eq!(clause(Path::new("/nonexistent")), None);
    }
}
