use serde_json::{Value, json};

use super::*;
use crate::{
    collective::{Collective, data::DType, traffic::Traffic},
    units::{Bytes, Micros},
    workload::{memory_copies::MemoryCopies, operation::CollectiveCall},
};

const DDP: &str = include_str!("../../../tests/data/traces/kineto-ddp.json");
const GROUPS: &str = include_str!("../../../tests/data/traces/kineto-groups.json");
const MESH: &str = include_str!("../../../tests/data/traces/execution-mesh.json");
const OLD: &str = include_str!("../../../tests/data/traces/execution-old.json");

fn calls(workload: &Workload) -> Vec<(Collective, u64, DType, String)> {
    let calls = workload.operations.iter();
    let calls = calls.filter_map(|operation| match &operation.work {
        Work::Collective(call) => Some((call.collective, call.size.0, call.dtype, group(call))),
        Work::Compute(_) | Work::Copies(_) => None,
    });
    calls.collect()
}

fn group(call: &CollectiveCall) -> String {
    let names: Vec<&str> = call.group.iter().map(String::as_str).collect();
    names.join("+")
}

fn unread(reading: &TraceReading) -> Vec<(&str, usize)> {
    let unread = reading.unread.iter();
    unread
        .map(|(what, count)| (what.as_str(), *count))
        .collect()
}

fn traffic_of_alltoallv(workload: &Workload) -> Option<&'static Traffic> {
    let calls = workload.operations.iter();
    let mut calls = calls.filter_map(|operation| match &operation.work {
        Work::Collective(call) => Some(call),
        Work::Compute(_) | Work::Copies(_) => None,
    });
    let exchange = calls.find(|call| call.collective == Collective::AllToAllV);
    exchange.expect("an alltoallv").traffic
}

/// Forward, a bucket, backward beside it, a second bucket for which the optimizer waits.
#[test]
fn computation_is_what_ran_between_collectives() {
    let reading = Workload::from_trace(DDP, 2).expect("a workload");
    let operations = &reading.workload.operations;
    let works: Vec<Option<Micros>> = operations
        .iter()
        .map(|operation| match operation.work {
            Work::Compute(time) => Some(time),
            Work::Collective(_) | Work::Copies(_) => None,
        })
        .collect();
    let time = |time| Some(Micros(time));
    assert_eq!(works, [time(300.0), None, time(400.0), None, time(90.0)]);
    let after: Vec<&[usize]> = operations.iter().map(|it| it.after.as_slice()).collect();
    assert_eq!(after, [&[][..], &[0], &[], &[2], &[3]]);
    let call = (Collective::AllReduce, DType::Float, "stride 1".to_owned());
    assert_eq!(
        calls(&reading.workload),
        [
            (call.0, 4 << 20, call.1, call.2.clone()),
            (call.0, 1 << 20, call.1, call.2)
        ]
    );
    assert_eq!(unread(&reading), [("barrier: it moves no data", 1)]);
    assert!(
        reading
            .workload
            .about
            .ends_with("It has 2 collectives of a job with 2 ranks.")
    );
    // It scales to other numbers of ranks.
    let wider = reading.workload.on(6).expect("a step");
    assert_eq!(wider.communicators[0].group.size, 6);
}

/// A trace of rank 0 of two ranks, to which events are added.
#[derive(Default)]
struct TraceEvents(Vec<Value>);

/// Streams of a GPU: the one that computes, that of FSDP's copies, and that of a process group.
const COMPUTING: u32 = 7;
const COPYING: u32 = 15;
const COMMUNICATING: u32 = 23;

impl TraceEvents {
    /// Adds a function on a thread of the CPU, and what it launches.
    fn function(&mut self, name: &str, thread: u32, begin: u32) -> &mut TraceEvents {
        self.0.push(json!({
            "ph": "X", "cat": "cpu_op", "name": name, "tid": thread, "ts": begin, "dur": 4,
        }));
        self
    }

    /// Adds the call of a collective of 1024 elements per rank, and its kernel.
    fn call(&mut self, collective: &str, begin: u32, on_gpu: (u32, u32)) -> &mut TraceEvents {
        self.function("record_param_comms", 1, begin);
        let call = self.0.last_mut().expect("the call");
        call["args"] = json!({
            "Collective name": collective, "dtype": "BFloat16", "In msg nelems": 512, "Out msg nelems": 1024,
            "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2,
        });
        self.kernel("ncclDevKernel", COMMUNICATING, begin + 1, on_gpu)
    }

