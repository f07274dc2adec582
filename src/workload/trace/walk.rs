//! [`TraceWalk`]: goes through a profiler's trace in the order in which the CPU started things.

use std::collections::VecDeque;

use super::{
    call::{CallFields, CallKind},
    timeline::Timeline,
};
use crate::{collective::Collective, units::Micros, workload::memory_copies::CopiesByLength};

/// A task that starts on an idle GPU within this time after the end of a collective, in microseconds, was waiting for it.
const SOON: f64 = 50.0;

/// The most tasks that are kept until it is known which collectives started before they ended. CUDA's queue of launches is shorter.
const MOST_LAUNCHED: usize = 4096;

/// The call of a collective in a profiler's trace.
pub(super) struct KinetoCall {
    /// When the CPU made the call, in microseconds.
    pub(super) begin: f64,
    pub(super) fields: CallFields,
    /// When its first kernel began and its last one ended on the GPU, in microseconds; `None` if no kernel belongs to it.
    on_gpu: Option<(f64, f64)>,
}

impl KinetoCall {
    pub(super) fn new(begin: f64, fields: CallFields) -> KinetoCall {
        KinetoCall {
            begin,
            fields,
            on_gpu: None,
        }
    }

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
    /// What it copies, if it copies for a collective.
    pub(super) copy: Option<CopyOnGpu>,
}

/// What a task copies for a collective.
#[derive(Clone, Copy)]
pub(super) struct CopyOnGpu {
    pub(super) bytes: u64,
    /// Whether it runs beside computation, in a stream of its own.
    pub(super) beside: bool,
    /// If it copies what was gathered: the number of the call that does so, beginning at 0.
    pub(super) gathered: Option<usize>,
}

/// A timeline while started tasks and calls are added to it.
#[derive(Default)]
pub(super) struct TraceWalk {
    timeline: Timeline,
    /// Tasks that were launched, and may have ended after a collective began that is launched later.
    launched: VecDeque<GpuTask>,
    /// The beginning and end of each task since the last collective that computes, in microseconds.
    computed: Vec<(f64, f64)>,
    /// The copies since the last collective, in the stream that computes and beside it.
    copied: CopiesByLength,
    copied_beside: CopiesByLength,
    /// When the last task in the stream that computes ended, in microseconds.
    busy_until: Option<f64>,
    /// The calls for which nothing has waited yet.
    pending: Vec<PendingCall>,
    /// All calls that gather, in their order.
    gathers: Vec<Gather>,
    /// How many calls have copied what was gathered.
    copied_gathers: usize,
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
        if self.launched.len() == MOST_LAUNCHED
            && let Some(oldest) = self.launched.pop_front()
        {
            self.run(oldest);
        }
        self.launched.push_back(task);
    }

    /// Adds a call that the CPU makes now.
    pub(super) fn call(&mut self, call: &KinetoCall, kind: CallKind) {
        let fields = &call.fields;
        let group = &fields.group.name;
        match kind {
            CallKind::Nothing => {}
            CallKind::Wait => {
                self.run_launched(None);
                let is_awaited = |pending: &PendingCall| {
                    let same = pending.sequence == fields.sequence;
                    pending.group == *group && (fields.sequence.is_none() || same)
                };
                let awaited = self.pending.iter().filter(|pending| is_awaited(pending));
                let awaited = awaited.map(|pending| pending.number).collect();
                self.wait(awaited);
                self.pending.retain(|pending| !is_awaited(pending));
            }
            CallKind::Collective(collective) => {
                self.run_launched(call.began());
                self.flush();
                let gathers = collective.collective == Collective::AllGather;
                let number = self.timeline.call(collective);
                let ended = call.ended();
                if gathers {
                    self.gathers.push(Gather { number, ended });
                }
                // No time tells when it ended, but the caller of a synchronous call waits for it.
                if ended.is_none() && fields.is_async == Some(false) {
                    self.timeline.wait(vec![number]);
                    return;
                }
                self.pending.push(PendingCall {
                    number,
                    group: group.clone(),
                    sequence: fields.sequence,
                    ended,
                });
            }
        }
    }

    /// Returns the timeline with everything that was added.
    pub(super) fn finish(mut self) -> Timeline {
        self.run_launched(None);
        self.flush();
        self.timeline
    }

    /// Runs the launched tasks that ended before a collective began at this time, in microseconds; all of them if it is unknown. The
    /// collective waited for none of the others, although they were launched before it: its stream is another one.
    fn run_launched(&mut self, began: Option<f64>) {
        for _ in 0..self.launched.len() {
            let Some(task) = self.launched.pop_front() else {
                return;
            };
            if began.is_none_or(|began| task.end <= began) {
                self.run(task);
            } else {
                self.launched.push_back(task);
            }
        }
    }

    fn run(&mut self, task: GpuTask) {
        if let Some(copy) = task.copy
            && copy.beside
        {
            self.copied_beside.add(copy.bytes);
            return;
        }
        let mut awaited = self.awaited(&task);
        awaited.extend(self.gathered(&task));
        self.wait(awaited);
        let busy_until = self.busy_until.map_or(task.end, |busy| busy.max(task.end));
        self.busy_until = Some(busy_until);
        // No task waits for a call that ended before the last task did, unless it copies what was gathered.
        self.pending
            .retain(|call| call.ended.is_none_or(|ended| ended > busy_until));
        match task.copy {
            Some(copy) => self.copied.add(copy.bytes),
            None => self.computed.push((task.begin, task.end)),
        }
    }

    /// Returns the calls for which a task waited, as far as times tell: the GPU was idle until the call ended.
    fn awaited(&self, task: &GpuTask) -> Vec<usize> {
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
        awaited
    }

    /// Returns the call whose result a task copies, if it is the first one to do so.
    fn gathered(&mut self, task: &GpuTask) -> Option<usize> {
        let number = task.copy?.gathered?;
        if number < self.copied_gathers {
            return None;
        }
        self.copied_gathers = number + 1;
        let gather = self.gathers.get(number)?;
        // Otherwise it copies something else: not every call that gathers is followed by a copy.
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

    /// Adds the computation since the last collective, which is the time during which at least one task computed, and the copies.
    fn flush(&mut self) {
        let mut computed = std::mem::take(&mut self.computed);
        computed.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut time = 0.0;
        let mut reached = f64::NEG_INFINITY;
        for (begin, end) in computed {
            time += (end - begin.max(reached)).max(0.0);
            reached = end.max(reached);
        }
        self.timeline.compute(Micros(time));
        let copied = std::mem::take(&mut self.copied);
        self.timeline.copies(&copied, false);
        let copied = std::mem::take(&mut self.copied_beside);
        self.timeline.copies(&copied, true);
    }
}
