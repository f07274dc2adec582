use std::collections::BTreeSet;

use super::*;
use crate::{
    collective::Collective,
    units::Bytes,
    workload::{
        operation::Work,
        volume::{CollectiveVolume, CopiesVolume, StepVolume},
    },
};

fn volume(name: &str, options: &WorkloadOptions, ranks: u64) -> StepVolume {
    let workload = Workload::built_in(name, options).expect("a workload");
    let step = workload.on(ranks).expect("a step");
    step.volume()
}

fn collective(calls: u64, bytes: u64) -> CollectiveVolume {
    CollectiveVolume {
        calls,
        bytes: Bytes(bytes),
    }
}

fn sizes(workload: &Workload, wanted: Collective) -> Vec<u64> {
    let calls = workload.operations.iter();
    let sizes = calls.filter_map(|operation| match &operation.work {
        Work::Collective(call) if call.collective == wanted => Some(call.size.0),
        _ => None,
    });
    sizes.collect()
}

/// Returns bytes and pieces of the copies whose names begin so.
fn copies(workload: &Workload, begin: &str) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    for operation in &workload.operations {
        if let Work::Copies(copies) = &operation.work
            && operation.name.starts_with(begin)
        {
            found.push((copies.bytes.0, copies.pieces));
        }
    }
    found
}

fn names_of<'a>(workload: &'a Workload, indices: &[usize]) -> Vec<&'a str> {
    let names = indices.iter().map(|at| &*workload.operations[*at].name);
    names.collect()
}

/// Sizes that PyTorch 2.11 had with `bucket_cap_mb=25`, after it formed its buckets anew.
#[test]
fn buckets_of_resnet50_are_those_of_pytorch() {
    let options = WorkloadOptions::default();
    let workload = Workload::built_in("ddp-resnet50", &options).expect("a workload");
    let buckets = sizes(&workload, Collective::AllReduce);
    assert_eq!(buckets, [30_257_056, 26_255_360, 28_366_848, 17_348_864]);
    assert_eq!(buckets.iter().sum::<u64>(), 4 * 25_557_032);
    let buffers = sizes(&workload, Collective::Broadcast);
    assert_eq!(buffers, [2 * 26_560 * 4, 53 * 8]);
    let time = volume("ddp-resnet50", &options, 2).computation;
    assert!((time.0 - 32_110.0).abs() < 1e-6, "{}", time.0);
}

/// A convolution and a batch norm have three parameters together, the classifier has two. The first
/// bucket has the classifier, layer4.2 (three of each) and half of layer4.1: the last convolution
/// and its norm.
#[test]
fn each_gradient_of_resnet50_is_copied_into_its_bucket_and_back() {
    let options = WorkloadOptions::default();
    let workload = Workload::built_in("ddp-resnet50", &options).expect("a workload");
    let buckets = [
        (30_257_056, 2 + 9 + 3),
        (26_255_360, 6 + 3 + 3),
        (28_366_848, 6 + 3 * 9 + 6),
        (17_348_864, 161 - 14 - 12 - 39),
    ];
    // Norms, the bias of the classifier and convolutions of up to 64 KiB are copied apart from the
    // others, bucket by bucket.
    let small = [
        (44_960, 4 * 2 + 1),
        (40_960, 4 * 2),
        (55_296, 13 * 2),
        (522_496, 32 * 2 + 8),
    ];
    let mut parts = Vec::new();
    for ((bytes, pieces), (small_bytes, small_pieces)) in buckets.into_iter().zip(small) {
        parts.push((bytes - small_bytes, pieces - small_pieces));
        parts.push((small_bytes, small_pieces));
    }
    assert_eq!(copies(&workload, "fill "), parts);
    assert_eq!(copies(&workload, "copy back "), parts);
    // 53 norms with a mean, a variance and a counter.
    let buffers = [(212_480, 106), (424, 53)];
    assert_eq!(copies(&workload, "copy buffers "), buffers);
    assert_eq!(
        copies(&workload, "join buffers "),
        buffers.map(|(bytes, _)| (bytes, 1))
    );
    let all = volume("ddp-resnet50", &options, 8).copies;
    let expected = CopiesVolume {
        pieces: 2 * 161 + 159 + 2,
        bytes: Bytes(2 * (4 * 25_557_032 + 2 * 26_560 * 4 + 53 * 8)),
    };
    assert_eq!(all, expected);
}

