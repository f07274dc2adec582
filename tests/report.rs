//! `pxnbench report` on the folders of runs.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::{Command, Stdio},
};

use common::{alone, json, run, skip};
use pxnbench::{collective::BufferMode, record::read};
use roxmltree::{Document, Node, ParsingOptions};

/// What a host or a note may contain to get into a page.
const HOSTILE: &str = "<script>alert('1')</script>&|`x";

const HEADER: &str = "run_id,started_at,collective,backend,level,network,resources,step,repeat,\
                      nodes,ranks,gpus_per_process,size_bytes,count,type,redop,root,in_place,\
                      iters,time_us,algbw_GBps,busbw_GBps,wrong,status,note,hosts,peak_GBps,pxn,\
                      transport,algo,proto";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn row(level: &str, repeat: u32, size: u64, time: f64, hosts: &str) -> String {
    let busbw = size as f64 / 1e3 / time;
    format!(
        "r,2026-01-01T00:00:00+00:00,all_reduce,nccl,{level},auto,none,,{repeat},2,16,1,{size},{},\
         float,sum,-1,0,20,{time},{busbw},{busbw},0,ok,,\"{hosts}\",400,used,P2P+NET/IB,RING,\
         LL128\n",
        size / 4
    )
}

/// Writes a run with two levels, three repetitions and hostile words into `folder`.
fn write_run(folder: &Path) {
    let mut text = format!("{HEADER}\n");
    for repeat in 0..3 {
        for power in 3..30 {
            let size = 1_u64 << power;
            let time = 10.0 + size as f64 / 3e5 + f64::from(repeat);
            text += &row("off", repeat, size, time, HOSTILE);
            text += &row("aggressive", repeat, size, time * 0.9, HOSTILE);
        }
    }
    fs::write(folder.join("results.csv"), text).expect("written");
}

/// Writes the times of `ranks` ranks, one of which is slow.
fn write_ranks(folder: &Path, ranks: u32) {
    let mut text = String::from(
        "run_id,started_at,collective,level,repeat,ranks,size_bytes,type,redop,root,in_place,\
         group,rank,host,time_us\n",
    );
    for power in [10, 20, 30] {
        for rank in 0..ranks {
            let time = if rank == 7 { 15.0 } else { 10.0 };
            let size = 1_u64 << power;
            let _ = writeln!(
                text,
                "r,2026-01-01T00:00:00+00:00,all_reduce,off,0,{ranks},{size},float,sum,-1,0,,\
                 {rank},n{rank},{time}"
            );
        }
    }
    fs::write(folder.join("ranks.csv"), text).expect("written");
}

fn write_telemetry(folder: &Path) {
    let mut text = String::from(
        "time,seconds,host,gpu,sm_clock_MHz,temperature_C,power_W,utilization_pct,throttle\n",
    );
    for sample in 0..2000 {
        for gpu in 0..8 {
            let _ = writeln!(
                text,
                "t,{},n1,{gpu},1980,{},{},99,",
                f64::from(sample) * 0.1,
                50 + gpu,
                600 + gpu
            );
        }
    }
    fs::write(folder.join("telemetry.csv"), text).expect("written");
}

fn page(folder: &Path) -> String {
    run(alone(folder).args(["report", "."])).expect_code(0);
    fs::read_to_string(folder.join("report.html")).expect("the page")
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).expect("well-formed")
}

fn all<'a>(document: &'a Document, name: &str) -> Vec<Node<'a, 'a>> {
    let nodes = document.descendants();
    nodes
        .filter(|node| node.tag_name().name() == name)
        .collect()
}

#[test]
fn every_plot_has_a_title_a_description_and_a_table() {
    let folder = folder();
    write_run(folder.path());
    write_ranks(folder.path(), 1000);
    write_telemetry(folder.path());
    let page = page(folder.path());
    let document = parse(&page);
    let figures = all(&document, "figure");
    // The case, the ranks, and four quantities of the telemetry.
    assert_eq!(figures.len(), 6);
    for figure in figures {
        assert!(
            figure
                .descendants()
                .any(|node| node.has_tag_name("caption"))
        );
        assert!(figure.descendants().any(|node| node.has_tag_name("td")));
    }
    let pictures = all(&document, "svg");
    assert_eq!(pictures.len(), 7, "time and busbw, ranks, telemetry");
    let ids: Vec<&str> = document
        .descendants()
        .filter_map(|node| node.attribute("id"))
        .collect();
    for picture in pictures {
        assert_eq!(picture.attribute("role"), Some("img"));
        let labels = picture.attribute("aria-labelledby").expect("labels");
        for label in labels.split(' ') {
            let named = document
                .descendants()
                .find(|node| node.attribute("id") == Some(label));
            let words = named.and_then(|node| node.text()).expect(label);
            assert!(words.len() > 10, "{words}");
        }
    }
    let different: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len(), "each id once");
    let texts: String = document
        .descendants()
        .filter_map(|node| node.text())
        .collect();
    assert!(texts.contains("peak of the links"), "the peak is drawn");
    assert!(texts.contains("7 on n7"), "the slow rank is named");
    assert!(
        texts.contains("Each row stands for 8 ranks"),
        "1,000 ranks are thinned, and the page says so"
    );
}

