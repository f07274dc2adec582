//! PyTorch's execution trace: what was called, in order, without times.

use serde_json::Value;

use super::{
    call::{CallFields, CallKind},
    document::{CALL, ExecutionNode, TraceDocument, numbers, text, whole},
    groups::{GroupFields, TraceGroups},
    timeline::Timeline,
    unread::Unread,
};

/// Returns what the rank did. What follows a wait for a call, or a synchronous call, waits for that
/// call.
pub(super) fn timeline(
    document: &TraceDocument,
    groups: &mut TraceGroups,
    unread: &mut Unread,
) -> Timeline {
    let nodes = document.nodes.iter().flatten();
    let mut calls: Vec<&ExecutionNode> = nodes.filter(|node| node.name == CALL).collect();
    // Numbers are in the order of the calls; the file may be in the order in which they ended.
    calls.sort_by_key(|node| whole(&node.id));
    let mut timeline = Timeline::default();
    // The calls for which nothing has waited yet, with their numbers in the timeline.
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
                let number = timeline.call(call, None);
                match fields.is_async {
                    Some(false) => timeline.wait(vec![number]),
                    _ => pending.push((number, fields)),
                }
            }
        }
    }
    timeline
}

/// Returns the fields of a call: from the attributes of its node, which older versions lack, or
/// from its inputs.
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
        rank_or_root: whole(inputs.of(3)),
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

/// The inputs of a call in the order in which PyTorch writes them. A call without tensors, such as
/// a wait, has none in the first place.
///
/// | place | input |
/// |---|---|
/// | 0 | tensors |
/// | 1 | number of the call in its group |
/// | 2 | process group |
/// | 3 | root, or rank of the caller |
/// | 4 | name |
/// | 5, 6 | split sizes of input and output |
/// | 7, 8, 9 | first rank, stride and number of ranks of the group |
struct CallInputs<'a> {
    values: &'a [Value],
    types: &'a Value,
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
            has_tensors: has_tensors(values),
        }
    }

    /// Returns the input at this place.
    fn of(&self, place: usize) -> &'a Value {
        let missing = usize::from(!self.has_tensors);
        let index = place.checked_sub(missing);
        index
            .and_then(|index| self.values.get(index))
            .unwrap_or(&Value::Null)
    }

    /// Returns the number of the call in its group, which newer versions write together with a
    /// flag.
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
            rank_or_root: whole(self.of(3)),
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

    /// Returns the number of elements of all tensors. A tensor is a list whose fourth value is its
    /// number of elements.
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

    /// Returns the element type of the tensors, which is written as in `Tensor(float)` or
    /// `GenericList[Tensor(float)]`.
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

/// Returns whether tensors are the first of these inputs. A call with tensors has 10 inputs, or 9
/// in some versions; one without them has one less, and begins with its number. Newer versions
/// write the number as a list, and then the group in the next place as well.
fn has_tensors(values: &[Value]) -> bool {
    let [first, second, ..] = values else {
        return true;
    };
    let is_short = matches!(values.len(), 8 | 9);
    let begins_with_number = !first.is_array() || second.is_array();
    !(is_short && begins_with_number)
}
