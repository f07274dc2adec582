//! GPU telemetry on a stand-in for NVML whose GPUs follow a script.

use std::{collections::BTreeMap, process::Command};

use crate::{
    common::{Ended, alone, golden, run},
    machine::Machine,
};

/// Clocks that fall, a value that one GPU lacks, and a GPU that falls off the bus. NVML is asked for a GPU's handle once at the
/// start, and once per sample.
const SCRIPT: &str = "1.sm=1980/1980/1200,1.throttle=0/0/36,0.memtemp=!3,0.handle=0/0/0/0/!15,*.energy=1000000/1050000";

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
        "\"$0\" monitor --csv --interval 50ms >m.csv & while [ ! -s m.csv ]; do sleep 0.05; done; kill -INT $!; wait $!",
        "\"$0\" monitor --csv --interval 50ms | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}",
    ] {
        let mut shell = crate::common::program("bash".as_ref(), machine.path());
        shell.args(["-c", script, crate::common::BINARY]);
        let ended = run(&mut machine.with_nvml(machine.on(shell), "")).expect_code(0);
        assert_eq!(ended.stderr, "", "{script}");
    }
}
