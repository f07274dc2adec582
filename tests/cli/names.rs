//! Names and values that somebody else chose: what a terminal would obey is shown instead, in every
//! message and table, and secrets are neither printed nor recorded.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pxnbench::record::spreadsheet::guarded;

use crate::{
    common::{Ended, alone, json, run},
    folder,
};

/// A name that clears the screen, begins a line of its own, and turns the direction of writing.
const HOSTILE: &str = "a\u{1b}[2J\npxnbench: fine\u{202e}c";

/// Nothing of the name has reached the terminal as it is.
#[track_caller]
fn assert_harmless(what: &str, ended: &Ended) {
    for (stream, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        let obeyed = |letter: char| letter.is_control() && !['\n', '\t'].contains(&letter);
        let found = text.chars().find(|c| obeyed(*c) || *c == '\u{202e}');
        assert_eq!(found, None, "{what}: {stream}: {text:?}");
    }
    let forged = ended
        .stderr
        .lines()
        .find(|line| line.starts_with("pxnbench: fine"));
    assert_eq!(forged, None, "{what}: {}", ended.stderr);
}

/// Runs the program in `folder` with words, in which `@` stands for the hostile name, and
/// variables.
fn with_words(folder: &Path, words: &str, variables: &[(&str, String)]) -> Ended {
    let words = words.split(' ').map(|word| word.replace('@', HOSTILE));
    let mut command = alone(folder);
    command
        .args(words)
        .envs(variables.iter().map(|(name, value)| (name, value)));
    run(&mut command)
}

/// Makes a folder of the hostile name with a log, a conf file and a topology in which it occurs
/// too.
fn hostile_folder(within: &Path) -> PathBuf {
    let folder = within.join(HOSTILE);
    fs::create_dir(&folder).expect("made");
    let plain = HOSTILE.replace('\n', " ");
    let log = format!(
        "{plain}:1:1 [0] NCCL INFO NCCL version 2.28.3+cuda12.9\n{plain}:1:1 [0] NCCL INFO NCCL_X set by environment to {plain}\n\
         h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB{plain}/0\nh:1:1 [0] NCCL WARN {plain}\n"
    );
    let conf = format!(
        "NCCL_IB_HCA={plain}\nexport NCCL_NET={plain}\nNCCL_{plain}=1\nNCCL_PXN_DISABLE={plain}\n"
    );
    for (name, text) in [
        ("log", log.as_str()),
        ("nothing.log", "nothing of NCCL\n"),
        ("nccl.conf", conf.as_str()),
        ("x.sh", conf.as_str()),
        (
            "topo.xml",
            "<system version=\"1\"><cpu numaid=\"x\u{202e}\"/></system>",
        ),
        ("results.csv", "level\n\u{1b}[2J\n"),
    ] {
        fs::write(folder.join(name), text).expect("written");
    }
    folder
}