#[test]
fn a_page_can_be_used_with_a_keyboard_and_a_screen_reader_and_needs_no_network() {
    let folder = folder();
    write_run(folder.path());
    let page = page(folder.path());
    let document = parse(&page);
    assert_eq!(document.root_element().attribute("lang"), Some("en"));
    let link = all(&document, "a")[0];
    assert_eq!(
        link.attribute("href"),
        Some("#main"),
        "the first stop skips the navigation"
    );
    for link in all(&document, "a") {
        let target = link
            .attribute("href")
            .and_then(|to| to.strip_prefix('#'))
            .expect("a place in the page");
        assert!(
            document
                .descendants()
                .any(|node| node.attribute("id") == Some(target)),
            "{target}"
        );
    }
    let mut level = 0;
    let headings = document.descendants().filter_map(|node| {
        node.tag_name()
            .name()
            .strip_prefix('h')?
            .parse::<u32>()
            .ok()
    });
    for heading in headings {
        assert!(heading <= level + 1, "h{heading} after h{level}");
        level = heading;
    }
    for node in document.descendants() {
        for name in ["src", "srcset", "xlink:href", "action"] {
            assert_eq!(node.attribute(name), None);
        }
    }
    assert!(all(&document, "script").is_empty() && all(&document, "link").is_empty());
    assert!(!page.contains("@import") && !page.contains("url("));
    for table in all(&document, "table") {
        assert!(
            table
                .descendants()
                .any(|node| node.attribute("scope") == Some("col"))
        );
    }
}

#[test]
fn words_of_files_are_no_markup() {
    let folder = folder();
    write_run(folder.path());
    let page = page(folder.path());
    assert!(!page.contains("<script"));
    let document = parse(&page);
    let texts: String = document
        .descendants()
        .filter_map(|node| node.text())
        .collect();
    assert!(texts.contains(HOSTILE));
    let ended = run(alone(folder.path()).args(["report", ".", "--markdown"])).expect_code(0);
    assert!(
        ended
            .stdout
            .contains("| all\\_reduce, float, sum, out of place | aggressive |"),
        "{}",
        ended.stdout
    );
    assert!(
        !ended.stdout.contains("<script") && !ended.stdout.contains("&|"),
        "{}",
        ended.stdout
    );
}

#[test]
fn the_plots_alone_are_whole_files() {
    let folder = folder();
    write_run(folder.path());
    run(alone(folder.path()).args(["report", ".", "--svg", "plots"])).expect_code(0);
    assert!(!folder.path().join("report.html").exists());
    let mut count = 0;
    for entry in fs::read_dir(folder.path().join("plots")).expect("plots") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("text");
        let document = Document::parse(&text).expect("XML");
        assert!(!all(&document, "title").is_empty() && !all(&document, "desc").is_empty());
        assert!(text.contains("prefers-color-scheme: dark"));
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn the_metrics_have_help_type_base_units_and_one_value_per_case() {
    let folder = folder();
    write_run(folder.path());
    run(alone(folder.path()).args(["report", ".", "--prometheus", "x.prom"])).expect_code(0);
    let text = fs::read_to_string(folder.path().join("x.prom")).expect("metrics");
    let mut series = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, _) = line.split_once(['{', ' ']).expect("a name");
        for comment in ["HELP", "TYPE"] {
            assert!(text.contains(&format!("# {comment} {name} ")), "{line}");
        }
        let (labels, value) = line.rsplit_once(' ').expect("a value");
        value.parse::<f64>().expect("a number");
        assert!(series.insert(labels.to_owned()), "twice: {labels}");
    }
    let escaped = HOSTILE.replace('"', "\\\"");
    let of = |name: &str| {
        let size = "size_bytes=\"1024\"";
        let level = "level=\"off\"";
        let found = text
            .lines()
            .find(|line| line.starts_with(name) && line.contains(size) && line.contains(level));
        let line = found.unwrap_or_else(|| panic!("{name}"));
        assert!(line.contains(&escaped), "{line}");
        line.rsplit_once(' ')
            .expect("a value")
            .1
            .parse::<f64>()
            .expect("a number")
    };
    let time = of("pxnbench_time_seconds{");
    assert!((time / 11e-6 - 1.0).abs() < 0.01, "seconds: {time}");
    assert!((of("pxnbench_peak_bus_bandwidth_bytes_per_second{") - 400e9).abs() < 1.0);
    assert!(
        text.contains("pxnbench_rows_total{status=\"ok\"} 162\n"),
        "{text}"
    );
    check_with_promtool(&folder.path().join("x.prom"));
}

