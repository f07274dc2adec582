//! A rank that is stuck is named, whichever it is; one that is slow is not. The files are in
//! memory: the disk of a busy machine can take longer than the limits of these tests, and would be
//! what is said.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use pxnbench::world::placement::host_name;

use crate::{
    common::{
        BINARY, csv, folder_in_memory, has_mpi, launcher, mpirun, process_of_mpi_rank, run,
        send_signal, wait_until,
    },
    ends::{assert_nothing_left, assert_whole_csv, long_sweep, start_long_sweep, unfinished},
};

/// The limit of the sweeps, `-T`.
const T: Duration = Duration::from_secs(3);

/// How much later a message may come on a machine that is busy with other things.
const BUSY: Duration = Duration::from_secs(15);

/// How a job with a stopped rank ended.
struct StuckJob {
    /// The sentences of the program, each with the time since the rank was stopped.
    sentences: Vec<(Duration, String)>,
    code: Option<i32>,
}

impl StuckJob {
    /// Stops `process` and waits for the end of the job.
    fn after_stopping(process: u32, mut job: Child) -> StuckJob {
        let stderr = job.stderr.take().expect("its stderr");
        assert!(send_signal("-STOP", process));
        let stopped = Instant::now();
        let reader = thread::spawn(move || {
            let mut sentences = Vec::new();
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if line.starts_with("pxnbench: rank ") {
                    sentences.push((stopped.elapsed(), line));
                }
            }
            sentences
        });
        let ended = job.wait().expect("the end of mpirun");
        StuckJob {
            sentences: reader.join().expect("the lines"),
            code: ended.code(),
        }
    }

    /// Returns its only sentence, which came in time.
    #[track_caller]
    fn only_sentence(&self) -> &str {
        let [(after, sentence)] = &self.sentences[..] else {
            panic!("{:?}", self.sentences);
        };
        // The last beat came shortly before the rank was stopped.
        let earliest = T - Duration::from_secs(1);
        assert!(
            *after >= earliest && *after < T + BUSY,
            "{after:?}: {sentence}"
        );
        sentence
    }
}

fn rows(folder: &Path) -> usize {
    csv(&folder.join("x.csv")).len()
}

#[test]
fn each_rank_that_is_stopped_is_named_by_another_and_the_job_ends() {
    if !has_mpi() {
        return;
    }
    for stopped in 0..4 {
        let folder = folder_in_memory();
        let marker = format!("stuck-{stopped}-{}.json", std::process::id());
        let job = long_sweep(4, folder.path(), &["--json", &marker, "-T", "3"]);
        let process = process_of_mpi_rank(&marker, stopped).expect("the rank");
        let before = rows(folder.path());
        let ended = StuckJob::after_stopping(process, job);
        let sentence = ended.only_sentence();
        let speaker = u32::from(stopped == 0);
        assert!(
            sentence.starts_with(&format!("pxnbench: rank {speaker} on ")),
            "{sentence}"
        );
        let host = pxnbench::world::placement::host_name();
        let named = format!(": rank {stopped} on {host} (pid {process}) has been silent since ");
        assert!(sentence.contains(&named), "{sentence}");
        assert!(sentence.contains(": it was at “"), "{sentence}");
        assert_eq!(ended.code, Some(4), "{sentence}");
        assert_nothing_left(&marker);
        assert_whole_csv(&folder.path().join("x.csv"));
        assert!(rows(folder.path()) >= before);
        if stopped > 0 {
            assert!(unfinished(folder.path()).contains(&named[2..]));
        }
    }
}

