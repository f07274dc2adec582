//! Do the GPU's kernels make the same bytes as `collective::data`, and is the committed PTX made
//! from the source?
//!
//! No GPU is needed: `kernels.cu` is compiled as C++ with stand-ins for what CUDA has built in, and
//! its entries run thread by thread. Where there is no `c++` that part is skipped, and says so.
//! What remains for a real device (that its floating-point rounds as C++ does here)
//! `pxnbench selfcheck` shows.

mod common;

use std::{fs, path::Path, process::Command};

use pxnbench::collective::data::{
    Content, DType, DataKey, MAX_RANKS, Recipe, RedOp, count_wrong, write,
};

const SOURCE: &str = include_str!("../src/backend/nccl/kernels.cu");

/// The modules, by the names of their files.
macro_rules! modules {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../src/backend/nccl/ptx/", $name, ".ptx")))),*]
    };
}
const MODULES: [(&str, &str); 10] = modules!["bits8" "bits16" "bits32" "bits64" "half" "bfloat16" "float" "double" "f8e4m3" "f8e5m2"];

/// The module of computation and its source.
const COMPUTE: &str = include_str!("../src/backend/nccl/ptx/compute.ptx");
const COMPUTE_SOURCE: &str = include_str!("../src/backend/nccl/compute.cu");

/// Checks that `ptx` is made from `source` and has the one entry that the program asks for.
fn check_module(name: &str, ptx: &str, source: &str, entry: &str) {
    let header = ptx.lines().next().expect("a header");
    let made = format!("FNV-1a {:016x};", common::fnv(source.bytes()));
    assert!(
        header.contains(&made),
        "{name}: run scripts/make-ptx.sh: {header}"
    );
    let entry = format!(".entry {entry}(");
    assert_eq!(ptx.matches(&entry).count(), 1, "{name}");
}

#[test]
fn the_ptx_is_made_from_the_source() {
    for (name, ptx) in MODULES {
        check_module(name, ptx, SOURCE, "data");
    }
    check_module("compute", COMPUTE, COMPUTE_SOURCE, "compute");
}

#[test]
fn old_drivers_and_gpus_can_read_the_ptx() {
    for (name, ptx) in MODULES.into_iter().chain([("compute", COMPUTE)]) {
        let value = |name: &str| {
            ptx.lines()
                .find_map(|line| line.strip_prefix(name))
                .expect("a directive")
                .trim()
        };
        let (major, minor) = value(".version").split_once('.').expect("a version");
        let version = (
            major.parse::<u32>().expect("a number"),
            minor.parse::<u32>().expect("a number"),
        );
        assert!(version <= (8, 0), "{name}: {version:?}");
        assert_eq!(value(".target"), "sm_70", "{name}");
    }
}

/// A `main` that runs cases from standard input: a recipe, the bytes by which the stretch is off
/// 16, its length, and bytes to check. For each it writes the filled buffer with 32 bytes on both
/// sides, and how many elements were wrong in it, and in the bytes given.
///
/// `builtins.h` has what CUDA has built in.
const HARNESS: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "builtins.h"
#include "kernels.cu"

#include "kinds.h"

static void launch(const Work& work) {
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) RUN[work.recipe.kind](work);
}

static void get(void* to, size_t bytes) { if (fread(to, 1, bytes, stdin) != bytes) exit(feof(stdin) ? 0 : 1); }

int main() {
    for (;;) {
        Work work;
        u64 off, wrong[2] = {};
        get(&work.recipe, sizeof work.recipe);
        get(&off, 8);
        get(&work.len, 8);
        const u64 bytes = work.len * BYTES[work.recipe.kind], all = bytes + 64;
        u8* memory = (u8*)aligned_alloc(16, (all + off + 31) & ~15ull);
        u8* start = memory + off;
        memset(start, 0x5c, all);
        work.address = (u64)(start + 32);
        work.counter = 0;
        launch(work);
        fwrite(start, 1, all, stdout);
        work.counter = (u64)&wrong[0];
        launch(work);
        get(start + 32, bytes);
        work.counter = (u64)&wrong[1];
        launch(work);
        fwrite(wrong, 8, 2, stdout);
        free(memory);
    }
}
"#;

struct Case {
    key: DataKey,
    content: Content,
    /// Elements by which the stretch is off 16 bytes.
    off: u64,
    len: u64,
    /// What the check gets to see.
    got: Vec<u8>,
}

/// A small random generator with fixed seed, so that a failure can be had again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// Places where something changes: the start, the ends of a turn for each width, and where 32 bits
/// run over.
fn somewhere(dice: &mut Dice) -> u64 {
    let near = [
        100,
        4096,
        2 * 4096,
        4 * 4096,
        1 << 32,
        1 << 33,
        1 << 34,
        1 << 40,
    ][dice.below(8) as usize];
    match dice.below(3) {
        0 => 16 * dice.below(4),
        1 => near - 16 * dice.below(6),
        _ => near - dice.below(100),
    }
}