#[test]
fn copies_run_where_it_computes_in_the_order_of_pytorch() {
    let workload = Workload::built_in("ddp-resnet50", &WorkloadOptions::default());
    let workload = workload.expect("a workload");
    let computing = workload
        .operations
        .iter()
        .filter(|op| op.stream == "compute");
    let order: Vec<&str> = computing.map(|operation| &*operation.name).collect();
    let expected = "join buffers 1, join buffers 2, copy buffers 1, copy buffers 2, forward, \
                    backward 1, fill 1, fill 1 (small), backward 2, fill 2, fill 2 (small), \
                    backward 3, fill 3, fill 3 (small), backward 4, fill 4, fill 4 (small), copy \
                    back 1, copy back 1 (small), copy back 2, copy back 2 (small), copy back 3, \
                    copy back 3 (small), copy back 4, copy back 4 (small), optimizer";
    assert_eq!(order.join(", "), expected);
    for (name, waits) in [
        ("buffers 2", &["join buffers 2"][..]),
        ("copy buffers 2", &["buffers 2"]),
        ("bucket 3", &["fill 3", "fill 3 (small)"]),
        ("copy back 3", &["bucket 3"]),
        ("copy back 3 (small)", &["bucket 3"]),
    ] {
        let mut operations = workload.operations.iter();
        let found = operations.find(|op| op.name == name).expect(name);
        assert_eq!(names_of(&workload, &found.after), waits, "{name}");
    }
}

#[test]
fn gradients_that_are_views_of_their_bucket_are_divided_there_and_not_copied_back() {
    let options = WorkloadOptions {
        gradient_as_bucket_view: true,
        ..WorkloadOptions::default()
    };
    for (name, gradients, bytes) in [
        ("ddp-resnet50", 161, 4 * 25_557_032),
        ("ddp-gpt2", 148, 4 * 124_439_808),
    ] {
        let workload = Workload::built_in(name, &options).expect("a workload");
        assert_eq!(copies(&workload, "copy back "), []);
        let divided = copies(&workload, "divide ");
        let (sizes, pieces): (Vec<u64>, Vec<u32>) = divided.into_iter().unzip();
        assert_eq!(sizes.iter().sum::<u64>(), bytes);
        assert_eq!(pieces.iter().sum::<u32>(), gradients);
        let usual = volume(name, &WorkloadOptions::default(), 8).copies;
        let fewer = volume(name, &options, 8).copies;
        assert_eq!(usual.pieces - fewer.pieces, u64::from(gradients));
        assert_eq!(usual.bytes.0 - fewer.bytes.0, bytes);
    }
}

#[test]
fn bucket_limits_can_be_chosen() {
    let with = |bucket_mb, first_bucket_mb| {
        let options = WorkloadOptions {
            bucket_mb,
            first_bucket_mb,
            ..WorkloadOptions::default()
        };
        let workload = Workload::built_in("ddp-resnet50", &options).expect("a workload");
        sizes(&workload, Collective::AllReduce)
    };
    // Without `bucket_cap_mb`, PyTorch 2.11 had these: the classifier is in a bucket of its own.
    assert_eq!(
        with(25.0, Some(1.0)),
        [8_196_000, 31_502_336, 26_255_360, 26_550_272, 9_724_160]
    );
    assert_eq!(with(1000.0, None), [4 * 25_557_032]);
    // A parameter each.
    assert_eq!(with(1e-6, None).len(), 161);
}

