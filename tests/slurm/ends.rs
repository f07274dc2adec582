//! How a job ends: in good order, by a signal, by its time limit, or by a rank that dies.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    LONG, QUICK,
    common::{csv, json, run},
    home::Home,
    lab::{Lab, lab, wait_for_ranks},
};

/// Every line of the CSV is whole: all columns, and the end of the line.
#[track_caller]
fn assert_whole(path: &Path) {
    let text = fs::read_to_string(path).expect("the CSV");
    assert!(text.ends_with("\r\n"));
    assert!(
        csv(path)
            .iter()
            .all(|row| row.len() == pxnbench::record::columns::COLUMNS.len()
                && !row["status"].is_empty())
    );
}

#[test]
fn scancel_keeps_what_was_measured() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let job = lab.submit_to_all(&home, "pxn_off.sbatch", &LONG);
    let rows = home.wait_for_rows(&job);
    run(lab.command("scancel", &home).arg(&job)).expect_code(0);
    let done = lab.wait(&home, &job);
    assert_eq!(done.state, "CANCELLED", "{}", done.log);
    assert_whole(&rows);
    // Where Slurm kills faster than the last words are written, the file says that it did not end.
    let end = &json(&rows.with_file_name("run.json"))["end"];
    assert!(end.is_null() || end["code"] == 9, "{end}");
}

#[test]
fn the_warning_before_the_time_limit_ends_it_in_good_order() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    // To the steps, as --signal=USR1@120 sends it, and to the batch script alone.
    for target in [&[] as &[&str], &["--batch"]] {
        let job = lab.submit_to_all(&home, "pxn_off.sbatch", &LONG);
        let rows = home.wait_for_rows(&job);
        run(lab
            .command("scancel", &home)
            .args(["--signal=USR1"])
            .args(target)
            .arg(&job))
        .expect_code(0);
        let done = lab.wait(&home, &job).expect("FAILED", 9);
        assert_whole(&rows);
        assert_eq!(json(&rows.with_file_name("run.json"))["end"]["code"], 9);
        assert!(
            done.sentences()
                .last()
                .is_some_and(|last| last.contains("stopped by ")),
            "{}",
            done.log
        );
    }
}

#[test]
fn a_job_with_too_short_a_time_keeps_its_finished_cases() {
    let Some(lab) = Lab::start(&["1"]) else {
        return;
    };
    let home = Home::new("");
    // Slurm looks at time limits twice a minute; the warning comes when it first does.
    let options = ["-N1", "--gpus-per-node=2", "--time=1", "--signal=USR1@60"];
    let job = lab.submit(&home, &options, "pxn_off.sbatch", &LONG);
    let done = lab.wait(&home, &job);
    let rows = home.run_of(&job).join("results.csv");
    assert_whole(&rows);
    assert!(!csv(&rows).is_empty(), "{}", done.log);
    let done = done.expect("FAILED", 9);
    assert!(
        done.log.contains("did not finish: ")
            && done.log.contains("until then, no wrong data in them"),
        "{}",
        done.log
    );
    run(lab.script().arg("stop")).expect_code(0);
}

