//! A rank that is stuck is named, whichever it is; one that is slow is not. The files are in memory: the
//! disk of a busy machine can take longer than the limits of these tests, and would be what is said.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{csv, folder_in_memory, has_mpi, mpirun, process_of_mpi_rank, run, send_signal},
    ends::{assert_nothing_left, assert_whole_csv, long_sweep, unfinished},
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
