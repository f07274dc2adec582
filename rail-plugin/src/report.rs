//! The file that the counters are written to: `docs/REHEARSAL.md` describes it.

use std::{
    fs::File,
    io::Write,
    path::Path,
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
};
use serde::Serialize;

use crate::{
    counters::{Counters, Flow, Tallies, Tally, Waiting},
    failure::{Failure, Result},
    rail::Rail,
    settings::{FaultKind, Settings},
};

const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    format: u32,
    rank: Option<i32>,
    node: &'a str,
    rails: usize,
    process: u32,
    sent: Vec<Entry>,
    received: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    played: Vec<Played>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitingEntry>,
}

#[derive(Serialize)]
struct Entry {
    rail: u32,
    peer: Option<i32>,
    peer_rail: u32,
    communicator: Option<String>,
    origin: i32,
    relayed: Option<bool>,
    messages: u64,
    bytes: u64,
}

/// Messages that have not left a rail.
#[derive(Serialize)]
struct WaitingEntry {
    rail: u32,
    messages: u64,
    bytes: u64,
    oldest_ms: u64,
}

/// What is played on a rail.
#[derive(Serialize)]
struct Played {
    rail: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<f64>,
    latency_us: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// How long messages waited for it.
    waited_us: u128,
}

fn entries(tallies: &Tallies) -> Vec<Entry> {
    let entry = |(flow, tally): (&Flow, &Tally)| Entry {
        rail: flow.rail,
        peer: flow.peer.rank,
        peer_rail: flow.peer.rail,
        communicator: flow.communicator.map(|id| format!("{id:x}")),
        origin: flow.origin,
        relayed: flow.is_relayed,
        messages: tally.messages,
        bytes: tally.bytes,
    };
    tallies.iter().map(entry).collect()
}

/// Adds up what waits by rail.
fn waiting(all: &[Waiting]) -> Vec<WaitingEntry> {
    let mut entries: Vec<WaitingEntry> = Vec::new();
    for one in all {
        let oldest_ms = u64::try_from(one.oldest.as_millis()).unwrap_or(u64::MAX);
        match entries.iter_mut().find(|entry| entry.rail == one.rail) {
            Some(entry) => {
                entry.messages += one.messages;
                entry.bytes += one.bytes;
                entry.oldest_ms = entry.oldest_ms.max(oldest_ms);
            }
            None => entries.push(WaitingEntry {
                rail: one.rail,
                messages: one.messages,
                bytes: one.bytes,
                oldest_ms,
            }),
        }
    }
    entries.sort_by_key(|entry| entry.rail);
    entries
}

fn played(rails: &[Rail]) -> Vec<Played> {
    let mut all = Vec::new();
    for (number, rail) in rails.iter().enumerate() {
        let settings = rail.settings();
        if *settings == Default::default() {
            continue;
        }
        all.push(Played {
            rail: number,
            bytes_per_second: settings.bandwidth,
            latency_us: settings.latency.as_micros(),
            fault: settings.fault.map(|fault| match fault.kind {
                FaultKind::Stall => format!("stall:{}", fault.after),
                FaultKind::Error => format!("error:{}", fault.after),
            }),
            waited_us: rail.waited().as_micros(),
        });
    }
    all
}

/// Writes the counters into the folder of the settings, if they name one. The file is replaced as a
/// whole.
///
/// # Errors
/// Returns an error if the folder is missing or a link, or cannot be written to.
pub(crate) fn write(
    settings: &Settings,
    rails: &[Rail],
    counters: &Counters,
    not_left: &[Waiting],
) -> Result<()> {
    let Some(folder) = &settings.counters else {
        return Ok(());
    };
    // One at a time, so that an older state never replaces a newer one.
    static WRITING: Mutex<()> = Mutex::new(());
    let _held = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (sent, received) = counters.so_far();
    let report = Report {
        format: FORMAT,
        rank: settings.rank,
        node: &settings.node,
        rails: rails.len(),
        process: process::id(),
        sent: entries(&sent),
        received: entries(&received),
        played: played(rails),
        waiting: waiting(not_left),
    };
    let name = match settings.rank {
        Some(rank) => format!("rails-{rank}.json"),
        None => format!("rails-process-{}.json", process::id()),
    };
    let mut text = serde_json::to_vec_pretty(&report)
        .map_err(|error| Failure::system("Writing a rail's counters", error))?;
    text.push(b'\n');
    replace(folder, &name, &text).map_err(|error| {
        Failure::system(
            &format!("Writing a rail's counters to {}", folder.display()),
            error,
        )
    })
}

/// Writes a new file beside `name`, and renames it. No link is followed: neither the folder, nor
/// what stands under the names.
fn replace(folder: &Path, name: &str, text: &[u8]) -> std::io::Result<()> {
    let options = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, folder, options, Mode::empty())?;
    let (temporary, mut file) = new_file(&folder, name)?;
    let written = file
        .write_all(text)
        .and_then(|()| Ok(rustix::fs::renameat(&folder, &temporary, &folder, name)?));
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
    }
    written
}

