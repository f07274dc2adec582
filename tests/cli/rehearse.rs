//! `pxnbench rehearse` without GPUs as users see it: the theory, and recorded rehearsals.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    common::{Ended, alone, csv, golden, json, run},
    folder,
};

fn rehearse(at: &Path, arguments: &[&str]) -> Ended {
    run(alone(at).arg("rehearse").args(arguments))
}

fn theory(at: &Path, arguments: &[&str]) -> Ended {
    rehearse(at, &[&["--theory"], arguments].concat())
}

#[test]
fn two_nodes_with_two_rails_have_a_table() {
    let folder = folder();
    let at = folder.path();
    golden("rehearse-split.txt", &theory(at, &[]).expect_code(0).stdout);
    let shared = theory(at, &["--topology", "shared"]).expect_code(0);
    golden("rehearse-shared.txt", &shared.stdout);
    assert_eq!(fs::read_dir(at).expect("a folder").count(), 0);
}

/// What is left to a search cannot be told; what is not, is.
#[test]
fn four_nodes_with_eight_rails_have_one_too() {
    let folder = folder();
    let size = ["--nodes", "4", "--gpus", "8", "-b", "8M"];
    let ended = theory(folder.path(), &size).expect_code(0);
    golden("rehearse-eight.txt", &ended.stdout);
    assert!(ended.stdout.contains("cannot tell"));
}

#[test]
fn files_have_the_numbers_of_the_table() {
    let folder = folder();
    let at = folder.path();
    let names = ["--csv", "x.csv", "--json", "x.json", "--svg", "x.svg"];
    let wanted = ["alltoall", "all_reduce", "--levels", "off,default"];
    theory(at, &[&wanted[..], &names].concat()).expect_code(0);

    let rows = csv(&at.join("x.csv"));
    // Two levels, alltoall and all_reduce by ring and by tree, two nodes, two rails.
    assert_eq!(rows.len(), 2 * 3 * 4);
    let relayed = &rows[12];
    assert_eq!(relayed["level"], "default");
    assert_eq!(relayed["sent_bytes"], "524288");
    assert_eq!(relayed["relayed_bytes"], "262144");
    assert_eq!(relayed["relayed_connections"], "8");
    assert_eq!(relayed["connections"], "16");
    assert_eq!(rows[0]["crossing_bytes"], "1048576");

    let document = json(&at.join("x.json"));
    assert!(
        document["about"]
            .as_str()
            .expect("text")
            .contains("Times mean nothing")
    );
    let ring = &document["theories"][4];
    assert_eq!(ring["algorithm"], "ring");
    assert_eq!(ring["relays"]["connections"]["part"], 16);
    assert_eq!(ring["rails"]["known"][3]["relayed"], 786_432);

    let picture = fs::read_to_string(at.join("x.svg")).expect("a picture");
    golden("rehearse.svg", &picture);
    let picture = roxmltree::Document::parse(&picture).expect("XML");
    let texts: Vec<&str> = picture.descendants().filter_map(|one| one.text()).collect();
    assert!(texts.contains(&"default, alltoall: 8 of 16 sends relayed"));
    // Each of the two GPUs of two nodes passes data to the other: one bow per GPU, for alltoall and
    // for the rings.
    let bows = picture.descendants().filter(|one| one.has_tag_name("path"));
    assert_eq!(bows.count(), 2 * 4);
}

#[test]
fn standard_output_holds_only_what_was_sent_there() {
    let folder = folder();
    let ended = theory(folder.path(), &["alltoall", "--json", "-"]).expect_code(0);
    let document: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(document["theories"].as_array().expect("a list").len(), 5);
}

/// NCCL's dump of the split topology leads to the same relays as the made-up one.
#[test]
fn a_file_is_taken_for_a_node() {
    let folder = folder();
    let at = folder.path();
    let dump = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/topology/split.xml");
    fs::copy(dump, at.join("dump.xml")).expect("copied");
    for topology in ["split", "dump.xml"] {
        let file = format!("{topology}.json");
        let wanted = ["alltoall", "scatter", "sendrecv", "all_reduce"];
        let options = ["--topology", topology, "--channels", "8", "--json", &file];
        theory(at, &[&wanted[..], &options].concat()).expect_code(0);
    }
    let of = |topology: &str| json(&at.join(format!("{topology}.json")))["theories"].clone();
    let (made, read) = (of("split"), of("dump.xml"));
    for (made, read) in made
        .as_array()
        .into_iter()
        .flatten()
        .zip(read.as_array().into_iter().flatten())
    {
        if made["algorithm"] != "tree" {
            assert_eq!(made, read);
        }
    }
    assert_eq!(read.as_array().map(Vec::len), Some(25));
}