    /// Adds a kernel, launched by thread 1.
    fn kernel(
        &mut self,
        name: &str,
        stream: u32,
        launched: u32,
        (begin, end): (u32, u32),
    ) -> &mut TraceEvents {
        let arguments = json!({"correlation": launched});
        self.0.push(json!({
            "ph": "X", "cat": "cuda_runtime", "name": "launch", "tid": 1, "ts": launched, "dur": 1, "args": arguments,
        }));
        self.0.push(json!({
            "ph": "X", "cat": "kernel", "name": name, "tid": stream, "ts": begin, "dur": end - begin, "args": arguments,
        }));
        self
    }

    /// Gives the last kernel a grid of so many blocks.
    fn with_grid(&mut self, blocks: u32) -> &mut TraceEvents {
        let kernel = self.0.last_mut().expect("the kernel");
        kernel["args"]["grid"] = json!([blocks, 1, 1]);
        kernel["args"]["block"] = json!([128, 1, 1]);
        self
    }

    /// Makes the last kernel a copy of 64 bytes by the driver.
    fn as_memcpy(&mut self) -> &mut TraceEvents {
        let copy = self.0.last_mut().expect("the kernel");
        copy["cat"] = json!("gpu_memcpy");
        copy["args"]["bytes"] = json!(64);
        self
    }

    fn text(&self) -> String {
        json!({ "traceEvents": self.0 }).to_string()
    }
}

/// Returns what is read of a trace: each operation with its stream, its work, and what it waits for
/// by number.
fn operations_of(text: &str) -> Vec<(String, String, Work, Vec<usize>)> {
    let reading = Workload::from_trace(text, 2).expect("a workload");
    assert_eq!(unread(&reading), []);
    let operations = reading.workload.operations.into_iter();
    operations
        .map(|it| (it.name, it.stream, it.work, it.after))
        .collect()
}

/// Checks names, streams and waits: `name in stream after 1 2`.
#[track_caller]
fn assert_order(operations: &[(String, String, Work, Vec<usize>)], expected: &[&str]) {
    let mut found = Vec::new();
    for (name, stream, _, after) in operations {
        let mut line = format!("{name} in {stream}");
        for (number, before) in after.iter().enumerate() {
            let word = if number == 0 { " after" } else { "" };
            line += &format!("{word} {}", before + 1);
        }
        found.push(line);
    }
    assert_eq!(found, expected);
}

fn copies(bytes: u64, pieces: u32) -> Work {
    Work::Copies(MemoryCopies {
        bytes: Bytes(bytes),
        pieces,
    })
}

const COPY_IN: &str = "fsdp::all_gather_copy_in";
const COPY_OUT: &str = "fsdp::split_with_sizes_copy";

/// Returns two layers of FSDP and the gather of a third. The CPU launches the first one's
/// computation before the gathers of the second and the third, which run beside it and end long
/// before their results are copied.
fn two_layers_of_fsdp() -> TraceEvents {
    let mut events = TraceEvents::default();
    events
        .function(COPY_IN, 1, 0)
        .kernel("gather", COPYING, 1, (2, 8))
        .call("_allgather_base", 5, (10, 110))
        .function(COPY_OUT, 1, 20)
        .kernel("split", COMPUTING, 21, (110, 131))
        .kernel("pointers", COMPUTING, 22, (131, 132))
        .as_memcpy()
        .kernel("layer 1", COMPUTING, 30, (132, 1132))
        .function(COPY_IN, 1, 40)
        .kernel("gather", COPYING, 41, (112, 123))
        .call("_allgather_base", 50, (133, 233))
        .function(COPY_OUT, 1, 60)
        .kernel("split", COMPUTING, 61, (1132, 1153))
        .kernel("layer 2", COMPUTING, 70, (1153, 1653))
        .function(COPY_IN, 1, 80)
        .kernel("gather", COPYING, 81, (240, 251))
        .call("_allgather_base", 90, (251, 351));
    events
}

