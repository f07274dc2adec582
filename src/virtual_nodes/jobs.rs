//! The jobs of a rehearsal, and how several of them run at the same time.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use super::request::Request;
use crate::{
    collective::Collective,
    exit::{Code, Failure},
    levels::Preset,
    rehearsal::theory::Algorithm,
    world::signal,
};

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

/// What jobs came to.
pub(super) struct Done<Shown> {
    /// What those showed that ended well, in the order of the jobs.
    pub(super) shown: Vec<Shown>,
    /// The first failure, in that order.
    pub(super) failure: Option<anyhow::Error>,
}

/// Runs all jobs, up to `at_once` at the same time. After a failure, or a signal that asks to stop, no other is started.
pub(super) fn run_all<Shown: Send>(
    jobs: &[Job],
    at_once: usize,
    run: &(dyn Fn(&Job) -> anyhow::Result<Shown> + Sync),
) -> Done<Shown> {
    let next = AtomicUsize::new(0);
    let has_failed = AtomicBool::new(false);
    let ended: Mutex<Vec<(usize, anyhow::Result<Shown>)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..at_once.min(jobs.len()) {
            scope.spawn(|| {
                while !has_failed.load(Ordering::SeqCst) && signal::received().is_none() {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some(job) = jobs.get(at) else { return };
                    let end = run(job);
                    if end.is_err() {
                        has_failed.store(true, Ordering::SeqCst);
                    }
                    held(&ended).push((at, end));
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(at, _)| *at);
    let mut done = Done {
        shown: Vec::new(),
        failure: None,
    };
    for (_, end) in ended {
        match end {
            Ok(shown) => done.shown.push(shown),
            Err(error) => {
                done.failure.get_or_insert(error);
            }
        }
    }
    if let Some(signal) = signal::received() {
        let what = format!("stopped by {signal}; the rehearsal is not complete");
        done.failure = Some(Failure::on_all_ranks(Code::Stopped, what));
    }
    done
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels;

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
        let names: Vec<&str> = jobs.iter().map(|job| job.level.name.as_str()).collect();
        assert_eq!(done.shown, names);
        assert!(done.failure.is_none());
    }

    #[test]
    fn after_a_failure_no_other_job_is_started() {
        let jobs = jobs();
        let done = run_all(&jobs, 1, &|job| match job.level.name.as_str() {
            "conservative" => Err(Failure::on_all_ranks(Code::Nccl, "it fails")),
            name => Ok(name.to_owned()),
        });
        assert_eq!(done.shown, ["off"]);
        assert_eq!(done.failure.expect("a failure").to_string(), "it fails");
    }
}