/// Makes a file that was not there.
fn new_file(folder: &OwnedFd, name: &str) -> std::io::Result<(String, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{name}.{}-{number}", process::id());
        let options = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        match rustix::fs::openat(folder, &temporary, options, mode) {
            Ok(file) => return Ok((temporary, File::from(file))),
            Err(Errno::EXIST) => continue,
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, time::Duration};

    use serde_json::{Value, json};

    use super::*;
    use crate::{settings::RailSettings, wire::Peer};

    fn settings(folder: &Path, rank: Option<i32>) -> Settings {
        Settings {
            rails: Vec::new(),
            speed: 1,
            counters: Some(folder.to_owned()),
            rank,
            is_world: false,
            node: "node0".into(),
        }
    }

    fn rails() -> Vec<Rail> {
        let slow = RailSettings {
            bandwidth: Some(0.5e9),
            ..RailSettings::default()
        };
        vec![Rail::new(RailSettings::default()), Rail::new(slow)]
    }

    fn flow(is_relayed: Option<bool>) -> Flow {
        Flow {
            rail: 0,
            peer: Peer {
                rank: Some(2),
                rail: 1,
            },
            communicator: Some(0xfe40_8bfb_c3fb_5073),
            origin: 1,
            is_relayed,
        }
    }

    fn read(file: &Path) -> Value {
        serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON")
    }

    #[test]
    fn the_file_has_what_was_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let counters = Counters::default();
        counters.count_sent(flow(Some(true)), 100);
        counters.count_sent(flow(Some(true)), 28);
        counters.count_received(flow(None), 0);
        write(&settings(folder.path(), Some(3)), &rails(), &counters, &[]).expect("written");
        let report = read(&folder.path().join("rails-3.json"));
        let entry = |relayed: Value, messages: u64, bytes: u64| {
            json!({"rail": 0, "peer": 2, "peer_rail": 1, "communicator": "fe408bfbc3fb5073", "origin": 1, "relayed": relayed,
                "messages": messages, "bytes": bytes})
        };
        assert_eq!(report["format"], 1);
        assert_eq!(report["rank"], 3);
        assert_eq!(report["node"], "node0");
        assert_eq!(report["rails"], 2);
        assert_eq!(report["sent"], json!([entry(json!(true), 2, 128)]));
        assert_eq!(report["received"], json!([entry(Value::Null, 1, 0)]));
        assert_eq!(
            report["played"],
            json!([{"rail": 1, "bytes_per_second": 0.5e9, "latency_us": 0, "waited_us": 0}])
        );
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    /// What `pxnbench rehearse` reads: its tests read the same file.
    #[test]
    fn the_file_has_what_the_program_reads() {
        let recorded =
            include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-0.json");
        let wanted: Value = serde_json::from_str(recorded).expect("JSON");
        let folder = tempfile::tempdir().expect("a folder");
        let counters = Counters::default();
        counters.count_sent(flow(Some(true)), 100);
        counters.count_received(flow(Some(false)), 100);
        write(&settings(folder.path(), Some(0)), &rails(), &counters, &[]).expect("written");
        let report = read(&folder.path().join("rails-0.json"));
        let kinds = |value: &Value| {
            let keys = value.as_object().expect("an object").iter();
            keys.map(|(key, value)| (key.clone(), std::mem::discriminant(value)))
                .collect::<Vec<_>>()
        };
        for (wanted, written) in [
            (&wanted, &report),
            (&wanted["sent"][0], &report["sent"][0]),
            (&wanted["received"][0], &report["received"][0]),
        ] {
            let written = kinds(written);
            for kind in kinds(wanted) {
                assert!(written.contains(&kind), "{}", kind.0);
            }
        }
    }

    #[test]
    fn what_waits_is_added_up_by_rail() {
        let folder = tempfile::tempdir().expect("a folder");
        let of_rail = |rail: u32, messages: u64, ms: u64| Waiting {
            rail,
            messages,
            bytes: 1000,
            oldest: Duration::from_millis(ms),
        };
        let all = [of_rail(1, 2, 10), of_rail(0, 1, 3), of_rail(1, 1, 5500)];
        write(
            &settings(folder.path(), Some(0)),
            &rails(),
            &Counters::default(),
            &all,
        )
        .expect("written");
        assert_eq!(
            read(&folder.path().join("rails-0.json"))["waiting"],
            json!([
                {"rail": 0, "messages": 1, "bytes": 1000, "oldest_ms": 3},
                {"rail": 1, "messages": 3, "bytes": 2000, "oldest_ms": 5500},
            ])
        );
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        fs::write(&victim, "mine").expect("written");
        let inside = folder.path().join("inside");
        fs::create_dir(&inside).expect("a folder");
        symlink(&victim, inside.join("rails-0.json")).expect("a link");
        let counters = Counters::default();
        write(&settings(&inside, Some(0)), &rails(), &counters, &[]).expect("written");
        assert_eq!(fs::read_to_string(&victim).expect("text"), "mine");
        assert_eq!(read(&inside.join("rails-0.json"))["rank"], 0, "replaced");

        let link = folder.path().join("link");
        symlink(&inside, &link).expect("a link");
        let failure =
            write(&settings(&link, Some(1)), &rails(), &counters, &[]).expect_err("a link");
        assert!(failure.sentence.contains("link"), "{}", failure.sentence);
        assert!(!inside.join("rails-1.json").exists());
    }

    #[test]
    fn a_process_without_a_rank_has_its_own_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let counters = Counters::default();
        write(&settings(folder.path(), None), &rails(), &counters, &[]).expect("written");
        let name = format!("rails-process-{}.json", process::id());
        assert_eq!(read(&folder.path().join(name))["rank"], Value::Null);
    }
}