#[test]
fn a_collective_waits_only_for_what_ended_before_it_began_and_copies_of_fsdp_wait_for_it() {
    let text = two_layers_of_fsdp().text();
    let operations = operations_of(&text);
    assert_order(
        &operations,
        &[
            "copy 1 in copies",
            "all_gather 2 in group 0 after 1",
            "copy 3 in compute after 2",
            "copy 4 in compute",
            "copy 5 in copies",
            "all_gather 6 in group 0 after 4 5",
            "copy 7 in copies after 4",
            "all_gather 8 in group 0 after 4 7",
            "compute 9 in compute",
            "compute 10 in compute after 6",
            "copy 11 in compute",
        ],
    );
    let works: Vec<&Work> = operations.iter().map(|(_, _, work, _)| work).collect();
    // The kernels take 5, 10 and 20 us longer than the shortest copy: at 4 TB/s, 10, 20 and 40 MB
    // are read and written.
    assert_eq!(*works[0], copies(10_000_000, 1));
    assert_eq!(*works[2], copies(40_000_000, 1));
    assert_eq!(*works[3], copies(64, 1));
    assert_eq!(*works[4], copies(20_000_000, 1));
    assert_eq!(*works[8], Work::Compute(Micros(1000.0)));
    assert_eq!(*works[9], Work::Compute(Micros(500.0)));
    assert_eq!(*works[10], copies(40_000_000, 1));
}

#[test]
fn copies_are_recognized_by_the_function_and_the_thread_that_launched_them() {
    let text = two_layers_of_fsdp().text();
    let plain = operations_of(&text.replace("fsdp::", "aten::"));
    assert!(
        !plain
            .iter()
            .any(|(_, _, work, _)| matches!(work, Work::Copies(_)))
    );
    for function in [
        "torch::distributed::reducer::mul_out",
        "torch.distributed.ddp.reducer::copy_bucket_to_grad",
    ] {
        let ddp = operations_of(&text.replace(COPY_OUT, function));
        assert_eq!(ddp[2].2, copies(40_000_000, 1));
    }
    let mut elsewhere = TraceEvents::default();
    elsewhere
        .call("allreduce", 5, (10, 110))
        .function(COPY_OUT, 2, 20)
        .kernel("split", COMPUTING, 21, (110, 132));
    let operations = operations_of(&elsewhere.text());
    assert_order(
        &operations,
        &["all_reduce 1 in group 0", "compute 2 in compute after 1"],
    );
    assert_eq!(operations[1].2, Work::Compute(Micros(22.0)));
}

/// A cast behind a reduce_scatter, in its stream, does not hold the computation back that the CPU
/// launches later.
#[test]
fn computation_does_not_wait_for_what_runs_beside_it() {
    let mut events = TraceEvents::default();
    events
        .kernel("layer 2", COMPUTING, 50, (500, 1000))
        .call("reduce_scatter", 100, (1000, 1200))
        .kernel("cast", COMMUNICATING, 110, (1203, 1210))
        .kernel("layer 1", COMPUTING, 120, (1010, 2000))
        .call("reduce_scatter", 130, (2010, 2200));
    let operations = operations_of(&events.text());
    assert_order(
        &operations,
        &[
            "compute 1 in compute",
            "reduce_scatter 2 in group 0 after 1",
            "compute 3 in compute",
            "reduce_scatter 4 in group 0 after 3",
        ],
    );
    // The cast ran while the layer did, and is not counted again.
    assert_eq!(operations[2].2, Work::Compute(Micros(990.0)));
}

/// A kernel that was launched before a gather cannot wait for it, even if the gather ended just
/// before it began.
#[test]
fn a_kernel_waits_for_no_call_that_was_made_after_its_launch() {
    let mut events = TraceEvents::default();
    events
        .kernel("first", COMPUTING, 10, (20, 100))
        .call("allreduce", 30, (100, 230))
        .kernel("second", COMPUTING, 40, (231, 300))
        .call("_allgather_base", 50, (130, 225));
    let operations = operations_of(&events.text());
    assert_order(
        &operations,
        &[
            "compute 1 in compute",
            "all_reduce 2 in group 0 after 1",
            "all_gather 3 in group 0 after 1",
            "compute 4 in compute after 2",
        ],
    );
}

