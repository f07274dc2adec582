//! The most busbw that links allow: columns, derivation and remark, with NVML's answers of another
//! machine.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    common::{csv, json as read_json, run},
    machine::Machine,
};

/// Returns what NVML says of a GPU of the stand-in with so many NVLinks to switches.
fn gpu(index: u32, links: u32) -> Value {
    let link = |number: u32| json!({ "link": number, "active": { "value": true }, "version": { "value": 6 }, "remote": "switch" });
    json!({
        "index": index,
        "bus_id": { "value": format!("0000:1{index}:00.0") },
        "uuid": { "value": format!("GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d{index:02}") },
        "capability": { "value": 90 },
        "nvlinks": (0..links).map(link).collect::<Vec<_>>(),
    })
}

/// Writes a root with these GPUs, each on PCIe 4.0 x16.
fn root(machine: &Machine, links: [u32; 2]) -> PathBuf {
    let root = machine.path().join("root");
    let _ = fs::remove_dir_all(&root);
    for index in 0..2 {
        let device = root.join(format!("sys/bus/pci/devices/0000:1{index}:00.0"));
        fs::create_dir_all(&device).expect("made");
        fs::write(device.join("max_link_speed"), "16.0 GT/s PCIe\n").expect("written");
        fs::write(device.join("max_link_width"), "16\n").expect("written");
    }
    let gpus = [gpu(0, links[0]), gpu(1, links[1])];
    let inventory = json!({ "gpus": gpus });
    fs::write(root.join("nvml.json"), inventory.to_string()).expect("written");
    root
}

/// Runs a sweep with these links and this setting, and returns its first row, its `run.json` and
/// its stderr.
fn sweep(
    machine: &Machine,
    links: [u32; 2],
    setting: Option<(&str, &str)>,
) -> (std::collections::BTreeMap<String, String>, Value, String) {
    let out = machine.path().join("out");
    let _ = fs::remove_dir_all(&out);
    let mut command = machine.start(1, "all_reduce -g 2 -b 64K -e 64K -n 2");
    command.arg("--out").arg(&out).envs(setting);
    command.arg("--links-root").arg(root(machine, links));
    let ended = run(&mut command).expect_code(0);
    let rows = csv(&out.join("results.csv"));
    (
        rows[0].clone(),
        read_json(&out.join("run.json")),
        ended.stderr,
    )
}

#[test]
fn the_peak_of_nvlink_is_links_times_rate() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let (row, run, stderr) = sweep(&machine, [18, 18], None);
    assert_eq!(row["peak_GBps"], "450");
    let [busbw, percent]: [f64; 2] =
        ["busbw_GBps", "pct_peak"].map(|name| row[name].parse().expect("a number"));
    assert!((percent - busbw / 4.5).abs() < 1e-4 * percent, "{row:?}");
    let sentence = "peak busbw by the links: all_reduce 450.0 GB/s (rank 0: 18 x NVLink 4, 450.0 \
                    GB/s in one direction)";
    assert!(stderr.contains(sentence), "{stderr}");
    let remarks = run["remarks"].as_array().expect("a list");
    assert!(remarks.contains(&sentence.into()), "{remarks:?}");
    let rank = &run["peak"]["ranks"][1];
    assert_eq!(
        (
            &rank["kind"],
            &rank["count"],
            &rank["each_GBps"],
            &rank["all_GBps"]
        ),
        (&json!("NVLink 4"), &json!(18), &json!(25.0), &json!(450.0))
    );
    assert!(
        rank["source"]
            .as_str()
            .is_some_and(|source| source.contains("NVML"))
    );
    // A link that is down lowers the peak of all.
    let (row, run, _) = sweep(&machine, [18, 17], None);
    assert_eq!(row["peak_GBps"], "425");
    let because = run["peak"]["collectives"][0]["because"].as_str();
    assert!(because.is_some_and(|why| why.starts_with("rank 1: 17 x NVLink 4")));
}

#[test]
fn without_peer_access_the_peak_is_that_of_pcie() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let (row, run, _) = sweep(&machine, [18, 18], Some(("NCCL_P2P_DISABLE", "1")));
    assert_eq!(row["peak_GBps"], "31.5077");
    assert_eq!(
        run["peak"]["ranks"][0]["kind"],
        "PCIe 4.0 x16 through shared memory"
    );
}

#[test]
fn an_unknown_peak_is_empty_and_has_a_reason() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let (row, run, stderr) = sweep(&machine, [18, 0], None);
    assert_eq!(
        (row["peak_GBps"].as_str(), row["pct_peak"].as_str()),
        ("", "")
    );
    let why = "some GPUs of a node are connected by NVLink and others are not";
    assert_eq!(run["peak"]["why_unknown"], why);
    assert!(
        stderr.contains(&format!("peak busbw is unknown: {why}")),
        "{stderr}"
    );
}
