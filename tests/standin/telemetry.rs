//! GPU telemetry on a stand-in for NVML whose GPUs follow a script.

use std::{collections::BTreeMap, process::Command};

use crate::{
    common::{Ended, alone, csv, golden, json, run},
    machine::Machine,
};

/// Clocks that fall, a value that one GPU lacks, and a GPU that falls off the bus. NVML is asked
/// for a GPU's handle once at the start, and once per sample.
const SCRIPT: &str = "1.sm=1980/1980/1200,1.throttle=0/0/36,0.memtemp=!3,0.handle=0/0/0/0/!15,*.\
                      energy=1000000/1050000";

fn monitor(machine: &Machine, script: &str, words: &str) -> Command {
    let mut command = machine.on(alone(machine.path()));
    command.arg("monitor").args(words.split_whitespace());
    machine.with_nvml(command, script)
}

/// Returns `text` without the name of this host.
fn without_host(text: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim().split('.').next().expect("a name");
    text.replace(&format!("{host}  "), "<host>  ")
}

#[test]
fn monitor_shows_what_changes_what_is_unknown_and_what_is_lost() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let ended = run(&mut monitor(&machine, SCRIPT, "--count 3 --interval 50ms")).expect_code(0);
    golden("monitor.txt", &without_host(&ended.stdout));
    assert_eq!(
        ended.sentences(),
        ["pxnbench: unknown on GPU 0: memory_temperature_C (not supported)"]
    );
}

#[test]
fn monitor_writes_csv_and_json_with_the_same_columns() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let script = "1.nvlink_tx=1000/90000000,1.throttle=4,0.name=a\u{1b}[2J,0.power=!3";
    let csv = run(&mut monitor(
        &machine,
        script,
        "--csv --once --interval 50ms",
    ))
    .expect_code(0);
    let mut reader = csv::Reader::from_reader(csv.stdout.as_bytes());
    let rows: Vec<BTreeMap<String, String>> = reader
        .deserialize()
        .map(|row| row.expect("a row"))
        .collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        rows[0]["model"], "a\\u{1b}[2J",
        "a name commands no terminal"
    );
    assert_eq!(
        (rows[0]["power_W"].as_str(), rows[0]["throttle"].as_str()),
        ("", "none")
    );
    assert_eq!(rows[1]["throttle"], "power cap");
    assert_eq!(rows[1]["bus_id"], "0000:11:00.0");
    let rate: f64 = rows[1]["nvlink_tx_GBps"].parse().expect("a rate");
    assert!(rate > 0.0, "{rate}");
    let json = run(&mut monitor(
        &machine,
        script,
        "--json --once --interval 50ms --gpu 1",
    ));
    let json = json.expect_code(0);
    let line: serde_json::Value = serde_json::from_str(json.stdout.trim()).expect("one object");
    let keys: Vec<&String> = line.as_object().expect("an object").keys().collect();
    let columns: Vec<&String> = rows[0].keys().collect();
    assert_eq!(keys, columns);
    assert_eq!(line["throttle"], "power cap");
    assert_eq!(line["gpu"], 1);
}

#[test]
fn monitor_asks_for_pcie_throughput_if_there_is_no_counter_that_can_be_trusted() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    // A small counter may have wrapped; the query answers in KB/s.
    let script = "0.pcie_tx=5,0.pcie_rx=!3";
    let ended = run(&mut monitor(
        &machine,
        script,
        "--json --once --interval 50ms",
    ))
    .expect_code(0);
    let line: serde_json::Value = serde_json::from_str(ended.stdout.trim()).expect("one object");
    assert_eq!(
        (&line["pcie_tx_GBps"], &line["pcie_rx_GBps"]),
        (&0.007.into(), &0.008.into())
    );
}