/// Where gathers of tensor parallelism are between those of FSDP, each copy still waits for its
/// own.
#[test]
fn copies_of_fsdp_wait_for_the_gathers_of_fsdp() {
    let mut events = TraceEvents::default();
    events
        .function(COPY_IN, 1, 0)
        .kernel("gather", COPYING, 1, (2, 8))
        .call("_allgather_base", 5, (10, 110))
        .function(COPY_OUT, 1, 20)
        .kernel("split", COMPUTING, 21, (110, 131))
        .call("all_gather", 30, (131, 150))
        .kernel("layer 1", COMPUTING, 40, (150, 1132))
        .function(COPY_IN, 1, 50)
        .kernel("gather", COPYING, 51, (152, 160))
        .call("_allgather_base", 60, (160, 233))
        .function(COPY_OUT, 1, 70)
        .kernel("split", COMPUTING, 71, (1132, 1153));
    let operations = operations_of(&events.text());
    assert_order(
        &operations,
        &[
            "copy 1 in copies",
            "all_gather 2 in group 0 after 1",
            "copy 3 in compute after 2",
            "all_gather 4 in group 0 after 1 3",
            "copy 5 in copies after 3",
            "all_gather 6 in group 0 after 3 5",
            "compute 7 in compute after 4",
            "copy 8 in compute after 6",
        ],
    );
}

/// A kernel without a launch was started before the trace began, and is not the first one of the
/// call before it.
#[test]
fn a_kernel_whose_launch_is_not_in_the_trace_changes_no_other_call() {
    let mut events = TraceEvents::default();
    events
        .kernel("layer", COMPUTING, 10, (5500, 5900))
        .call("allreduce", 20, (6000, 6100))
        .kernel("ncclDevKernel", COMMUNICATING, 1, (5000, 5100));
    let launch = events.0.len() - 2;
    events.0.remove(launch);
    let operations = operations_of(&events.text());
    assert_order(
        &operations,
        &["compute 1 in compute", "all_reduce 2 in group 0 after 1"],
    );
}

#[test]
fn process_groups_become_dimensions_and_what_is_unread_is_counted() {
    let reading = Workload::from_trace(GROUPS, 40).expect("a workload");
    let (tensor, pipeline) = ("stride 1".to_owned(), "stride 2".to_owned());
    let all = "stride 1+stride 2+stride 8".to_owned();
    assert_eq!(
        calls(&reading.workload),
        [
            (Collective::AllGather, 4096, DType::Bfloat16, tensor.clone()),
            (
                Collective::ReduceScatter,
                4096,
                DType::Bfloat16,
                tensor.clone()
            ),
            (Collective::SendRecv, 1024, DType::Bfloat16, pipeline),
            (Collective::AllToAllV, 60, DType::Half, tensor),
            (
                Collective::Broadcast,
                56,
                DType::Int64,
                "stride 8".to_owned()
            ),
            (Collective::AllReduce, 400, DType::Float, all),
        ]
    );
    assert_eq!(
        unread(&reading),
        [
            (
                "allreduce: the ranks of process group '4' are unknown or uneven",
                2
            ),
            ("allreduce: type ComplexFloat", 1),
            ("mystery: it is no collective known here", 1),
            ("recv: it is replayed with the send of its peer", 1),
        ]
    );
    let step = reading.workload.on(40).expect("a step");
    let sizes: Vec<u64> = step.communicators.iter().map(|it| it.group.size).collect();
    assert_eq!(sizes, [2, 4, 5, 40]);
    let matrix = Traffic::matrix("20 40\n40 20").expect("a matrix");
    assert_eq!(traffic_of_alltoallv(&reading.workload), Some(&matrix));
    let error = Workload::from_trace(GROUPS, 12).expect_err("refused");
    assert_eq!(
        format!("{error:#}"),
        "12 ranks cannot be divided by the dimensions of the workload (stride 1 2 × stride 2 4 × \
         stride 8 the rest). Start a multiple of 8, or change the dimensions"
    );
}

