//! Disks that are full or go away, and folders in which others do what they like.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    MODEL,
    common::{
        self, Ended, after, alone, csv, disk_fault::DiskFault, json, run, send_signal, skip,
        wait_until,
    },
    folder,
};

/// A sweep of 18 sizes and 12 types.
const SWEEP: [&str; 10] = [
    "all_reduce",
    "-b",
    "8",
    "-e",
    "1M",
    "-f",
    "2",
    "-d",
    "all",
    "--quiet",
];
const CASES: usize = 18 * 12 * 2;

/// Runs the binary where a file may have at most `kib` KiB: a write behind that fails as on a full
/// disk.
fn with_small_files(folder: &Path, kib: u32, arguments: &[&str]) -> Ended {
    let limit = format!("trap '' XFSZ; ulimit -f {kib}");
    run(after(&limit, folder).args(arguments).args(MODEL))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name != ".mpi")
        .collect();
    names.sort();
    names
}

#[test]
fn rows_that_do_not_fit_are_said_once_and_resumed_and_the_table_has_them() {
    let folder = folder();
    let arguments = [&SWEEP[..], &["--csv", "x.csv"]].concat();
    let full = with_small_files(folder.path(), 16, &arguments).expect_code(11);
    assert_eq!(full.rows().len(), CASES / 2, "the table is complete");
    let sentences = full.sentences();
    let [first, last] = sentences[..] else {
        panic!("{}", full.stderr)
    };
    assert!(
        first.contains("x.csv cannot be written: File too large")
            && first
                .ends_with("Its rows are kept in memory, and written as soon as that is possible"),
        "{first}"
    );
    let path = folder.path().join("x.csv");
    let text = fs::read_to_string(&path).expect("the CSV");
    assert!(text.ends_with("\r\n"), "no half row: {text}");
    let kept = csv(&path).len();
    let missing = format!(
        "x.csv lacks {} rows of this run: File too large",
        CASES - kept
    );
    assert!(kept > 10 && last.contains(&missing), "{last}");
    assert!(last.ends_with("Once files can be written again, --resume measures what is missing"));

    let resumed = run(alone(folder.path())
        .args(&SWEEP[..9])
        .args(MODEL)
        .args(["--csv", "x.csv", "--resume"]))
    .expect_code(0);
    let extent = format!(
        "{kept} of {CASES} cases are kept, {} remain to be measured",
        CASES - kept
    );
    assert!(resumed.stderr.contains(&extent), "{}", resumed.stderr);
    let rows = csv(&path);
    let keys = ["size_bytes", "type", "in_place"];
    let cases: std::collections::BTreeSet<_> =
        rows.iter().map(|row| keys.map(|key| &row[key])).collect();
    assert_eq!((rows.len(), cases.len()), (CASES, CASES));
}

#[test]
fn no_file_says_that_a_run_ended_well_if_another_one_could_not_be_written() {
    let folder = folder();
    let arguments = ["all_reduce", "-b", "8", "-e", "1M", "-f", "2", "--out", "o"];
    let full = with_small_files(folder.path(), 24, &arguments).expect_code(11);
    let o = folder.path().join("o");
    assert_eq!(csv(&o.join("results.csv")).len(), 36);
    let end = &json(&o.join("run.json"))["end"];
    assert_eq!((&end["code"], &end["name"]), (&11.into(), &"disk".into()));
    let message = end["message"].as_str().expect("a message");
    assert!(
        message.contains("results.json cannot be written: "),
        "{message}"
    );
    assert!(full.stderr.contains(message), "{}", full.stderr);
    let results = json(&o.join("results.json"));
    assert!(results["run"]["end"].is_null(), "as at the start");
    assert_eq!(
        names(&o),
        ["results.csv", "results.json", "run.json"],
        "no part is left"
    );
}

#[test]
fn a_stream_that_takes_nothing_is_exit_11() {
    let folder = folder();
    let mut command = alone(folder.path());
    command
        .args(["all_reduce", "-b", "8", "-e", "8", "--csv", "x.csv"])
        .args(["--json", "/dev/full"])
        .args(MODEL);
    let ended = run(&mut command).expect_code(11);
    let words = "/dev/full cannot be written: No space left on device";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert_eq!(csv(&folder.path().join("x.csv")).len(), 2);
}

