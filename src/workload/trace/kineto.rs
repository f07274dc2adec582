//! The trace of PyTorch's profiler: calls on the CPU, and what ran on the GPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::{
    alone::AloneTimes,
    call::CallFields,
    document::{
        CopyPurpose, GpuKernel, TraceDocument, TraceEvent, TraceEventKind, numbers, text, whole,
    },
    groups::{GroupFields, TraceGroups},
    timeline::Timeline,
    unread::Unread,
    walk::{GpuTask, GpuWork, KinetoCall, TraceWalk},
};
use crate::workload::memory_copies::MEMORY_RATE;

/// How long a copy of a few bytes takes on a GPU, in microseconds. What a longer one takes more is
/// for its bytes.
const SHORTEST_COPY: f64 = 1.0;

/// Something that the CPU started, with when it did, in microseconds.
enum Started {
    /// The call of a collective, by its index.
    Call(f64, usize),
    /// A kernel or a copy that belongs to no collective.
    Task(f64, GpuTask),
}

impl Started {
    fn at(&self) -> f64 {
        match self {
            Started::Call(at, _) | Started::Task(at, _) => *at,
        }
    }
}

/// Returns what the rank did. Computation is the time during which at least one kernel ran that was
/// neither a collective nor a copy for one, added up between the starts of collectives, without the
/// time by which collectives and copies slowed these kernels down.
pub(super) fn timeline(
    document: &TraceDocument,
    groups: &mut TraceGroups,
    unread: &mut Unread,
) -> Timeline {
    let events = document.events.as_deref().unwrap_or_default();
    let mut cpu = CpuEvents::read(events);
    cpu.add_kernels(events);
    let tasks = tasks(events, &cpu);
    let mut started: Vec<Started> = Vec::new();
    for (at, task) in tasks {
        started.push(Started::Task(at, task));
    }
    for (number, call) in cpu.calls.iter().enumerate() {
        started.push(Started::Call(call.begin, number));
    }
    started.sort_by(|one, other| one.at().total_cmp(&other.at()));
    let mut walk = TraceWalk::default();
    for item in started {
        match item {
            Started::Task(_, task) => walk.launch(task),
            Started::Call(_, number) => {
                let call = &cpu.calls[number];
                match call.fields.kind(groups) {
                    Ok(kind) => walk.call(call, kind),
                    Err(what) => {
                        walk.unread(call);
                        unread.note(what);
                    }
                }
            }
        }
    }
    walk.finish()
}

/// Returns the kernels and copies that belong to no collective, with when the CPU started each, in
/// microseconds.
fn tasks(events: &[TraceEvent], cpu: &CpuEvents) -> Vec<(f64, GpuTask)> {
    let computing = computing_stream(events);
    let alone = AloneTimes::read(events, |event, kernel| {
        let copies = cpu.copying(kernel).is_some();
        kernel.is_collective || (copies && event.thread != computing)
    });
    let mut tasks = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let TraceEventKind::Kernel(kernel) = &event.kind else {
            continue;
        };
        if kernel.is_collective {
            continue;
        }
        let work = match cpu.copying(kernel) {
            Some(copying) => {
                let timed = || bytes_copied_in(alone.of_copy(number, event));
                GpuWork::Copy {
                    bytes: kernel.bytes.unwrap_or_else(timed),
                    gathered: copying.gathered,
                }
            }
            None => GpuWork::Compute(alone.of_computation(number, event)),
        };
        let task = GpuTask {
            begin: event.begin,
            end: event.end(),
            beside: event.thread != computing,
            work,
        };
        let launch = cpu.launches.get(&kernel.launch);
        tasks.push((launch.map_or(event.begin, |launch| launch.at), task));
    }
    count_time_once(&mut tasks);
    tasks
}

/// Leaves to each task that computes the part of its time in which none that began before it did.
fn count_time_once(tasks: &mut [(f64, GpuTask)]) {
    let mut computing: Vec<&mut GpuTask> = Vec::new();
    for (_, task) in tasks {
        if matches!(task.work, GpuWork::Compute(_)) {
            computing.push(task);
        }
    }
    computing.sort_by(|one, other| one.begin.total_cmp(&other.begin));
    let mut reached = f64::NEG_INFINITY;
    for task in computing {
        if let GpuWork::Compute(time) = &mut task.work {
            let all = task.end - task.begin;
            let counted = (task.end - task.begin.max(reached)).max(0.0);
            if counted < all {
                *time *= counted / all;
            }
        }
        reached = reached.max(task.end);
    }
}

/// Returns the stream that computes: the one with the most kernels and copies that belong to no
/// collective.
fn computing_stream(events: &[TraceEvent]) -> Option<u64> {
    let mut tasks: BTreeMap<u64, usize> = BTreeMap::new();
    for event in events {
        if let TraceEventKind::Kernel(kernel) = &event.kind
            && !kernel.is_collective
            && let Some(stream) = event.thread
        {
            *tasks.entry(stream).or_default() += 1;
        }
    }
    let most = tasks.into_iter().max_by_key(|(_, tasks)| *tasks);
    most.map(|(stream, _)| stream)
}

/// Returns the bytes that a GPU copies within this time in microseconds, each of which it reads and
/// writes.
fn bytes_copied_in(time: f64) -> u64 {
    let bytes = (time - SHORTEST_COPY) * MEMORY_RATE / 2.0 / 1e6;
    bytes.max(0.0) as u64
}

