//! Sweeps, comparisons and the doctor as jobs.

use std::{fs, path::PathBuf};

use pxnbench::levels;

use crate::{
    QUICK,
    common::{BINARY, csv, json, run},
    home::Home,
    lab::{Lab, assert_placed, lab, wait_for_ranks},
};

#[test]
fn each_level_runs_with_its_variables_on_every_rank() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    for level in levels::all() {
        let arguments = [
            "alltoall",
            "sendrecv",
            "all_reduce",
            "--backend",
            "host",
            "-b1K",
            "-e4K",
            "-f4",
            "-n100",
        ];
        let job = lab.submit_to_all(&home, &format!("pxn_{}.sbatch", level.name), &arguments);
        for (rank, process) in wait_for_ranks(lab, &home, &job) {
            for name in ["NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL"] {
                let set = level
                    .set
                    .iter()
                    .find(|setting| setting.name == name)
                    .map(|setting| setting.value.as_str());
                assert_eq!(
                    process.environment.get(name).map(String::as_str),
                    set,
                    "{name} on rank {rank} of {}",
                    level.name
                );
            }
        }
        let done = lab.wait(&home, &job).expect("COMPLETED", 0);
        done.expect_table(3 * 2);
        let folder = home.run_of(&job);
        let rows = csv(&folder.join("results.csv"));
        assert_eq!(rows.len(), 3 * 2 * 2);
        assert!(
            rows.iter().all(|row| row["level"] == level.name
                && row["nodes"] == "4"
                && row["ranks"] == "8")
        );
        assert!(
            rows.iter()
                .all(|row| row["wrong"] == "0" || row["status"] == "unchecked")
        );
        let meta = json(&folder.join("run.json"));
        assert_placed(&meta);
        assert_eq!(meta["level"], level.name.as_str());
        assert_eq!(meta["end"]["code"], 0);
        assert_eq!(
            meta["job"]["id"].as_u64().map(|id| id.to_string()),
            Some(job.clone())
        );
        assert_eq!(
            meta["job"]["nodes"],
            serde_json::json!(["node1", "node2", "node3", "node4"])
        );
        assert_eq!(meta["job"]["restarts"], 0);
        let last = *done.sentences().last().expect("a last line");
        for part in [
            &format!("level {} on 8 ranks of 4 nodes (node[1-4])", level.name),
            "12 cases, no wrong data",
        ] {
            assert!(
                last.contains(part) && last.ends_with("/results.csv"),
                "{last}"
            );
        }
    }
}

#[test]
fn a_comparison_ends_with_the_code_of_the_first_failure() {
    let Some(lab) = lab() else { return };
    let home = Home::new("PXN_LEVELS='off aggressive' PXN_BLOCKS=1");
    // There is no GPU, and so no result to compare: that is not why it failed.
    let words = ["all_reduce", "--backend", "nccl", "-b", "8", "-e", "8"];
    let job = lab.submit(
        &home,
        &["-N1", "--gpus-per-node=2"],
        "compare_levels.sbatch",
        &words,
    );
    lab.wait(&home, &job).expect("FAILED", 2);
}

#[test]
fn a_comparison_runs_all_levels_in_each_block_and_ends_in_one_table() {
    let Some(lab) = lab() else { return };
    let home = Home::new("PXN_BLOCKS=2");
    let job = lab.submit_to_all(
        &home,
        "compare_levels.sbatch",
        &[&["alltoall"], &QUICK[..]].concat(),
    );
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    let runs = home.runs_of(&job);
    assert_eq!(
        runs.len(),
        1 + 2 * 6,
        "a warm-up, and two blocks of five levels and the control"
    );
    let folder = runs[0].parent().expect("the job's folder");
    assert_eq!(
        csv(&folder.join("results.csv")).len(),
        12 * 4,
        "without the warm-up"
    );

    let record = json(&folder.join("experiment.json"));
    let steps = record["steps"].as_array().expect("steps");
    let mut expected: Vec<&str> = levels::all()
        .iter()
        .map(|level| level.name.as_str())
        .collect();
    expected.push("off-again");
    expected.sort_unstable();
    for block in [0, 1] {
        let of_block = steps.iter().filter(|step| step["block"] == block);
        let mut labels: Vec<&str> = of_block.filter_map(|step| step["label"].as_str()).collect();
        labels.sort_unstable();
        assert_eq!(labels, expected, "block {block}");
    }

    let table = done
        .log
        .split_once("# 2 blocks: time of off")
        .expect("the table")
        .1;
    let rows = table
        .lines()
        .filter(|line| line.trim_start().starts_with("alltoall "));
    assert_eq!(rows.count(), 4, "{table}");
    let head = table
        .lines()
        .find(|line| line.contains("size (B)"))
        .expect("the head");
    assert!(expected.iter().all(|label| head.contains(label)), "{head}");
    assert!(table.contains("the levels cannot differ here"), "{table}");
}