fn case(key: DataKey, content: Content, dice: &mut Dice) -> Case {
    let (off, len) = (dice.below(16 / key.dtype.size()), 1 + dice.below(300));
    let size = key.dtype.size() as usize;
    let mut got = vec![0; len as usize * size];
    write(&key, &content, &mut got);
    for _ in 0..dice.below(6) {
        let at = dice.below(len) as usize * size;
        // The low bits: a mean of floats may be off by a little, and by how much is what the check
        // must see.
        got[at] = got[at].wrapping_add(dice.below(5) as u8);
    }
    Case {
        key,
        content,
        off,
        len,
        got,
    }
}

fn cases() -> Vec<Case> {
    let mut dice = Dice(1);
    let mut cases = Vec::new();
    let ops = RedOp::ALL.map(Some).into_iter().chain([None]);
    for (dtype, redop) in DType::ALL
        .into_iter()
        .flat_map(|dtype| ops.clone().map(move |op| (dtype, op)))
    {
        for ranks in [1, 2, 3, 5, 8, 12, 64, 1000, 4095, MAX_RANKS] {
            let key = DataKey {
                dtype,
                redop,
                ranks,
                seed: dice.below(u64::MAX),
            };
            for chunk in [1, 3, 16, 37, 64, 200, u64::MAX] {
                // Ranks beyond the last do not occur in a run, but both sides must still agree on
                // them.
                let content = Content::Input {
                    rank: dice.below(ranks),
                    chunk,
                    first: somewhere(&mut dice),
                };
                cases.push(case(key, content, &mut dice));
            }
            for _ in 0..3 {
                let content = Content::Reduced {
                    first: somewhere(&mut dice),
                };
                cases.push(case(key, content, &mut dice));
            }
            cases.push(case(key, Content::Sentinel, &mut dice));
        }
    }
    cases
}

fn bytes_of(r: &Recipe) -> Vec<u8> {
    let wide = [r.first, r.chunk, r.factor, r.flip, r.head];
    let places = [
        r.rank, r.ring, r.stride, r.spread, r.window, r.depth, r.ranks, r.slack,
    ];
    let narrow = places
        .into_iter()
        .chain([r.kind as u32, r.form as u32])
        .chain(r.key);
    wide.into_iter()
        .flat_map(u64::to_le_bytes)
        .chain(narrow.flat_map(u32::to_le_bytes))
        .collect()
}

fn built(dir: &Path) -> Option<std::path::PathBuf> {
    fs::write(dir.join("kernels.cu"), SOURCE).expect("a file");
    fs::write(dir.join("harness.cpp"), HARNESS).expect("a file");
    let program = dir.join("harness");
    let built = Command::new("c++")
        .args([
            "-std=c++14",
            "-O1",
            "-ffp-contract=off",
            "-fno-strict-aliasing",
            "-o",
        ])
        .args([&program, &dir.join("harness.cpp")])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/standin"))
        .output();
    let built = match built {
        Ok(built) => built,
        Err(error) => {
            let why = format!(
                "the kernels were not compared with the Rust generator, since c++ does not run: \
                 {error}"
            );
            common::skip("c++", &why);
            return None;
        }
    };
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Some(program)
}

#[test]
fn the_kernels_make_and_count_what_rust_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(program) = built(dir.path()) else {
        return;
    };
    let cases = cases();
    let mut input = Vec::new();
    for case in &cases {
        input.extend(bytes_of(&Recipe::new(&case.key, &case.content)));
        input.extend((case.off * case.key.dtype.size()).to_le_bytes());
        input.extend(case.len.to_le_bytes());
        input.extend(&case.got);
    }
    fs::write(dir.path().join("cases"), input).expect("a file");
    let stdin = fs::File::open(dir.path().join("cases")).expect("a file");
    let ran = Command::new(program)
        .stdin(stdin)
        .output()
        .expect("the harness runs");
    assert!(ran.status.success(), "{:?}", ran.status);
    let mut out = ran.stdout.as_slice();
    for case in &cases {
        compare(case, &mut out);
    }
    assert!(out.is_empty());
}

fn compare(case: &Case, out: &mut &[u8]) {
    let Case {
        key,
        content,
        off,
        len,
        got,
    } = case;
    let what = format!("{key:?} {content:?}, {len} elements {off} off");
    let mut take = |bytes: usize| out.split_off(..bytes).expect("more output");
    let (before, filled, after) = (take(32), take(got.len()), take(32));
    let mut want = vec![0; got.len()];
    write(key, content, &mut want);
    let size = key.dtype.size() as usize;
    let differing = filled
        .chunks(size)
        .zip(want.chunks(size))
        .position(|(a, b)| a != b);
    assert_eq!(differing, None, "{what}: this element differs");
    assert!(
        before.iter().chain(after).all(|byte| *byte == 0x5c),
        "{what}: wrote outside"
    );
    let mut count = || u64::from_le_bytes(take(8).try_into().expect("8 bytes"));
    assert_eq!(count(), 0, "{what}: what was filled counts as wrong");
    assert_eq!(
        count(),
        count_wrong(key, content, got),
        "{what}: wrong elements"
    );
}