/// The other rail of the root's node carries data only through a relay.
#[test]
fn a_scatter_fills_the_other_rail_only_through_a_relay() {
    let folder = folder();
    let at = folder.path();
    theory(
        at,
        &["scatter", "--levels", "off,default", "--csv", "x.csv"],
    )
    .expect_code(0);
    let rows = csv(&at.join("x.csv"));
    let sent = |level: &str, rail: &str| {
        let mut rows = rows.iter();
        let row =
            rows.find(|row| row["level"] == level && row["node"] == "0" && row["rail"] == rail);
        row.expect("a row")["sent_bytes"].clone()
    };
    assert_eq!(
        (sent("off", "0"), sent("off", "1")),
        ("524288".into(), "0".into())
    );
    assert_eq!(
        (sent("default", "0"), sent("default", "1")),
        ("262144".into(), "262144".into())
    );
}

#[test]
fn without_theory_one_sentence_says_what_is_missing() {
    let folder = folder();
    let ended = rehearse(folder.path(), &[]).expect_code(5);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].contains("--theory"), "{sentences:?}");
    assert_eq!(ended.stdout, "");
}

/// The rehearsal that `scripts/demo-pxn.sh` shows where there is no GPU.
fn recorded() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/rehearsal/two-h200.json");
    file.display().to_string()
}

#[test]
fn a_recorded_rehearsal_is_shown_again() {
    let folder = folder();
    let at = folder.path();
    let all = rehearse(at, &["--from", &recorded()]).expect_code(0);
    golden("rehearse-recorded.txt", &all.stdout);
    let files = ["--from", &recorded(), "--csv", "x.csv", "--svg", "x.svg"];
    let wanted = [
        "alltoall",
        "--levels",
        "conservative,default",
        "--topology",
        "split",
    ];
    let some = rehearse(at, &[&wanted[..], &files].concat()).expect_code(0);
    assert!(
        some.stdout
            .contains("8 of 16 sends are relayed instead of 0")
    );
    assert!(!some.stdout.contains("shared"), "{}", some.stdout);
    let rows = csv(&at.join("x.csv"));
    assert_eq!(rows.len(), 2 * 4, "two levels, two nodes with two rails");
    assert!(
        rows.iter()
            .all(|row| row["agrees"] == "yes" && row["verified"] == "yes")
    );
    let picture = fs::read_to_string(at.join("x.svg")).expect("a picture");
    let picture = roxmltree::Document::parse(&picture).expect("XML");
    let bows = picture.descendants().filter(|one| one.has_tag_name("path"));
    assert_eq!(
        bows.count(),
        4,
        "each GPU passes data to the other one of its node"
    );
}

