//! `pxnbench report` on the folders of replayed training steps.

mod common;

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use common::{alone, golden, json, run};
use roxmltree::{Document, ParsingOptions};
use serde_json::{Value, json};

/// What a name in a file may contain to get into a page.
const HOSTILE: &str = "<script>alert('1')</script>&|`x";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Runs a sweep of the model in the folder `name`, and returns what describes it.
fn sweep(at: &Path, name: &str) -> Value {
    let words = [
        "all_reduce",
        "-b",
        "1K",
        "-e",
        "4K",
        "-f",
        "2",
        "--backend",
        "model",
        "--ranks",
        "4",
    ];
    run(alone(at).args(words).args(["--out", name])).expect_code(0);
    json(&at.join(name).join("run.json"))
}

/// Event of the timeline: an operation of `rank` in `stream`.
fn operation(rank: u64, stream: u64, name: &str, span: (f64, f64), arguments: &Value) -> Value {
    json!({
        "ph": "X", "name": name, "cat": "x", "pid": rank, "tid": stream,
        "ts": span.0, "dur": span.1 - span.0, "args": arguments,
    })
}

/// Writes the replay of a step of two operations on `ranks` ranks, whose computation takes 800 us
/// and whose gradients take 300 us, of which 200 us are not hidden.
fn write_replay(folder: &Path, run: &Value, ranks: u64, name: &str) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder");
    let mut run = run.clone();
    run["run_id"] = json!(folder.file_name().expect("a name").to_string_lossy());
    run["ranks"] = json!(ranks);
    run["level"] = json!("balanced");
    let verdict = "PXN used: 8 of 16 connections for send/recv leave through another GPU's NIC.";
    run["proof"] = json!({ "pxn_used": true, "verdict": verdict });
    let summary = json!({
        "format": 1,
        "workload": name,
        "about": "Two operations.",
        "toml": "",
        "compute": { "multiprocessors": 1.0, "kernel_us": 50.0 },
        "modes": {},
        "exposed": { "time_us": 200.0, "share": 0.2, "share_interval": [0.15, 0.25] },
        "checked": 1,
        "wrong": 0,
        "wrong_operations": [],
        "stopped": false,
        "communication": {
            "collectives": { "count": 2, "bytes": 2 << 20, "alone_us": 500.0, "in_step_us": 600.0 },
            "copies": { "count": 483, "bytes": 204_882_064, "alone_us": 1250.0, "in_step_us": 1300.0 },
        },
        "collectives": [{
            "collective": "alltoallv", "size_bytes": 1 << 20, "type": "bfloat16", "redop": "none", "group": name,
            "ranks": ranks, "stream": "tokens", "count": 2, "alone_us": 250.0, "alone_busbw_GBps": 3.5,
            "in_step_us": 300.0, "in_step_busbw_GBps": 2.9166, "pxn": "used", "transport": "NET/IB+P2P",
            "sends": 16, "relayed_sends": 8,
        }],
        "run": run,
    });
    let text = serde_json::to_string_pretty(&summary).expect("JSON");
    fs::write(folder.join("replay.json"), text).expect("written");

    let mut steps = String::from("workload,level,mode,block,step,time_us\n");
    for (mode, time) in [
        ("computation", 800.0),
        ("communication", 300.0),
        ("serial", 1100.0),
        ("overlapped", 1000.0),
    ] {
        for (block, factor) in [0.9, 1.0, 1.0 / 0.9].into_iter().enumerate() {
            for step in 0..3 {
                let time = time * factor * (0.99 + 0.01 * f64::from(step));
                let _ = writeln!(steps, "w,balanced,{mode},{block},{step},{time}");
            }
        }
    }
    fs::write(folder.join("steps.csv"), steps).expect("written");

    let mut events = Vec::new();
    for rank in 0..ranks {
        let thread = |tid: u64, name: &str| json!({ "ph": "M", "name": "thread_name", "pid": rank, "tid": tid, "args": { "name": name } });
        events.push(thread(0, "compute"));
        events.push(thread(1, "tokens"));
        // The second rank has the longest step, and the last one the shortest.
        let end = match rank {
            1 => 1200.0,
            _ if rank + 1 == ranks => 900.0,
            _ => 1000.0,
        };
        let collective = json!({ "collective": "alltoallv", "size_bytes": 1 << 20, "type": "bfloat16", "group": "expert", "ranks": ranks });
        events.push(operation(
            rank,
            0,
            "backward",
            (0.0, 800.0),
            &json!({ "alone_us": 800.0 }),
        ));
        events.push(operation(rank, 1, name, (700.0, end), &collective));
    }
    let trace = json!({ "displayTimeUnit": "ms", "traceEvents": events });
    fs::write(folder.join("timeline.json"), trace.to_string()).expect("written");
    folder.to_owned()
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).expect("well-formed")
}

/// All text of the page.
fn text(page: &str) -> String {
    let document = parse(page);
    let texts = document.descendants().filter_map(|node| node.text());
    texts.collect::<Vec<&str>>().join(" ")
}

