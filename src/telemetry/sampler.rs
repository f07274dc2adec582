//! [`Sampler`]: a thread that samples the GPUs of a node at an interval.

use std::{
    io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    probe::{Gaps, Probe},
    sample::{Sample, SampledGpu},
};

/// The interval if none is given. Shorter than the second over which many GPUs average their power.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(500);

/// The shortest interval: GPUs update most readings no more often.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);

/// Samples that are kept at most until they are taken; at the default interval, eight GPUs take so
/// many in two hours.
const MOST_KEPT: usize = 100_000;

/// How long the end waits for a sample that is being taken. A GPU that has fallen off the bus may
/// hold it up for good.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread that samples GPUs, and the samples that nobody has taken yet.
pub struct Sampler {
    shared: Arc<Shared>,
    gpus: Vec<SampledGpu>,
    started: Instant,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    samples: Vec<Sample>,
    /// Samples that were dropped because nobody took them.
    dropped: u64,
    gaps: Gaps,
    is_to_end: bool,
    has_ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sampler {
    /// Starts the thread, and waits for its first sample: the first readings of a driver take
    /// longest, and would disturb the first cases. A GPU that does not answer holds the start up
    /// for two seconds at most.
    ///
    /// # Errors
    /// Returns an error if the system starts no thread.
    pub fn start(mut probe: Probe, interval: Duration) -> io::Result<Sampler> {
        let started = probe.start();
        let gpus = probe.gpus().to_vec();
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("telemetry".into())
            .spawn(move || {
                sample_until_the_end(&mut probe, interval, started, &of_thread);
                of_thread.lock().has_ended = true;
                of_thread.changed.notify_all();
            })?;
        let waits = |state: &mut State| state.samples.is_empty() && !state.has_ended;
        let first = shared
            .changed
            .wait_timeout_while(shared.lock(), PATIENCE, waits);
        drop(first);
        Ok(Sampler {
            shared,
            gpus,
            started,
        })
    }

    /// Returns the GPUs that are sampled.
    pub fn gpus(&self) -> &[SampledGpu] {
        &self.gpus
    }

    /// Returns the time now as [`Sample::seconds`] counts it.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Returns the samples since the last call.
    pub fn take(&self) -> Vec<Sample> {
        mem::take(&mut self.shared.lock().samples)
    }

    /// Returns how many samples were dropped so far because too many waited.
    pub fn dropped(&self) -> u64 {
        self.shared.lock().dropped
    }

    /// Returns what is not known, and why, as far as it was seen.
    pub fn gaps(&self) -> Gaps {
        self.shared.lock().gaps.clone()
    }

    /// Ends the thread, unless it hangs in a call of NVML.
    pub fn end(&self) {
        let mut state = self.shared.lock();
        state.is_to_end = true;
        self.shared.changed.notify_all();
        let ended = self
            .shared
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !state.has_ended);
        drop(ended);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

fn sample_until_the_end(probe: &mut Probe, interval: Duration, started: Instant, shared: &Shared) {
    let mut next = started;
    loop {
        let samples = probe.sample();
        let mut state = shared.lock();
        state.gaps.clone_from(probe.gaps());
        keep(&mut state, samples);
        shared.changed.notify_all();
        next = next_tick(next, interval, Instant::now());
        while !state.is_to_end {
            let rest = next.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            state = match shared.changed.wait_timeout(state, rest) {
                Ok((state, _)) => state,
                Err(_) => return,
            };
        }
        if state.is_to_end {
            return;
        }
    }
}

fn keep(state: &mut State, samples: Vec<Sample>) {
    if state.samples.len() + samples.len() > MOST_KEPT {
        state.dropped += samples.len() as u64;
    } else {
        state.samples.extend(samples);
    }
}

/// Returns when the next sample is due: a whole number of intervals after the last one, so that a
/// slow one delays no other.
fn next_tick(last: Instant, interval: Duration, now: Instant) -> Instant {
    let next = last + interval;
    if next > now { next } else { now + interval }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_keep_their_distance_and_are_not_made_up_for() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let tick = |now: Duration| next_tick(start, second, start + now) - start;
        assert_eq!(tick(Duration::from_millis(3)), second);
        assert_eq!(tick(Duration::from_millis(999)), second);
        assert_eq!(tick(5 * second), 6 * second);
    }

    #[test]
    fn samples_that_nobody_takes_are_dropped_and_counted() {
        let sample = Sample {
            time: crate::record::exact_now(),
            seconds: 0.0,
            gpu: 0,
            values: super::super::Values::default(),
        };
        let mut state = State::default();
        keep(&mut state, vec![sample.clone(); MOST_KEPT - 1]);
        keep(&mut state, vec![sample.clone(); 2]);
        assert_eq!((state.samples.len(), state.dropped), (MOST_KEPT - 1, 2));
        keep(&mut state, vec![sample]);
        assert_eq!((state.samples.len(), state.dropped), (MOST_KEPT, 2));
    }
}