/// PyTorch's split sizes count rows of the first dimension (`all_to_all_single`); a token of a
/// mixture of experts is one row.
#[test]
fn split_sizes_are_rows_of_as_many_elements_as_the_tensor_has() {
    let thirty = |kind: &str| format!("\"{kind} msg nelems\": 30");
    let four_each = |kind: &str| format!("\"{kind} msg nelems\": 120");
    let mut trace = GROUPS.to_owned();
    for kind in ["In", "Out"] {
        assert_eq!(trace.matches(&thirty(kind)).count(), 1, "{kind}");
        trace = trace.replace(&thirty(kind), &four_each(kind));
    }
    let reading = Workload::from_trace(&trace, 40).expect("a workload");
    // 10 and 20 rows of 4 elements of 2 bytes.
    let matrix = Traffic::matrix("80 160\n160 80").expect("a matrix");
    assert_eq!(traffic_of_alltoallv(&reading.workload), Some(&matrix));
    let exchange = &calls(&reading.workload)[3];
    assert_eq!((exchange.0, exchange.1), (Collective::AllToAllV, 240));

    // Rank 1 sends 10 rows to rank 0 and keeps 20, and rank 0 does the same to rank 1.
    let call = "\"Process Group Ranks\": \"[0, 1]\",\n    \"Rank\": 0";
    let of_rank_1 = trace.replace(call, &call.replace("\"Rank\": 0", "\"Rank\": 1"));
    assert_ne!(of_rank_1, trace);
    let reading = Workload::from_trace(&of_rank_1, 40).expect("a workload");
    let matrix = Traffic::matrix("160 80\n80 160").expect("a matrix");
    assert_eq!(traffic_of_alltoallv(&reading.workload), Some(&matrix));

    // 121 elements do not fill 30 rows.
    let odd = trace.replace(&four_each("In"), "\"In msg nelems\": 121");
    let reading = Workload::from_trace(&odd, 40).expect("a workload");
    let refused = "all_to_allv: its split sizes are not possible";
    assert!(unread(&reading).contains(&(refused, 1)));
}

#[test]
fn an_execution_trace_has_order_groups_and_waits() {
    let reading = Workload::from_trace(MESH, 4).expect("a workload");
    let (tensor, data) = ("stride 1".to_owned(), "stride 2".to_owned());
    let all = "stride 1+stride 2".to_owned();
    assert_eq!(
        calls(&reading.workload),
        [
            (Collective::AllGather, 1024, DType::Bfloat16, tensor.clone()),
            (Collective::Broadcast, 256, DType::Float, all),
            (Collective::AllReduce, 16384, DType::Float, data),
            (Collective::ReduceScatter, 1024, DType::Bfloat16, tensor),
        ]
    );
    assert_eq!(unread(&reading), []);
    let operations = &reading.workload.operations;
    let after: Vec<&[usize]> = operations.iter().map(|it| it.after.as_slice()).collect();
    // The first is waited for at once, the third by a call of its own; a stream orders its own.
    assert_eq!(after, [&[][..], &[0], &[0], &[2]]);
    let Work::Collective(broadcast) = &operations[1].work else {
        panic!("a broadcast");
    };
    assert_eq!(broadcast.root, Some(3));
}

#[test]
fn an_older_execution_trace_is_read_by_its_inputs() {
    let reading = Workload::from_trace(OLD, 4).expect("a workload");
    let all = "stride 1".to_owned();
    assert_eq!(
        calls(&reading.workload),
        [
            (Collective::AllReduce, 1280, DType::Float, all.clone()),
            (Collective::AllGather, 128, DType::Half, all),
        ]
    );
    assert_eq!(unread(&reading), []);
}

#[test]
fn what_is_no_trace_is_refused() {
    let refused = |text: &str| {
        let error = Workload::from_trace(text, 2).expect_err("refused");
        format!("{error:#}")
    };
    let json = "it is not the JSON of a trace; export one from PyTorch: ";
    assert!(refused("[").starts_with(json));
    assert!(refused("\u{a}\u{8}").starts_with(json));
    assert!(refused("{\"a\": 1}").starts_with("it has neither traceEvents nor nodes;"));
    assert!(refused("{\"traceEvents\": []}").starts_with("it has no collective that can be read;"));
    assert!(refused("{\"nodes\": []}").starts_with("it has no collective that can be read;"));
    // Where there are collectives, it says why none was read.
    let unknown = refused(&DDP.replace("\"Float\"", "\"Quad\""));
    assert!(
        unknown.starts_with("it has no collective that can be read (all"),
        "{unknown}"
    );
    assert!(unknown.contains(", 2 times); record a step"), "{unknown}");
}

#[test]
fn a_compressed_trace_is_read_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json.gz");
    let file = std::fs::File::create(&path).expect("created");
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, DDP.as_bytes()).expect("written");
    encoder.finish().expect("written");
    let reading = Workload::read_trace(&path, 2).expect("a workload");
    assert_eq!(reading, Workload::from_trace(DDP, 2).expect("a workload"));
    std::fs::write(&path, [0x1f, 0x8b, 8, 0]).expect("written");
    let error = Workload::read_trace(&path, 2).expect_err("damaged");
    assert!(format!("{error:#}").contains("cannot be read"), "{error:#}");
}