#[test]
fn a_requeued_job_goes_on_and_measures_no_case_twice() {
    let Some(lab) = lab() else { return };
    let home = Home::new("export PXN_REQUEUE=1");
    let sweep = [
        "all_reduce",
        "--backend",
        "host",
        "-b",
        "1K",
        "-e",
        "300K",
        "-i",
        "1K",
        "-n",
        "5",
    ];
    let job = lab.submit(
        &home,
        &["-N1", "--gpus-per-node=2", "--requeue"],
        "pxn_off.sbatch",
        &sweep,
    );
    home.wait_for_rows(&job);
    run(lab.command("scancel", &home).args(["--signal=USR1", &job])).expect_code(0);
    let started = Instant::now();
    let why = || {
        run(lab
            .command("squeue", &home)
            .args(["-h", "-j", &job, "-o", "%r"]))
        .stdout
    };
    while why().trim() != "BeginTime" {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{}",
            home.log(&job)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    // Slurm lets a requeued job wait for two minutes. Some seconds are enough for the old step to
    // be gone from the node.
    std::thread::sleep(Duration::from_secs(4));
    let job_is = format!("jobid={job}");
    run(lab
        .command("scontrol", &home)
        .args(["update", &job_is, "StartTime=now"]))
    .expect_code(0);
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    let rows = csv(&home.run_of(&job).join("results.csv"));
    let mut cases: Vec<_> = rows
        .iter()
        .map(|row| (&row["size_bytes"], &row["in_place"]))
        .collect();
    cases.sort();
    cases.dedup();
    assert_eq!((rows.len(), cases.len()), (600, 600), "{}", done.log);
    assert_eq!(
        json(&home.run_of(&job).join("run.json"))["job"]["restarts"],
        1
    );
}

#[test]
fn a_rank_that_is_killed_ends_the_job_and_is_named() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let job = lab.submit_to_all(&home, "pxn_off.sbatch", &LONG);
    let rows = home.wait_for_rows(&job);
    let ranks = wait_for_ranks(lab, &home, &job);
    assert_eq!(ranks[&5].environment["SLURMD_NODENAME"], "node3");
    run(Command::new("kill").args(["-KILL", &ranks[&5].pid.to_string()])).expect_code(0);
    let killed = Instant::now();
    let done = lab.wait(&home, &job).expect("FAILED", 8);
    assert!(
        killed.elapsed() < Duration::from_secs(20),
        "{:?}",
        killed.elapsed()
    );
    let last = *done.sentences().last().expect("a sentence");
    // Where Slurm says first that it killed the others, the ranks themselves say who was killed
    // before.
    let says = [
        "rank 5 on node3 was ended by a signal (Killed)",
        "rank 5 on node3 (pid ",
    ];
    assert!(says.iter().any(|one| last.contains(one)), "{}", done.log);
    let end = &json(&rows.with_file_name("run.json"))["end"];
    assert_eq!(
        (&end["code"], &end["failed"]["rank"]),
        (&8.into(), &5.into()),
        "{end}"
    );
    assert_eq!(end["failed"]["host"], "node3");
    assert_whole(&rows);
}

#[test]
fn rank_0_may_be_the_one_that_is_killed() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let job = lab.submit_to_all(&home, "pxn_off.sbatch", &LONG);
    let rows = home.wait_for_rows(&job);
    let ranks = wait_for_ranks(lab, &home, &job);
    run(Command::new("kill").args(["-KILL", &ranks[&0].pid.to_string()])).expect_code(0);
    let done = lab.wait(&home, &job).expect("FAILED", 8);
    let last = *done.sentences().last().expect("a sentence");
    assert!(last.contains("rank 0 on node1 "), "{}", done.log);
    assert!(!last.contains("stopped by"), "{}", done.log);
    let end = &json(&rows.with_file_name("run.json"))["end"];
    assert_eq!(
        (&end["code"], &end["failed"]["rank"]),
        (&8.into(), &0.into()),
        "{end}"
    );
    assert_whole(&rows);
}

#[test]
fn dependencies_and_arrays_see_the_right_exit_codes() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let quick = [&["all_reduce"], &QUICK[..]].concat();
    let one = ["-N1", "--gpus-per-node=2"];
    let options = |more: &[&'static str]| [&one[..], more].concat();
    let good = lab.submit(&home, &options(&["--array=1-2"]), "pxn_off.sbatch", &quick);
    let bad = lab.submit(&home, &one, "pxn_off.sbatch", &["all_reduce", "-b", "0"]);
    let after = |job: &str| format!("--dependency=afterok:{job}");
    let runs = lab.submit(
        &home,
        &[&one[..], &[&after(&good)]].concat(),
        "pxn_balanced.sbatch",
        &quick,
    );
    let never = lab.submit(
        &home,
        &[&one[..], &[&after(&bad), "--kill-on-invalid-dep=yes"]].concat(),
        "pxn_balanced.sbatch",
        &quick,
    );
    lab.wait(&home, &bad).expect("FAILED", 6);
    lab.wait(&home, &runs).expect("COMPLETED", 0);
    assert_eq!(lab.wait(&home, &never).state, "CANCELLED");
    for task in [format!("{good}_1"), format!("{good}_2")] {
        lab.wait(&home, &task).expect("COMPLETED", 0);
    }
    let results = fs::read_dir(home.path().join("results"))
        .expect("results")
        .count();
    assert_eq!(
        results, 3,
        "a folder for each task of the array, and one for the job after"
    );
}