#[test]
fn a_recorded_rehearsal_that_disagrees_fails() {
    let folder = folder();
    let at = folder.path();
    let text = fs::read_to_string(recorded()).expect("a recording");
    let changed = text.replacen("\"counters\": 7864320", "\"counters\": 7864319", 1);
    assert_ne!(changed, text);
    fs::write(at.join("x.json"), changed).expect("written");
    let ended = rehearse(at, &["--from", "x.json"]).expect_code(7);
    let sentences = ended.sentences();
    assert!(
        sentences[0].contains("7864320 by theory, - in NCCL's log, 7864319 by the rails' counters"),
        "{sentences:?}"
    );
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("x.json"), "{}").expect("written");
    let later = fs::read_to_string(recorded()).expect("a recording");
    let later = later.replacen("\"format\": 1", "\"format\": 2", 1);
    fs::write(at.join("later.json"), later).expect("written");
    let changed = |name: &str, change: &dyn Fn(&mut Value)| {
        let text = fs::read_to_string(recorded()).expect("a recording");
        let mut document: Value = serde_json::from_str(&text).expect("JSON");
        change(&mut document);
        fs::write(at.join(name), document.to_string()).expect("written");
    };
    changed("twice.json", &|document| {
        let first = document["cases"][0].clone();
        document["cases"].as_array_mut().expect("cases").push(first);
    });
    changed("wide.json", &|document| {
        document["rails_per_node"] = 65.into()
    });
    changed("whole.json", &|document| {
        document["cases"][0]["sends"]["whole"] = 0.into();
        document["cases"][0]["sends"]["part"] = 1.into();
    });
    changed("long.json", &|document| {
        document["cases"][0]["level"] = "x".repeat(65).into();
    });
    let recorded = recorded();
    for (arguments, words) in [
        (&["--from", "none.json"] as &[&str], "it cannot be read"),
        (&["--from", "x.json"], "it does not hold a rehearsal"),
        (
            &["--from", "later.json"],
            "its format is 2, and this program reads format 1",
        ),
        (
            &["--from", &recorded, "broadcast"],
            "it has none of the requested cases. Request some that it has: collectives alltoall",
        ),
        (&["--from", &recorded, "--stall", "1"], "--stall"),
        (&["--from", &recorded, "--nodes", "4"], "--nodes"),
        (&["--from", &recorded, "-b", "1G"], "--size"),
        (&["--from", "twice.json"], "case 22 is there twice"),
        (
            &["--from", "wide.json"],
            "it has 65 rails per node, and there can be 1 to 64",
        ),
        (
            &["--from", "whole.json"],
            "case 1 has a part that is larger than its whole",
        ),
        (
            &["--from", "long.json"],
            "case 1 has a name of more than 64 bytes",
        ),
        (
            &["--theory", "--topology", "both"],
            "one topology at a time",
        ),
        (&["--theory", "--nccl-lib", "x.so"], "--nccl-lib"),
        (&["--bandwidth", "1"], "'1' is not RAIL=NUMBER"),
    ] {
        let ended = rehearse(at, arguments).expect_code(6);
        assert!(
            ended.stderr.contains(words),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}

/// The demo tells its story from the recording where there is no GPU.
#[test]
fn the_demo_works_without_a_gpu() {
    let folder = folder();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/demo-pxn.sh");
    let mut command = std::process::Command::new(script);
    let program = alone(folder.path()).get_program().to_owned();
    command
        .arg(program)
        .current_dir(folder.path())
        .env("CUDA_VISIBLE_DEVICES", "");
    let ended = run(&mut command).expect_code(0);
    for words in ["recorded", "0 of 16", "8 of 16", "Times mean nothing"] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
}

#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("none.xml"), "<system><cpu/></system>").expect("written");
    for (arguments, words) in [
        (
            &["--rails", "3"] as &[&str],
            "3 rails cannot be divided evenly between 2 GPUs",
        ),
        (&["--nodes", "1000"], "more than 1024 ranks"),
        (&["--nodes", "0"], "at least 1"),
        (&["--gpus", "4294967295"], "more than 1024 ranks"),
        (&["--channels", "65"], "NCCL has 64 channels at most"),
        (
            &["--csv", "x", "--svg", "./x"],
            "--csv and --svg name the same file",
        ),
        (
            &["--csv", "-", "--json", "-"],
            "--csv and --json name the same file",
        ),
        (
            &["--topology", "ring.xml"],
            "Name split, shared, both or a file",
        ),
        (&["--topology", "none.xml"], "it has no GPU"),
        (&["--levels", "ballanced"], "Did you mean balanced?"),
        (&["-r", "4"], "-r 4 is not a rank: there are 4 ranks"),
        (&["all2all"], "did you mean alltoall?"),
        (&["--csv", "/proc/no"], "--csv /proc/no cannot be written"),
    ] {
        let ended = theory(at, arguments).expect_code(6);
        assert!(
            ended.stderr.contains(words),
            "{arguments:?}: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    assert!(!at.join("x").exists());
}

#[test]
fn a_level_that_is_named_twice_is_shown_once() {
    let folder = folder();
    let levels = ["alltoall", "--levels", "balanced,off,balanced"];
    let ended = theory(folder.path(), &levels).expect_code(0);
    assert_eq!(ended.stdout.matches("balanced ").count(), 1);
}
