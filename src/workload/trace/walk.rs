//! [`TraceWalk`]: the timeline of a profiler's trace while it is built, from what the CPU started
//! and in that order.

use std::collections::VecDeque;

use super::{
    call::{CallFields, CallKind},
    timeline::Timeline,
};
use crate::{units::Micros, workload::memory_copies::CopiesByLength};

/// A task that starts on an idle GPU within this time after the end of a collective, in
/// microseconds, was waiting for it.
const SOON: f64 = 50.0;

/// The most tasks that are kept until it is known which collectives began before they ended.
/// Without CUDA graphs, CUDA queues fewer.
const MOST_LAUNCHED: usize = 2048;

/// The most calls of which it is looked up whether a task waited for them. The oldest are left out:
/// later ones of their stream end after them.
const MOST_PENDING: usize = 1024;

/// The call of a collective in a profiler's trace.
pub(super) struct KinetoCall {
    /// When the CPU made the call, in microseconds.
    pub(super) begin: f64,
    pub(super) fields: CallFields,
    /// Whether FSDP gathers by it what it has copied before, and copies the result afterwards.
    pub(super) is_of_fsdp: bool,
    /// When its first kernel began and its last one ended on the GPU, in microseconds; `None` if no
    /// kernel belongs to it.
    pub(super) on_gpu: Option<(f64, f64)>,
}

impl KinetoCall {
    /// Adds a kernel that belongs to it.
    pub(super) fn add_kernel(&mut self, begin: f64, end: f64) {
        let (first, last) = self.on_gpu.unwrap_or((begin, end));
        self.on_gpu = Some((first.min(begin), last.max(end)));
    }

    fn began(&self) -> Option<f64> {
        self.on_gpu.map(|(began, _)| began)
    }

    fn ended(&self) -> Option<f64> {
        self.on_gpu.map(|(_, ended)| ended)
    }
}

/// A kernel or a copy on the GPU that belongs to no collective.
#[derive(Clone, Copy)]
pub(super) struct GpuTask {
    /// When it began and ended, in microseconds.
    pub(super) begin: f64,
    pub(super) end: f64,
    /// Whether it ran beside computation, in another stream than the one that computes.
    pub(super) beside: bool,
    pub(super) work: GpuWork,
}

#[derive(Clone, Copy)]
pub(super) enum GpuWork {
    /// Computation, with its time in microseconds as if alone, without the part in which an earlier
    /// task computed.
    Compute(f64),
    /// A copy for a collective.
    Copy {
        bytes: u64,
        /// If it copies what FSDP has gathered: the number of the function call that does so, from
        /// 0 on.
        gathered: Option<usize>,
    },
}

/// A task that was launched, and the calls for which it waited.
struct LaunchedTask {
    task: GpuTask,
    awaited: Vec<usize>,
}

/// The timeline of a trace while it is built.
#[derive(Default)]
pub(super) struct TraceWalk {
    timeline: Timeline,
    /// Tasks that were launched, and may have ended after a collective began that is launched
    /// later.
    launched: VecDeque<LaunchedTask>,
    /// What ran since the last collective.
    segment: Segment,
    /// When the last task that was launched to the stream that computes ended, in microseconds.
    busy_until: Option<f64>,
    /// The calls for which nothing has waited yet.
    pending: VecDeque<PendingCall>,
    /// The calls by which FSDP gathers, in their order; `None` for one that cannot be read.
    gathers: Vec<Option<Gather>>,
    /// How many function calls have copied what was gathered.
    copied_gathers: usize,
}

/// What ran between two collectives.
#[derive(Default)]
struct Segment {
    /// The time of the tasks that computed, in microseconds: see [`GpuWork::Compute`].
    computed: f64,
    copied: CopiesByLength,
    /// When the last of these tasks ended, in microseconds.
    ended: Option<f64>,
    copied_beside: CopiesByLength,
    /// When the first copy beside computation began and the last one ended, in microseconds.
    beside: Option<(f64, f64)>,
}

/// A call for which nothing has waited yet, with its number in the timeline.
struct PendingCall {
    number: usize,
    group: String,
    sequence: Option<u64>,
    ended: Option<f64>,
}

/// A call that gathers, with its number in the timeline.
struct Gather {
    number: usize,
    ended: Option<f64>,
}

impl TraceWalk {
    /// Adds a task that the CPU launches now.
    pub(super) fn launch(&mut self, task: GpuTask) {
        let awaited = match task.beside {
            // It keeps nothing else waiting: computation does not come behind it.
            true => Vec::new(),
            false => self.awaited(&task),
        };
        if self.launched.len() == MOST_LAUNCHED
            && let Some(oldest) = self.launched.pop_front()
        {
            self.run(oldest);
        }
        self.launched.push_back(LaunchedTask { task, awaited });
    }

    /// Adds a call that the CPU makes now.
    pub(super) fn call(&mut self, call: &KinetoCall, kind: CallKind) {
        match kind {
            CallKind::Nothing => {}
            CallKind::Wait => self.wait_for_calls(&call.fields),
            CallKind::Collective(collective) => {
                self.run_launched(call.began());
                self.flush();
                let number = self.timeline.call(collective, call.began());
                self.add_pending(call, number);
            }
        }
    }