#[test]
fn gradients_of_gpt2_are_its_parameters() {
    let options = WorkloadOptions::default();
    let volume = volume("ddp-gpt2", &options, 2);
    let layer = 12 * 768 * 768 + 13 * 768;
    let parameters = 50_257 * 768 + 1024 * 768 + 12 * layer + 2 * 768;
    assert_eq!(parameters, 124_439_808);
    let reduced = volume.collectives[&Collective::AllReduce];
    assert_eq!(reduced.bytes, Bytes(4 * parameters));
    // A layer has two norms and four linear parts, each with a weight and a bias.
    let copies = CopiesVolume {
        pieces: 2 * (2 + 12 * 12 + 2),
        bytes: Bytes(2 * 4 * parameters),
    };
    assert_eq!(volume.copies, copies);
    // Three passes over 12 × 1024 tokens.
    let tokens = 12.0 * 1024.0;
    let matrices = 2.0 * (12.0 * 12.0 * 768.0 * 768.0 + 50_257.0 * 768.0) * tokens;
    let scores = 12.0 * 2.0 * 1024.0 * 768.0 * tokens;
    let optimizer = 12.0 * parameters as f64 / 4e12;
    let expected = (3.0 * (matrices + scores) / 400e12 + optimizer) * 1e6;
    let computed = volume.computation.0;
    assert!(
        (computed / expected - 1.0).abs() < 1e-9,
        "{computed} {expected}"
    );
}

#[test]
fn sharded_parameters_are_gathered_twice_and_reduced_once() {
    for (name, layers, layer, all) in [
        ("fsdp-7b", 32, 202_383_360, 6_738_415_616),
        ("fsdp-70b", 80, 855_654_400, 68_976_648_192_u64),
    ] {
        let outside = all - layers * layer;
        for prefetch in [0, 1, 3, 100] {
            let options = WorkloadOptions {
                prefetch,
                ..WorkloadOptions::default()
            };
            let volume = volume(name, &options, 8);
            let gathered = 2 * (2 * layers * layer + outside);
            assert_eq!(
                volume.collectives[&Collective::AllGather],
                collective(2 * layers + 1, gathered),
                "{name}"
            );
            assert_eq!(
                volume.collectives[&Collective::ReduceScatter],
                collective(layers + 1, 2 * all),
                "{name}"
            );
        }
    }
}

/// With a depth of 1, the parameters of the next layer are gathered while a layer computes; with 0,
/// they are not.
#[test]
fn as_many_layers_are_gathered_ahead_as_asked_for() {
    for prefetch in 0..3 {
        let options = WorkloadOptions {
            prefetch,
            layers: Some(6),
            ..WorkloadOptions::default()
        };
        let workload = Workload::built_in("fsdp-7b", &options).expect("a workload");
        let index = |name: String| {
            let found = workload.operations.iter().position(|op| op.name == name);
            found.expect("an operation")
        };
        let depth = prefetch as usize;
        for layer in 2 + depth..=6 {
            let gather = index(format!("gather layer {layer} forward"));
            let freed = index(format!("forward {}", layer - depth - 1));
            assert_eq!(workload.operations[gather].after, [freed]);
        }
        let gather = index(format!("gather layer {} backward", 5 - depth));
        let reduce = index("reduce layer 6".to_owned());
        assert!(reduce < gather, "reductions are issued between");
    }
}

#[test]
fn tensor_parallelism_moves_activations() {
    let activations = 4096 * 8192 * 2;
    let mut options = WorkloadOptions::default();
    let with = volume("tensor-70b", &options, 8).collectives;
    assert_eq!(
        with[&Collective::AllGather],
        collective(6 * 80, 6 * 80 * activations)
    );
    assert_eq!(
        with[&Collective::ReduceScatter],
        collective(4 * 80, 4 * 80 * activations)
    );
    options.sequence_parallel = false;
    let without = volume("tensor-70b", &options, 8).collectives;
    assert_eq!(without.len(), 1);
    assert_eq!(
        without[&Collective::AllReduce],
        collective(4 * 80, 4 * 80 * activations)
    );
}

