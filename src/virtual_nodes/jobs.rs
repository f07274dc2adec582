//! The jobs of a rehearsal, and how several of them run at the same time.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use super::request::Request;
use crate::{collective::Collective, levels::Preset, rehearsal::theory::Algorithm, world::signal};

/// A collective at a level on a topology.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The cluster, by its place in the request.
    pub(super) cluster: usize,
    pub(super) level: &'static Preset,
    pub(super) collective: Collective,
    pub(super) algorithm: Algorithm,
}

/// Returns the jobs of a request: by topology, collective, algorithm and level.
pub(super) fn list(request: &Request) -> Vec<Job> {
    let mut jobs = Vec::new();
    for cluster in 0..request.clusters.len() {
        for collective in &request.collectives {
            for algorithm in Algorithm::of(*collective) {
                for level in &request.levels {
                    jobs.push(Job {
                        cluster,
                        level,
                        collective: *collective,
                        algorithm: *algorithm,
                    });
                }
            }
        }
    }
    jobs
}

/// The failures after which no other job is started. One may be that of a single collective or
/// level, and what the other jobs show helps to find its cause.
const MOST_FAILURES: usize = 3;

/// How a job ended, and its place in the list of all.
type JobEnd<Shown> = (usize, anyhow::Result<Shown>);

/// What jobs came to.
pub(super) struct Done<Shown> {
    /// What those showed that ended well, with their places in the list.
    pub(super) shown: Vec<(usize, Shown)>,
    /// Why the others did not, with their places.
    pub(super) failed: Vec<(usize, anyhow::Error)>,
    /// The signal that asked to stop.
    pub(super) stopped_by: Option<&'static str>,
}

/// Runs all jobs, up to `at_once` at the same time. After [`MOST_FAILURES`], or a signal that asks
/// to stop, no other is started.
pub(super) fn run_all<Shown: Send>(
    jobs: &[Job],
    at_once: usize,
    run: &(dyn Fn(&Job) -> anyhow::Result<Shown> + Sync),
) -> Done<Shown> {
    let next = AtomicUsize::new(0);
    let failures = AtomicUsize::new(0);
    let ends: Mutex<Vec<JobEnd<Shown>>> = Mutex::default();
    let may_start = || {
        let failures = failures.load(Ordering::SeqCst);
        failures < MOST_FAILURES && signal::received().is_none()
    };
    thread::scope(|scope| {
        for _ in 0..at_once.min(jobs.len()) {
            scope.spawn(|| {
                while may_start() {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some(job) = jobs.get(at) else { return };
                    let end = run(job);
                    if end.is_err() {
                        failures.fetch_add(1, Ordering::SeqCst);
                    }
                    held(&ends).push((at, end));
                }
            });
        }
    });
    let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    sorted(ends)
}

/// Puts ends into the order of the jobs, and failures apart.
fn sorted<Shown>(mut ends: Vec<JobEnd<Shown>>) -> Done<Shown> {
    ends.sort_by_key(|(at, _)| *at);
    let mut done = Done {
        shown: Vec::new(),
        failed: Vec::new(),
        stopped_by: signal::received(),
    };
    for (at, end) in ends {
        match end {
            Ok(shown) => done.shown.push((at, shown)),
            Err(error) => done.failed.push((at, error)),
        }
    }
    done
}

/// Says how many jobs have ended, a few times.
pub(super) struct JobProgress {
    all: usize,
    ended: AtomicUsize,
    began: Instant,
}

/// The fewest jobs of which it is said.
const FEWEST_SAID: usize = 20;

impl JobProgress {
    /// Begins to count.
    pub(super) fn new(all: usize) -> JobProgress {
        JobProgress {
            all,
            ended: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }

    /// Counts a job that has ended, and says so after each quarter of all.
    pub(super) fn count(&self) {
        let ended = self.ended.fetch_add(1, Ordering::SeqCst) + 1;
        let quarters = |ended: usize| 4 * ended / self.all;
        if self.all >= FEWEST_SAID && quarters(ended) > quarters(ended - 1) {
            say!(
                "pxnbench: {ended} of {} jobs have ended, after {:.0} s",
                self.all,
                self.began.elapsed().as_secs_f64()
            );
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exit::{Code, Failure},
        levels,
    };

    fn jobs() -> Vec<Job> {
        let job = |level| Job {
            cluster: 0,
            level,
            collective: Collective::AllToAll,
            algorithm: Algorithm::SendRecv,
        };
        levels::all().iter().map(job).collect()
    }

    #[test]
    fn jobs_have_their_order_however_they_end() {
        let jobs = jobs();
        let done = run_all(&jobs, 3, &|job| Ok(job.level.name.clone()));
        let names = jobs.iter().map(|job| job.level.name.clone());
        let expected: Vec<(usize, String)> = names.enumerate().collect();
        assert_eq!(done.shown, expected);
        assert!(done.failed.is_empty() && done.stopped_by.is_none());
    }

    #[test]
    fn a_failure_is_apart_and_after_some_of_them_no_other_job_is_started() {
        let jobs = jobs();
        let fail = |what: &str| Failure::on_all_ranks(Code::Nccl, what.to_owned());
        let done = run_all(&jobs, 1, &|job| match job.level.name.as_str() {
            "conservative" => Err(fail("it fails")),
            name => Ok(name.to_owned()),
        });
        let places: Vec<usize> = done.shown.iter().map(|(at, _)| *at).collect();
        assert_eq!(places, [0, 2, 3, 4]);
        assert_eq!(done.failed[0].0, 1);
        assert_eq!(done.failed[0].1.to_string(), "it fails");

        let done = run_all::<()>(&jobs, 1, &|job| Err(fail(&job.level.name)));
        assert_eq!((done.shown.len(), done.failed.len()), (0, MOST_FAILURES));
    }
}