#[test]
fn without_gpus_two_ranks_per_node_run_on_host_memory_with_a_message() {
    let Some(lab) = Lab::start(&["2", "--gpus", "0"]) else {
        return;
    };
    let home = Home::new("");
    let arguments = ["all", "-b", "1K", "-e", "1K", "-n", "2"];
    let job = lab.submit(&home, &["--gpus-per-node=0"], "suite.sbatch", &arguments);
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    done.expect_table(11);
    assert!(
        done.log
            .contains("backend host: there is no NVIDIA device here"),
        "{}",
        done.log
    );
    let meta = json(&home.run_of(&job).join("run.json"));
    assert_eq!(
        (meta["nodes"].as_u64(), meta["ranks"].as_u64()),
        (Some(2), Some(4))
    );
    assert_eq!(
        (meta["backend"].as_str(), meta["level"].as_str()),
        (Some("host"), Some("default"))
    );

    // One node, asked for more ranks.
    let site = home.path().join("slurm/site.conf");
    fs::write(
        &site,
        format!("PXNBENCH={BINARY}\nexport PXNBENCH_TASKS_PER_NODE=3\n"),
    )
    .expect("written");
    let job = lab.submit(
        &home,
        &["-N1", "--gpus-per-node=0"],
        "pxn_off.sbatch",
        &[&["all_reduce"], &QUICK[..]].concat(),
    );
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    assert!(
        done.log.contains("PXN is impossible on one node"),
        "{}",
        done.log
    );
    assert_eq!(json(&home.run_of(&job).join("run.json"))["ranks"], 3);
    run(lab.script().arg("stop")).expect_code(0);
}

#[test]
fn the_doctor_examines_all_nodes_of_a_job_and_gives_one_report() {
    let Some(lab) = lab() else { return };
    let home = Home::new("export NCCL_PXN_DISABLE=true");
    let job = lab.submit_to_all(&home, "doctor.sbatch", &["--verbose"]);
    let done = lab.wait(&home, &job);
    let sums: Vec<&str> = done
        .log
        .lines()
        .filter(|line| line.contains(" not applicable; "))
        .collect();
    assert_eq!(sums.len(), 1, "one report: {}", done.log);
    assert!(sums[0].ends_with("8 ranks on 4 hosts"), "{}", sums[0]);
    // The job has GPUs, which on these nodes are files.
    assert!(sums[0].starts_with("not ready: "), "{}", sums[0]);
    let done = done.expect("FAILED", 10);
    let says = |id: &str, word: &str, part: &str| {
        let is_it =
            |line: &&str| line.starts_with(word) && line.contains(id) && line.contains(part);
        assert_eq!(
            done.log.lines().filter(is_it).count(),
            1,
            "{word} {id}: {part} in\n{}",
            done.log
        );
    };
    says("start.gpu", "FAILURE", "(Slurm gave this job GPUs");
    says("lib.driver", "FAILURE", "Slurm gave this job GPUs");
    says("mpi.same", "ok", "MPI");
    says("slurm.kill", "ok", "SLURM_KILL_BAD_EXIT=1");
    says("host.clock", "ok", "within 0.");
    says("env.misread-integer", "warning", "NCCL_PXN_DISABLE=true");
    assert!(home.runs_of(&job).is_empty(), "it writes no files");
    let strict = lab.submit_to_all(&home, "doctor.sbatch", &["--strict"]);
    lab.wait(&home, &strict).expect("FAILED", 10);

    // Nor does a sweep start, and for the same reason.
    let sweep = lab.submit_to_all(&home, "pxn_balanced.sbatch", &["all_reduce", "-b8", "-e8"]);
    let sweep = lab.wait(&home, &sweep).expect("FAILED", 2);
    let last = *sweep.sentences().last().expect("a sentence");
    assert!(
        last.contains("cannot use a GPU (Slurm gave this job GPUs"),
        "{last}"
    );

    // A step of one's own says nothing of it: the controller is asked.
    let words = ["srun", "--mpi=pmix", "-n2", BINARY, "doctor", "--verbose"];
    let ended = lab.salloc(&home, &["-N2", "--gpus-per-node=2"], &words);
    assert!(
        ended.stdout.contains("the site's KillOnBadExit=0"),
        "{ended:?}"
    );
}

/// The folder of the step of `job` that replayed a training step.
fn replay_of(home: &Home, job: &str) -> PathBuf {
    let results = home.path().join("results");
    let mut found = Vec::new();
    for run in fs::read_dir(results.join(format!("pxn_training-{job}"))).expect("a job's folder") {
        found.push(run.expect("an entry").path());
    }
    found.retain(|path| path.is_dir());
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_training_step_is_replayed_on_all_nodes_of_a_job() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let small =
        "--backend host --layers 2 --size-scale 0.0001 --time-scale 0.0001 -n 2 -w 1 --blocks 1";
    let mut words = vec!["moe-8x7b"];
    words.extend(small.split(' '));
    let job = lab.submit_to_all(&home, "training.sbatch", &words);
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    let checked = "# Out of bounds values : 0 OK";
    assert!(done.log.contains(checked), "{}", done.log);
    let summary = json(&replay_of(&home, &job).join("replay-moe-8x7b/replay.json"));
    assert_eq!(summary["run"]["ranks"], 8);
    assert_eq!(summary["run"]["nodes"], 4);
    // Only options: the workload of the template.
    let job = lab.submit_to_all(
        &home,
        "training.sbatch",
        &small.split(' ').collect::<Vec<_>>(),
    );
    lab.wait(&home, &job).expect("COMPLETED", 0);
    let replay = replay_of(&home, &job).join("replay-fsdp-7b/replay.json");
    assert_eq!(json(&replay)["workload"], "fsdp-7b");
    // The same by submit, whose level is that of the step.
    let words = "submit --template training --level conservative -N 2 --gpus-per-node 0 --wait";
    let mut submit = lab.command(BINARY, &home);
    submit.args(words.split(' ')).args(small.split(' '));
    let ended = run(&mut submit).expect_code(0);
    let (_, job) = ended.stderr.split_once("following job ").expect("a job");
    let job = job.split(';').next().expect("its number");
    let summary = json(&replay_of(&home, job).join("replay-fsdp-7b/replay.json"));
    assert_eq!(summary["run"]["level"], "conservative");
    assert_eq!(summary["run"]["nodes"], 2);
}
