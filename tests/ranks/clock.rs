//! A wall clock that is set while ranks run.

use std::{fs, process::Stdio};

use chrono::{DateTime, FixedOffset, TimeDelta};

use crate::{
    common::{self, csv, has_mpi, json, mpirun, wall_clock},
    folder,
};

fn time(text: &str) -> DateTime<FixedOffset> {
    DateTime::parse_from_rfc3339(text).expect("a time")
}

/// Five hours are more than any deadline here.
#[test]
fn a_wall_clock_that_is_set_changes_no_deadline_and_no_order_of_times() {
    if !has_mpi() {
        return;
    }
    for seconds in [18_000, -18_000] {
        let folder = folder();
        let once = folder.path().join("once");
        let mut command = mpirun(2, folder.path());
        command.args(["all_reduce", "-b", "8", "-e", "8", "-n", "20", "-N", "0"]);
        command.args(["--backend", "host", "-T", "60", "--out", "run"]);
        if !wall_clock::set(&mut command, seconds, &once) {
            return;
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("started");
        let file = folder.path().join("run/results.csv");
        let lines = || fs::read_to_string(&file).map_or(0, |text| text.lines().count());
        common::wait_until("rows", || lines() > 10);
        fs::write(&once, "").expect("written");
        let before = lines();
        common::wait_until("rows under the other clock", || lines() > before + 10);
        assert!(common::send_signal("-TERM", child.id()));
        let ended = common::ended(child);
        let run = json(&folder.path().join("run/run.json"));
        assert_eq!(run["end"]["code"], 9, "{}", ended.stderr);

        let rows = csv(&file);
        let of_run = |key: &str| time(run[key].as_str().expect("a time"));
        let mut times = vec![of_run("started_at")];
        times.extend(rows.iter().map(|row| time(&row["started_at"])));
        times.push(of_run("ended_at"));
        assert!(times.is_sorted(), "{seconds}: {times:?}");
        let all = times[times.len() - 1] - times[0];
        assert!(all < TimeDelta::hours(1), "{seconds}: {times:?}");
    }
}
