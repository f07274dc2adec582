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

/// Returns an event on the CPU: a function that copies, or a call of an all_gather.
fn cpu_event(name: &str, begin: u32) -> Value {
    json!({
        "ph": "X", "cat": "cpu_op", "name": name, "tid": 7, "ts": begin, "dur": 4,
        "args": {
            "Collective name": "_allgather_base", "dtype": "BFloat16", "In msg nelems": 512, "Out msg nelems": 1024,
            "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2,
        },
    })
}

/// Returns what ran on the GPU from `begin` to `end`, and its launch.
fn gpu_events(name: &str, launched: u32, begin: u32, end: u32) -> [Value; 2] {
    let stream = match name {
        "gather" => 15,
        _ => 7,
    };
    let category = match name {
        "Memcpy" => "gpu_memcpy",
        _ => "kernel",
    };
    let mut arguments = json!({"correlation": launched});
    if name == "Memcpy" {
        arguments["bytes"] = json!(64);
    }
    [
        json!({
            "ph": "X", "cat": "cuda_runtime", "name": "launch", "tid": 7, "ts": launched, "dur": 1,
            "args": {"correlation": launched},
        }),
        json!({
            "ph": "X", "cat": category, "name": name, "tid": stream, "ts": begin, "dur": end - begin, "args": arguments,
        }),
    ]
}

/// Two layers of FSDP. The parameters of the second are copied and gathered while the first computes, although the CPU had launched
/// that before, and are there long before they are copied.
#[test]
fn a_collective_waits_only_for_what_ended_before_it_began_and_copies_of_fsdp_wait_for_it() {
    let (copy_in, copy_out) = ("fsdp::all_gather_copy_in", "fsdp::split_with_sizes_copy");
    let mut events = vec![
        cpu_event("record_param_comms", 0),
        cpu_event(copy_out, 20),
        cpu_event(copy_in, 40),
        cpu_event("record_param_comms", 50),
        cpu_event(copy_out, 60),
    ];
    for on_gpu in [
        gpu_events("ncclDevKernel_AllGather", 1, 10, 110),
        gpu_events("split", 21, 110, 131),
        gpu_events("Memcpy", 22, 131, 132),
        gpu_events("layer 1", 30, 132, 1132),
        gpu_events("gather", 41, 112, 123),
        gpu_events("ncclDevKernel_AllGather", 51, 133, 233),
        gpu_events("split", 61, 1132, 1153),
        gpu_events("layer 2", 70, 1153, 1653),
    ] {
        events.extend(on_gpu);
    }
    let text = json!({ "traceEvents": events }).to_string();
    let reading = Workload::from_trace(&text, 2).expect("a workload");
    assert_eq!(unread(&reading), []);
    let operations = &reading.workload.operations;
    let names: Vec<&str> = operations.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "all_gather 1",
            "copy 2",
            "copy 3",
            "copy 4",
            "all_gather 5",
            "compute 6",
            "compute 7",
            "copy 8"
        ]
    );
    let after: Vec<&[usize]> = operations.iter().map(|it| it.after.as_slice()).collect();
    assert_eq!(after, [&[][..], &[0], &[], &[2], &[2, 3], &[], &[4], &[]]);
    let streams: Vec<&str> = operations.iter().map(|it| it.stream.as_str()).collect();
    let (compute, group) = ("compute", "group 0");
    assert_eq!(
        streams,
        [
            group, compute, compute, "copies", group, compute, compute, compute
        ]
    );
    // The kernels take 20 and 10 us longer than the shortest copy: at 4 TB/s, 40 and 20 MB are read and written.
    let copies = |bytes, pieces| {
        Work::Copies(MemoryCopies {
            bytes: Bytes(bytes),
            pieces,
        })
    };
    assert_eq!(operations[1].work, copies(40_000_000, 1));
    assert_eq!(operations[2].work, copies(64, 1));
    assert_eq!(operations[3].work, copies(20_000_000, 1));
    assert_eq!(operations[5].work, Work::Compute(Micros(1000.0)));
    assert_eq!(operations[6].work, Work::Compute(Micros(500.0)));
    assert_eq!(operations[7].work, copies(40_000_000, 1));

    // The same copies outside of these functions are computation.
    let plain = text.replace("fsdp::", "aten::");
    let reading = Workload::from_trace(&plain, 2).expect("a workload");
    let works = reading.workload.operations.iter().map(|it| &it.work);
    assert_eq!(
        works.filter(|work| matches!(work, Work::Copies(_))).count(),
        0
    );

    // Those of DDP are told by its functions; on another thread they belong to something else.
    for function in [
        "torch::distributed::reducer::mul_out",
        "torch.distributed.ddp.reducer::copy_bucket_to_grad",
    ] {
        let ddp = text.replace(copy_out, function);
        let reading = Workload::from_trace(&ddp, 2).expect("a workload");
        assert_eq!(reading.workload.operations[1].work, copies(40_000_000, 1));
    }
    let elsewhere = text.replace("\"tid\":7,\"ts\":20", "\"tid\":8,\"ts\":20");
    assert_ne!(elsewhere, text);
    let reading = Workload::from_trace(&elsewhere, 2).expect("a workload");
    assert_eq!(
        reading.workload.operations[1].work,
        Work::Compute(Micros(22.0))
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
        "12 ranks cannot be divided by the dimensions of the workload (stride 1 2 × stride 2 4 × stride 8 the rest). Start a multiple of 8, or change the dimensions"
    );
}

/// PyTorch's split sizes count rows of the first dimension (`all_to_all_single`); a token of a mixture of experts is one row.
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
