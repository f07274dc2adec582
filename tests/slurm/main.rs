//! The templates and `pxnbench launch` on a real Slurm of 4 nodes, which the tests start on this
//! machine (`scripts/slurm-lab.sh`) and which ends with them. Ranks run on host memory: two per
//! node, as many as the GPUs it pretends to have.

mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod home;
mod lab;
mod runs;
mod sites;
mod taught;
mod templates;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A sweep of few operations: these tests ask whether it runs where it should, not how fast.
const QUICK: [&str; 9] = [
    "--backend",
    "host",
    "-b",
    "1K",
    "-e",
    "4K",
    "-f",
    "4",
    "-n2",
];

/// One that lasts until somebody ends it.
const LONG: [&str; 10] = [
    "all_reduce",
    "--backend",
    "host",
    "-b",
    "8",
    "-e",
    "64M",
    "-f",
    "2",
    "-n500",
];