/// PyTorch takes any text for the name of a group.
#[test]
fn a_trace_with_odd_names_gives_a_file_that_can_be_read() {
    let name = "\\u001b[2J\\n=".repeat(40);
    let odd = DDP.replace(
        "\"Process Group Name\": \"0\"",
        &format!("\"Process Group Name\": \"{name}\""),
    );
    assert_ne!(odd, DDP);
    let workload = Workload::from_trace(&odd, 2).expect("a workload").workload;
    let again = Workload::parse(&workload.to_toml());
    assert_eq!(again.expect("readable"), workload);
}

#[test]
fn an_error_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let refused = || format!("{:#}", Workload::read_trace(&path, 2).expect_err("refused"));
    assert!(refused().contains("trace.json cannot be read: No such file"));
    std::fs::write(&path, "{}").expect("written");
    assert!(refused().contains("trace.json gives no workload: it has neither"));
    std::fs::write(&path, DDP).expect("written");
    let reading = Workload::read_trace(&path, 2).expect("a workload");
    assert_eq!(calls(&reading.workload)[0].1, Bytes(4 << 20).0);
}

/// Recorded by PyTorch 2.11: buckets of ResNet-50 with its default limits.
#[test]
fn both_recorded_traces_of_ddp_have_the_buckets_of_pytorch() {
    let kineto = include_str!("../../../tests/data/traces/pytorch-ddp-kineto.json");
    let execution = include_str!("../../../tests/data/traces/pytorch-ddp-et.json");
    for text in [kineto, execution] {
        let reading = Workload::from_trace(text, 2).expect("a workload");
        let sizes: Vec<u64> = calls(&reading.workload).iter().map(|call| call.1).collect();
        assert_eq!(
            sizes,
            [8_196_000, 31_502_336, 26_255_360, 26_550_272, 9_724_160]
        );
        assert_eq!(unread(&reading), []);
    }
}

/// Recorded by PyTorch 2.11: some calls of two passes over units of 50,358,272 parameters.
#[test]
fn both_recorded_traces_of_fsdp_gather_and_reduce_in_order() {
    let kineto = include_str!("../../../tests/data/traces/pytorch-fsdp-kineto.json");
    let execution = include_str!("../../../tests/data/traces/pytorch-fsdp-et.json");
    let (gather, reduce) = (Collective::AllGather, Collective::ReduceScatter);
    let kineto_order = [
        gather, gather, gather, gather, gather, gather, reduce, gather, reduce,
    ];
    let execution_order = [
        gather, gather, gather, reduce, gather, reduce, gather, reduce, reduce,
    ];
    for (text, order) in [(kineto, kineto_order), (execution, execution_order)] {
        let reading = Workload::from_trace(text, 2).expect("a workload");
        let found = calls(&reading.workload);
        let kinds: Vec<Collective> = found.iter().map(|call| call.0).collect();
        assert_eq!(kinds, order);
        let unit =
            |call: &(_, u64, DType, _)| call.1 == 2 * 50_358_272 && call.2 == DType::Bfloat16;
        assert!(found.iter().all(unit));
        assert_eq!(unread(&reading), []);
    }
}

/// A matrix product: the blocks of its grid, its time, and the blocks of the kernel of 1 us that
/// comes after it.
type Product = (u32, u32, u32);

impl TraceEvents {
    /// Adds matrix products that follow each other from a time on, and returns when they end.
    fn products(&mut self, mut begin: u32, products: &[Product]) -> u32 {
        for (blocks, time, next) in products {
            let end = begin + time;
            self.kernel("gemm", COMPUTING, begin, (begin, end))
                .with_grid(*blocks)
                .kernel("gelu", COMPUTING, begin + 1, (end, end + 1))
                .with_grid(*next);
            begin = end + 1;
        }
        begin
    }
}

/// Returns the time of a matrix product that runs beside a collective, as computation, if these ran
/// before it and alone.
fn computed_beside_a_collective(alone: &[Product], beside: Product) -> f64 {
    let mut events = TraceEvents::default();
    let begin = events.products(10, alone);
    events.call("allreduce", begin, (begin + 2, begin + 2002));
    events.products(begin + 2, &[beside]);
    let operations = operations_of(&events.text());
    match operations.last().expect("an operation").2 {
        Work::Compute(time) => time.0 - 1.0,
        _ => panic!("{operations:?}"),
    }
}