#[test]
fn a_terminal_obeys_no_name_in_any_message_or_table() {
    let folder = folder();
    let hostile = hostile_folder(folder.path());
    let conf = hostile.join("nccl.conf").to_string_lossy().into_owned();
    let sweep = "all_reduce -b 8 -e 64 -f 2 --backend model --ranks 4";
    let quiet = Vec::new();
    let set = vec![
        ("NCCL_CONF_FILE", conf),
        ("NCCL_TOPO_FILE", format!("{HOSTILE}/none.xml")),
        ("NCCL_IB_HCA", HOSTILE.to_owned()),
        ("SLURM_JOB_NAME", HOSTILE.to_owned()),
        ("NCCL_PXN_DISABLE", HOSTILE.to_owned()),
    ];
    for (words, variables) in [
        (format!("{sweep} --out @/run"), &quiet),
        (format!("{sweep} --out @/run"), &set),
        (format!("{sweep} --out @/other --level off"), &set),
        (format!("{sweep} --csv @/log/x.csv"), &quiet),
        (format!("{sweep} --json @"), &quiet),
        (format!("{sweep} --resume --out @"), &quiet),
        (format!("{sweep} --baseline @/run --tolerance 5%"), &quiet),
        (format!("{sweep} --@"), &quiet),
        ("@".to_owned(), &quiet),
        (
            "all_reduce --backend nccl --nccl-lib @/lib --csv x.csv".to_owned(),
            &quiet,
        ),
        ("compare @".to_owned(), &quiet),
        ("compare @/run @/other --by run".to_owned(), &quiet),
        ("compare @/missing @/run".to_owned(), &quiet),
        ("compare @/results.csv @/run".to_owned(), &quiet),
        ("report @/run --markdown".to_owned(), &quiet),
        ("report @/run -o @/report.html".to_owned(), &quiet),
        ("report @/missing".to_owned(), &quiet),
        ("report @/results.csv".to_owned(), &quiet),
        ("check @/run --min-busbw 0".to_owned(), &quiet),
        ("check @/run --min-busbw 1000000".to_owned(), &quiet),
        ("check @/missing --min-busbw 0".to_owned(), &quiet),
        ("check @/results.csv --min-busbw 0".to_owned(), &quiet),
        ("proof @/log".to_owned(), &quiet),
        ("proof @".to_owned(), &quiet),
        ("proof @/nothing.log".to_owned(), &quiet),
        ("proof @/missing".to_owned(), &quiet),
        ("levels".to_owned(), &set),
        ("levels check".to_owned(), &set),
        ("levels @".to_owned(), &quiet),
        ("topo --xml @/topo.xml".to_owned(), &quiet),
        ("topo --xml @/missing".to_owned(), &quiet),
        ("topo --xml @/log".to_owned(), &quiet),
        ("topo --xml @/topo.xml -o @/missing/x".to_owned(), &quiet),
        ("doctor -v".to_owned(), &set),
        ("doctor --env @/nccl.conf".to_owned(), &quiet),
        ("doctor --env @/x.sh".to_owned(), &quiet),
        ("doctor --env @/missing".to_owned(), &quiet),
        ("launch --hostfile @/missing all_reduce".to_owned(), &quiet),
        ("launch --hostfile @/log all_reduce".to_owned(), &quiet),
    ] {
        let ended = with_words(folder.path(), &words, variables);
        assert!(
            ended.code.is_some_and(|code| code != 1),
            "{words}: {ended:?}"
        );
        assert_harmless(&words, &ended);
    }
    let shown = with_words(folder.path(), "report @/missing", &quiet);
    assert!(
        shown
            .stderr
            .contains("a\\u001b[2J\\u000apxnbench: fine\\u202ec/missing"),
        "{}",
        shown.stderr
    );
}

/// A value that must not be found anywhere.
const HUSH: &str = "hush-4711";

#[test]
fn secrets_are_neither_printed_nor_recorded() {
    let folder = folder();
    let conf = format!(
        "NCCL_A_SECRET={HUSH}\nexport NCCL_B_KEY={HUSH}\nset NCCL_C_PASSWORD={HUSH}\n export \
         NCCL_D_AUTH='{HUSH}'\nNCCL_X_TOKEN=other-{HUSH}\n"
    );
    let yaml =
        format!("env:\n- name: NCCL_X_TOKEN\n  value: {HUSH}\n- name: NCCL_DEBUG\n  value: INFO\n");
    for (name, text) in [
        ("nccl.conf", &conf),
        ("x.sh", &conf),
        ("x.env", &conf),
        ("x.yaml", &yaml),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let set = [
        ("NCCL_CONF_FILE", "nccl.conf".to_owned()),
        ("NCCL_X_TOKEN", HUSH.to_owned()),
        ("NCCL_IB_PKEY", "7".to_owned()),
        ("MY_API_KEY", HUSH.to_owned()),
    ];
    let sweep = "all_reduce -b 8 -e 8 --backend model --ranks 4 --out out";
    let mut said = String::new();
    for words in [
        sweep,
        "doctor -v",
        "doctor --json",
        "doctor --env nccl.conf",
        "doctor --env x.sh",
        "doctor --env x.env",
        "doctor --env x.yaml",
        "doctor --env x.yaml --json",
        "levels",
        "levels check",
        "launch --hosts a,b --dry-run --over ssh all_reduce --backend nccl",
        "report out --markdown",
    ] {
        let ended = with_words(folder.path(), words, &set);
        let all = ended.stdout + &ended.stderr;
        assert!(!all.contains(HUSH), "{words}: {all}");
        said += &all;
    }
    for name in ["NCCL_X_TOKEN", "NCCL_A_SECRET"] {
        assert!(
            said.contains(&format!("setting  {name}=not recorded")),
            "{said}"
        );
    }
    for entry in fs::read_dir(folder.path().join("out")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("text");
        assert!(!text.contains(HUSH), "{}", path.display());
    }
    let environment = &json(&folder.path().join("out/run.json"))["environment"];
    assert_eq!(environment["NCCL_X_TOKEN"], "not recorded");
    assert_eq!(environment["NCCL_A_SECRET"], "not recorded");
    assert_eq!(environment["NCCL_IB_PKEY"], "7");
}

/// Names that mean something to what shows them: a browser, a picture, a monitoring system, a
/// ticket, a spreadsheet, a terminal.
const HOSTILE_NAMES: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "a & b ]]> c",
    "=cmd|' /C calc'!A0",
    "@SUM(1;2)",
    "| `x` | [y](javascript:alert(1)) |",
    "a\\\"} 1\npxnbench_fake 1",
    HOSTILE,
];

