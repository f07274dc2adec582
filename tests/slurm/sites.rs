//! Sites that differ: settings, launchers, and what surrounds a job.

use std::fs;

use crate::{
    QUICK,
    common::{self, BINARY, csv, json, run},
    home::Home,
    lab::{Lab, assert_placed, lab},
};

#[test]
fn an_empty_environment_and_another_folder_still_find_everything() {
    let Some(lab) = lab() else { return };
    let (home, elsewhere) = (Home::new(""), tempfile::tempdir().expect("a folder"));
    // Steps would start with nothing; the templates are found by Command= of scontrol.
    let mut command = lab.command("sbatch", &home);
    command.current_dir(elsewhere.path()).args([
        "--parsable",
        "-N4",
        "--gpus-per-node=2",
        "--export=NONE",
    ]);
    command
        .arg(home.path().join("slurm/pxn_aggressive.sbatch"))
        .args(["alltoall", "--out", "here"])
        .args(QUICK);
    let job = run(&mut command).expect_code(0).stdout.trim().to_owned();
    let state = lab.wait(&home, &job);
    let log = fs::read_to_string(elsewhere.path().join(format!("pxn_aggressive_{job}.out")))
        .expect("the log");
    assert_eq!(state.state, "COMPLETED", "{log}");
    let meta = json(&elsewhere.path().join("here/run.json"));
    assert_placed(&meta);
    assert_eq!(
        (
            meta["level"].as_str(),
            &meta["environment"]["NCCL_P2P_PXN_LEVEL"]
        ),
        (Some("aggressive"), &"2".into())
    );
}

#[test]
fn a_sites_own_setting_wins_and_the_rows_say_so() {
    let Some(lab) = lab() else { return };
    let home = Home::new("export NCCL_P2P_PXN_LEVEL=2");
    let job = lab.submit_to_all(
        &home,
        "pxn_off.sbatch",
        &[&["alltoall"], &QUICK[..]].concat(),
    );
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    let rows = csv(&home.run_of(&job).join("results.csv"));
    assert!(
        rows.iter().all(|row| row["level"] == "custom"),
        "{}",
        done.log
    );
}

#[test]
fn a_job_without_its_program_says_where_to_name_it() {
    let Some(lab) = lab() else { return };
    let home = Home::new("PXNBENCH=/no/such/pxnbench");
    let job = lab.submit(&home, &["-N1", "--gpus-per-node=2"], "pxn_off.sbatch", &[]);
    let done = lab.wait(&home, &job).expect("FAILED", 8);
    assert_eq!(done.log.lines().count(), 1, "{}", done.log);
    assert!(
        done.log.contains("'/no/such/pxnbench'") && done.log.contains("slurm/site.conf"),
        "{}",
        done.log
    );
}

#[test]
fn a_site_without_pmix_gets_mpirun_or_a_sentence() {
    let Some(lab) = Lab::start(&["2", "--no-pmix"]) else {
        return;
    };
    let home = Home::new("");
    let job = lab.submit(
        &home,
        &["--gpus-per-node=2"],
        "pxn_off.sbatch",
        &[&["all_reduce"], &QUICK[..]].concat(),
    );
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    done.expect_table(2);
    assert!(
        done.log.contains("srun --mpi=pmi2 does not work") && done.log.contains("by mpirun"),
        "{}",
        done.log
    );
    assert!(
        done.log.contains("4 ranks of 2 nodes (node[1-2])"),
        "{}",
        done.log
    );
    let launch = [
        &[BINARY, "launch", "--mpi", "pmix", "--", "all_reduce"],
        &QUICK[..],
    ]
    .concat();
    let ended = lab
        .salloc(&home, &["-N2", "--gpus-per-node=2"], &launch)
        .expect_code(8);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{}", ended.stderr);
    assert!(
        sentences[0].contains("--mpi=pmix does not work") && sentences[0].contains("PXNBENCH_MPI"),
        "{}",
        ended.stderr
    );
    assert!(
        sentences[0].contains("srun here has") && sentences[0].contains("pmi2"),
        "{}",
        ended.stderr
    );
    run(lab.script().arg("stop")).expect_code(0);
}

#[test]
fn what_an_outer_step_or_shell_leaks_does_not_reach_the_ranks() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let launch = [&[BINARY, "launch", "--", "all_reduce"], &QUICK[..]].concat();
    // GPUs by task, and variables that srun would take for options or for a contradiction.
    let mut command = lab.command("salloc", &home);
    command.args([
        "-Q",
        "--exclusive",
        "-N4",
        "--ntasks-per-node=2",
        "--gpus-per-task=1",
        "env",
    ]);
    command.args([
        "SLURM_CPUS_PER_TASK=3",
        "SLURM_TRES_PER_TASK=cpu:5",
        "SLURM_MPI_TYPE=none",
        "SLURM_GPU_BIND=single:1",
    ]);
    let ended = run(command
        .args(["SLURM_NTASKS=1", "PMIX_RANK=3"])
        .args(&launch))
    .expect_code(0);
    assert!(
        ended.stderr.contains("8 ranks of 4 nodes"),
        "{}",
        ended.stderr
    );
    // From inside a step, as in srun --pty bash, which holds the CPUs.
    let inside = [&["srun", "-N1", "-n1", "-c8"], &launch[..]].concat();
    let ended = lab
        .salloc(&home, &["-N4", "--gpus-per-node=2"], &inside)
        .expect_code(0);
    assert!(
        ended.stderr.contains("8 ranks of 4 nodes (node[1-4])"),
        "{}",
        ended.stderr
    );
    let runs = fs::read_dir(home.path().join("results"))
        .expect("results")
        .flatten();
    for run in runs
        .flat_map(|job| fs::read_dir(job.path()).expect("a folder").flatten())
        .filter(|e| e.path().is_dir())
    {
        assert_placed(&json(&run.path().join("run.json")));
    }
    // Once a task is once too often.
    let many = [&["srun", "-N4", "-n4"], &launch[..]].concat();
    let ended = lab
        .salloc(&home, &["-N4", "--gpus-per-node=2"], &many)
        .expect_code(8);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("started 4 times"), "{}", ended.stderr);
}

#[test]
fn outside_a_job_it_says_what_to_do() {
    let home = Home::new("");
    let ended = run(common::alone(home.path()).args(["launch", "--", "all_reduce"])).expect_code(8);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("not a Slurm job") && ended.stderr.contains("sbatch slurm/"),
        "{}",
        ended.stderr
    );
    // An error in the sweep is reported first, before any node is asked.
    let ended = run(common::alone(home.path()).args(["launch", "--", "all_reduce", "-b", "0"]))
        .expect_code(6);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
}
