//! `pxnbench kube`: what it renders, and what it does with a cluster.

#[path = "../common/mod.rs"]
mod common;
mod examples;
mod in_pod;
mod refusals;

use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}