#[test]
fn what_the_threads_of_all_ranks_do_is_written_down_with_stacks() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let path = std::env::var("PATH").expect("PATH");
    // A debugger that says which process it looks at, and is stuck itself.
    let debugger = folder.path().join("eu-stack");
    let script = "#!/bin/sh\necho \"calls of $2\"; exec sleep 100\n";
    fs::write(&debugger, script).expect("written");
    fs::set_permissions(&debugger, fs::Permissions::from_mode(0o755)).expect("set");
    let marker = format!("stacks-{}", std::process::id());
    let mut command = mpirun(4, folder.path());
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    let more = ["--out", &marker, "-T", "3", "--stacks"];
    let job = start_long_sweep(command, folder.path(), &more);
    let process = process_of_mpi_rank(&marker, 1).expect("the rank");
    let ended = StuckJob::after_stopping(process, job);
    let sentence = ended.only_sentence();
    let named = format!("(pid {process}) has been silent since ");
    assert!(sentence.contains(&named), "{sentence}");
    // The rank that is named first, the one that speaks last.
    let files = format!(
        ". What the threads on {} did is in {marker}: stacks-1.txt, stacks-2.txt, stacks-3.txt, \
         stacks-0.txt",
        host_name()
    );
    assert!(sentence.ends_with(&files), "{sentence}");
    assert_eq!(ended.code, Some(4), "{sentence}");
    assert_nothing_left(&marker);
    let text = |rank: u32| {
        let file = folder
            .path()
            .join(&marker)
            .join(format!("stacks-{rank}.txt"));
        fs::read_to_string(file).expect("the file of a rank")
    };
    let stopped = text(1);
    let first = format!("thread {process} pxnbench: state T (stopped by a signal)");
    assert!(stopped.contains(&first), "{stopped}");
    let watch = stopped.lines().find(|line| line.contains(" watch: "));
    assert!(
        watch.is_some_and(|line| line.contains(": state T ")),
        "{stopped}"
    );
    for calls in [
        format!("calls of {process}\n"),
        "eu-stack was ended, because it took too long.\n".into(),
    ] {
        assert!(stopped.contains(&calls), "{stopped}");
    }
    for rank in [0, 2, 3] {
        let waiting = text(rank);
        assert!(
            waiting.starts_with(&format!("rank {rank} on {}", host_name())),
            "{waiting}"
        );
        assert!(waiting.contains(" watch: state "), "{waiting}");
        assert!(!waiting.contains("state T"), "{waiting}");
    }
    assert!(
        text(0).contains("is not stopped for a debugger"),
        "{}",
        text(0)
    );
}

#[test]
fn stacks_without_a_folder_are_said_to_have_no_effect() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let mut command = mpirun(2, folder.path());
    command.args("all_reduce -b 8 -e 8 -n 1 --csv x.csv --stacks".split(' '));
    let ended = run(&mut command).expect_code(0);
    let remark = "pxnbench: --stacks has no effect: this run has no folder of results. Use --out";
    assert_eq!(ended.stderr.matches(remark).count(), 1, "{}", ended.stderr);
}

#[test]
fn a_rank_that_is_stopped_in_the_doctor_is_named() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    // Rank 0 asks scontrol while the others wait for what it finds.
    let scontrol = folder.path().join("scontrol");
    let script = "#!/bin/sh\necho $PPID > asked; sleep 3; kill -STOP $PPID; exec sleep 100\n";
    fs::write(&scontrol, script).expect("written");
    fs::set_permissions(&scontrol, fs::Permissions::from_mode(0o755)).expect("set");
    let path = std::env::var("PATH").expect("PATH");
    let mut command = launcher(folder.path());
    command
        .args(["-np", "3", "env"])
        .arg(format!("PATH={}:{path}", folder.path().display()))
        .args(["SLURM_JOB_ID=77", "SLURM_JOB_NODELIST=n1"])
        .args([BINARY, "doctor"]);
    let ended = run(&mut command).expect_code(4);
    let asked = fs::read_to_string(folder.path().join("asked")).expect("a process");
    let named = format!("pid {}) has been silent since ", asked.trim());
    assert_eq!(ended.stderr.matches(&named).count(), 1, "{}", ended.stderr);
    let speaker = format!("pxnbench: rank 1 on {0}: rank 0 on {0} (", host_name());
    assert!(ended.stderr.contains(&speaker), "{}", ended.stderr);
    assert!(ended.took < Duration::from_secs(60), "{:?}", ended.took);
    wait_until("rank 0 is gone", || {
        !Path::new("/proc").join(asked.trim()).exists()
    });
}

#[test]
fn a_sweep_that_takes_longer_than_the_limit_goes_on_while_it_makes_progress() {
    if !has_mpi() {
        return;
    }
    let folder = folder_in_memory();
    let mut times: f64 = 300.0;
    loop {
        let words = format!("all_reduce -b 1M -e 1M -c 0 -n {times} -T 3 --csv x.csv");
        let mut command = mpirun(4, folder.path());
        run(command.args(words.split(' '))).expect_code(0);
        let rows = csv(&folder.path().join("x.csv"));
        assert_eq!(rows.len(), 2);
        let time_us: f64 = rows[0]["time_us"].parse().expect("a time");
        std::fs::remove_file(folder.path().join("x.csv")).expect("removed");
        // Faster machines need more operations until a block takes longer than the limit.
        if times * time_us > 1.3e6 * T.as_secs_f64() {
            return;
        }
        times *= 4.0;
    }
}
