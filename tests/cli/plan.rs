//! Plans from runs of computed times, whose costs are known, and from host memory.

use std::path::Path;

use serde_json::Value;

use crate::{
    common::{Ended, alone, golden, has_mpi, json, mpirun, run},
    folder,
};

fn sweep(at: &Path, ranks: &str, collectives: &[&str], more: &[&str]) {
    let settings = ["--backend", "model", "-b", "1K", "-e", "64M", "-f", "4"];
    let mut command = alone(at);
    command.args(collectives).args(settings);
    run(command.args(["--ranks", ranks]).args(more)).expect_code(0);
}

fn plan(at: &Path, arguments: &[&str]) -> Ended {
    run(alone(at).arg("plan").args(arguments))
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.002, "{found} {expected}");
}

#[test]
fn a_plan_of_three_numbers_of_ranks_predicts_a_fourth() {
    let folder = folder();
    let at = folder.path();
    for ranks in ["4", "8", "16"] {
        sweep(at, ranks, &["all_reduce", "alltoall"], &["--out", ranks]);
    }
    let runs = ["4", "8", "16/results.csv"];
    let wanted = [
        "--ranks",
        "8,32",
        "--sizes",
        "64K,16M",
        "--json",
        "plan.json",
    ];
    let ended = plan(at, &[&runs[..], &wanted[..]].concat()).expect_code(0);
    golden("plan.txt", &ended.stdout);
    let planned = json(&at.join("plan.json"));
    // The model's own: a latency of 5 µs per step and one more, 400 GB/s.
    let cost = &planned["costs"][0];
    assert_eq!(cost["collective"], "all_reduce");
    assert_near(number(&cost["constant_us"]["value"]), 5.0);
    assert_near(number(&cost["step_us"]["value"]), 5.0);
    assert_near(number(&cost["bandwidth_GBps"]["value"]), 400.0);
    let last = &planned["times"][3];
    assert_eq!(
        (&last["ranks"], &last["size_bytes"]),
        (&32.into(), &(16 << 20).into())
    );
    let bus_bytes = f64::from(16 << 20) * 2.0 * 31.0 / 32.0;
    assert_near(number(&last["time_us"]), 5.0 * 11.0 + bus_bytes / 400e3);
    assert_near(
        number(&last["busbw_GBps"]),
        bus_bytes / 1e3 / number(&last["time_us"]),
    );
    assert_eq!(last["extrapolated"], serde_json::json!(["ranks"]));
}

#[test]
fn a_workload_is_planned_between_full_overlap_and_none() {
    let folder = folder();
    let at = folder.path();
    for ranks in ["4", "8"] {
        sweep(at, ranks, &["all_reduce", "broadcast"], &["--out", ranks]);
    }
    let workload = [
        "4",
        "8",
        "--workload",
        "ddp-resnet50",
        "--ranks",
        "8,16",
        "--json",
        "plan.json",
    ];
    let ended = plan(at, &workload).expect_code(0);
    assert!(
        ended
            .stdout
            .contains("# Step of ddp-resnet50 on 16 ranks: "),
        "{}",
        ended.stdout
    );
    let planned = json(&at.join("plan.json"));
    assert_eq!(planned["times"], serde_json::json!([]));
    let step = &planned["steps"][0];
    let reduced = &step["collectives"][0];
    assert_eq!(
        (&reduced["calls"], &reduced["bytes"]),
        (&4.into(), &102_228_128.into())
    );
    // 4 calls of 1 + 6 steps.
    let expected = 4.0 * 5.0 * 7.0 + 102_228_128.0 * 2.0 * 7.0 / 8.0 / 400e3;
    assert_near(number(&reduced["time_us"]), expected);
    // 483 copies of 2.5 µs, whose bytes are read and written at 4 TB/s.
    let copies = &step["copies"];
    assert_eq!(
        (&copies["pieces"], &copies["bytes"]),
        (&483.into(), &204_882_064.into())
    );
    let copied = 483.0 * 2.5 + 2.0 * 204.882_064 / 4.0;
    assert_near(number(&copies["time_us"]), copied);
    let sent = number(&step["collectives"][1]["time_us"]);
    assert_near(number(&step["communication_us"]), expected + sent + copied);
    let (full, none) = (&step["full_overlap"], &step["no_overlap"]);
    let time = |bound: &Value| number(&bound["step_us"]);
    let computation = number(&step["computation_us"]);
    assert_near(time(none), computation + number(&step["communication_us"]));
    assert!(computation < time(full) && time(full) < time(none));
    assert_near(number(&none["gpu_hours"]), time(none) * 8.0 * 1e3 / 3.6e9);
    let wasted = number(&none["gpu_hours"]) * number(&none["exposed_share"]);
    assert_near(number(&none["gpu_hours_wasted"]), wasted);
    let remarks = planned["steps"][1]["remarks"].to_string();
    assert!(
        remarks.contains("Extrapolated: the ranks of 6 collectives"),
        "{remarks}"
    );
    for said in [
        "  copies             483        204882064         1.31\n",
        "# The time of 483 copies is assumed, not measured: 2.5 us each, and all bytes read and \
         written at 4 TB/s.\n",
    ] {
        assert!(ended.stdout.contains(said), "{}", ended.stdout);
    }
}