#[test]
fn tokens_travel_to_two_experts_and_back_in_each_pass() {
    let even = WorkloadOptions {
        skew: 0.0,
        ..WorkloadOptions::default()
    };
    let volumes = volume("moe-8x7b", &even, 8).collectives;
    let tokens = 4096 * 2 * 4096 * 2;
    assert_eq!(
        volumes[&Collective::AllToAllV],
        collective(4 * 32, 4 * 32 * tokens)
    );
    let attention = 2 * 4096 * 4096 + 2 * 4096 * 1024;
    let dense = 32 * (attention + 2 * 4096 + 8 * 4096) + 2 * 32_000 * 4096 + 4096;
    assert_eq!(volumes[&Collective::AllReduce], collective(33, 2 * dense));
    // With a skew, ranks far away get more, which the size of the busiest rank does not show.
    let skewed = volume("moe-8x7b", &WorkloadOptions::default(), 8).collectives;
    let bytes = skewed[&Collective::AllToAllV].bytes.0;
    assert!(bytes <= 4 * 32 * tokens && bytes > 4 * 32 * (tokens - 8 * 16));
    // Two replicas of four ranks with two experts each.
    let grouped = WorkloadOptions {
        expert: Some(4),
        ..even
    };
    let reduced = volume("moe-8x7b", &grouped, 8).collectives[&Collective::AllReduce];
    let experts = 32 * 2 * 3 * 4096 * 14_336;
    assert_eq!(reduced, collective(33 + 32, 2 * (dense + experts)));
}

#[test]
fn each_part_of_each_micro_batch_is_sent_forward_and_back() {
    for micro_batches in [1, 2, 8, 9] {
        let options = WorkloadOptions {
            micro_batches,
            ..WorkloadOptions::default()
        };
        let volume = volume("pipeline", &options, 4);
        let slots = 2 * u64::from(micro_batches);
        let activations = 4096 * 4096 * 2;
        assert_eq!(
            volume.collectives[&Collective::SendRecv],
            collective(2 * slots, 2 * slots * activations)
        );
        let layer = shapes::LLAMA_7B.layer_flops();
        let expected = 3.0 * layer * 32.0 / 4.0 * f64::from(micro_batches) / 400e6;
        assert!((volume.computation.0 / expected - 1.0).abs() < 1e-9);
    }
}

#[test]
fn three_dimensions_move_what_each_moves() {
    let volumes = volume("3d", &WorkloadOptions::default(), 64).collectives;
    let (micro_batches, layers) = (8, 20);
    let activations = 4096 * 8192 * 2;
    let shard = 2 * (855_654_400 / 8);
    assert_eq!(
        volumes[&Collective::AllGather],
        collective(
            6 * layers * micro_batches + layers,
            6 * layers * micro_batches * activations + layers * shard
        )
    );
    assert_eq!(
        volumes[&Collective::ReduceScatter],
        collective(
            4 * layers * micro_batches + layers,
            4 * layers * micro_batches * activations + layers * shard
        )
    );
    assert_eq!(
        volumes[&Collective::SendRecv],
        collective(2 * micro_batches, 2 * micro_batches * activations / 8)
    );
    let whole = WorkloadOptions {
        sequence_parallel: false,
        ..WorkloadOptions::default()
    };
    assert_eq!(
        volume("3d", &whole, 64).collectives[&Collective::SendRecv],
        collective(2 * micro_batches, 2 * micro_batches * activations),
        "each rank has all activations"
    );
}

#[test]
fn all_are_written_and_read_and_have_names_of_their_own() {
    let options = WorkloadOptions {
        layers: Some(4),
        expert: Some(2),
        ..WorkloadOptions::default()
    };
    let mut names = BTreeSet::new();
    for known in BUILT_IN {
        assert!(names.insert(known.name));
        let workload = Workload::built_in(known.name, &options).expect("a workload");
        assert_eq!(workload.name, known.name);
        let again = Workload::parse(&workload.to_toml()).expect("what was written");
        assert_eq!(again, workload);
    }
}