/// What ran on the CPU, as far as it is needed. A thread is `None` if it is unknown.
#[derive(Default)]
struct CpuEvents {
    /// The calls of collectives in the order in which they were made.
    calls: Vec<KinetoCall>,
    /// The indices of the calls that launch something, by thread and of all threads: those that are
    /// no waits.
    callers: BTreeMap<Option<u64>, Vec<usize>>,
    all_callers: Vec<usize>,
    /// The launches on the GPU by their numbers.
    launches: HashMap<u64, Launch>,
    /// For each thread the functions that copied for a collective, in the order in which they were
    /// called. None of them calls another.
    copying: BTreeMap<Option<u64>, Vec<CopyingFunction>>,
}

/// A launch of a kernel or a copy.
#[derive(Clone, Copy)]
struct Launch {
    /// When it was, in microseconds.
    at: f64,
    thread: Option<u64>,
}

/// A call of a function that copies for a collective.
#[derive(Clone, Copy)]
struct CopyingFunction {
    /// When it began and ended, in microseconds.
    begin: f64,
    end: f64,
    /// The number of the call among those that copy what was gathered, if it is one of them.
    gathered: Option<usize>,
}

impl CpuEvents {
    fn read(events: &[TraceEvent]) -> CpuEvents {
        let mut cpu = CpuEvents::default();
        let mut in_order: Vec<&TraceEvent> = events.iter().collect();
        in_order.sort_by(|one, other| one.begin.total_cmp(&other.begin));
        // The threads in which FSDP has copied what it gathers next.
        let mut gather_next: BTreeSet<Option<u64>> = BTreeSet::new();
        let mut copies_of_gathered = 0;
        for event in in_order {
            match &event.kind {
                TraceEventKind::Launch(number) => {
                    let launch = Launch {
                        at: event.begin,
                        thread: event.thread,
                    };
                    cpu.launches.insert(*number, launch);
                }
                TraceEventKind::Call(arguments) => {
                    let fields = fields(arguments);
                    let is_of_fsdp = fields.gathers() && gather_next.remove(&event.thread);
                    cpu.add_call(event, fields, is_of_fsdp);
                }
                TraceEventKind::Copying(purpose) => {
                    let is_of_gathered = *purpose == CopyPurpose::AfterGather;
                    let gathered = is_of_gathered.then_some(copies_of_gathered);
                    copies_of_gathered += usize::from(is_of_gathered);
                    if *purpose == CopyPurpose::BeforeGather {
                        gather_next.insert(event.thread);
                    }
                    let of_thread = cpu.copying.entry(event.thread).or_default();
                    of_thread.push(CopyingFunction {
                        begin: event.begin,
                        end: event.end(),
                        gathered,
                    });
                }
                TraceEventKind::Kernel(_) => {}
            }
        }
        cpu
    }

    fn add_call(&mut self, event: &TraceEvent, fields: CallFields, is_of_fsdp: bool) {
        if !fields.name.eq_ignore_ascii_case("wait") {
            let number = self.calls.len();
            self.callers.entry(event.thread).or_default().push(number);
            self.all_callers.push(number);
        }
        self.calls.push(KinetoCall {
            begin: event.begin,
            fields,
            is_of_fsdp,
            on_gpu: None,
        });
    }

    /// Adds the kernels of collectives to their calls.
    fn add_kernels(&mut self, events: &[TraceEvent]) {
        // Those that were launched before the trace began.
        let mut strays = Vec::new();
        for event in events {
            let TraceEventKind::Kernel(kernel) = &event.kind else {
                continue;
            };
            if !kernel.is_collective {
                continue;
            }
            let launch = self.launches.get(&kernel.launch);
            match launch.and_then(|launch| self.caller(launch.at, Some(launch.thread))) {
                Some(call) => self.calls[call].add_kernel(event.begin, event.end()),
                None => strays.push(event),
            }
        }
        for event in strays {
            if let Some(call) = self.caller(event.begin, None)
                && self.calls[call].on_gpu.is_none()
            {
                self.calls[call].on_gpu = Some((event.begin, event.end()));
            }
        }
    }

    /// Returns the function that copied for a collective by this kernel.
    fn copying(&self, kernel: &GpuKernel) -> Option<CopyingFunction> {
        let launch = self.launches.get(&kernel.launch)?;
        let functions = self.copying.get(&launch.thread)?;
        let begun = functions.partition_point(|function| function.begin <= launch.at);
        let last = functions[..begun].last()?;
        (launch.at <= last.end).then_some(*last)
    }

    /// Returns the call that launched a kernel at this time: the last one of the thread before
    /// that, or of all threads if none is given or if the thread made no call.
    fn caller(&self, launched_at: f64, thread: Option<Option<u64>>) -> Option<usize> {
        let of_thread = thread.and_then(|thread| self.callers.get(&thread));
        let callers = of_thread.unwrap_or(&self.all_callers);
        let before = callers.partition_point(|call| self.calls[*call].begin <= launched_at);
        callers[..before].last().copied()
    }
}

/// Returns the fields of a call from the arguments of its event.
fn fields(arguments: &Value) -> CallFields {
    let of = |key: &str| arguments.get(key).unwrap_or(&Value::Null);
    CallFields {
        name: text(of("Collective name")),
        dtype: text(of("dtype")),
        sent: whole(of("In msg nelems")),
        received: whole(of("Out msg nelems")),
        sent_to: numbers(of("In split size")).unwrap_or_default(),
        received_from: numbers(of("Out split size")).unwrap_or_default(),
        rank_or_root: whole(of("Rank")),
        sequence: whole(of("Seq")),
        is_async: whole(of("Is asynchronized op")).map(|flag| flag != 0),
        group: GroupFields {
            name: text(of("Process Group Name")),
            size: whole(of("Group size")),
            ranks: numbers(of("Process Group Ranks")),
            start: whole(of("Global rank start")),
            stride: whole(of("Global rank stride")),
        },
    }
}
