//! `pxnbench kube`: what it renders, and what it does with a cluster.

#[path = "../common/mod.rs"]
mod common;
mod deploy;
mod examples;
mod fake;
mod in_pod;
mod refusals;
mod results;
mod status;

use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}