#[test]
fn all_fit_any_number_of_ranks() {
    for known in BUILT_IN {
        for ranks in (1..=17).chain([24, 32, 48, 64, 96, 128]) {
            let options = WorkloadOptions {
                layers: Some(4),
                ..WorkloadOptions::default()
            };
            let options = options.for_ranks(known.name, ranks);
            let workload = Workload::built_in(known.name, &options).expect("a workload");
            workload
                .on(ranks)
                .unwrap_or_else(|error| panic!("{} on {ranks}: {error:#}", known.name));
        }
    }
    let published = WorkloadOptions::default().for_ranks("3d", 64);
    assert_eq!((published.tensor, published.pipeline), (Some(8), Some(4)));
    let small = WorkloadOptions::default().for_ranks("3d", 8);
    assert_eq!((small.tensor, small.pipeline), (Some(2), Some(2)));
    // More ranks than the published ones are more replicas.
    for (ranks, stages) in [(3, 3), (4, 4), (6, 3), (8, 4), (64, 4)] {
        let pipeline = WorkloadOptions::default().for_ranks("pipeline", ranks);
        assert_eq!(pipeline.pipeline, Some(stages), "{ranks}");
    }
}

#[test]
fn sizes_and_times_can_be_scaled() {
    let small = WorkloadOptions {
        size_scale: 1.0 / 1024.0,
        time_scale: 0.01,
        ..WorkloadOptions::default()
    };
    let scaled = volume("fsdp-7b", &small, 4);
    let full = volume("fsdp-7b", &WorkloadOptions::default(), 4);
    let ratio = scaled.computation.0 / full.computation.0;
    assert!((ratio - 0.01).abs() < 1e-9);
    let bytes = |volume: &StepVolume| volume.collectives[&Collective::AllGather].bytes.0 as f64;
    let ratio = bytes(&full) / bytes(&scaled);
    assert!((ratio - 1024.0).abs() < 1.0, "{ratio}");
    // Copies become shorter, not fewer, down to an element each.
    let tiny = WorkloadOptions {
        size_scale: 1e-9,
        ..WorkloadOptions::default()
    };
    let copies = volume("ddp-resnet50", &tiny, 4).copies;
    assert_eq!(copies.pieces, 483);
    let floats = 2 * 161 + 106 + 1;
    assert_eq!(copies.bytes, Bytes(4 * floats + 8 * (53 + 1)));
}

#[test]
fn options_that_are_not_possible_are_refused() {
    let refused = |change: fn(&mut WorkloadOptions)| {
        let mut options = WorkloadOptions::default();
        change(&mut options);
        let error = Workload::built_in("3d", &options).expect_err("refused");
        error.to_string()
    };
    for (change, words) in [
        (
            (|options| options.bucket_mb = 0.0) as fn(&mut WorkloadOptions),
            "a bucket of 0 MiB is not possible; choose a number above 0 and up to 1000000",
        ),
        (
            |options| options.skew = f64::NAN,
            "a skew of NaN is not possible; choose a number from 0 to 1",
        ),
        (
            |options| options.size_scale = 0.0,
            "the size scale is not above 0 and up to 1000; choose such a number",
        ),
        (
            |options| options.tensor = Some(0),
            "0 ranks of the dimension tensor are not possible; choose a number from 1 to 1024",
        ),
        (
            |options| options.micro_batches = 1024,
            "3d would have 329769 operations, more than 100000; choose fewer layers or \
             micro-batches",
        ),
    ] {
        assert_eq!(refused(change), words);
    }
    let error = Workload::built_in("ddp", &WorkloadOptions::default()).expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "there is no workload 'ddp'; there are ddp-resnet50, ddp-gpt2, fsdp-7b, fsdp-70b, \
         tensor-70b, moe-8x7b, pipeline, 3d"
    );
}