#[test]
fn what_a_kernel_takes_longer_beside_a_collective_is_no_computation() {
    let computed = computed_beside_a_collective;
    assert_eq!(computed(&[(132, 100, 64)], (132, 130, 64)), 100.0);
    let several = [40, 100, 90, 140].map(|time| (132, time, 64));
    assert_eq!(computed(&several, (132, 130, 64)), 100.0);
    // Another grid, another next kernel, no run that took no longer, and one that did something
    // else.
    for alone in [(64, 100, 64), (132, 100, 32), (132, 140, 64), (132, 64, 64)] {
        assert_eq!(computed(&[alone], (132, 130, 64)), 130.0, "{alone:?}");
    }
    assert_eq!(computed(&[(132, 65, 64)], (132, 130, 64)), 65.0);
}

/// A collective beside the last 20 us of a kernel delays it by no more.
#[test]
fn a_kernel_takes_longer_by_no_more_than_the_time_in_which_others_ran_beside_it() {
    let mut events = TraceEvents::default();
    let end = events.products(10, &[(132, 80, 64), (132, 119, 64), (132, 101, 64)]);
    events.call("allreduce", end, (end + 120, end + 220));
    events.products(end + 10, &[(132, 130, 64)]);
    let operations = operations_of(&events.text());
    let computed = Work::Compute(Micros(119.0 + 1.0));
    assert_eq!(operations.last().expect("an operation").2, computed);

    let mut events = TraceEvents::default();
    let end = events.products(10, &[(132, 80, 64), (132, 101, 64)]);
    events.call("allreduce", end, (end + 120, end + 220));
    events.products(end + 10, &[(132, 130, 64)]);
    let operations = operations_of(&events.text());
    let computed = Work::Compute(Micros(130.0 + 1.0));
    assert_eq!(operations.last().expect("an operation").2, computed);
}

#[test]
fn what_kernels_take_longer_beside_other_computation_is_computation() {
    let mut events = TraceEvents::default();
    for (begin, end, stream) in [
        (10, 110, COMPUTING),
        (200, 380, COMPUTING),
        (210, 390, COPYING),
        (500, 501, COMPUTING),
    ] {
        events
            .kernel("gemm", stream, begin, (begin, end))
            .with_grid(132);
    }
    events.call("allreduce", 510, (511, 611));
    let operations = operations_of(&events.text());
    assert_eq!(operations[0].2, Work::Compute(Micros(291.0)));
}

/// Returns the bytes of the copies before two gathers. The first copy runs alone from 2 to `alone`,
/// the second one beside computation for 60 us.
fn copied_beside_computation(alone: u32, add: impl Fn(&mut TraceEvents)) -> Vec<Bytes> {
    let mut events = TraceEvents::default();
    add(&mut events);
    for begin in [10, 20, 30, 40] {
        events.kernel("layer 0", COMPUTING, begin, (begin + 50, begin + 51));
    }
    events
        .function(COPY_IN, 1, 0)
        .kernel("gather", COPYING, 1, (2, alone))
        .with_grid(320)
        .call("_allgather_base", 5, (100, 110))
        .kernel("layer 1", COMPUTING, 30, (120, 1120))
        .function(COPY_IN, 1, 40)
        .kernel("gather", COPYING, 41, (130, 190))
        .with_grid(320)
        .call("_allgather_base", 50, (190, 290))
        .function(COPY_IN, 1, 60)
        .kernel("gather", COPYING, 61, (300, 306))
        .with_grid(320);
    let mut copied = Vec::new();
    for (_, stream, work, _) in operations_of(&events.text()) {
        if let Work::Copies(copies) = work
            && stream == "copies"
        {
            copied.push(copies.bytes);
        }
    }
    copied
}

#[test]
fn what_a_copy_takes_longer_beside_computation_is_no_bytes() {
    let [short, long] = [10_000_000, 28_000_000].map(Bytes);
    let copied = copied_beside_computation(17, |_| {});
    assert_eq!(copied, [long, long, short]);
    // The first copy is of something else.
    let as_recorded = Bytes(118_000_000);
    assert_eq!(
        copied_beside_computation(8, |_| {}),
        [short, as_recorded, short]
    );
}

