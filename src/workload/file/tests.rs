use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    units::{Bytes, Micros},
    workload::{
        group::{Dimension, DimensionSize},
        memory_copies::MemoryCopies,
        operation::{CollectiveCall, Operation, Work, Workload},
    },
};

const STEP: &str = include_str!("../../../tests/fuzz-corpus/workload/step.toml");

#[test]
fn a_file_is_read() {
    let workload = Workload::parse(STEP).expect("a workload");
    assert_eq!(workload.name, "example");
    assert_eq!(workload.dimensions[0].size, DimensionSize::Ranks(2));
    assert_eq!(workload.dimensions[1].size, DimensionSize::Rest);
    let [backward, bucket, tokens, experts, loss, copy_back] = workload.operations.as_slice()
    else {
        panic!("{} operations", workload.operations.len());
    };
    assert_eq!(backward.work, Work::Compute(Micros(900.0)));
    assert_eq!(bucket.after, [0]);
    let call = CollectiveCall {
        collective: Collective::AllReduce,
        size: Bytes(25 << 20),
        dtype: DType::Bfloat16,
        redop: Some(RedOp::Sum),
        root: None,
        group: ["data".to_owned()].into(),
        traffic: None,
    };
    assert_eq!(bucket.work, Work::Collective(call));
    let call_of = |operation: &Operation| match &operation.work {
        Work::Collective(call) => call.clone(),
        Work::Compute(_) | Work::Copies(_) => panic!("a collective"),
    };
    assert_eq!(call_of(tokens).traffic, Some(&Traffic::Spread(0.25)));
    assert_eq!(call_of(tokens).group.len(), 2);
    let matrix = Traffic::matrix("0 4096\n8192 0").expect("a matrix");
    assert_eq!(call_of(experts).traffic, Some(&matrix));
    assert_eq!(call_of(loss).root, Some(1));
    assert_eq!(call_of(loss).redop, Some(RedOp::Max));
    assert_eq!(loss.after, [1, 2]);
    let copies = MemoryCopies {
        bytes: Bytes(25 << 20),
        pieces: 42,
    };
    assert_eq!(copy_back.work, Work::Copies(copies));
    let one = Workload::parse(&STEP.replace("pieces = 42\n", "")).expect("a workload");
    let copies = MemoryCopies {
        pieces: 1,
        ..copies
    };
    assert_eq!(one.operations[5].work, Work::Copies(copies));
}