#[test]
fn without_nvml_or_a_gpu_monitor_says_so_in_one_sentence() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    let one_sentence = |ended: Ended, code: i32, part: &str| {
        let ended = ended.expect_code(code);
        let sentences = ended.sentences();
        assert!(
            sentences.len() == 1
                && ended.stderr.lines().count() == 1
                && sentences[0].contains(part),
            "{}",
            ended.stderr
        );
    };
    let missing = run(machine.on(alone(machine.path())).arg("monitor"));
    one_sentence(missing, 5, "cannot be loaded");
    let broken = run(monitor(&machine, "", "").env("STANDIN_NVML_INIT", "9"));
    one_sentence(broken, 5, "NVIDIA driver is not loaded");
    let none = run(monitor(&machine, "", "").env("STANDIN_GPUS", "0"));
    one_sentence(none, 5, "NVML lists no GPU");
    let other = run(&mut monitor(&machine, "", "--gpu 7"));
    one_sentence(other, 6, "--gpu 7: there is no such GPU");
}

#[test]
fn ctrl_c_and_a_reader_that_has_gone_end_monitor_without_an_error() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    for script in [
        // The first line is there, so that the handlers are.
        "\"$0\" monitor --csv --interval 50ms >m.csv & while [ ! -s m.csv ]; do sleep 0.05; done; \
         kill -INT $!; wait $!",
        "\"$0\" monitor --csv --interval 50ms | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}",
    ] {
        let mut shell = crate::common::program("bash".as_ref(), machine.path());
        shell.args(["-c", script, crate::common::BINARY]);
        let ended = run(&mut machine.with_nvml(machine.on(shell), "")).expect_code(0);
        assert_eq!(ended.stderr, "", "{script}");
    }
}

/// Returns the rows of the file `name` in the folder of the run.
fn rows_of(machine: &Machine, name: &str) -> Vec<BTreeMap<String, String>> {
    csv(&machine.path().join("o").join(name))
}

/// A run of two processes, whose first one samples both GPUs of the node. The second is limited by
/// its power from the third sample on, and the first lacks a sensor.
#[test]
fn a_case_during_which_a_gpu_was_throttled_says_so() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let script = "1.throttle=0/0/4,1.sm=1980/1980/1305,0.memtemp=!3,*.energy=1000000/1500000";
    // The checks of each case make it longer than the interval, so that each has samples.
    let words = "all_reduce -b 32M -e 32M -n 20 -c 3 --telemetry=50ms --out o";
    let ended = run(&mut machine.with_nvml(machine.start(2, words), script)).expect_code(0);
    let missing = ended
        .sentences()
        .into_iter()
        .filter(|line| line.contains("memory_temperature_C (not supported)"));
    assert_eq!(missing.count(), 1, "said once\n{}", ended.stderr);

    let results = rows_of(&machine, "results.csv");
    let host = results[0]["hosts"].clone();
    for row in &results {
        let note = &row["note"];
        let expected = format!("throttled while it ran: GPU 1 on {host} (power cap, ");
        assert!(
            note.contains(&expected) && !note.contains("GPU 0"),
            "{note:?}"
        );
    }
    let samples = rows_of(&machine, "telemetry.csv");
    let of_case = |row: &&BTreeMap<String, String>| !row["collective"].is_empty();
    for row in &results {
        let joined = samples.iter().filter(of_case).filter(|sample| {
            ["run_id", "started_at", "size_bytes", "in_place"]
                .iter()
                .all(|key| sample[*key] == row[*key])
        });
        assert!(joined.count() >= 2, "samples of {row:?}");
    }
    for gpu in ["0", "1"] {
        let own: Vec<_> = samples
            .iter()
            .filter(|sample| sample["gpu"] == gpu)
            .collect();
        let seconds: Vec<f64> = own
            .iter()
            .map(|sample| sample["seconds"].parse().expect("a number"))
            .collect();
        assert!(seconds.is_sorted() && own.len() >= 4, "{seconds:?}");
        assert!(
            own.iter()
                .all(|sample| sample["node"] == "0" && sample["host"] == host)
        );
    }
    assert!(
        samples
            .iter()
            .all(|sample| sample["memory_temperature_C"].is_empty() == (sample["gpu"] == "0"))
    );

    let meta = &json(&machine.path().join("o/run.json"))["telemetry"];
    assert_eq!(meta["interval_s"], 0.05);
    let gpus = meta["gpus"].as_array().expect("a list");
    assert_eq!(gpus.len(), 2);
    assert_eq!(gpus[0]["limited"], serde_json::json!({}));
    let share = gpus[1]["limited"]["power cap"].as_f64().expect("a share");
    assert!(share > 0.0 && share < 1.0, "{share}");
    assert_eq!(gpus[1]["sm_clock_MHz"]["min"], 1305.0);
    assert_eq!(gpus[1]["sm_clock_MHz"]["max"], 1980.0);
    assert_eq!(gpus[1]["energy_J"], 500.0);
    assert_eq!(gpus[0]["max_memory_temperature_C"], serde_json::Value::Null);
}