#[test]
fn what_cannot_be_planned_is_refused_with_the_reason() {
    let folder = folder();
    let at = folder.path();
    sweep(at, "4", &["all_reduce"], &["--out", "4"]);
    sweep(at, "8", &["all_reduce"], &["--out", "8"]);
    sweep(at, "1", &["all_reduce"], &["--out", "1"]);
    let refused = |arguments: &[&str], code, sentence: &str| {
        let ended = plan(at, arguments).expect_code(code);
        assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    };
    refused(
        &["4", "--ranks", "8"],
        6,
        "was measured on 4 ranks only, so its time on 8 cannot be predicted",
    );
    refused(
        &["4", "8", "--ranks", "65"],
        6,
        "65 are more than 8 times as many",
    );
    refused(
        &["4", "8", "--sizes", "2G"],
        6,
        "2G is more than 16 times as large",
    );
    refused(
        &["1"],
        5,
        "no times on two or more ranks: nothing to plan from (18 rows)",
    );
    refused(&["4", "4/results.csv"], 6, "is named twice");
    refused(
        &["4", "8", "--workload", "fsdp-7b", "--ranks", "8"],
        6,
        "no run measured all_gather",
    );
    refused(
        &["4", "8", "--workload", "nothing"],
        6,
        "there is no workload 'nothing'",
    );
    refused(&["none"], 6, "cannot be read");
    refused(
        &["4", "--rate", "2"],
        6,
        "a rate is a number from 0.5 to 0.999",
    );
    let csv = std::fs::read_to_string(at.join("8/results.csv")).expect("rows");
    let other = csv.replace(",model,default,", ",model,aggressive,");
    std::fs::write(at.join("other.csv"), other).expect("written");
    refused(
        &["4", "other.csv"],
        6,
        "was measured with another level ('aggressive')",
    );
    std::fs::write(at.join("text.csv"), "a,b\n1,2\n").expect("written");
    refused(
        &["text.csv"],
        6,
        "text.csv cannot be read: it has no column run_id",
    );
}

#[test]
fn runs_on_host_memory_make_a_plan() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let at = folder.path();
    for (ranks, name) in [(2, "two"), (4, "four")] {
        let sweep = [
            "all_reduce",
            "--backend",
            "host",
            "-b",
            "64",
            "-e",
            "256K",
            "-f",
            "4",
            "-n",
            "5",
        ];
        run(mpirun(ranks, at).args(sweep).args(["--out", name])).expect_code(0);
    }
    plan(
        at,
        &["two", "four", "--ranks", "4,8", "--json", "plan.json"],
    )
    .expect_code(0);
    let planned = json(&at.join("plan.json"));
    assert_eq!(planned["conditions"]["backend"], "host");
    let times = planned["times"].as_array().expect("times");
    assert_eq!(times.len(), 12, "six sizes, two numbers of ranks");
    for time in times {
        let [low, high] = [0, 1].map(|at| number(&time["time_interval_us"][at]));
        let middle = number(&time["time_us"]);
        assert!(0.0 < low && low <= middle && middle <= high, "{time}");
        let is_measured = time["ranks"] == 4;
        assert_eq!(time["measured_us"].is_number(), is_measured, "{time}");
        assert_eq!(
            time["extrapolated"] == serde_json::json!(["ranks"]),
            !is_measured
        );
    }
}

#[test]
fn times_that_no_operation_takes_are_refused_and_many_sizes_are_planned() {
    let folder = folder();
    let at = folder.path();
    sweep(at, "4", &["all_reduce"], &["--out", "4"]);
    let csv = at.join("4/results.csv");
    let text = std::fs::read_to_string(&csv).expect("a run");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().expect("a header").clone();
    let place = |name: &str| head.iter().position(|column| column == name);
    let (time, size, count) = (place("time_us"), place("size_bytes"), place("count"));
    let row = reader.records().next().expect("a row").expect("cells");
    let write = |rows: &mut dyn Iterator<Item = (u32, f64)>| {
        // As the program writes it.
        let mut writer = csv::WriterBuilder::new()
            .terminator(csv::Terminator::CRLF)
            .from_path(&csv)
            .expect("a file");
        writer.write_record(&head).expect("written");
        for (elements, microseconds) in rows {
            let mut cells: Vec<String> = row.iter().map(str::to_owned).collect();
            cells[time.expect("a column")] = microseconds.to_string();
            cells[size.expect("a column")] = (4 * elements).to_string();
            cells[count.expect("a column")] = elements.to_string();
            writer.write_record(cells).expect("written");
        }
        writer.flush().expect("written");
    };
    for (time, said) in [
        (1e300, "is 1e300, which is longer than a job takes"),
        (1e-300, "is 1e-300, which is shorter than a nanosecond"),
        (-5.0, "is -5e0, which is shorter than a nanosecond"),
    ] {
        write(&mut [(256, 10.0), (512, time)].into_iter());
        let refused = plan(at, &["4", "--ranks", "4", "--sizes", "1K"]).expect_code(6);
        let said =
            format!("4/results.csv, line 3: time_us {said}. Remove the row, or measure it again\n");
        assert!(refused.stderr.contains(&said), "{}", refused.stderr);
        assert_eq!(refused.sentences().len(), 1, "{}", refused.stderr);
    }

    write(&mut (1..=6000).map(|elements| (elements, 10.0 + f64::from(elements) / 1e3)));
    let wanted = ["4", "--ranks", "4", "--sizes", "4K", "--json", "plan.json"];
    plan(at, &wanted).expect_code(0);
    let planned = json(&at.join("plan.json"));
    assert_near(number(&planned["times"][0]["time_us"]), 11.024);
}