/// A run until a signal, whose messages go to a file.
struct EndlessRun {
    child: Child,
    messages: std::path::PathBuf,
}

impl EndlessRun {
    fn start(folder: &Path, out: &Path) -> EndlessRun {
        let messages = folder.join("messages");
        let mut command = alone(folder);
        command
            .args(["all_reduce", "-b", "8", "-e", "64", "-f", "2", "-N", "0"])
            .args(MODEL)
            .arg("--out")
            .arg(out);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&messages).expect("a file"))
            .spawn();
        EndlessRun {
            child: child.expect("started"),
            messages,
        }
    }

    fn said(&self, words: &str) -> bool {
        fs::read_to_string(&self.messages).is_ok_and(|text| text.contains(words))
    }

    #[track_caller]
    fn wait_for(&self, words: &str) {
        wait_until(words, || self.said(words));
    }

    /// Stops it as Slurm does before the time limit, which leaves it time, and returns its exit
    /// code and its messages.
    fn stop(self) -> (Option<i32>, String) {
        assert!(send_signal("-USR1", self.child.id()));
        let code = common::ended(self.child).code;
        let messages = fs::read_to_string(&self.messages).expect("messages");
        (code, messages)
    }
}

/// Checks that a CSV of an endless run has each case in its turn.
fn check_that_no_case_is_missing(path: &Path) {
    let sizes = ["8", "16", "32", "64"];
    let mut turns = sizes
        .iter()
        .flat_map(|size| [(size, "0"), (size, "1")])
        .cycle();
    for (at, row) in csv(path).iter().enumerate() {
        let (size, in_place) = turns.next().expect("a turn");
        let case = (row["size_bytes"].as_str(), row["in_place"].as_str());
        assert_eq!(case, (*size, in_place), "row {at}");
    }
}