/// What is replaced in the file, by what, and the error.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "compute_us = 900",
        "compute_us = -1",
        "operation 'backward 1': its compute_us of -1 is not a time from 0 to 3600000000 µs; \
         correct it",
    ),
    (
        "compute_us = 900",
        "compute_us = nan",
        "line 15: it is not a finite number",
    ),
    (
        "compute_us = 900",
        "",
        "operation 'backward 1': it has none of compute_us, copy and collective; add one of them",
    ),
    (
        "compute_us = 900",
        "compute_us = 900\ncopy = 4",
        "operation 'backward 1': it has several of compute_us, copy and collective; keep one of \
         them",
    ),
    (
        "copy = \"25M\"",
        "copy = \"25M\"\ncollective = \"reduce\"",
        "operation 'copy back': it has several of compute_us, copy and collective; keep one of \
         them",
    ),
    (
        "compute_us = 900",
        "compute_us = 900\npieces = 2",
        "operation 'backward 1': it has pieces, which are for copies; remove them",
    ),
    (
        "redop = \"max\"",
        "pieces = 2",
        "operation 'loss': it has pieces, which are for copies; remove them",
    ),
    (
        "copy = \"25M\"",
        "copy = \"25M\"\ngroup = \"data\"",
        "operation 'copy back': it copies, and group is for collectives; remove it",
    ),
    (
        "copy = \"25M\"",
        "copy = \"25Q\"",
        "operation 'copy back': its copy is '25Q': a size is a number with an optional K, M, G or \
         T, such as 8, 64K or 1.5G",
    ),
    (
        "copy = \"25M\"",
        "copy = \"2000T\"",
        "operation 'copy back': it copies 2000T, more than 1024T; make it smaller",
    ),
    (
        "copy = \"25M\"",
        "copy = 41",
        "operation 'copy back': it copies 41 bytes in 42 pieces, and a piece has at least one; \
         copy more, or in fewer pieces",
    ),
    (
        "copy = \"25M\"\npieces = 42",
        "copy = 0",
        "operation 'copy back': it copies 0 bytes in 1 piece, and a piece has at least one; copy \
         more, or in fewer pieces",
    ),
    (
        "pieces = 42",
        "pieces = 0",
        "operation 'copy back': its number of pieces, 0, is not from 1 to 100000; correct it",
    ),
    (
        "pieces = 42",
        "pieces = 100001",
        "operation 'copy back': its number of pieces, 100001, is not from 1 to 100000; correct it",
    ),
    (
        "compute_us = 900",
        "compute_us = 9\nsize = 4",
        "operation 'backward 1': it computes, and size is for collectives; remove it",
    ),
    (
        "name = \"bucket 1\"",
        "name = \"=1+1\"",
        "the name of an operation: '=1+1' would be a formula to a spreadsheet; begin it with a \
         letter or a digit",
    ),
    (
        "name = \"bucket 1\"",
        "name = \"backward 1\"",
        "two operations are called 'backward 1'; rename one of them",
    ),
    (
        "after = [\"backward 1\"]",
        "after = [\"loss\"]",
        "operation 'bucket 1': it waits for 'loss', which comes later; move that before it",
    ),
    (
        "after = [\"backward 1\"]",
        "after = [\"bucket 1\"]",
        "operation 'bucket 1': it waits for itself; remove it from after",
    ),
    (
        "after = [\"backward 1\"]",
        "after = [\"backward 2\"]",
        "operation 'bucket 1': it waits for 'backward 2', which is no operation of the workload; \
         correct the name in after",
    ),
    (
        "size = \"25M\"",
        "size = \"25Q\"",
        "operation 'bucket 1': its size is '25Q': a size is a number with an optional K, M, G or \
         T, such as 8, 64K or 1.5G",
    ),
    (
        "size = \"25M\"\n",
        "",
        "operation 'bucket 1': it has no size; add one such as \"25M\"",
    ),
    (
        "size = \"25M\"",
        "size = \"2000T\"",
        "operation 'bucket 1': its size of 2000T is larger than 1024T; make it smaller",
    ),
    (
        "size = \"25M\"",
        "size = -4",
        "line 22: a size is a number of bytes, or a text such as \"25M\"",
    ),
    (
        "group = \"data\"",
        "group = \"expert\"",
        "operation 'bucket 1': its group has 'expert', which is no dimension of the workload; \
         name one of its dimensions",
    ),
    (
        "group = \"data\"\n",
        "",
        "operation 'bucket 1': it has no group; name the dimension in which its ranks differ",
    ),
    (
        "type = \"bfloat16\"",
        "root = 0",
        "operation 'bucket 1': it has a root, but all_reduce has none: remove it",
    ),
    (
        "spread = 0.25",
        "spread = 2",
        "operation 'tokens': its spread of 2 is not a number from 0 to 1; correct it",
    ),
    (
        "8192 0",
        "8192",
        "operation 'experts': its matrix: row 2 has 1 value but there are 2 rows",
    ),
    (
        "redop = \"max\"",
        "spread = 1",
        "operation 'loss': spread and matrix are for an alltoallv; remove them",
    ),
    (
        "ranks = 2",
        "ranks = \"most\"",
        "line 6: the ranks of a dimension are a number, or \"rest\"",
    ),
    (
        "ranks = 2",
        "ranks = 0",
        "dimension 'tensor' has 0 ranks; give it at least 1",
    ),
    (
        "ranks = 2",
        "ranks = \"rest\"",
        "dimension 'data' takes the rest of the ranks, as one before it does; give one of them a \
         number",
    ),
    (
        "name = \"tensor\"",
        "name = \"data\"",
        "two dimensions are called 'data'; rename one of them",
    ),
    (
        "stream = \"compute\"",
        "steam = \"compute\"",
        "line 14: unknown field `steam`, expected one of `name`, `stream`, `after`, `compute_us`, \
         `copy`, `pieces`, `collective`, `size`, `type`, `redop`, `root`, `group`, `spread`, \
         `matrix`",
    ),
];

#[test]
fn what_is_wrong_is_said_with_where_and_what_to_do() {
    for (from, to, words) in WRONG {
        assert!(STEP.contains(from), "{from}");
        let error = Workload::parse(&STEP.replacen(from, to, 1)).expect_err(to);
        assert_eq!(format!("{error:#}"), *words);
    }
}