/// Kernels that seem to take no time, as in traces in whole microseconds, keep nothing busy.
#[test]
fn what_takes_no_time_runs_beside_nothing() {
    let copied = copied_beside_computation(17, |events| {
        for stream in [COMPUTING, COPYING, COMMUNICATING] {
            events.kernel("memset", stream, 8, (0, 0));
        }
    });
    assert_eq!(copied, [28_000_000, 28_000_000, 10_000_000].map(Bytes));
}

/// Recorded by PyTorch 2.11: three layers of 50,358,272 parameters in bfloat16. What is gathered is
/// copied into one buffer beside computation, by two kernels, and out of it by one kernel that the
/// driver's copy of its pointers comes before.
#[test]
fn the_recorded_forward_pass_of_fsdp_gathers_beside_computation() {
    let text = include_str!("../../../tests/data/traces/pytorch-fsdp-forward.json");
    let operations = operations_of(text);
    assert_order(
        &operations,
        &[
            "copy 1 in copies",
            "all_gather 2 in group 0 after 1",
            "compute 3 in compute after 2",
            "copy 4 in compute",
            "copy 5 in compute",
            "copy 6 in copies",
            "all_gather 7 in group 0 after 5 6",
            "compute 8 in compute",
            "compute 9 in compute after 7",
            "copy 10 in compute",
            "copy 11 in compute",
            "copy 12 in copies after 8",
            "all_gather 13 in group 0 after 11 12",
            "compute 14 in compute",
            "copy 15 in compute after 13",
            "copy 16 in compute",
        ],
    );
    for (number, pieces) in [(0, 2), (3, 1), (5, 2), (9, 1), (11, 2), (14, 1)] {
        let Work::Copies(copies) = operations[number].2 else {
            panic!("{:?}", operations[number]);
        };
        assert_eq!(copies.pieces, pieces);
        // Half or all of 100,716,544 bytes. A copy beside computation takes longer, and counts as
        // more: this trace has no grids.
        assert!((80_000_000..160_000_000).contains(&copies.bytes.0));
    }
    assert_eq!(operations[4].2, copies(33_240, 1));
}

/// Recorded by PyTorch 2.11, likewise, but with grids: the copies before the gathers took 44, 77
/// and 75 us, of which only the first ones ran alone. The second kernel of the last copy stays as
/// recorded, because no kernel comes after it. The kernels that compute took 6416 us, a few of them
/// beside a gather. The matrix product of 860 us, beside copies for 31 us, is not taken for the
/// shorter one of 639 us with the same grid.
#[test]
fn recorded_kernels_beside_others_count_as_long_as_alone() {
    let text = include_str!("../../../tests/data/traces/pytorch-fsdp-beside.json");
    let mut computed = 0.0;
    let mut copied = Vec::new();
    for (_, stream, work, _) in operations_of(text) {
        match work {
            Work::Compute(time) => computed += time.0,
            Work::Copies(copies) if stream == "copies" => copied.push(copies.bytes.0 / 1_000_000),
            _ => {}
        }
    }
    assert_eq!(copied, [84, 84, 100]);
    assert!((6370.0..6380.0).contains(&computed), "{computed}");
}

/// Recorded by PyTorch 2.11: each gradient is divided into its bucket by a kernel, and copied back
/// by the driver.
#[test]
fn the_recorded_buckets_of_ddp_are_filled_before_they_are_reduced() {
    let text = include_str!("../../../tests/data/traces/pytorch-ddp-buckets.json");
    let operations = operations_of(text);
    assert_order(
        &operations,
        &[
            "compute 1 in compute",
            "copy 2 in compute",
            "all_reduce 3 in group 0 after 2",
            "compute 4 in compute",
            "copy 5 in compute",
            "copy 6 in compute",
            "all_reduce 7 in group 0 after 6",
            "copy 8 in compute",
            "copy 9 in compute",
        ],
    );
    // The classifier, then the last 15 gradients of convolutions and norms.
    let pieces = |number: usize| match operations[number].2 {
        Work::Copies(copies) => copies.pieces,
        _ => 0,
    };
    assert_eq!((pieces(1), pieces(4) + pieces(5)), (2, 15));
    assert_eq!(operations[7].2, copies(29_504 << 10, 5));
    assert_eq!(operations[8].2, copies(49_056, 11));
}