fn report(at: &Path, words: &[&str]) -> String {
    run(alone(at)
        .arg("report")
        .args(words)
        .args(["--out", "page.html"]))
    .expect_code(0);
    fs::read_to_string(at.join("page.html")).expect("the page")
}

#[test]
fn a_replay_has_its_times_collectives_and_timelines_on_the_page() {
    let folder = folder();
    let at = folder.path();
    let run_json = sweep(at, "sweep");
    write_replay(&at.join("step"), &run_json, 8, "moe-8x7b");
    let page = report(at, &["step"]);
    let document = parse(&page);
    let words = text(&page);
    for part in [
        "1 training step replayed.",
        "Workload moe-8x7b: Two operations.",
        "Exposed communication, which computation does not hide: 0.2 ms, 20 % of the step (95 % \
         interval 15 to 25 %).",
        "The communication has 483 copies of 204.9 MB within memory: they take 1.25 ms alone and \
         1.3 ms in the step. The collectives take 0.5 ms alone and 0.6 ms in the step.",
        "The data of 1 kind of collectives were checked, and all were correct.",
        "Timelines of 3 of the 8 ranks in timeline.json are drawn",
        "PXN used: 8 of 16 connections for send/recv leave through another GPU's NIC.",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
    assert!(!words.contains("Time and bus bandwidth"), "no sweep");
    // Rank 1 is the slowest, rank 7 the fastest.
    let titles: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("summary"))
        .filter_map(|node| node.text())
        .filter(|title| title.starts_with("Timeline"))
        .collect();
    assert_eq!(
        titles,
        [
            "Timeline of rank 0, the first: step",
            "Timeline of rank 1, whose step was the longest: step",
            "Timeline of rank 7, whose step was the shortest: step",
        ]
    );
    let cells = |caption: &str| {
        let table = document.descendants().find(|node| {
            let own = node.children().find(|child| child.has_tag_name("caption"));
            node.has_tag_name("table") && own.and_then(|own| own.text()) == Some(caption)
        });
        let body = table
            .and_then(|table| table.children().find(|child| child.has_tag_name("tbody")))
            .expect(caption);
        let rows = body.children().filter(|row| row.has_tag_name("tr"));
        rows.map(|row| {
            let cells = row.children().filter(roxmltree::Node::is_element);
            let words = cells.map(|cell| cell.text().unwrap_or_default());
            words.collect::<Vec<&str>>().join(" | ")
        })
        .collect::<Vec<String>>()
    };
    // ln(1 / 0.9) / sqrt 3 · 4.302653: 1000 us divided and multiplied by 1.299.
    assert_eq!(
        cells("Training steps"),
        ["step | moe-8x7b | balanced | 8 | 1 | 0.7697 to 1.299 | 0.8 | 0.2 | 20 | 0"]
    );
    assert_eq!(
        cells("Times of the step: step")[3],
        "overlapped | as in training | 1 | 0.7697 to 1.299 | 1 | 0.909 to 1.1 | 3 | 9"
    );
    assert_eq!(
        cells("Collectives alone and in the step: step"),
        [
            "alltoallv | 1M | bfloat16 | moe-8x7b | 8 | tokens | 2 | 250 | 3.5 | 300 | 2.917 | \
             used | 8 of 16 | NET/IB+P2P"
        ]
    );
    let pictures = document
        .descendants()
        .filter(|node| node.has_tag_name("svg"));
    assert_eq!(pictures.count(), 4, "modes, and three timelines");
    let ids: Vec<&str> = document
        .descendants()
        .filter_map(|node| node.attribute("id"))
        .collect();
    let different: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len(), "each id once");
    // By its own option, each picture is a file.
    run(alone(at).args(["report", "step", "--svg", "plots"])).expect_code(0);
    let timeline = at.join("plots/timeline-1-0-step.svg");
    golden(
        "timeline.svg",
        &fs::read_to_string(timeline).expect("a timeline"),
    );
    let modes = at.join("plots/modes-1-step.svg");
    golden("modes.svg", &fs::read_to_string(modes).expect("the modes"));
    let summary = run(alone(at).args(["report", "step", "--markdown"])).expect_code(0);
    golden("report-replay.md", &summary.stdout);
}

#[test]
fn the_metrics_have_the_times_of_training_steps() {
    let folder = folder();
    let at = folder.path();
    let run_json = sweep(at, "sweep");
    write_replay(&at.join("step"), &run_json, 8, "moe-8x7b");
    run(alone(at).args(["report", "step", "--prometheus", "step.prom"])).expect_code(0);
    let metrics = fs::read_to_string(at.join("step.prom")).expect("the metrics");
    for (metric, expected) in [
        (
            "pxnbench_step_time_seconds{level=\"balanced\",mode=\"computation\",ranks=\"8\",\
             workload=\"moe-8x7b\"}",
            800e-6,
        ),
        (
            "pxnbench_step_time_seconds{level=\"balanced\",mode=\"overlapped\",ranks=\"8\",\
             workload=\"moe-8x7b\"}",
            1e-3,
        ),
        (
            "pxnbench_step_exposed_ratio{level=\"balanced\",ranks=\"8\",workload=\"moe-8x7b\"}",
            0.2,
        ),
        (
            "pxnbench_step_wrong_elements{level=\"balanced\",ranks=\"8\",workload=\"moe-8x7b\"}",
            0.0,
        ),
    ] {
        let value = metrics.lines().find_map(|line| line.strip_prefix(metric));
        let value: f64 = value.expect(metric).trim().parse().expect("a number");
        assert!((value - expected).abs() < 1e-9, "{metric} {value}");
    }
}

