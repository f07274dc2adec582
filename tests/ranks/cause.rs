//! Who failed first: what a job says and records when one of its ranks is killed, never comes, or
//! runs something else.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{
    self, Ended, folder_in_memory, has_mpi, json, launcher, mpirun, process_of_mpi_rank, run,
    send_signal, wait_until,
};

/// A sweep that lasts until it is ended, with its results in `run`.
const ENDLESS: &str = "all_reduce -b 1K -e 64K -f 2 -n 20 -N 0 --backend host --out run";

fn words(line: &str) -> std::str::SplitWhitespace<'_> {
    line.split_whitespace()
}

/// Starts `command` with pipes for its output.
fn start(command: &mut Command) -> std::process::Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started")
}

/// Waits until the run in `folder` has measured something.
fn wait_for_rows(folder: &Path) {
    let csv = folder.join("run/results.csv");
    let lines = || fs::read_to_string(&csv).map_or(0, |text| text.lines().count());
    wait_until("a few rows", || lines() > 3);
}

/// Runs 4 ranks, kills rank `victim` once there are rows, and returns its process id and how the
/// job ended.
fn kill_one_of_four(folder: &Path, victim: u32) -> (u32, Ended) {
    let marker = folder.join("run").display().to_string();
    let line = ENDLESS.replace("--out run", &format!("--out {marker}"));
    let mut command = mpirun(4, folder);
    command.env("TMPDIR", folder).args(words(&line));
    let child = start(&mut command);
    wait_for_rows(folder);
    let process = process_of_mpi_rank(&marker, victim).expect("the rank");
    assert!(send_signal("-KILL", process));
    (process, common::ended(child))
}

#[test]
fn a_rank_that_is_killed_is_named_with_its_host_and_process() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let (process, ended) = kill_one_of_four(folder.path(), 2);
    let host = pxnbench::world::placement::host_name();
    let named = format!("rank 2 on {host} (pid {process}) was killed");
    let naming: Vec<&str> = ended
        .sentences()
        .into_iter()
        .filter(|line| line.contains(&named))
        .collect();
    assert_eq!(naming.len(), 1, "{}", ended.stderr);
    let end = &json(&folder.path().join("run/run.json"))["end"];
    assert_eq!(end["code"], 8, "{end}");
    let message = end["message"].as_str().expect("a message");
    assert!(message.starts_with(&named), "{end}");
    assert_eq!(end["failed"]["rank"], 2, "{end}");
    assert_eq!(end["failed"]["host"], host.as_str(), "{end}");
    assert_eq!(end["failed"]["pid"], process, "{end}");
    let last = ended.stdout.lines().last().expect("the end of the table");
    assert!(
        last.starts_with("# Not finished, ") && last.contains(&named),
        "{last}"
    );
}

#[test]
fn the_death_of_rank_0_is_noted_by_another_rank() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let (process, ended) = kill_one_of_four(folder.path(), 0);
    let host = pxnbench::world::placement::host_name();
    let named = format!("rank 0 on {host} (pid {process}) was killed");
    assert!(ended.stderr.contains(&named), "{}", ended.stderr);
    let notes = pxnbench::world::cause::shared(&folder.path().join("run"));
    let note = pxnbench::world::cause::first_at(&notes).expect("a note");
    assert_eq!(
        (note.process.rank, note.process.pid),
        (0, process),
        "{note:?}"
    );
}

