//! [`TraceDocument`]: the parts of a trace that are needed. The rest is dropped while it is read,
//! so that a large trace takes little memory.

use std::{
    borrow::Cow,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// Name of the event or node that PyTorch writes for each call of a collective.
pub(super) const CALL: &str = "record_param_comms";

/// Beginnings of the names of the functions in which PyTorch's DDP and FSDP copy what a collective
/// sends or has received.
const COPYING: [&str; 3] = [
    "fsdp::",
    "torch::distributed::reducer::",
    "torch.distributed.ddp.reducer::",
];

/// The functions in which FSDP copies what it will gather, and what it has gathered.
const BEFORE_GATHER: &str = "fsdp::all_gather_copy_in";
const AFTER_GATHER: &str = "fsdp::split_with_sizes_copy";

/// The parts of a trace that are needed.
#[derive(Debug, Default)]
pub(super) struct TraceDocument {
    /// The events of a profiler's trace.
    pub(super) events: Option<Vec<TraceEvent>>,
    /// The nodes of an execution trace.
    pub(super) nodes: Option<Vec<ExecutionNode>>,
    /// `distributedInfo` of a profiler's trace: the ranks and process groups of the job.
    pub(super) job: Value,
}

/// A needed event of a profiler's trace.
#[derive(Debug)]
pub(super) struct TraceEvent {
    /// When it began on the clock of the trace, in microseconds.
    pub(super) begin: f64,
    /// How long it took, in microseconds.
    pub(super) duration: f64,
    /// The thread of the CPU, or the stream of the GPU.
    pub(super) thread: Option<u64>,
    pub(super) kind: TraceEventKind,
}

impl TraceEvent {
    /// Returns when it ended on the clock of the trace, in microseconds.
    pub(super) fn end(&self) -> f64 {
        self.begin + self.duration
    }
}

#[derive(Debug)]
pub(super) enum TraceEventKind {
    /// A call of a collective, with its arguments.
    Call(Value),
    /// A call of a function that copies for a collective.
    Copying(CopyPurpose),
    /// A call of the driver that launched a kernel or a copy, with the number that both share.
    Launch(u64),
    /// A kernel or a copy on the GPU.
    Kernel(GpuKernel),
}

/// A kernel or a copy on the GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuKernel {
    /// The number that it shares with its launch.
    pub(super) launch: u64,
    pub(super) is_collective: bool,
    /// The bytes of a copy.
    pub(super) bytes: Option<u64>,
    /// A hash of name, grid and blocks; `None` if the trace lacks them.
    pub(super) signature: Option<u64>,
}

/// What a function copies for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyPurpose {
    /// The next all_gather of FSDP.
    BeforeGather,
    /// The use of what FSDP has gathered.
    AfterGather,
    /// Another collective.
    Other,
}

/// A needed node of an execution trace.
#[derive(Debug, Deserialize)]
pub(super) struct ExecutionNode {
    #[serde(default)]
    pub(super) id: Value,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) inputs: Value,
    #[serde(default)]
    pub(super) input_types: Value,
    #[serde(default)]
    pub(super) attrs: Value,
}

/// An event as it stands in the file.
#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    cat: Option<Cow<'a, str>>,
    #[serde(default)]
    ts: Value,
    #[serde(default)]
    dur: Value,
    #[serde(default)]
    tid: Value,
    #[serde(default)]
    args: Value,
}

