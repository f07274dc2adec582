//! A topology from text of any form that is understood.

use super::{node::Topology, smi, xml};

/// Reads NCCL's topology file, or the matrix of `nvidia-smi topo -m`: one topology per host.
///
/// # Errors
/// Returns an error if `text` is neither.
pub fn read(text: &str) -> Result<Vec<Topology>, String> {
    if let Some(matrix) = smi::read(text) {
        return matrix.map(|topology| vec![topology]);
    }
    xml::read(text)
}