#[test]
fn a_run_that_ends_well_or_is_asked_to_stop_leaves_no_note() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let mut command = mpirun(3, folder.path());
    command
        .env("TMPDIR", folder.path())
        .args(words("all_reduce -b 8 -e 64 -f 8 --backend host --out run"));
    run(&mut command).expect_code(0);
    let marks = || {
        let entries = fs::read_dir(folder.path()).expect("a folder").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name.starts_with("pxnbench-rank."))
            .count()
    };
    assert_eq!(marks(), 0);
    assert!(json(&folder.path().join("run/run.json"))["end"]["failed"].is_null());
    fs::remove_dir_all(folder.path().join("run")).expect("removed");

    let mut command = mpirun(3, folder.path());
    command
        .env("TMPDIR", folder.path())
        // On a busy machine ranks need longer than the second that mpirun leaves them to end by
        // themselves.
        .env("OMPI_MCA_odls_base_sigkill_timeout", "5")
        .args(words(ENDLESS));
    let child = start(&mut command);
    wait_for_rows(folder.path());
    assert!(send_signal("-TERM", child.id()));
    let ended = common::ended(child);
    let end = &json(&folder.path().join("run/run.json"))["end"];
    assert_eq!(end["code"], 9, "{end}\n{}", ended.stderr);
    assert!(end["failed"].is_null(), "{end}");
    assert!(!ended.stderr.contains("was killed"), "{}", ended.stderr);
    assert_eq!(marks(), 0);
    assert!(pxnbench::world::cause::shared(&folder.path().join("run")).is_empty());
}

#[test]
fn a_rank_that_never_reaches_mpi_is_named() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let sweep = "all_reduce -b 8 -e 8 -T 3 --backend host";
    let mut command = launcher(folder.path());
    command
        .env("TMPDIR", folder.path())
        .args(["-np", "2", common::BINARY])
        .args(words(sweep))
        .args([
            ":",
            "-np",
            "1",
            "sleep",
            "600",
            ":",
            "-np",
            "1",
            common::BINARY,
        ])
        .args(words(sweep));
    let ended = run(&mut command).expect_code(4);
    let host = pxnbench::world::placement::host_name();
    let says = format!(
        "MPI_Init did not end within 3 s: it waits for rank 2 on {host}, which has not reached \
         MPI_Init"
    );
    assert!(ended.stderr.contains(&says), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("ranks 0, 1 and 3 have reached it"),
        "{}",
        ended.stderr
    );
}

/// The examination may take two minutes, and whoever waits for it knows earlier what it waits for.
#[test]
fn a_rank_that_mpi_waits_for_is_named_soon() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let said = folder.path().join("said");
    let mut command = launcher(folder.path());
    command.env("TMPDIR", folder.path());
    command.args(["-np", "2", common::BINARY, "doctor"]);
    command.args([":", "-np", "1", "sleep", "600"]);
    command.stdout(Stdio::null());
    command.stderr(fs::File::create(&said).expect("made"));
    let mut child = command.spawn().expect("started");
    let text = || fs::read_to_string(&said).unwrap_or_default();
    common::wait_until("the sentence", || text().contains("The job ends"));
    // By then the other rank has waited as long. Once mpirun ends them, one may see the other end,
    // and say so.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let text = text();
    assert!(send_signal("-TERM", child.id()));
    child.wait().expect("its end");
    let host = pxnbench::world::placement::host_name();
    let says = format!(" s: it waits for rank 2 on {host}, which has not reached MPI_Init (");
    let end = "; ranks 0 and 1 have reached it. The job ends if MPI_Init takes 120 s in all";
    let lines = text
        .lines()
        .filter(|line| line.contains("MPI_Init has not ended after "));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(
        lines[0].contains(&says) && lines[0].ends_with(end),
        "{text}"
    );
}

#[test]
fn ranks_of_different_programs_are_named() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let mut command = mpirun(1, folder.path());
    command
        .args(words("all_reduce -b 8 -e 8 --backend host"))
        .args([":", "-np", "1", common::BINARY, "doctor"]);
    let ended = run(&mut command).expect_code(6);
    let host = pxnbench::world::placement::host_name();
    let says = format!(
        "rank 1 on {host} runs pxnbench doctor, and rank 0 on {host} runs a sweep. Start the same \
         program on all ranks"
    );
    assert!(ended.stderr.contains(&says), "{}", ended.stderr);
}