    /// Adds a call that cannot be read.
    pub(super) fn unread(&mut self, call: &KinetoCall) {
        if call.is_of_fsdp {
            self.gathers.push(None);
        }
    }

    /// Returns the timeline with everything that was added.
    pub(super) fn finish(mut self) -> Timeline {
        self.run_launched(None);
        self.flush();
        self.timeline
    }

    /// Adds the wait of the CPU for the calls of a group, or for one of them.
    fn wait_for_calls(&mut self, wait: &CallFields) {
        self.run_launched(None);
        let is_awaited = |pending: &PendingCall| {
            let same = pending.sequence == wait.sequence;
            pending.group == wait.group.name && (wait.sequence.is_none() || same)
        };
        let awaited = self.pending.iter().filter(|pending| is_awaited(pending));
        let awaited = awaited.map(|pending| pending.number).collect();
        self.wait(awaited);
        self.pending.retain(|pending| !is_awaited(pending));
    }

    /// Adds a call to those for which something may wait.
    fn add_pending(&mut self, call: &KinetoCall, number: usize) {
        let fields = &call.fields;
        let ended = call.ended();
        if call.is_of_fsdp {
            self.gathers.push(Some(Gather { number, ended }));
        }
        // No time tells when it ended, but the caller of a synchronous call waits for it.
        if ended.is_none() && fields.is_async == Some(false) {
            self.timeline.wait(vec![number]);
            return;
        }
        if self.pending.len() == MOST_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(PendingCall {
            number,
            group: fields.group.name.clone(),
            sequence: fields.sequence,
            ended,
        });
    }

    /// Runs the launched tasks that ended before a collective began at this time, in microseconds;
    /// all of them if it is unknown. The collective waited for none of the others, although they
    /// were launched before it: its stream is another one.
    fn run_launched(&mut self, began: Option<f64>) {
        for _ in 0..self.launched.len() {
            let Some(launched) = self.launched.pop_front() else {
                return;
            };
            if began.is_none_or(|began| launched.task.end <= began) {
                self.run(launched);
            } else {
                self.launched.push_back(launched);
            }
        }
    }

    fn run(&mut self, launched: LaunchedTask) {
        let LaunchedTask { task, awaited } = launched;
        self.wait(awaited);
        self.segment.add(&task);
    }

    /// Returns the calls for which a task in the stream that computes waited: those until whose end
    /// the GPU was idle, and the one whose result it copies.
    fn awaited(&mut self, task: &GpuTask) -> Vec<usize> {
        let mut awaited = Vec::new();
        for call in &self.pending {
            let Some(ended) = call.ended else {
                continue;
            };
            let was_idle = self.busy_until.is_none_or(|busy| busy < ended);
            if was_idle && ended <= task.begin && task.begin - ended < SOON {
                awaited.push(call.number);
            }
        }
        awaited.extend(self.gathered(task));
        let busy_until = self.busy_until.map_or(task.end, |busy| busy.max(task.end));
        self.busy_until = Some(busy_until);
        // No later task was idle until the end of a call that ended before this one did.
        self.pending
            .retain(|call| call.ended.is_none_or(|ended| ended > busy_until));
        awaited
    }

    /// Returns the call whose result a task copies, if it is the first one to do so.
    fn gathered(&mut self, task: &GpuTask) -> Option<usize> {
        let GpuWork::Copy { gathered, .. } = task.work else {
            return None;
        };
        let number = gathered?;
        if number < self.copied_gathers {
            return None;
        }
        self.copied_gathers = number + 1;
        let gather = self.gathers.get(number)?.as_ref()?;
        // Otherwise the trace began between a gather and its copy, and this copies another one's
        // result.
        let is_over = gather.ended.is_none_or(|ended| ended <= task.begin);
        is_over.then_some(gather.number)
    }

    /// Makes everything after this wait for these calls.
    fn wait(&mut self, calls: Vec<usize>) {
        if !calls.is_empty() {
            self.flush();
            self.timeline.wait(calls);
        }
    }

    /// Adds the computation and the copies since the last collective.
    fn flush(&mut self) {
        let segment = std::mem::take(&mut self.segment);
        if let Some(ended) = segment.ended {
            self.timeline.compute(Micros(segment.computed), ended);
            self.timeline.copies(&segment.copied, ended);
        }
        if let Some((began, ended)) = segment.beside {
            let copies = &segment.copied_beside;
            self.timeline.copies_beside(copies, began, ended);
        }
    }
}

impl Segment {
    fn add(&mut self, task: &GpuTask) {
        match task.work {
            GpuWork::Copy { bytes, .. } if task.beside => {
                self.copied_beside.add(bytes);
                let (first, last) = self.beside.unwrap_or((task.begin, task.end));
                self.beside = Some((first.min(task.begin), last.max(task.end)));
                return;
            }
            GpuWork::Copy { bytes, .. } => self.copied.add(bytes),
            GpuWork::Compute(time) => self.computed += time,
        }
        self.ended = Some(self.ended.map_or(task.end, |ended| ended.max(task.end)));
    }
}
