//! The trace of PyTorch's profiler: calls on the CPU, and what ran on the GPU.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    call::{CallFields, CallKind},
    document::{TraceDocument, TraceEvent, TraceEventKind, numbers, text, whole},
    groups::{GroupFields, TraceGroups},
    timeline::Timeline,
    unread::Unread,
};
use crate::units::Micros;

/// A kernel that starts on an idle GPU within this time after the end of a collective, in microseconds, was waiting for it.
const SOON: f64 = 50.0;

/// Something that the CPU started.
struct Started {
    /// When the CPU started it, in microseconds.
    at: f64,
    what: StartedKind,
}

enum StartedKind {
    /// The call of a collective, by its index.
    Call(usize),
    /// A kernel that computes, with its beginning and end on the GPU in microseconds.
    Kernel(f64, f64),
}

/// The call of a collective in a profiler's trace.
struct KinetoCall {
    /// When the CPU made the call, in microseconds.
    begin: f64,
    fields: CallFields,
    /// When its last kernel ended on the GPU, in microseconds; `None` if no kernel belongs to it.
    ended: Option<f64>,
}

/// Returns what the rank did. Computation is the time during which at least one kernel other than a collective ran, added up between
/// the starts of collectives.
pub(super) fn timeline(
    document: &TraceDocument,
    groups: &mut TraceGroups,
    unread: &mut Unread,
) -> Timeline {
    let (started, calls) = started(document);
    let mut walk = TraceWalk {
        timeline: Timeline::default(),
        segment: Vec::new(),
        busy_until: f64::NEG_INFINITY,
        pending: Vec::new(),
    };
    for item in started {
        match item.what {
            StartedKind::Kernel(begin, end) => walk.kernel(begin, end),
            StartedKind::Call(number) => {
                let call = &calls[number];
                match call.fields.kind(groups) {
                    Ok(kind) => walk.call(call, kind),
                    Err(what) => unread.note(what),
                }
            }
        }
    }
    walk.flush();
    walk.timeline
}

/// Returns everything that the CPU started, in order, and the calls among it.
fn started(document: &TraceDocument) -> (Vec<Started>, Vec<KinetoCall>) {
    let events = document.events.as_deref().unwrap_or_default();
    let (mut calls, launches) = calls_and_launches(events);
    let mut started: Vec<Started> = Vec::new();
    for event in events {
        let TraceEventKind::Kernel {
            launch,
            is_collective,
        } = event.kind
        else {
            continue;
        };
        let at = launches.get(&launch).copied().unwrap_or(event.begin);
        let end = event.begin + event.duration;
        if is_collective {
            if let Some(call) = caller(&mut calls, at) {
                call.ended = Some(call.ended.map_or(end, |known| known.max(end)));
            }
        } else {
            started.push(Started {
                at,
                what: StartedKind::Kernel(event.begin, end),
            });
        }
    }
    started.extend(calls.iter().enumerate().map(|(number, call)| Started {
        at: call.begin,
        what: StartedKind::Call(number),
    }));
    started.sort_by(|one, other| one.at.total_cmp(&other.at));
    (started, calls)
}

/// Returns the calls in the order in which they were made, and the time of each launch by its number.
fn calls_and_launches(events: &[TraceEvent]) -> (Vec<KinetoCall>, HashMap<u64, f64>) {
    let mut calls = Vec::new();
    let mut launches = HashMap::new();
    for event in events {
        match &event.kind {
            TraceEventKind::Launch(number) => {
                launches.insert(*number, event.begin);
            }
            TraceEventKind::Call(arguments) => calls.push(KinetoCall {
                begin: event.begin,
                fields: fields(arguments),
                ended: None,
            }),
            TraceEventKind::Kernel { .. } => {}
        }
    }
    calls.sort_by(|one, other| one.begin.total_cmp(&other.begin));
    (calls, launches)
}

/// Returns the call that launched a kernel at this time: the last one before that is no wait.
fn caller(calls: &mut [KinetoCall], launched_at: f64) -> Option<&mut KinetoCall> {
    let before = calls.partition_point(|call| call.begin <= launched_at);
    let mut latest_first = calls[..before].iter_mut().rev();
    latest_first.find(|call| !call.fields.name.eq_ignore_ascii_case("wait"))
}

/// A timeline while the started kernels and calls are added to it.
struct TraceWalk {
    timeline: Timeline,
    /// The beginning and end of each kernel since the last collective, in microseconds.
    segment: Vec<(f64, f64)>,
    /// When the last kernel that computes ended, in microseconds.
    busy_until: f64,
    /// The calls for which nothing has waited yet.
    pending: Vec<PendingCall>,
}

/// A call for which nothing has waited yet, with its number in the timeline.
struct PendingCall {
    number: usize,
    group: String,
    sequence: Option<u64>,
    ended: Option<f64>,
}

impl TraceWalk {
    fn kernel(&mut self, begin: f64, end: f64) {
        let busy_until = self.busy_until;
        let was_waiting = |call: &PendingCall| {
            let ended = call.ended?;
            let waited = busy_until < ended && ended <= begin && begin - ended < SOON;
            waited.then_some(call.number)
        };
        let awaited: Vec<usize> = self.pending.iter().filter_map(was_waiting).collect();
        if !awaited.is_empty() {
            self.flush();
            self.timeline.wait(awaited);
        }
        self.busy_until = self.busy_until.max(end);
        let busy_until = self.busy_until;
        // No kernel can wait for a call that ended before the last kernel did.
        self.pending
            .retain(|call| call.ended.is_none_or(|ended| ended > busy_until));
        self.segment.push((begin, end));
    }

    fn call(&mut self, call: &KinetoCall, kind: CallKind) {
        let fields = &call.fields;
        let group = &fields.group.name;
        match kind {
            CallKind::Nothing => {}
            CallKind::Wait => {
                let is_awaited = |pending: &PendingCall| {
                    let same = pending.sequence == fields.sequence;
                    pending.group == *group && (fields.sequence.is_none() || same)
                };
                let awaited = self.pending.iter().filter(|pending| is_awaited(pending));
                let awaited = awaited.map(|pending| pending.number).collect();
                self.flush();
                self.timeline.wait(awaited);
                self.pending.retain(|pending| !is_awaited(pending));
            }
            CallKind::Collective(collective) => {
                self.flush();
                let number = self.timeline.call(collective);
                // No time tells when it ended, but the caller of a synchronous call waits for it.
                if call.ended.is_none() && fields.is_async == Some(false) {
                    self.timeline.wait(vec![number]);
                    return;
                }
                self.pending.push(PendingCall {
                    number,
                    group: group.clone(),
                    sequence: fields.sequence,
                    ended: call.ended,
                });
            }
        }
    }

    /// Adds the computation since the last collective: the time during which at least one kernel ran.
    fn flush(&mut self) {
        let mut segment = std::mem::take(&mut self.segment);
        segment.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut time = 0.0;
        let mut reached = f64::NEG_INFINITY;
        for (begin, end) in segment {
            time += (end - begin.max(reached)).max(0.0);
            reached = end.max(reached);
        }
        self.timeline.compute(Micros(time));
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
