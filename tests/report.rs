//! `pxnbench report` on the folders of runs.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::Command,
};

use common::{alone, run, skip};
use pxnbench::{collective::BufferMode, record::read};
use roxmltree::{Document, Node, ParsingOptions};

/// What a host or a note may contain to get into a page.
const HOSTILE: &str = "<script>alert('1')</script>&|`x";

const HEADER: &str = "run_id,started_at,collective,backend,level,network,resources,step,repeat,nodes,ranks,gpus_per_process,\
                      size_bytes,count,type,redop,root,in_place,iters,time_us,algbw_GBps,busbw_GBps,wrong,status,note,hosts,\
                      peak_GBps,pxn,transport,algo,proto";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn row(level: &str, repeat: u32, size: u64, time: f64, hosts: &str) -> String {
    let busbw = size as f64 / 1e3 / time;
    format!(
        "r,2026-01-01T00:00:00+00:00,all_reduce,nccl,{level},auto,none,,{repeat},2,16,1,{size},{},float,sum,-1,0,20,{time},\
         {busbw},{busbw},0,ok,,\"{hosts}\",400,used,P2P+NET/IB,RING,LL128\n",
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
        "run_id,started_at,collective,level,repeat,ranks,size_bytes,type,redop,root,in_place,group,rank,host,time_us\n",
    );
    for power in [10, 20, 30] {
        for rank in 0..ranks {
            let time = if rank == 7 { 15.0 } else { 10.0 };
            let size = 1_u64 << power;
            let _ = writeln!(
                text,
                "r,2026-01-01T00:00:00+00:00,all_reduce,off,0,{ranks},{size},float,sum,-1,0,,{rank},n{rank},{time}"
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
        ended.stderr.contains("results.csv cannot be read"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_run_of_this_program_is_reported_with_what_it_ran_on() {
    let folder = folder();
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
        "one",
    ];
    run(alone(folder.path()).args(sweep)).expect_code(0);
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

/// The pivot that the example's text shows is that of its CSV, whose columns are those of this program.
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
