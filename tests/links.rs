//! Links that somebody planted under names which this program chooses, and what it leaves where
//! others look: nothing is written through such a link, and no temporary file outlives its process
//! for long.

mod common;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{after, alone, csv, json, run};

const SWEEP: [&str; 11] = [
    "all_reduce",
    "-b",
    "8",
    "-e",
    "16",
    "-f",
    "2",
    "--backend",
    "model",
    "--ranks",
    "4",
];

/// A folder with a file that nobody may touch.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("precious"), "precious").expect("written");
        Place { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a folder.
    fn make(&self, name: &str) -> PathBuf {
        let folder = self.path(name);
        fs::create_dir_all(&folder).expect("made");
        folder
    }

    /// Plants a link that leads to the file.
    fn plant(&self, name: &str) {
        symlink(self.path("precious"), self.path(name)).expect("planted");
    }

    #[track_caller]
    fn expect_untouched(&self) {
        let text = fs::read_to_string(self.path("precious")).expect("there");
        assert_eq!(text, "precious");
    }

    /// The program alone, with NCCL's log on, `tmp` for temporary files, and its rows in `x.csv`.
    fn logging(&self) -> Command {
        self.logging_to("x.csv")
    }

    /// As [`Place::logging`], with the rows in `csv`.
    fn logging_to(&self, csv: &str) -> Command {
        let mut command = alone(self.folder.path());
        command
            .env("NCCL_DEBUG", "INFO")
            .env("TMPDIR", self.make("tmp"))
            .args(SWEEP)
            .args(["--csv", csv]);
        command
    }

    /// As [`Place::logging`], as soon as it has a folder for temporary files; it does not end by
    /// itself.
    fn started(&self) -> (Child, PathBuf) {
        let before = names(&self.make("tmp"));
        let _ = fs::remove_file(self.path("x.csv"));
        let child = self
            .logging()
            .args(["-N", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let after = names(&self.path("tmp"));
            let new = after.iter().find(|name| !before.contains(name));
            // The rows come after the signal handlers.
            let rows = fs::metadata(self.path("x.csv")).map_or(0, |file| file.len());
            match new {
                Some(name) if rows > 2000 => return (child, self.path("tmp").join(name)),
                _ => assert!(Instant::now() < until, "no folder"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn results_are_not_written_through_links_that_somebody_planted_beside_them() {
    let place = Place::new();
    let out = place.make("out");
    let planted = ["results.json.part", "run.json.part", "n.json.part"];
    for name in planted {
        place.plant(&format!("out/{name}"));
    }
    run(alone(&out).args(SWEEP).args(["--out", ".", "-J", "n.json"])).expect_code(0);
    place.expect_untouched();
    for name in planted {
        assert!(out.join(name).is_symlink(), "{name} is not ours to remove");
    }
    let written = ["results.csv", "results.json", "run.json", "n.json"];
    assert_eq!(names(&out).len(), planted.len() + written.len());
    assert_eq!(csv(&out.join("results.csv")).len(), 4);
    assert_eq!(
        json(&out.join("results.json"))["records"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
    assert_eq!(json(&out.join("run.json"))["end"]["code"], 0);
}

#[test]
fn a_comparison_is_not_written_through_a_link_that_somebody_planted_beside_it() {
    let place = Place::new();
    for step in ["1-off", "2-default"] {
        let folder = place.make(&format!("all/{step}"));
        run(alone(&folder).args(SWEEP).args(["--out", "."])).expect_code(0);
    }
    for name in ["results.csv.part", "comparison.csv", "comparison.json"] {
        place.plant(&format!("all/{name}"));
    }
    run(alone(&place.path("all")).args(["compare", "."])).expect_code(0);
    place.expect_untouched();
    assert_eq!(csv(&place.path("all/results.csv")).len(), 8);
    assert_eq!(
        names(&place.path("all")),
        [
            "1-off",
            "2-default",
            "comparison.csv",
            "comparison.json",
            "results.csv",
            "results.csv.part"
        ]
    );
}

#[test]
fn one_result_does_not_pass_through_the_file_of_another() {
    let place = Place::new();
    run(alone(place.folder.path())
        .args(SWEEP)
        .args(["--json", "y", "--csv", "y.part"]))
    .expect_code(0);
    assert_eq!(csv(&place.path("y.part")).len(), 4);
    assert_eq!(
        json(&place.path("y"))["records"].as_array().map(Vec::len),
        Some(4)
    );
}

#[test]
fn a_link_at_run_json_is_replaced() {
    let place = Place::new();
    let out = place.make("out");
    place.plant("out/run.json");
    run(alone(&out).args(SWEEP).args(["--out", "."])).expect_code(0);
    place.expect_untouched();
    assert!(!out.join("run.json").is_symlink());
    assert_eq!(json(&out.join("run.json"))["end"]["code"], 0);
}

#[test]
fn files_have_the_permissions_that_the_umask_leaves() {
    let place = Place::new();
    for (umask, mode) in [("022", 0o644), ("027", 0o640), ("002", 0o664)] {
        let out = place.make(umask);
        let mut command = after(&format!("umask {umask}"), &out);
        command.args(SWEEP).args(["--out", "."]);
        run(&mut command).expect_code(0);
        for name in ["results.csv", "results.json", "run.json"] {
            let is = fs::metadata(out.join(name)).expect("there").mode() & 0o777;
            assert_eq!(is, mode, "{umask}: {name}: {is:o}");
        }
    }
}

#[test]
fn the_folder_of_a_job_is_no_link() {
    for (link, step) in [("results/test-17", "0"), ("results/test-17/0", "0")] {
        let place = Place::new();
        let elsewhere = place.make("elsewhere");
        place.make(Path::new(link).parent().and_then(Path::to_str).expect("a"));
        symlink(&elsewhere, place.path(link)).expect("planted");
        let ended = run(alone(place.folder.path())
            .args(SWEEP)
            .envs([("SLURM_JOB_ID", "17"), ("SLURM_JOB_NAME", "test")])
            .env("SLURM_STEP_ID", step))
        .expect_code(6);
        let sentence = format!(
            "pxnbench: {link} is a symbolic link that pxnbench did not create. Name another file, \
             or another folder with --out"
        );
        assert_eq!(ended.sentences().last(), Some(&sentence.as_str()));
        assert_eq!(names(&elsewhere), [] as [&str; 0]);
    }
    // The folder of all results may be one: it is often on another file system.
    let place = Place::new();
    symlink(place.make("elsewhere"), place.path("results")).expect("linked");
    run(alone(place.folder.path())
        .args(SWEEP)
        .envs([("SLURM_JOB_ID", "17"), ("SLURM_JOB_NAME", "test")]))
    .expect_code(0);
    assert!(place.path("elsewhere/test-17/run.json").is_file());
}

#[test]
fn a_link_of_another_user_in_a_folder_for_all_is_refused() {
    let place = Place::new();
    let shared = place.make("shared");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("shared");
    for name in ["x.csv", "results.json"] {
        let link = format!("shared/{name}");
        place.plant(&link);
        // Only root can make a link of another user.
        if std::os::unix::fs::lchown(place.path(&link), Some(65534), None).is_err() {
            return;
        }
        let ended = run(alone(&shared)
            .args(SWEEP)
            .args(["--out", ".", "--csv", "x.csv"]))
        .expect_code(6);
        assert!(
            ended.stderr.contains(&format!(
                "{name} is a link of another user. Name another file"
            )),
            "{}",
            ended.stderr
        );
        place.expect_untouched();
        fs::remove_file(place.path(&link)).expect("removed");
    }
}

#[test]
fn nccls_log_waits_in_a_folder_of_this_user_that_goes_when_the_run_ends() {
    let place = Place::new();
    let (mut child, folder) = place.started();
    let meta = folder.symlink_metadata().expect("a folder");
    assert!(
        meta.is_dir() && meta.mode() & 0o777 == 0o700,
        "{:o}",
        meta.mode()
    );
    let pid = child.id().to_string();
    assert!(
        !folder
            .file_name()
            .is_some_and(|name| name.to_string_lossy().contains(&pid))
    );
    Command::new("kill").arg(&pid).status().expect("sent");
    assert_eq!(child.wait().expect("it ended").code(), Some(9));
    assert_eq!(names(&place.path("tmp")), [] as [&str; 0]);
    run(&mut place.logging()).expect_code(0);
    assert_eq!(names(&place.path("tmp")), [] as [&str; 0]);
    run(place.logging().args(["-J", "."])).expect_code(6);
    assert_eq!(names(&place.path("tmp")), [] as [&str; 0]);
}

#[test]
fn what_a_killed_run_leaves_the_next_one_removes() {
    let place = Place::new();
    let (mut killed, left) = place.started();
    killed.kill().expect("killed");
    killed.wait().expect("dead");
    fs::write(left.join("h.1.log"), "NCCL").expect("written");
    let (mut alive, used) = place.started();
    assert!(!left.exists(), "its process is dead");
    let link = place.path("tmp/pxnbench.link");
    symlink(place.path("precious"), &link).expect("planted");
    // The run that is alive has the other one.
    run(&mut place.logging_to("y.csv")).expect_code(0);
    assert!(used.join("owner").is_file(), "its process lives");
    assert!(link.is_symlink());
    place.expect_untouched();
    alive.kill().expect("killed");
    alive.wait().expect("dead");
}