/// Asks Prometheus' own checker, if it is installed.
fn check_with_promtool(metrics: &Path) {
    let file = fs::File::open(metrics).expect("metrics");
    match Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(file)
        .output()
    {
        Ok(checked) => assert!(
            checked.status.success(),
            "{}",
            String::from_utf8_lossy(&checked.stderr)
        ),
        Err(error) => {
            skip("promtool", &error.to_string());
        }
    }
}

#[test]
fn many_cases_are_thinned_and_the_page_says_so() {
    let folder = folder();
    let mut text = format!("{HEADER}\n");
    for size in 1..20_000 {
        for level in 0..12 {
            if size % 12 == level {
                text += &row(
                    &format!("level{level}"),
                    0,
                    size * 64,
                    10.0 + size as f64,
                    "n1",
                );
            }
        }
    }
    fs::write(folder.path().join("results.csv"), text).expect("written");
    let page = page(folder.path());
    assert!(page.len() < 5_000_000, "{}", page.len());
    for sentence in [
        "8 of 12 lines are drawn.",
        "at most 100 sizes are drawn",
        "The table ends after 200 rows.",
    ] {
        assert!(page.contains(sentence), "{sentence}");
    }
}

#[test]
fn nothing_to_report_is_said() {
    let folder = folder();
    let ended = run(alone(folder.path()).args(["report", "."])).expect_code(5);
    assert!(
        ended.stderr.contains("has no results.csv"),
        "{}",
        ended.stderr
    );
    fs::write(folder.path().join("results.csv"), "x,y\n1,2\n").expect("written");
    let ended = run(alone(folder.path()).args(["report", "."])).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("results.csv cannot be read: it has no column collective"),
        "{}",
        ended.stderr
    );
    for text in ["", HEADER, &format!("{HEADER}\n")] {
        fs::write(folder.path().join("results.csv"), text).expect("written");
        let ended = run(alone(folder.path()).args(["report", "."])).expect_code(5);
        assert!(
            ended
                .stderr
                .contains("results.csv has no rows: nothing to report"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_run_of_this_program_is_reported_with_what_it_ran_on() {
    let folder = folder();
    model(folder.path(), "one");
    run(alone(folder.path()).args(["report", "one"])).expect_code(0);
    let page = fs::read_to_string(folder.path().join("one/report.html")).expect("the page");
    for words in [
        "computed by a model, not measured",
        "What it ran on",
        "exit code 0",
        "backend model",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

/// The pivot that the example's text shows is that of its CSV, whose columns are those of this
/// program.
#[test]
fn the_example_of_a_spreadsheet_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/spreadsheet");
    let text = fs::read_to_string(folder.join("results.csv")).expect("the CSV");
    assert!(read::has_own_header(&text), "columns are only appended");
    let mut pivot = BTreeMap::<u64, BTreeMap<String, Vec<f64>>>::new();
    for row in read::parse_rows(&text) {
        let row = row.expect("a row");
        if row.buffer_mode == BufferMode::OutOfPlace {
            let levels = pivot.entry(row.size.0).or_default();
            levels
                .entry(row.level)
                .or_default()
                .push(row.busbw.expect("busbw"));
        }
    }
    let readme = fs::read_to_string(folder.join("README.md")).expect("the text");
    assert!(pivot.len() > 2);
    for (size, levels) in pivot {
        let mean =
            |values: &Vec<f64>| format!("{:.4}", values.iter().sum::<f64>() / values.len() as f64);
        let means: Vec<String> = levels.values().map(mean).collect();
        let line = format!("| {size} | {} |", means.join(" | "));
        assert!(readme.contains(&line), "{line}");
    }
}

#[test]
fn data_that_were_not_checked_are_not_called_right() {
    let folder = folder();
    let row = row("off", 0, 1024, 10.0, "n1").replace(",0,ok,", ",,unchecked,");
    fs::write(
        folder.path().join("results.csv"),
        format!("{HEADER}\n{row}"),
    )
    .expect("written");
    let ended = run(alone(folder.path()).args(["report", ".", "--markdown"])).expect_code(0);
    assert!(ended.stdout.contains("| not checked |"), "{}", ended.stdout);
    let page = page(folder.path());
    let document = parse(&page);
    let cells = all(&document, "td");
    assert!(cells.iter().any(|cell| cell.text() == Some("not checked")));
    run(alone(folder.path()).args(["report", ".", "--prometheus", "m.prom"])).expect_code(0);
    let metrics = fs::read_to_string(folder.path().join("m.prom")).expect("metrics");
    assert!(!metrics.contains("pxnbench_wrong_elements{"), "{metrics}");
}

#[test]
fn nothing_is_written_through_a_link_or_over_a_device() {
    let folder = folder();
    write_run(folder.path());
    fs::write(folder.path().join("precious"), "kept").expect("written");
    let link = folder.path().join("report.html");
    symlink("precious", &link).expect("a link");
    let refused = run(alone(folder.path()).args(["report", "."])).expect_code(6);
    assert!(
        refused.stderr.contains("not a regular file"),
        "{}",
        refused.stderr
    );
    fs::create_dir(folder.path().join("plots")).expect("made");
    let pictures = || run(alone(folder.path()).args(["report", ".", "--svg", "plots"]));
    pictures().expect_code(0);
    for plot in fs::read_dir(folder.path().join("plots")).expect("plots") {
        let plot = plot.expect("a plot").path();
        fs::remove_file(&plot).expect("removed");
        symlink("../precious", &plot).expect("a link");
    }
    pictures().expect_code(6);
    assert_eq!(
        fs::read_to_string(folder.path().join("precious")).expect("kept"),
        "kept"
    );
    let socket = UnixListener::bind(folder.path().join("socket")).expect("a socket");
    run(alone(folder.path()).args(["report", ".", "--prometheus", "socket"])).expect_code(6);
    assert!(!folder.path().join("socket").is_file());
    drop(socket);
}

/// Runs a sweep of computed times into `out`.
fn model(at: &Path, out: &str) {
    let sweep = [
        "all_reduce",
        "-b",
        "1K",
        "-e",
        "1M",
        "-f",
        "4",
        "--backend",
        "model",
        "--ranks",
        "4",
        "--out",
        out,
    ];
    run(alone(at).args(sweep)).expect_code(0);
}

/// Sets `key` in the run.json of `folder`.
fn set_in_run(folder: &Path, key: &str, value: serde_json::Value) {
    let mut run = json(&folder.join("run.json"));
    run[key] = value;
    fs::write(folder.join("run.json"), run.to_string()).expect("written");
}

/// Adds what a search for stragglers leaves: rank 3 starts late, rank 5 ends late.
fn write_stragglers(folder: &Path) {
    let late = |rank: u32, late: &str, us: f64| {
        serde_json::json!({
            "rank": rank, "ranks": 1, "host": format!("n{}", rank / 4), "node": rank / 4,
            "device": format!("GPU {} 0000:{rank}8:00", rank % 4), "late": late, "cases": 2,
            "collective": "all_reduce", "size": 1 << 20, "smallest": 1 << 10, "largest": 1 << 20,
            "late_us": us, "late_pct": us / 10.0, "iterations_pct": 98.0, "p_value": 1e-9,
        })
    };
    let report = serde_json::json!({
        "cases": 2, "operations": 200, "nodes": [], "cannot_tell": [],
        "stragglers": [late(3, "arrival", 250.0), late(5, "transfer", 400.0)],
    });
    set_in_run(folder, "stragglers", report);
    let mut text = String::from(
        "collective,size_bytes,rank,host,node,device,iterations,operation_us,arrival_us,\
         arrival_pct,transfer_us,transfer_pct,is_straggler,late\r\n",
    );
    for size in [1 << 10, 1 << 20] {
        for rank in 0..8 {
            let arrival = if rank == 3 { 250 } else { 0 };
            let transfer = if rank == 5 { 400 } else { 0 };
            let _ = write!(
                text,
                "all_reduce,{size},{rank},n{},{},GPU,100,1000,{arrival},98,{transfer},98,0,\r\n",
                rank / 4,
                rank / 4
            );
        }
    }
    fs::write(folder.join("stragglers.csv"), text).expect("written");
}

/// Returns the texts in `node`, without those between elements.
fn texts<'a>(node: Node<'a, 'a>) -> Vec<&'a str> {
    let nodes = node.descendants().filter(Node::is_text);
    let texts = nodes.filter_map(|node| node.text());
    texts.filter(|text| !text.trim().is_empty()).collect()
}

#[test]
fn late_ranks_are_named_with_host_gpu_way_and_lateness() {
    let folder = folder();
    let at = folder.path();
    model(at, "one");
    write_stragglers(&at.join("one"));
    run(alone(at).args(["report", "one"])).expect_code(0);
    let page = fs::read_to_string(at.join("one/report.html")).expect("the page");
    let document = parse(&page);
    let rows: Vec<Vec<&str>> = all(&document, "tr").iter().map(|row| texts(*row)).collect();
    let of = |rank: &str, how: &str| {
        rows.iter()
            .find(|row| row[0] == rank && row.iter().any(|cell| cell.starts_with(how)))
            .unwrap_or_else(|| panic!("rank {rank} {how}"))
    };
    assert_eq!(of("3", "arrival")[1..3], ["n0", "GPU 3 0000:38:00"]);
    assert_eq!(
        of("5", "transfer")[4..8],
        ["all_reduce of 1M", "400", "40", "98"]
    );
    let captions: Vec<&str> = all(&document, "caption")
        .iter()
        .filter_map(|caption| caption.text())
        .collect();
    let map = "Slowest and fastest rank by size: Lateness by size: all_reduce, default";
    assert!(captions.contains(&map), "{captions:?}");
    // The operation takes 1000 us, and rank 5 is late by 400.
    assert!(
        rows.iter().any(|row| row[..3] == ["1M", "5 on n1", "1.4"]),
        "{rows:?}"
    );

    let summary = run(alone(at).args(["report", "one", "--markdown"])).expect_code(0);
    assert!(
        summary
            .stdout
            .contains("| 3 | n0 | GPU 3 0000:38:00 | arrival |"),
        "{}",
        summary.stdout
    );
    run(alone(at).args(["report", "one", "--prometheus", "x.prom"])).expect_code(0);
    let metrics = fs::read_to_string(at.join("x.prom")).expect("metrics");
    assert!(metrics.contains("pxnbench_stragglers 2\n"), "{metrics}");
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("pxnbench_straggler_late_seconds{")
                && line.contains("late=\"arrival\"")
                && line.contains("rank=\"3\"")
                && line.ends_with(" 0.00025")),
        "{metrics}"
    );
    check_with_promtool(&at.join("x.prom"));
}

#[test]
fn nobody_late_is_said_and_no_search_is_not_called_one() {
    let folder = folder();
    let at = folder.path();
    model(at, "one");
    let page = || {
        run(alone(at).args(["report", "one"])).expect_code(0);
        fs::read_to_string(at.join("one/report.html")).expect("the page")
    };
    assert!(!page().contains("Stragglers"));
    let report = serde_json::json!({"cases": 2, "operations": 200});
    set_in_run(&at.join("one"), "stragglers", report);
    let page = page();
    assert!(page.contains("no straggler: in 200 operations of 2 cases nobody is late"));
}

/// Writes three repetitions of a run at `level` into a folder of its own; `from` is the smallest
/// size as a power of two.
fn write_level(at: &Path, name: &str, level: &str, factor: f64, from: u32) {
    let mut text = format!("{HEADER}\n");
    for repeat in 0..3 {
        for power in from..from + 8 {
            let time = (100.0 + f64::from(repeat)) * factor;
            text +=
                &row(level, repeat, 1 << power, time, "n[1-2]").replace("all_reduce", "alltoall");
        }
    }
    fs::create_dir_all(at.join(name)).expect("made");
    fs::write(at.join(name).join("results.csv"), text).expect("written");
}

#[test]
fn several_runs_are_compared_on_the_page() {
    let folder = folder();
    let at = folder.path();
    write_level(at, "a", "off", 1.0, 10);
    write_level(at, "b", "aggressive", 0.5, 10);
    let report = |runs: &[&str]| {
        run(alone(at).arg("report").args(runs).args(["--out", "x.html"])).expect_code(0);
        let page = fs::read_to_string(at.join("x.html")).expect("the page");
        parse(&page);
        page
    };
    let page = report(&["a", "b"]);
    for words in [
        "The runs with each other, by level",
        "<li>better (cases: 8)</li>",
        "from 1K to 128K: aggressive takes 0.50 of the time of off.",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let both = ["report", "a", "b", "--markdown"];
    let summary = run(alone(at).args(both)).expect_code(0).stdout;
    assert!(summary.contains("| aggressive | off | 0.5 |"), "{summary}");
    assert!(
        !at.join("comparison.json").exists(),
        "nothing is written beside the runs"
    );

    // A folder of runs, as an experiment leaves one.
    let page = report(&["."]);
    assert!(page.contains("The runs in ., by level"));

    // Other sizes: the page says why nothing is compared, and shows both runs.
    write_level(at, "c", "aggressive", 0.5, 20);
    let page = report(&["a", "c"]);
    assert!(
        page.contains("Not compared. pxnbench compare says: no two levels have a case in common"),
        "{page}"
    );
    assert!(page.contains("48 rows in 2 runs."));
    let one = report(&["a"]);
    assert!(!one.contains("Runs compared"));
}

#[test]
fn proof_and_doctor_have_sections_of_their_own() {
    let folder = folder();
    let at = folder.path();
    model(at, "one");
    let verdict = "PXN used: 1 of 1 connections for send/recv leave through another GPU's NIC.";
    let proof = serde_json::json!({"pxn_used": true, "verdict": verdict});
    set_in_run(&at.join("one"), "proof", proof);
    let doctor = run(alone(at).args(["doctor", "--json"]));
    fs::write(at.join("one/doctor.json"), &doctor.stdout).expect("written");
    let found: serde_json::Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    run(alone(at).args(["report", "one"])).expect_code(0);
    let page = fs::read_to_string(at.join("one/report.html")).expect("the page");
    let document = parse(&page);
    let headings: Vec<&str> = all(&document, "h2")
        .iter()
        .filter_map(|node| node.text())
        .collect();
    assert!(headings.contains(&"What NCCL did") && headings.contains(&"Findings of the doctor"));
    let texts = texts(document.root_element());
    assert!(texts.contains(&verdict), "{texts:?}");
    let ready = if found["ready"] == true {
        "ready: "
    } else {
        "not ready: "
    };
    assert!(
        texts.iter().any(|text| text.starts_with(ready)),
        "{texts:?}"
    );
    for check in found["checks"].as_array().expect("checks") {
        let is_finding = ["failure", "warning"].contains(&check["verdict"].as_str().expect("one"));
        let id = check["id"].as_str().expect("an id");
        assert_eq!(texts.contains(&id), is_finding, "{id}");
    }
    fs::write(at.join("one/doctor.json"), "{}").expect("written");
    let ended = run(alone(at).args(["report", "one"])).expect_code(0);
    assert!(
        ended.stderr.contains("doctor.json is left out"),
        "{}",
        ended.stderr
    );
}

#[test]
fn files_beside_the_results_that_are_empty_or_torn_are_said_to_be() {
    let folder = folder();
    let at = folder.path();
    write_run(at);
    write_ranks(at, 8);
    let ranks = fs::read_to_string(at.join("ranks.csv")).expect("text");
    fs::write(at.join("ranks.csv"), &ranks[..ranks.len() - 9]).expect("written");
    fs::write(at.join("telemetry.csv"), "").expect("written");
    fs::write(at.join("samples.csv"), "run_id,elapsed_s\r\n").expect("written");
    fs::write(at.join("stragglers.csv"), "a,b\n1\n2,3\n").expect("written");
    let results = fs::read_to_string(at.join("results.csv")).expect("text");
    fs::write(at.join("results.csv"), format!("{results}r,2026-01-01T00")).expect("written");
    let ended = run(alone(at).args(["report", "."])).expect_code(0);
    let page = fs::read_to_string(at.join("report.html")).expect("the page");
    for (file, what) in [
        (
            "ranks.csv",
            " is left out: it is cut short, because the run was interrupted",
        ),
        ("telemetry.csv", " has no rows, so nothing of it is shown"),
        ("samples.csv", " has no rows, so nothing of it is shown"),
        (
            "stragglers.csv",
            " is shown up to a line that cannot be read: line 2 has 1 cell instead of 2",
        ),
        (
            "results.csv",
            " is left out: it is cut short, because the run was interrupted",
        ),
    ] {
        let sentence = format!("{file}{what}");
        assert!(
            ended.stderr.contains(&sentence),
            "{sentence}\n{}",
            ended.stderr
        );
        assert!(page.contains(&sentence), "{sentence}");
    }
    assert!(page.contains("162 rows in 1 run."), "the whole lines");
}

#[test]
fn the_throughput_of_a_repeated_sweep_is_drawn() {
    let folder = folder();
    let at = folder.path();
    write_run(at);
    let mut text = String::from(
        "run_id,elapsed_s,collective,size_bytes,type,redop,root,in_place,operations,time_us,\
         busbw_GBps,wrong_cases\r\n",
    );
    for second in 1..30 {
        let _ = write!(
            text,
            "r,{second},all_reduce,1048576,float,sum,-1,0,20,10,{},0\r\n",
            100 + second
        );
    }
    text += "r,30,all_reduce,1048576,float,sum,-1,0,0,,,1\r\n";
    fs::write(at.join("samples.csv"), text).expect("written");
    let page = page(at);
    let document = parse(&page);
    let titles = all(&document, "h3");
    let title = "bus bandwidth (GB/s) over time: .";
    assert!(titles.iter().any(|node| node.text() == Some(title)));
    let row = [
        "all_reduce 1M, float, sum, out of place",
        "101",
        "115",
        "129",
        "29",
    ];
    let rows = all(&document, "tr");
    assert!(rows.iter().any(|node| texts(*node) == row));
}

#[test]
fn numbers_that_are_none_and_runs_without_ranks_are_refused_with_their_line() {
    let folder = folder();
    let at = folder.path();
    let good = row("off", 0, 1024, 10.0, "n1");
    for (from, to, why) in [
        (
            ",10,",
            ",inf,",
            "line 3, column time_us: it is not a finite number",
        ),
        (
            ",10,",
            ",NaN,",
            "line 3, column time_us: it is not a finite number",
        ),
        (
            ",400,",
            ",1e999,",
            "line 3, column peak_GBps: it is not a finite number",
        ),
        (",2,16,", ",2,0,", "line 3: there is at least one rank"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        fs::write(
            at.join("results.csv"),
            format!("{HEADER}\n{good}{bad}{good}"),
        )
        .expect("written");
        let check = ["check", ".", "--min-busbw", "1"];
        for command in [&["report", "."][..], &check] {
            let ended = run(alone(at).args(command)).expect_code(6);
            let sentence = format!("results.csv cannot be read: {why}");
            assert!(
                ended.stderr.contains(&sentence),
                "{command:?}: {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn a_terminal_is_shown_what_it_would_obey() {
    let folder = folder();
    let at = folder.path();
    let evil = "\x1b]0;owned\x07";
    let bad = row("off", 0, 1024, 10.0, "n1").replacen("all_reduce", evil, 1);
    fs::create_dir_all(at.join("a/b")).expect("made");
    fs::write(at.join("a/b/results.csv"), format!("{HEADER}\n{bad}")).expect("written");
    for command in [
        &["report", "a/b"][..],
        &["compare", "a"],
        &["check", "a/b", "--min-busbw", "1"],
    ] {
        let ended = run(alone(at).args(command)).expect_code(6);
        assert!(!ended.stderr.contains('\x1b'), "{command:?}");
        assert!(
            ended.stderr.contains("\\u001b]0;owned\\u0007"),
            "{}",
            ended.stderr
        );
    }
    // What is no error reaches stdout and the page.
    let hostile = row(evil, 0, 1024, 10.0, evil);
    fs::write(at.join("a/b/results.csv"), format!("{HEADER}\n{hostile}")).expect("written");
    let shown =
        run(alone(at).args(["report", "a/b", "--markdown", "--out", "x.html"])).expect_code(0);
    let compared = run(alone(at).args(["compare", "a"]));
    let page = fs::read_to_string(at.join("x.html")).expect("the page");
    for text in [&shown.stdout, &compared.stdout, &compared.stderr, &page] {
        assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text}");
    }
}

fn make_pipe(at: &Path) {
    let made = Command::new("mkfifo").arg(at).status().expect("mkfifo");
    assert!(made.success());
}

#[test]
fn a_pipe_that_nobody_reads_is_refused_and_one_with_a_reader_gets_the_page() {
    let folder = folder();
    let at = folder.path();
    write_run(at);
    make_pipe(&at.join("pipe"));
    let refused = run(alone(at).args(["report", ".", "--out", "pipe"])).expect_code(6);
    assert!(
        refused
            .stderr
            .contains("pipe cannot be written: nobody reads this pipe"),
        "{}",
        refused.stderr
    );
    let reader = Command::new("cat")
        .arg(at.join("pipe"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat");
    run(alone(at).args(["report", ".", "--out", "pipe"])).expect_code(0);
    let read = reader.wait_with_output().expect("its output").stdout;
    parse(&String::from_utf8(read).expect("text"));
    let printed = run(alone(at).args(["report", ".", "--out", "-"])).expect_code(0);
    parse(&printed.stdout);
}

#[test]
fn a_check_that_a_signal_ends_does_not_speak_of_cases() {
    let folder = folder();
    let at = folder.path();
    make_pipe(&at.join("pipe"));
    let mut command = alone(at);
    command.args(["check", "pipe", "--min-busbw", "1"]);
    let child = command.stderr(Stdio::piped()).spawn().expect("started");
    // This waits until the check has opened the pipe.
    let pipe = fs::File::options()
        .write(true)
        .open(at.join("pipe"))
        .expect("opened");
    let kill = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill").success());
    let ended = child.wait_with_output().expect("its end");
    drop(pipe);
    assert_eq!(ended.status.code(), Some(9));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(
        stderr.contains("stopped by SIGTERM") && !stderr.contains("cases"),
        "{stderr}"
    );
}

#[test]
fn the_peak_of_a_single_size_is_a_line() {
    let folder = folder();
    let at = folder.path();
    let text = format!("{HEADER}\n{}", row("off", 0, 1024, 10.0, "n1"));
    fs::write(at.join("results.csv"), text).expect("written");
    run(alone(at).args(["report", ".", "--svg", "plots"])).expect_code(0);
    let name = "bus-bandwidth-all-reduce-float-sum-out-of-place.svg";
    let svg = fs::read_to_string(at.join("plots").join(name)).expect("the plot");
    let document = Document::parse(&svg).expect("XML");
    // Its key is one stroke; the line itself has several dashes, all at one height.
    let strokes = all(&document, "polyline");
    let peak = strokes
        .iter()
        .filter(|line| line.attribute("stroke") == Some("#5A5A5A"));
    assert!(peak.count() > 4, "{svg}");
}

/// The record that `scripts/demo-pxn.sh` shows.
const REHEARSAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/rehearsal/two-h200.json");

#[test]
fn a_rehearsal_has_tables_and_pictures_of_who_relays() {
    let folder = folder();
    let at = folder.path();
    let jobs = at.join("jobs");
    fs::create_dir(&jobs).expect("made");
    fs::copy(REHEARSAL, jobs.join("rehearsal.json")).expect("copied");
    run(alone(at).args(["report", "jobs"])).expect_code(0);
    let page = fs::read_to_string(jobs.join("report.html")).expect("the page");
    let document = parse(&page);
    let record = json(&jobs.join("rehearsal.json"));
    let cases = record["cases"].as_array().expect("cases");
    let topologies = names(cases, &["topology"]);
    let captions: Vec<&str> = all(&document, "caption")
        .iter()
        .filter_map(Node::text)
        .collect();
    for topology in &topologies {
        let caption = format!("Topology {}", topology[0]);
        assert!(captions.contains(&&*caption), "{captions:?}");
    }
    let kinds = names(cases, &["topology", "collective", "algorithm"]);
    assert_eq!(all(&document, "figure").len(), kinds.len());
    let words: Vec<&str> = document
        .descendants()
        .filter_map(|node| node.text())
        .collect();
    let heading = words
        .iter()
        .find(|text| text.starts_with("Rehearsal of operations of 1M by NCCL"));
    assert!(heading.is_some(), "what was rehearsed is said");
    assert!(words.iter().any(|text| text.contains("Times mean nothing")));
    let agree = format!(
        "{} rehearsed cases: theory, log and counters agree.",
        cases.len()
    );
    assert!(words.contains(&&*agree), "{agree}");
    // A row of alltoall at NCCL's default, as the rehearsal's own table has it.
    let is_row = |row: &Node| {
        let cells: Vec<&str> = row.children().filter_map(|cell| cell.text()).collect();
        cells.starts_with(&[
            "alltoall",
            "default",
            "8 of 16",
            "0-1",
            "0-1: 524288 (262144)",
            "0%",
        ])
    };
    assert!(all(&document, "tr").iter().any(is_row));
    // Two nodes of two GPUs, each of which passes data to the other one.
    let is_alltoall = |figure: &&Node| {
        let name = figure.attribute("id").unwrap_or_default();
        name.contains("alltoall") && name.contains("split")
    };
    let figures = all(&document, "figure");
    let alltoall = figures.iter().find(is_alltoall).expect("a figure");
    let bows = alltoall
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "path")));
    let relaying = cases.iter().filter(|case| {
        case["collective"] == "alltoall"
            && case["topology"] == "split"
            && case["sends"]["part"] != 0
    });
    assert_eq!(bows.count(), 4 * relaying.count());
}

/// Returns the different values of these keys.
fn names<'a>(cases: &'a [serde_json::Value], keys: &[&str]) -> BTreeSet<Vec<&'a str>> {
    let of_case = |case: &'a serde_json::Value| {
        keys.iter()
            .map(|key| case[*key].as_str().expect("a word"))
            .collect()
    };
    cases.iter().map(of_case).collect()
}

#[test]
fn a_rehearsal_can_stand_beside_a_run_and_in_a_summary() {
    let folder = folder();
    let at = folder.path();
    write_run(at);
    let both = [
        "report",
        "results.csv",
        REHEARSAL,
        "--out",
        "page.html",
        "--markdown",
        "--svg",
        "plots",
    ];
    let ended = run(alone(at).args(both)).expect_code(0);
    assert!(ended.stdout.contains("Topology split:"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("| alltoall | off | 0 of 16 |"),
        "{}",
        ended.stdout
    );
    let page = fs::read_to_string(at.join("page.html")).expect("the page");
    assert!(page.contains("<h2 id=\"plots\">") && page.contains("<h2 id=\"rehearsals\">"));
    let plots = fs::read_dir(at.join("plots")).expect("plots");
    let names = plots.map(|plot| plot.expect("a plot").file_name());
    let is_of_rehearsal =
        |name: &std::ffi::OsString| name.to_string_lossy().starts_with("rehearsal-1-alltoall");
    assert!(names.into_iter().any(|name| is_of_rehearsal(&name)));
}

#[test]
fn json_that_is_no_rehearsal_is_refused() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("x.json"), "{}").expect("written");
    let ended = run(alone(at).args(["report", "x.json"])).expect_code(6);
    let sentences = ended.sentences();
    assert!(
        sentences[0].contains("x.json: it does not hold a rehearsal"),
        "{sentences:?}"
    );
    let mut empty = json(Path::new(REHEARSAL));
    empty["cases"] = serde_json::json!([]);
    fs::write(at.join("empty.json"), empty.to_string()).expect("written");
    let ended = run(alone(at).args(["report", "empty.json"])).expect_code(5);
    let said = "empty.json has no cases: nothing to report";
    assert!(
        ended.sentences()[0].contains(said),
        "{:?}",
        ended.sentences()
    );
    let later = fs::read_to_string(REHEARSAL).expect("a record");
    fs::create_dir(at.join("jobs")).expect("made");
    let later = later.replacen("\"format\": 1", "\"format\": 2", 1);
    fs::write(at.join("jobs/rehearsal.json"), later).expect("written");
    let ended = run(alone(at).args(["report", "jobs"])).expect_code(6);
    assert!(
        ended.sentences()[0].contains("its format is 2"),
        "{:?}",
        ended.sentences()
    );
}