#[test]
fn an_error_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("step.toml");
    let refused = || format!("{:#}", Workload::read(&path).expect_err("refused"));
    assert!(
        refused().ends_with("step.toml cannot be read: No such file or directory (os error 2)")
    );
    std::fs::write(&path, "name = \"idle\"").expect("written");
    assert!(
        refused()
            .ends_with("is not valid: it has no operations; add one that computes or a collective")
    );
    std::fs::write(&path, "name = 1").expect("written");
    assert!(
        refused().ends_with(
            "step.toml is not valid: line 1: invalid type: integer `1`, expected a string"
        )
    );
    std::fs::write(&path, STEP).expect("written");
    assert_eq!(Workload::read(&path).expect("a workload").name, "example");
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let spread = (0.0..=1.0_f64).prop_map(Traffic::Spread);
    let numbers = vec(0..1_000_u64, 9);
    let matrix = numbers.prop_map(|numbers| {
        let rows = numbers
            .chunks(3)
            .map(|row| format!("{} {} {}\n", row[0], row[1], row[2]));
        Traffic::matrix(&rows.collect::<String>()).expect("a square")
    });
    prop_oneof![spread, matrix]
}

fn work(dimensions: usize) -> impl Strategy<Value = Work> {
    let compute = (0.0..1e9_f64).prop_map(|time| Work::Compute(Micros(time)));
    let collective = (
        select(Collective::ALL.to_vec()),
        0..1_u64 << 50,
        select(DType::ALL.to_vec()),
        (select(RedOp::ALL.to_vec()), 0..4_u32, traffic()),
        vec(0..dimensions, 1..4),
    );
    let collective =
        collective.prop_map(|(collective, size, dtype, (redop, root, traffic), group)| {
            let spec = collective.spec();
            Work::Collective(CollectiveCall {
                collective,
                size: Bytes(size),
                dtype,
                redop: spec.reduces.then_some(redop),
                root: spec.rooted.then_some(root),
                group: group.iter().map(|at| format!("d{at}")).collect(),
                traffic: spec.uneven.then(|| traffic.keep()),
            })
        });
    let copies = (1..=100_000_u32, 0..1_u64 << 49).prop_map(|(pieces, more)| {
        Work::Copies(MemoryCopies {
            bytes: Bytes(u64::from(pieces) + more),
            pieces,
        })
    });
    prop_oneof![compute, copies, collective]
}

fn dimension(at: usize, ranks: Option<u32>, rest: usize) -> Dimension {
    let size = match ranks {
        None if at == rest => DimensionSize::Rest,
        ranks => DimensionSize::Ranks(u64::from(ranks.unwrap_or(1)).max(1)),
    };
    Dimension {
        name: format!("d{at}"),
        size,
    }
}

fn workload() -> impl Strategy<Value = Workload> {
    let sizes = vec(option::of(any::<u32>()), 1..4);
    let parts = sizes.prop_flat_map(|sizes| {
        let works = vec(
            (
                work(sizes.len()),
                vec(any::<prop::sample::Index>(), 0..4),
                "[a-z]",
            ),
            1..12,
        );
        (
            Just(sizes),
            works,
            "[a-zA-Z0-9 ][ -~]{0,19}",
            "\\PC*",
            0..4_usize,
        )
    });
    parts.prop_map(|(sizes, works, name, about, rest)| {
        let dimensions = sizes.iter().enumerate();
        let dimensions = dimensions
            .map(|(at, ranks)| dimension(at, *ranks, rest))
            .collect();
        let mut operations = Vec::new();
        for (at, (work, after, stream)) in works.into_iter().enumerate() {
            let mut after: Vec<usize> = match at {
                0 => Vec::new(),
                at => after.iter().map(|index| index.index(at)).collect(),
            };
            after.sort_unstable();
            after.dedup();
            operations.push(Operation {
                name: format!("{name} {at}"),
                stream,
                after,
                work,
            });
        }
        Workload {
            name,
            about,
            dimensions,
            operations,
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(workload in workload()) {
        let text = workload.to_toml();
        let again = Workload::parse(&text).map_err(|error| TestCaseError::fail(format!("{error:#}\n{text}")))?;
        prop_assert_eq!(again, workload);
    }
}