#[test]
fn sweeps_and_replays_are_on_one_page() {
    let folder = folder();
    let at = folder.path();
    let run_json = sweep(at, "all/1-sweep");
    write_replay(&at.join("all/2-step"), &run_json, 2, "w");
    write_replay(&at.join("all/3-step"), &run_json, 2, "w");
    for words in [
        &["all"][..],
        &["all/1-sweep", "all/2-step", "all/3-step/steps.csv"],
    ] {
        let page = report(at, words);
        let words = text(&page);
        for part in [
            "6 rows in 1 run.",
            "2 training steps replayed.",
            "Time and bus bandwidth",
            "Timeline of rank 0, the first: 3-step",
        ] {
            assert!(words.contains(part), "{part}\n{words}");
        }
    }
    let summary = run(alone(at).args(["report", "all", "--markdown"])).expect_code(0);
    assert!(
        summary.stdout.contains("| case | line |"),
        "{}",
        summary.stdout
    );
    assert!(
        summary.stdout.contains("| 2-step | w | balanced |"),
        "{}",
        summary.stdout
    );
}

#[test]
fn replays_are_compared_on_the_page() {
    let folder = folder();
    let at = folder.path();
    let run_json = sweep(at, "sweep");
    write_replay(&at.join("all/1-balanced"), &run_json, 2, "moe-8x7b");
    let off = write_replay(&at.join("all/2-off"), &run_json, 2, "moe-8x7b");
    let mut summary = json(&off.join("replay.json"));
    summary["run"]["level"] = json!("off");
    fs::write(off.join("replay.json"), summary.to_string()).expect("written");
    for words in [&["all"][..], &["all/1-balanced", "all/2-off"]] {
        let words = text(&report(at, words));
        assert!(words.contains("Runs compared"), "{words}");
        assert!(words.contains("by level"), "{words}");
        assert!(!words.contains("Not compared"), "{words}");
        assert!(words.contains("moe-8x7b, step"), "{words}");
    }
}

#[test]
fn words_of_a_replay_are_no_markup_and_damaged_files_are_said() {
    let folder = folder();
    let at = folder.path();
    let run_json = sweep(at, "sweep");
    let step = write_replay(&at.join("step"), &run_json, 2, HOSTILE);
    let page = report(at, &["step"]);
    assert!(!page.contains("<script"));
    let document = parse(&page);
    let tooltips = document
        .descendants()
        .filter(|node| node.has_tag_name("title"));
    let tooltips: Vec<&str> = tooltips.filter_map(|node| node.text()).collect();
    let begin = format!("{HOSTILE}: alltoallv, 1M, expert, 2 ranks; ");
    assert!(
        tooltips.iter().any(|words| words.starts_with(&begin)),
        "{tooltips:?}"
    );

    fs::write(step.join("timeline.json"), "{").expect("written");
    let ended = run(alone(at).args(["report", "step"])).expect_code(0);
    assert!(
        ended.stderr.contains("timeline.json is left out: "),
        "{}",
        ended.stderr
    );
    fs::write(step.join("replay.json"), "{}").expect("written");
    let ended = run(alone(at).args(["report", "step"])).expect_code(5);
    assert!(
        ended.stderr.contains("replay.json is left out: ")
            && ended.stderr.contains("nothing to report"),
        "{}",
        ended.stderr
    );
    fs::remove_file(step.join("replay.json")).expect("removed");
    let ended = run(alone(at).args(["report", "step"])).expect_code(5);
    let words = "has no results.csv, replay.json or rehearsal.json, and no folder below it has a \
                 run: nothing to report";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

#[test]
fn a_long_step_is_drawn_in_part_and_the_page_says_so() {
    let folder = folder();
    let at = folder.path();
    let run_json = sweep(at, "sweep");
    let step = write_replay(&at.join("step"), &run_json, 2, "w");
    let mut events = Vec::new();
    for rank in 0..2 {
        for number in 0..3000 {
            let begin = f64::from(number);
            let name = format!("layer {number}");
            events.push(operation(rank, 0, &name, (begin, begin + 0.5), &json!({})));
        }
    }
    let trace = json!({ "traceEvents": events });
    fs::write(step.join("timeline.json"), trace.to_string()).expect("written");
    let page = report(at, &["step"]);
    assert!(page.contains("The first 2000 of 3000 operations are drawn."));
    assert!(page.contains("The table ends after 200 rows."));
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
}
