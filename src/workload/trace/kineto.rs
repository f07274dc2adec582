//! The trace of PyTorch's profiler: calls on the CPU, and what ran on the GPU.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{
    call::CallFields,
    document::{TraceDocument, TraceEvent, TraceEventKind, numbers, text, whole},
    groups::{GroupFields, TraceGroups},
    timeline::Timeline,
    unread::Unread,
    walk::{CopyOnGpu, GpuTask, KinetoCall, TraceWalk},
};
use crate::workload::memory_copies::MEMORY_RATE;

/// How long a copy of a few bytes takes on a GPU, in microseconds. What a longer one takes more is for its bytes.
const SHORTEST_COPY: f64 = 1.0;

/// Something that the CPU started.
struct Started {
    /// When the CPU started it, in microseconds.
    at: f64,
    what: StartedKind,
}

enum StartedKind {
    /// The call of a collective, by its index.
    Call(usize),
    /// A kernel or a copy that belongs to no collective.
    Task(GpuTask),
}

/// Returns what the rank did. Computation is the time during which at least one kernel ran that was neither a collective nor a copy for
/// one, added up between the starts of collectives.
pub(super) fn timeline(
    document: &TraceDocument,
    groups: &mut TraceGroups,
    unread: &mut Unread,
) -> Timeline {
    let (started, calls) = started(document);
    let mut walk = TraceWalk::default();
    for item in started {
        match item.what {
            StartedKind::Task(task) => walk.launch(task),
            StartedKind::Call(number) => {
                let call = &calls[number];
                match call.fields.kind(groups) {
                    Ok(kind) => walk.call(call, kind),
                    Err(what) => unread.note(what),
                }
            }
        }
    }
    walk.finish()
}

/// Returns everything that the CPU started, in order, and the calls among it.
fn started(document: &TraceDocument) -> (Vec<Started>, Vec<KinetoCall>) {
    let events = document.events.as_deref().unwrap_or_default();
    let mut cpu = CpuEvents::read(events);
    let computing = computing_stream(events);
    let mut started: Vec<Started> = Vec::new();
    for event in events {
        let TraceEventKind::Kernel {
            launch,
            is_collective,
            bytes,
        } = event.kind
        else {
            continue;
        };
        let launch = cpu.launches.get(&launch).copied();
        let at = launch.map_or(event.begin, |launch| launch.at);
        if is_collective {
            if let Some(call) = caller(&mut cpu.calls, at) {
                call.add_kernel(event.begin, event.end());
            }
            continue;
        }
        let copying = launch.and_then(|launch| cpu.copying(launch));
        let copy = copying.map(|copying| CopyOnGpu {
            bytes: bytes.unwrap_or_else(|| bytes_copied_in(event.duration)),
            beside: event.thread != computing,
            gathered: copying.gathered,
        });
        started.push(Started {
            at,
            what: StartedKind::Task(GpuTask {
                begin: event.begin,
                end: event.end(),
                copy,
            }),
        });
    }
    started.extend(cpu.calls.iter().enumerate().map(|(number, call)| Started {
        at: call.begin,
        what: StartedKind::Call(number),
    }));
    started.sort_by(|one, other| one.at.total_cmp(&other.at));
    (started, cpu.calls)
}

/// Returns the stream that computes: the one with the most kernels and copies that belong to no collective.
fn computing_stream(events: &[TraceEvent]) -> Option<u64> {
    let mut tasks: BTreeMap<u64, usize> = BTreeMap::new();
    for event in events {
        if let TraceEventKind::Kernel {
            is_collective: false,
            ..
        } = event.kind
            && let Some(stream) = event.thread
        {
            *tasks.entry(stream).or_default() += 1;
        }
    }
    let most = tasks.into_iter().max_by_key(|(_, tasks)| *tasks);
    most.map(|(stream, _)| stream)
}

/// Returns the bytes that a GPU copies within this time in microseconds, each of which it reads and writes.
fn bytes_copied_in(time: f64) -> u64 {
    let bytes = (time - SHORTEST_COPY) * MEMORY_RATE / 2.0 / 1e6;
    bytes.max(0.0) as u64
}

/// What ran on the CPU, as far as it is needed.
#[derive(Default)]
struct CpuEvents {
    /// The calls of collectives in the order in which they were made.
    calls: Vec<KinetoCall>,
    /// The launches on the GPU by their numbers.
    launches: HashMap<u64, Launch>,
    /// For each thread the functions that copied for a collective, in the order in which they were called. None of them calls
    /// another.
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
        for event in events {
            match &event.kind {
                TraceEventKind::Launch(number) => {
                    let launch = Launch {
                        at: event.begin,
                        thread: event.thread,
                    };
                    cpu.launches.insert(*number, launch);
                }
                TraceEventKind::Call(arguments) => {
                    cpu.calls
                        .push(KinetoCall::new(event.begin, fields(arguments)));
                }
                TraceEventKind::Copying { .. } | TraceEventKind::Kernel { .. } => {}
            }
        }
        cpu.calls
            .sort_by(|one, other| one.begin.total_cmp(&other.begin));
        cpu.read_copying(events);
        cpu
    }

    fn read_copying(&mut self, events: &[TraceEvent]) {
        let mut functions: Vec<(&TraceEvent, bool)> = Vec::new();
        for event in events {
            if let TraceEventKind::Copying { gathered } = event.kind {
                functions.push((event, gathered));
            }
        }
        functions.sort_by(|one, other| one.0.begin.total_cmp(&other.0.begin));
        let mut copies_of_gathered = 0;
        for (event, gathered) in functions {
            let number = gathered.then_some(copies_of_gathered);
            copies_of_gathered += usize::from(gathered);
            let of_thread = self.copying.entry(event.thread).or_default();
            of_thread.push(CopyingFunction {
                begin: event.begin,
                end: event.end(),
                gathered: number,
            });
        }
    }

    /// Returns the function that copied for a collective by this launch.
    fn copying(&self, launch: Launch) -> Option<CopyingFunction> {
        let functions = self.copying.get(&launch.thread)?;
        let begun = functions.partition_point(|function| function.begin <= launch.at);
        let last = functions[..begun].last()?;
        (launch.at <= last.end).then_some(*last)
    }
}

/// Returns the call that launched a kernel at this time: the last one before that is no wait.
fn caller(calls: &mut [KinetoCall], launched_at: f64) -> Option<&mut KinetoCall> {
    let before = calls.partition_point(|call| call.begin <= launched_at);
    let mut latest_first = calls[..before].iter_mut().rev();
    latest_first.find(|call| !call.fields.name.eq_ignore_ascii_case("wait"))
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
