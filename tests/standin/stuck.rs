//! A job whose GPUs are stuck: what is said, and when. The files are in memory: the disk of a busy
//! machine can take longer than the limits of these tests, and would be what is said.

use std::{fs, time::Duration};

use crate::{
    Layout, TWO,
    common::{
        BINARY, csv, ended, json, launcher, process_of_mpi_rank, processes_with, run, send_signal,
        wait_until,
    },
    machine::Machine,
};
use pxnbench::world::placement::host_name;

#[test]
fn an_operation_that_hangs_on_one_rank_is_said_once_with_its_place() {
    let Some(machine) = Machine::in_memory(2) else {
        return;
    };
    // The operation is the third of a block of 40: one of the warm-up and the first one come
    // before.
    let fault = "hang:5:1:1";
    let words = "all_reduce -b 1K -e 1K -n 40 -w 1 -c 0 -T 5";
    let ended = machine.broken(2, fault, words).expect_code(4);
    let sentences = ended.sentences();
    let stuck: Vec<&&str> = sentences
        .iter()
        .filter(|line| line.contains("made no progress"))
        .collect();
    assert_eq!(stuck.len(), 1, "{}", ended.stderr);
    for part in [
        ": all 2 ranks, such as rank ",
        ", are at the same point and have made no progress since ",
        "40 times all_reduce 1K float sum out of place",
        " of 40 operations done",
        " (GPU 0, pid ",
        "On this rank NCCL reports no error",
    ] {
        assert!(stuck[0].contains(part), "{part}\n{}", stuck[0]);
    }
    assert!(ended.took < Duration::from_secs(40), "{:?}", ended.took);
}

#[test]
fn a_rank_that_is_stopped_is_named_with_its_gpu() {
    let Some(machine) = Machine::in_memory(2) else {
        return;
    };
    let marker = format!("stuck-gpu-{}", std::process::id());
    let words = format!("all_reduce -b 1K -e 64K -f 2 -n 20 -N 0 -T 3 --out {marker}");
    let run = machine.path().join(&marker);
    let mut command = machine.start(2, &words);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let job = command.spawn().expect("started");
    wait_until("rows", || {
        let text = fs::read_to_string(run.join("results.csv"));
        text.is_ok_and(|text| text.lines().count() > 4)
    });
    // Beats that say which GPU it has: four a second.
    std::thread::sleep(Duration::from_secs(2));
    let process = process_of_mpi_rank(&marker, 1).expect("the rank");
    assert!(send_signal("-STOP", process));
    let ended = ended(job).expect_code(4);
    let host = host_name();
    let named = format!("rank 1 on {host} (GPU 1, pid {process}) has been silent since ");
    let naming = ended.stderr.matches(&named).count();
    assert_eq!(naming, 1, "{}", ended.stderr);
    wait_until("no process is left", || processes_with(&marker).is_empty());
    assert!(csv(&run.join("results.csv")).len() >= 4);
    let end = &json(&run.join("run.json"))["end"];
    assert_eq!(end["code"], 4, "{end}");
    assert!(end.to_string().contains(&named), "{end}");
}

#[test]
fn a_rank_that_is_stopped_in_the_self_test_is_named() {
    let Some(machine) = Machine::in_memory(2) else {
        return;
    };
    // A name by which the ranks are told from their workers, which are started by the name of the
    // file itself.
    let marker = format!("stuck-self-test-{}", std::process::id());
    let program = machine.path().join(&marker);
    std::os::unix::fs::symlink(BINARY, &program).expect("a link");
    let tmp = machine.path().join("tmp");
    fs::create_dir(&tmp).expect("made");
    let mut command = machine.on(launcher(machine.path()));
    command
        .args(["-np", "2"])
        .arg(&program)
        .args(["proof", "--self-test"])
        .env("TMPDIR", &tmp)
        .env("SLURM_JOB_GPUS", "0")
        // The operations of the workers do not end, so the ranks wait for these.
        .env("STANDIN_FAULT", "hang:0:1")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let job = command.spawn().expect("started");
    wait_until("both workers run NCCL", || {
        let folders = fs::read_dir(&tmp).expect("a folder").flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
        let names = files.flatten().map(|file| file.file_name());
        names
            .filter(|name| name.to_string_lossy().ends_with(".off.log"))
            .count()
            == 2
    });
    std::thread::sleep(Duration::from_secs(2));
    let process = process_of_mpi_rank(&marker, 1).expect("the rank");
    assert!(send_signal("-STOP", process));
    let ended = ended(job).expect_code(4);
    let named = format!("pxnbench: rank 0 on {0}: rank 1 on {0} (", host_name());
    assert!(ended.stderr.contains(&named), "{}", ended.stderr);
    let named = format!("pid {process}) has been silent since ");
    assert_eq!(ended.stderr.matches(&named).count(), 1, "{}", ended.stderr);
    wait_until("no process is left", || processes_with(&marker).is_empty());
}

/// Operations that wait rather than compute: marks pass in time however busy the machine is.
#[test]
fn a_block_that_takes_longer_than_the_limit_goes_on_while_marks_pass() {
    let Some(machine) = Machine::in_memory(2) else {
        return;
    };
    const LIMIT_S: f64 = 3.0;
    const OPERATION_MS: f64 = 250.0;
    const OPERATIONS: f64 = 16.0;
    for Layout { processes, options } in TWO {
        let file = machine.path().join("block.csv");
        let _ = fs::remove_file(&file);
        let words =
            format!("all_reduce -b 8K -e 8K -w 1 -c 0 -n {OPERATIONS} -T {LIMIT_S} {options}");
        let mut command = machine.start(processes, &words);
        command
            .env("STANDIN_FAULT", format!("slow:0:{OPERATION_MS}"))
            .arg("--csv")
            .arg(&file);
        run(&mut command).expect_code(0);
        let time_us: f64 = csv(&file)[0]["time_us"].parse().expect("a time");
        assert!(time_us >= OPERATION_MS * 1e3, "{time_us}");
        assert!(OPERATIONS * time_us > LIMIT_S * 1e6);
    }
}
