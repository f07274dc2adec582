//! [`RunningStep`]: one step, whose operations begin as soon as those have ended that they wait
//! for.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Instant,
};

use super::{
    super::nonblocking::StartedCollective, copy_buffers::RunningCopies, opened::OpenedSteps,
    spin::spin,
};
use crate::{
    backend::step::{Span, StepTimes},
    units::Micros,
    workload::StepWork,
    world::progress,
};

/// How long this rank computes until it asks MPI for the collectives.
const SLICE: Micros = Micros(4.0);

/// A step while it runs.
pub(super) struct RunningStep<'a> {
    steps: &'a mut OpenedSteps,
    /// What each operation waits for; `None` for those that do not run.
    waits: &'a [Option<BTreeSet<usize>>],
    begin: Instant,
    /// The operations of each stream that have not begun.
    waiting: Vec<VecDeque<usize>>,
    /// Operations that compute or copy; they take turns.
    working: VecDeque<Working>,
    communicating: Vec<Communicating>,
    spans: Vec<Option<Span>>,
    has_ended: Vec<bool>,
    /// How many operations have ended, with those of earlier steps.
    ended: u64,
}

/// An operation that this rank does itself.
struct Working {
    operation: usize,
    rest: WorkRest,
}

/// What is left of an operation.
enum WorkRest {
    /// Iterations of computation.
    Computation(u64),
    Copies(RunningCopies),
}

/// An operation that communicates.
struct Communicating {
    operation: usize,
    started: StartedCollective,
}

impl<'a> RunningStep<'a> {
    /// Begins a step, before which `ended` operations have ended.
    pub(super) fn new(
        steps: &'a mut OpenedSteps,
        waits: &'a [Option<BTreeSet<usize>>],
        ended: u64,
    ) -> RunningStep<'a> {
        let mut waiting = vec![VecDeque::new(); steps.step.streams.len()];
        for (index, operation) in steps.step.operations.iter().enumerate() {
            if waits[index].is_some() {
                waiting[operation.stream].push_back(index);
            }
        }
        RunningStep {
            waits,
            begin: Instant::now(),
            waiting,
            working: VecDeque::new(),
            communicating: Vec::new(),
            spans: vec![None; waits.len()],
            has_ended: vec![false; waits.len()],
            ended,
            steps,
        }
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// Returns an error if MPI fails.
    pub(super) fn run(mut self) -> anyhow::Result<StepTimes> {
        self.begin_ready()?;
        while !self.working.is_empty() || !self.communicating.is_empty() {
            let before = self.ended;
            if self.working.is_empty() {
                std::thread::yield_now();
            } else {
                self.work();
            }
            self.communicate()?;
            if self.ended != before {
                self.begin_ready()?;
            }
        }
        Ok(StepTimes {
            total: self.begin.elapsed().into(),
            operations: self.spans,
        })
    }

    /// Begins every operation that is the next of its stream and waits for nothing more.
    fn begin_ready(&mut self) -> anyhow::Result<()> {
        for stream in 0..self.waiting.len() {
            if let Some(&operation) = self.waiting[stream].front()
                && self.is_ready(operation)
            {
                self.waiting[stream].pop_front();
                self.begin(operation)?;
            }
        }
        Ok(())
    }

    fn is_ready(&self, operation: usize) -> bool {
        let mut waits = self.waits[operation].iter().flatten();
        waits.all(|&earlier| self.has_ended[earlier])
    }

    fn begin(&mut self, operation: usize) -> anyhow::Result<()> {
        let begin = self.begin.elapsed().into();
        self.spans[operation] = Some(Span { begin, end: begin });
        match &self.steps.step.operations[operation].work {
            StepWork::Compute(time) => self.working.push_back(Working {
                operation,
                rest: WorkRest::Computation(self.steps.spin.iterations(*time)),
            }),
            StepWork::Copies(copies) => self.working.push_back(Working {
                operation,
                rest: WorkRest::Copies(RunningCopies::new(*copies)),
            }),
            StepWork::Collective { communicator, .. } => {
                let host = &mut self.steps.communicators[*communicator];
                if let Some(collective) = &self.steps.collectives[operation] {
                    let started = collective.start(host)?;
                    self.communicating
                        .push(Communicating { operation, started });
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, operation: usize) {
        if let Some(span) = &mut self.spans[operation] {
            span.end = self.begin.elapsed().into();
        }
        self.has_ended[operation] = true;
        self.ended += 1;
        progress::done(self.ended);
    }

    /// Computes or copies for a while: a part of one operation.
    fn work(&mut self) {
        let Some(mut working) = self.working.pop_front() else {
            return;
        };
        let is_done = match &mut working.rest {
            WorkRest::Computation(iterations) => {
                let slice = self.steps.spin.iterations(SLICE).max(1);
                let now = slice.min(*iterations);
                spin(now);
                *iterations -= now;
                *iterations == 0
            }
            WorkRest::Copies(copies) => copies.go_on(&mut self.steps.copies),
        };
        if is_done {
            self.end(working.operation);
        } else {
            progress::tick();
            self.working.push_back(working);
        }
    }

    /// Asks MPI which collectives have ended.
    fn communicate(&mut self) -> anyhow::Result<()> {
        let mut at = 0;
        while at < self.communicating.len() {
            if self.communicating[at].started.has_ended()? {
                let ended = self.communicating.swap_remove(at);
                self.end(ended.operation);
            } else {
                at += 1;
            }
        }
        Ok(())
    }
}
