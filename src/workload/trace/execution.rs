//! PyTorch's execution trace: what was called, in order, without times.

use serde_json::Value;

use super::{
    call::{CallFields, CallKind},
    document::{CALL, ExecutionNode, TraceDocument, numbers, text, whole},
    groups::{GroupFields, TraceGroups},
    timeline::Timeline,
    unread::Unread,
};

/// Returns what the rank did. A call after which its caller waits at once, or later, holds up what comes after that.
pub(super) fn timeline(
    document: &TraceDocument,
    groups: &mut TraceGroups,
    unread: &mut Unread,
) -> Timeline {
    let nodes = document.nodes.iter().flatten();
    let mut calls: Vec<&ExecutionNode> = nodes.filter(|node| node.name == CALL).collect();
    // Numbers follow the order of the calls; the order in the file may be that of their ends.
    calls.sort_by_key(|node| whole(&node.id));
    let mut timeline = Timeline::default();
    // Number, group and sequence of the calls for which nothing has waited yet.
    let mut pending: Vec<(usize, CallFields)> = Vec::new();
    for node in calls {
        let fields = fields(node);
        match fields.kind(groups) {
            Err(what) => unread.note(what),
            Ok(CallKind::Nothing) => {}
            Ok(CallKind::Wait) => {
                let is_awaited = |call: &CallFields| {
                    let same = call.sequence == fields.sequence;
                    call.group.name == fields.group.name && (fields.sequence.is_none() || same)
                };
                let awaited = pending.iter().filter(|(_, call)| is_awaited(call));
                timeline.wait(awaited.map(|(number, _)| *number).collect());
                pending.retain(|(_, call)| !is_awaited(call));
            }
            Ok(CallKind::Collective(call)) => {
                let number = timeline.call(call);
                match fields.is_async {
                    Some(false) => timeline.wait(vec![number]),
                    _ => pending.push((number, fields)),
                }
            }
        }
    }
    timeline
}

/// Returns what a node says of a call: by its attributes, or in older versions by its inputs.
fn fields(node: &ExecutionNode) -> CallFields {
    let attributes = node.attrs.as_array();
    let of = |key: &str| {
        let mut attributes = attributes.into_iter().flatten();
        let found = attributes.find(|it| it.get("name").and_then(Value::as_str) == Some(key));
        found.and_then(|it| it.get("value")).unwrap_or(&Value::Null)
    };
    let inputs = CallInputs::new(node);
    let name = match of("collective_name") {
        Value::Null => return inputs.fields(),
        name => text(name),
    };
    CallFields {
        name,
        dtype: text(of("dtype")),
        sent: whole(of("in_msg_nelems")),
        received: whole(of("out_msg_nelems")),
        sent_to: numbers(of("in_split_size")).unwrap_or_default(),
        received_from: numbers(of("out_split_size")).unwrap_or_default(),
        root: whole(inputs.of(3)),
        sequence: inputs.sequence(),
        is_async: whole(of("is_asynchronized_op")).map(|flag| flag != 0),
        group: GroupFields {
            name: text(of("pg_name")),
            size: whole(of("pg_size")),
            ranks: None,
            start: whole(of("global_rank_start")),
            stride: whole(of("global_rank_stride")),
        },
    }
}

/// The inputs of a call: tensors if it has any, number, group, root, name, two lists of parts, and start, distance and number of ranks.
struct CallInputs<'a> {
    values: &'a [Value],
    types: &'a Value,
    /// Whether tensors are the first of them.
    has_tensors: bool,
}

impl<'a> CallInputs<'a> {
    fn new(node: &'a ExecutionNode) -> CallInputs<'a> {
        let values = node.inputs.get("values").unwrap_or(&node.inputs);
        let values = values.as_array().map_or(&[][..], Vec::as_slice);
        let types = node.inputs.get("types").unwrap_or(&node.input_types);
        CallInputs {
            values,
            types,
            // Calls without them, such as a wait, have one less than the others.
            has_tensors: !matches!(values.len(), 8 | 9 if !values[0].is_array() || values[1].is_array()),
        }
    }

    /// Returns the input with this number, counted as if tensors were the first.
    fn of(&self, number: usize) -> &'a Value {
        let shift = usize::from(!self.has_tensors);
        let at = number.checked_sub(shift);
        at.and_then(|at| self.values.get(at))
            .unwrap_or(&Value::Null)
    }

    /// Returns the number of the call in its group, which newer versions have with a flag.
    fn sequence(&self) -> Option<u64> {
        let sequence = self.of(1);
        whole(sequence.get(0).unwrap_or(sequence))
    }

    fn fields(&self) -> CallFields {
        let group = self.of(2);
        CallFields {
            name: text(self.of(4)),
            dtype: self.dtype(),
            sent: self.elements(),
            received: None,
            sent_to: numbers(self.of(5)).unwrap_or_default(),
            received_from: numbers(self.of(6)).unwrap_or_default(),
            root: whole(self.of(3)),
            sequence: self.sequence(),
            is_async: None,
            group: GroupFields {
                name: text(group.get(0).unwrap_or(group)),
                size: whole(self.of(9)),
                ranks: None,
                start: whole(self.of(7)),
                stride: whole(self.of(8)),
            },
        }
    }

    /// Returns the elements of all tensors: each is a list whose fourth value is their number.
    fn elements(&self) -> Option<u64> {
        let tensors = self.of(0).as_array().filter(|_| self.has_tensors)?;
        let number = |tensor: &Value| tensor.get(3).and_then(whole);
        if let Some(alone) = self.of(0).get(3).and_then(whole) {
            return Some(alone);
        }
        let mut all = 0_u64;
        for tensor in tensors {
            all = all.checked_add(number(tensor)?)?;
        }
        Some(all)
    }

    /// Returns the type of the tensors, which stands as `Tensor(float)` or `GenericList[Tensor(float)]`.
    fn dtype(&self) -> String {
        let named = self
            .types
            .get(0)
            .and_then(Value::as_str)
            .unwrap_or_default();
        let inside = named.rsplit_once('(').map_or(named, |(_, inside)| inside);
        let name = inside.split(')').next().unwrap_or_default();
        name.trim_start_matches("c10::").to_owned()
    }
}