impl RawEvent<'_> {
    /// Returns the event if it is needed.
    fn kept(self) -> Option<TraceEvent> {
        let name = self.name.as_deref().unwrap_or_default();
        let number = || self.args.get("correlation").and_then(Value::as_u64);
        let kind = match self.cat.as_deref().unwrap_or_default() {
            "cpu_op" if name == CALL => TraceEventKind::Call(self.args),
            "cpu_op" if COPYING.iter().any(|begin| name.starts_with(begin)) => {
                TraceEventKind::Copying(match name {
                    BEFORE_GATHER => CopyPurpose::BeforeGather,
                    AFTER_GATHER => CopyPurpose::AfterGather,
                    _ => CopyPurpose::Other,
                })
            }
            "cuda_runtime" | "cuda_driver" => TraceEventKind::Launch(number()?),
            "kernel" | "gpu_memcpy" | "gpu_memset" => TraceEventKind::Kernel(GpuKernel {
                launch: number()?,
                is_collective: name.to_ascii_lowercase().contains("nccl"),
                bytes: self.args.get("bytes").and_then(Value::as_u64),
                signature: self.signature(),
            }),
            _ => return None,
        };
        Some(TraceEvent {
            begin: self.ts.as_f64()?,
            duration: self.dur.as_f64().unwrap_or_default().max(0.0),
            thread: whole(&self.tid),
            kind,
        })
    }

    fn signature(&self) -> Option<u64> {
        let (grid, block) = (self.args.get("grid")?, self.args.get("block")?);
        let mut hasher = DefaultHasher::new();
        (&self.name, grid, block).hash(&mut hasher);
        Some(hasher.finish())
    }
}

impl ExecutionNode {
    fn is_needed(&self) -> bool {
        self.name == CALL || self.name.contains("process_group:init")
    }
}

impl<'de> Deserialize<'de> for TraceDocument {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<TraceDocument, D::Error> {
        reader.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = TraceDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TraceDocument, A::Error> {
        let mut document = TraceDocument::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "traceEvents" => document.events = Some(map.next_value::<KeptEvents>()?.0),
                "nodes" => document.nodes = Some(map.next_value::<KeptNodes>()?.0),
                "distributedInfo" => document.job = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(document)
    }

    /// A profiler's trace may be the list of its events alone.
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<TraceDocument, A::Error> {
        Ok(TraceDocument {
            events: Some(kept_events(seq)?),
            ..TraceDocument::default()
        })
    }
}

fn kept_events<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<Vec<TraceEvent>, A::Error> {
    let mut events = Vec::new();
    while let Some(event) = seq.next_element::<RawEvent>()? {
        events.extend(event.kept());
    }
    Ok(events)
}

struct KeptEvents(Vec<TraceEvent>);

impl<'de> Deserialize<'de> for KeptEvents {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<KeptEvents, D::Error> {
        struct Events;
        impl<'de> Visitor<'de> for Events {
            type Value = KeptEvents;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<KeptEvents, A::Error> {
                kept_events(seq).map(KeptEvents)
            }
        }
        reader.deserialize_seq(Events)
    }
}

struct KeptNodes(Vec<ExecutionNode>);

impl<'de> Deserialize<'de> for KeptNodes {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<KeptNodes, D::Error> {
        struct Nodes;
        impl<'de> Visitor<'de> for Nodes {
            type Value = KeptNodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of nodes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<KeptNodes, A::Error> {
                let mut nodes: Vec<ExecutionNode> = Vec::new();
                while let Some(node) = seq.next_element::<ExecutionNode>()? {
                    if node.is_needed() {
                        nodes.push(node);
                    }
                }
                Ok(KeptNodes(nodes))
            }
        }
        reader.deserialize_seq(Nodes)
    }
}

/// Returns a whole number, which may be written as a text.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim_matches('"').trim().parse().ok(),
        value => value.as_u64(),
    }
}

/// Returns a text without the quotes that some versions write around it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim_matches('"').to_owned(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Returns a list of whole numbers, which may be written as a text such as `[0, 1]`; `None` if it
/// is no such list, or if PyTorch left out numbers of a long one.
pub(super) fn numbers(value: &Value) -> Option<Vec<u64>> {
    match value {
        Value::Array(values) => values.iter().map(whole).collect(),
        Value::String(text) => {
            let inside = text.trim_matches('"').trim();
            let inside = inside.strip_prefix('[')?.strip_suffix(']')?.trim();
            if inside.is_empty() {
                return Some(Vec::new());
            }
            inside
                .split(',')
                .map(|part| part.trim().parse().ok())
                .collect()
        }
        _ => None,
    }
}