#[test]
fn a_run_without_nvml_or_without_a_folder_says_so_and_goes_on() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let remarks = |ended: &Ended| -> Vec<String> {
        let sentences = ended.sentences().into_iter();
        sentences
            .filter(|line| line.contains("telemetry"))
            .map(str::to_owned)
            .collect()
    };
    let words = "all_reduce -b 1K -e 1K -n 1 --telemetry";
    let missing = run(machine.start(2, words).args(["--out", "o"])).expect_code(0);
    let said = remarks(&missing);
    assert!(
        said.len() == 1 && said[0].contains("no telemetry: NVML "),
        "{said:?}"
    );
    assert_eq!(rows_of(&machine, "results.csv").len(), 2);
    assert!(!machine.path().join("o/telemetry.csv").exists());
    let mut command = machine.with_nvml(machine.start(2, words), "1.throttle=4");
    let folderless = run(command.arg("--csv=x.csv")).expect_code(0);
    let said = remarks(&folderless);
    assert!(
        said.len() == 1 && said[0].contains("telemetry.csv is not written"),
        "{said:?}"
    );
    let mut command = machine.with_nvml(crate::common::mpirun(2, machine.path()), "");
    command.args("all_reduce -b 1K -e 1K -n 1 --backend host --csv=y.csv --telemetry".split(' '));
    let said = remarks(&run(&mut command).expect_code(0));
    assert!(
        said.len() == 1 && said[0].contains("this run uses no GPU"),
        "{said:?}"
    );
}

/// The GPU falls off the bus after some samples: its rows go on, empty and with the reason, and the
/// run ends well.
#[test]
fn a_gpu_that_falls_off_the_bus_is_in_the_samples() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let words = "all_reduce -g 2 -b 32M -e 32M -n 20 -c 3 --telemetry=50ms --out o";
    let command = machine.start(1, words);
    run(&mut machine.with_nvml(command, "1.handle=0/0/0/!15")).expect_code(0);
    let samples = rows_of(&machine, "telemetry.csv");
    let lost: Vec<_> = samples
        .iter()
        .filter(|sample| !sample["error"].is_empty())
        .collect();
    assert!(!lost.is_empty());
    for sample in lost {
        assert_eq!(
            (sample["gpu"].as_str(), sample["sm_clock_MHz"].as_str()),
            ("1", "")
        );
        assert_eq!(sample["error"], "the GPU has fallen off the bus");
    }
}

/// A signal ends an endless sweep. What was sampled until then is in the file.
#[test]
fn samples_are_kept_when_a_signal_ends_the_run() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let script = "\"$0\" all_reduce -g 2 -b 32M -e 32M -n 20 -N 0 --backend nccl --telemetry=50ms \
                  --out o & while [ \"$(wc -l <o/results.csv 2>/dev/null || echo 0)\" -lt 4 ]; do \
                  sleep 0.05; done; kill -TERM $!; wait $!";
    let mut shell = crate::common::program("bash".as_ref(), machine.path());
    shell.args(["-c", script, crate::common::BINARY]);
    run(&mut machine.with_nvml(machine.on(shell), "")).expect_code(9);
    assert!(rows_of(&machine, "telemetry.csv").len() >= 4);
    let meta = &json(&machine.path().join("o/run.json"))["telemetry"];
    assert_eq!(meta["gpus"].as_array().map(Vec::len), Some(2));
}