/// Makes a run at `level` whose hosts, device and notes are called `name`.
fn run_called(name: &str, level: &str, folder: &Path, run: &str) {
    let sweep = format!("all_reduce -b 8 -e 1M -f 16 --backend model --ranks 4 --out {run}");
    with_words(folder, &sweep, &[]).expect_code(0);
    let path = folder.join(run).join("results.csv");
    let mut reader = csv::Reader::from_path(&path).expect("the CSV");
    let header = reader.headers().expect("a header").clone();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&header).expect("written");
    for row in reader.records() {
        let row = row.expect("a row");
        let (name, level) = (&*guarded(name), &*guarded(level));
        let cells = header.iter().zip(&row).map(|(column, cell)| match column {
            "level" => level,
            "hosts" | "device" | "note" | "nccl_version" => name,
            _ => cell,
        });
        writer.write_record(cells).expect("written");
    }
    fs::write(&path, writer.into_inner().expect("whole")).expect("written");
    let path = folder.join(run).join("run.json");
    let mut meta = json(&path);
    meta["level"] = level.into();
    for key in ["hosts", "device", "backend_why"] {
        meta[key] = name.into();
    }
    meta["remarks"] = [name].into();
    meta["environment"] = serde_json::json!({ "NCCL_X": name });
    meta["processes"][0]["host"] = name.into();
    fs::write(&path, meta.to_string()).expect("written");
}

/// Words of a name that would do something if they were not escaped.
const MARKUP: [&str; 2] = ["<script>alert", "<img src=x"];

#[test]
fn no_page_picture_metric_summary_or_table_obeys_a_name() {
    for name in HOSTILE_NAMES {
        let folder = folder();
        run_called(name, name, folder.path(), "run");
        let ended = with_words(
            folder.path(),
            "report run --out page.html --svg plots --prometheus x.prom --markdown",
            &[],
        )
        .expect_code(0);
        assert_harmless(name, &ended);
        let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
        for words in MARKUP {
            if name.contains(words) {
                assert!(!page.contains(words), "{name}: {words}");
                assert!(
                    !ended.stdout.contains("<script>"),
                    "{name}: {}",
                    ended.stdout
                );
            }
        }
        for entry in fs::read_dir(folder.path().join("plots")).expect("a folder") {
            let text = fs::read_to_string(entry.expect("an entry").path()).expect("a plot");
            let plot =
                roxmltree::Document::parse(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
            let mut elements = plot
                .descendants()
                .map(|node| node.tag_name().name().to_owned());
            assert!(
                elements.all(|element| element != "script" && element != "img"),
                "{name}"
            );
        }
        let metrics = fs::read_to_string(folder.path().join("x.prom")).expect("the metrics");
        for line in metrics.lines().filter(|line| !line.starts_with('#')) {
            let value = line
                .rsplit(' ')
                .next()
                .and_then(|value| value.parse::<f64>().ok());
            let is_whole = line.starts_with("pxnbench_") && !line.starts_with("pxnbench_fake");
            assert!(is_whole && value.is_some(), "{name}: {line}");
        }
        run_called(name, "plain", folder.path(), "other");
        let compared =
            with_words(folder.path(), "compare run other --by level --out c", &[]).expect_code(0);
        assert_harmless(name, &compared);
        for file in ["c/comparison.csv", "c/results.csv"] {
            let path = folder.path().join(file);
            let mut reader =
                csv::Reader::from_path(&path).unwrap_or_else(|why| panic!("{file}: {why}"));
            for row in reader.records() {
                let row = row.expect("a row");
                let is_formula = |cell: &&str| {
                    cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err()
                };
                assert_eq!(row.iter().find(is_formula), None, "{name}: {file}");
            }
        }
    }
}
