//! What users write after a template, after `launch` and into the variables of a comparison.

use std::fs;

use crate::{
    QUICK,
    common::{BINARY, csv, json, run},
    home::Home,
    lab::lab,
};

/// Options of an allocation of two nodes.
const TWO_NODES: [&str; 2] = ["-N2", "--gpus-per-node=2"];

#[test]
fn options_alone_keep_the_collectives_of_a_template() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let options = ["--backend", "host", "-e", "16", "-n", "2"];
    for (template, collectives) in [("suite.sbatch", 11), ("pxn_default.sbatch", 3)] {
        let begin = ["-b", "16"];
        let job = lab.submit(
            &home,
            &TWO_NODES,
            template,
            &[&options[..], &begin].concat(),
        );
        let done = lab.wait(&home, &job).expect("COMPLETED", 0);
        let rows = csv(&home.run_of(&job).join("results.csv"));
        let mut names: Vec<&String> = rows.iter().map(|row| &row["collective"]).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), collectives, "{}", done.log);
        assert!(rows.iter().all(|row| row["level"] == "default"));
    }
}

#[test]
fn launch_needs_no_hyphens_and_starts_the_self_test() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let sweep = [&[BINARY, "launch", "all_reduce"], &QUICK[..]].concat();
    let ended = lab.salloc(&home, &TWO_NODES, &sweep).expect_code(0);
    assert!(
        ended.stderr.contains("4 ranks of 2 nodes"),
        "{}",
        ended.stderr
    );
    // Its own options may come last.
    let shown = [&sweep[..], &["--dry-run"]].concat();
    let ended = lab.salloc(&home, &TWO_NODES, &shown).expect_code(0);
    assert!(
        ended.stdout.starts_with("srun ") && ended.stdout.contains(" all_reduce --backend host")
    );
    assert!(!ended.stdout.contains("--dry-run"), "{}", ended.stdout);
    // There are no GPUs to run it on, which the ranks say.
    for words in [&["--"] as &[&str], &[]] {
        let self_test = [&[BINARY, "launch"], words, &["proof", "--self-test"]].concat();
        let ended = lab.salloc(&home, &TWO_NODES, &self_test).expect_code(2);
        assert!(
            ended.stderr.contains("cannot use a GPU"),
            "{}",
            ended.stderr
        );
    }
}

/// A job that cannot be had is refused with what it asked for, which is the template's where
/// nothing else is given.
#[test]
fn submit_says_what_slurm_does_not_have() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let submit = |words: &[&str]| {
        run(lab
            .command(BINARY, &home)
            .args(["submit", "all_reduce"])
            .args(QUICK)
            .args(words))
    };
    let ended = submit(&[]).expect_code(8);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
    for part in [
        "not available",
        "--gpus-per-node=8 (the template's)",
        "Change that with",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    // After the collective, and without GPUs.
    let ended = submit(&["--gpus-per-node", "0", "--nodes=2", "--wait"]).expect_code(0);
    assert!(ended.stderr.contains("no wrong data"), "{}", ended.stderr);
}

#[test]
fn a_comparison_of_a_level_that_does_not_exist_measures_nothing() {
    let Some(lab) = lab() else { return };
    for (site, says) in [
        ("PXN_LEVELS='off agressive'", "Use one of off, conservative"),
        ("PXN_BLOCKS=x", "--blocks"),
    ] {
        let home = Home::new(site);
        let words = [&["all_reduce"], &QUICK[..]].concat();
        let job = lab.submit(&home, &TWO_NODES, "compare_levels.sbatch", &words);
        let done = lab.wait(&home, &job).expect("FAILED", 6);
        assert_eq!(done.log.lines().count(), 1, "{}", done.log);
        assert!(done.log.contains(says), "{}", done.log);
        assert!(home.runs_of(&job).is_empty());
    }
    let home = Home::new("");
    let job = lab.submit(
        &home,
        &TWO_NODES,
        "compare_levels.sbatch",
        &["all_reduce", "-n0x"],
    );
    let done = lab.wait(&home, &job).expect("FAILED", 6);
    assert_eq!(done.log.lines().count(), 1, "{}", done.log);
}

#[test]
fn a_comparison_stops_at_the_first_failure_that_all_levels_share() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    // The job has GPUs, and its nodes have no driver.
    let words = ["all_reduce", "-b", "8", "-e", "8"];
    let job = lab.submit(&home, &TWO_NODES, "compare_levels.sbatch", &words);
    let done = lab.wait(&home, &job).expect("FAILED", 2);
    assert_eq!(
        done.log.matches("cannot use a GPU").count(),
        1,
        "{}",
        done.log
    );
    let last = *done.sentences().last().expect("a sentence");
    assert!(
        last.contains("the first step failed") && last.contains("none was started"),
        "{}",
        done.log
    );
}

#[test]
fn a_quiet_comparison_prints_the_table_alone() {
    let Some(lab) = lab() else { return };
    let home = Home::new("PXN_QUIET=1 PXN_BLOCKS=1 PXN_LEVELS='off balanced'");
    let words = [&["alltoall"], &QUICK[..]].concat();
    let job = lab.submit(&home, &TWO_NODES, "compare_levels.sbatch", &words);
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    assert!(
        done.log.starts_with("# Measured with backend host"),
        "{}",
        done.log
    );
    assert!(!done.log.contains("algbw"), "{}", done.log);
    let runs = home.runs_of(&job);
    assert_eq!(runs.len(), 1 + 3, "a warm-up, two levels and the control");
    for run in runs {
        assert_eq!(json(&run.join("run.json"))["end"]["code"], 0);
        let printed = fs::read_to_string(run.join("output.txt")).expect("what the step printed");
        assert!(printed.contains("algbw"), "{printed}");
    }
}