fn rows_of(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn what_others_do_to_the_files_of_a_run_is_said_and_mended() {
    let folder = folder();
    let o = folder.path().join("o");
    let path = o.join("results.csv");
    let endless = EndlessRun::start(folder.path(), &o);
    wait_until("rows", || rows_of(&path) > 10);
    // In one step: the run makes the folder anew.
    fs::rename(&o, folder.path().join("gone")).expect("moved");
    endless
        .wait_for("o/results.csv was removed during the run. It was written anew, with all rows");
    wait_until("rows", || rows_of(&path) > 10);
    let file = File::options().write(true).open(&path).expect("opened");
    file.set_len(700).expect("cut");
    endless.wait_for("o/results.csv was cut short during the run");
    fs::write(o.join("mine"), "mine").expect("written");
    fs::rename(o.join("mine"), &path).expect("replaced");
    endless.wait_for("o/results.csv was replaced during the run");
    let (code, messages) = endless.stop();
    assert_eq!(code, Some(9), "{messages}");
    check_that_no_case_is_missing(&path);
    let run = json(&o.join("run.json"));
    assert_eq!(run["end"]["code"], 9);
    assert!(
        run["remarks"]
            .to_string()
            .contains("was removed during the run")
    );
    let kept = names(&o).into_iter().filter(|name| {
        name.starts_with("results.csv.") && fs::read(o.join(name)).is_ok_and(|text| text == b"mine")
    });
    assert_eq!(
        kept.count(),
        1,
        "what somebody put there is kept: {:?}",
        names(&o)
    );
}

#[test]
fn what_a_killed_writer_leaves_is_removed_by_the_next_one_and_not_before() {
    let folder = folder();
    let o = folder.path().join("o");
    let sweep = ["all_reduce", "-b", "8", "-e", "8", "--out", "o"];
    let parts = || {
        let names = if o.exists() { names(&o) } else { Vec::new() };
        let parts = names
            .into_iter()
            .filter(|name| name.starts_with(".run.json.pxnbench-part-"));
        parts.collect::<Vec<_>>()
    };
    let slow = DiskFault {
        what: "300",
        path: ".run.json.pxnbench-part-",
        ..DiskFault::of("sync")
    };
    let Some(variables) = slow.variables() else {
        return;
    };
    let mut command = alone(folder.path());
    command.args(sweep).args(MODEL).envs(variables);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("started");
    wait_until("a part", || !parts().is_empty());
    let part = parts();
    // Its writer lives.
    run(alone(folder.path()).args(sweep).args(MODEL)).expect_code(6);
    assert_eq!(parts(), part);
    assert!(send_signal("-KILL", child.id()));
    common::ended(child);
    assert_eq!(parts(), part, "a killed process removes nothing");
    run(alone(folder.path()).args(sweep).args(MODEL)).expect_code(0);
    assert!(parts().is_empty(), "{:?}", parts());
    assert_eq!(json(&o.join("run.json"))["end"]["code"], 0);
}

/// A sweep of 36 cases into `x.csv`, on a disk with `fault`.
fn sweep_on(fault: &DiskFault, folder: &Path) -> Option<Ended> {
    let mut command = alone(folder);
    command
        .args([
            "all_reduce",
            "-b",
            "8",
            "-e",
            "1M",
            "-f",
            "2",
            "--csv",
            "x.csv",
        ])
        .arg("--quiet")
        .args(MODEL)
        .envs(fault.variables()?);
    Some(run(&mut command))
}

#[test]
fn errors_of_a_disk_are_said_once_and_leave_whole_rows() {
    for (error, words) in [
        ("EIO", "Input/output error"),
        ("EDQUOT", "Disk quota exceeded"),
        ("ESTALE", "Stale file handle"),
        ("EROFS", "Read-only file system"),
    ] {
        let folder = folder();
        let fault = DiskFault {
            what: error,
            path: "/x.csv",
            // The header, and ten rows.
            skip: 11,
            ..DiskFault::of("write")
        };
        let Some(ended) = sweep_on(&fault, folder.path()) else {
            return;
        };
        let ended = ended.expect_code(11);
        assert_eq!(ended.rows().len(), 18, "the table is complete");
        let sentences = ended.sentences();
        let [first, last] = sentences[..] else {
            panic!("{}", ended.stderr)
        };
        let trouble = format!("x.csv cannot be written: {words}");
        assert!(first.contains(&trouble), "{first}");
        let lacks = format!("x.csv lacks 26 rows of this run: {words}");
        assert!(last.contains(&lacks), "{last}");
        let path = folder.path().join("x.csv");
        assert!(
            fs::read_to_string(&path)
                .expect("the CSV")
                .ends_with("\r\n")
        );
        assert_eq!(csv(&path).len(), 10);
        let resumed = run(alone(folder.path())
            .args(["all_reduce", "-b", "8", "-e", "1M", "-f", "2", "--resume"])
            .args(["--csv", "x.csv"])
            .args(MODEL))
        .expect_code(0);
        assert!(
            resumed.stderr.contains("10 of 36 cases are kept"),
            "{}",
            resumed.stderr
        );
        assert_eq!(csv(&path).len(), 36);
    }
}

#[test]
fn a_disk_that_fails_for_a_while_has_all_rows_in_the_end() {
    for (error, calls) in [
        ("EIO", "write"),
        ("ESTALE", "write"),
        ("EIO", "sync"),
        ("EDQUOT", "sync"),
        ("ESTALE", "open,write,sync"),
    ] {
        let folder = folder();
        let fault = DiskFault {
            what: error,
            path: "/x.csv",
            skip: 8,
            times: Some(5),
            ..DiskFault::of(calls)
        };
        let Some(ended) = sweep_on(&fault, folder.path()) else {
            return;
        };
        let ended = ended.expect_code(0);
        let sentences = ended.sentences();
        let [first, second] = sentences[..] else {
            panic!("{error} in {calls}: {}", ended.stderr)
        };
        assert!(first.contains("x.csv cannot be written: "), "{first}");
        assert!(
            second.ends_with("x.csv can be written again, and has all rows"),
            "{second}"
        );
        let rows = csv(&folder.path().join("x.csv"));
        let cases: std::collections::BTreeSet<_> = rows
            .iter()
            .map(|row| (&row["size_bytes"], &row["in_place"]))
            .collect();
        assert_eq!((rows.len(), cases.len()), (36, 36), "{error} in {calls}");
    }
}

#[test]
fn a_folder_that_is_read_only_is_refused_before_anything_is_measured() {
    for (error, words) in [
        ("EROFS", "Read-only file system"),
        ("EACCES", "Permission denied"),
    ] {
        let folder = folder();
        let fault = DiskFault {
            what: error,
            path: "x.csv",
            ..DiskFault::of("open")
        };
        let Some(ended) = sweep_on(&fault, folder.path()) else {
            return;
        };
        let ended = ended.expect_code(6);
        let sentence = format!("x.csv cannot be written: {words}");
        assert!(ended.stderr.contains(&sentence), "{}", ended.stderr);
        assert!(ended.rows().is_empty(), "{}", ended.stdout);
        assert!(!folder.path().join("x.csv").exists());
    }
}

/// A small file system, which is unmounted when this is dropped.
struct Tmpfs(std::path::PathBuf);

impl Tmpfs {
    fn mount(at: &Path, size: &str) -> Option<Tmpfs> {
        fs::create_dir_all(at).expect("made");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at)
            .output();
        let is_mounted = mounted.is_ok_and(|mount| mount.status.success());
        if !is_mounted {
            let _ = skip("mount", "this user may not mount a tmpfs");
        }
        is_mounted.then(|| Tmpfs(at.to_owned()))
    }

    /// Fills it but for some KiB, and returns the file with which that is done.
    fn fill_but(&self, kib: u64) -> std::path::PathBuf {
        let ballast = self.0.join("ballast");
        let mut file = File::create(&ballast).expect("a file");
        let block = [1; 1 << 16];
        while file.write_all(&block).is_ok() {}
        let length = file.metadata().expect("its length").len();
        file.set_len(length.saturating_sub(kib << 10)).expect("cut");
        ballast
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_was_full_for_a_while_has_everything_in_the_end() {
    let folder = folder();
    let disk = folder.path().join("disk");
    let Some(tmpfs) = Tmpfs::mount(&disk, "96m") else {
        return;
    };
    let ballast = tmpfs.fill_but(512);
    let endless = EndlessRun::start(folder.path(), &disk.join("o"));
    endless.wait_for("results.csv cannot be written: No space left on device");
    fs::remove_file(ballast).expect("removed");
    endless.wait_for("results.csv can be written again, and has all rows");
    let (code, messages) = endless.stop();
    assert_eq!(code, Some(9), "{messages}");
    assert_eq!(messages.matches("results.csv cannot be written").count(), 1);
    check_that_no_case_is_missing(&disk.join("o/results.csv"));
    assert_eq!(json(&disk.join("o/run.json"))["end"]["code"], 9);
}

#[test]
fn a_disk_that_stays_full_keeps_whole_rows() {
    let folder = folder();
    let disk = folder.path().join("disk");
    let Some(tmpfs) = Tmpfs::mount(&disk, "8m") else {
        return;
    };
    let ballast = tmpfs.fill_but(256);
    let endless = EndlessRun::start(folder.path(), &disk.join("o"));
    endless.wait_for("results.csv cannot be written: No space left on device");
    let (code, messages) = endless.stop();
    assert_eq!(code, Some(11), "{messages}");
    assert!(messages.contains("results.csv lacks "), "{messages}");
    let text = fs::read_to_string(disk.join("o/results.csv")).expect("the CSV");
    assert!(text.ends_with("\r\n"));
    assert!(csv(&disk.join("o/results.csv")).len() > 100);
    let end = json(&disk.join("o/run.json"))["end"].clone();
    assert!(end.is_null() || end["code"] == 11, "{end}");
    let names = names(&disk.join("o"));
    assert!(
        !names.iter().any(|name| name.contains(".pxnbench-part-")),
        "{names:?}"
    );
    // It is held open to here, so that the disk is as full as it was.
    let block = File::open(ballast).expect("opened").read_at(&mut [0], 0);
    assert_eq!(block.expect("read"), 1);
}
