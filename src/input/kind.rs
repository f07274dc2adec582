//! [`InputKind`]: the kinds of input, and the most that is read of each.

use std::io;

use crate::units::Bytes;

/// A kind of file that this program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum InputKind {
    /// An nccl.conf, a site.conf, or a hostfile.
    Settings,
    /// A file that sets variables: a script, an env file, or a YAML file.
    Recipe,
    /// The traffic matrix of an alltoallv.
    Matrix,
    /// A topology as XML, or a matrix of nvidia-smi.
    Topology,
    /// A JSON file of this program.
    Json,
    /// A JSON file with a row per case.
    JsonRows,
    /// A CSV of results, which is read row by row.
    Rows,
    /// A log of NCCL, which is read line by line.
    Log,
    /// A file with the operations of a training step.
    Workload,
    /// A trace that a training framework recorded, of which only what is needed is kept.
    Trace,
    /// A file below /proc, /sys or /etc, or of a copy of them.
    System,
}

/// All kinds with their names, and the most that is read of a file. What is read piece by piece
/// takes no more memory if it is longer, and has no limit.
pub const INPUTS: [(InputKind, &str, Bytes); 11] = [
    (InputKind::Settings, "a file of settings", Bytes(4 << 20)),
    (InputKind::Recipe, "a script or YAML file", Bytes(4 << 20)),
    (InputKind::Matrix, "a traffic matrix", Bytes(256 << 20)),
    (InputKind::Topology, "a topology", Bytes(16 << 20)),
    (InputKind::Json, "a JSON file", Bytes(64 << 20)),
    (
        InputKind::JsonRows,
        "a JSON file of results",
        Bytes(1 << 30),
    ),
    (InputKind::Rows, "a CSV file", Bytes(u64::MAX)),
    (InputKind::Log, "a log", Bytes(u64::MAX)),
    (InputKind::Workload, "a workload", Bytes(16 << 20)),
    (InputKind::Trace, "a trace", Bytes(1 << 30)),
    (InputKind::System, "a file of the system", Bytes(64 << 20)),
];

impl InputKind {
    /// Returns what such a file is called.
    pub fn noun(self) -> &'static str {
        INPUTS[self as usize].1
    }

    /// Returns the most that is read of such a file.
    pub fn most(self) -> Bytes {
        INPUTS[self as usize].2
    }

    /// Returns the error of a file that is larger.
    pub fn too_large(self) -> io::Error {
        let what = format!(
            "it is larger than {}, the most that is read of {}",
            self.most(),
            self.noun()
        );
        io::Error::new(io::ErrorKind::FileTooLarge, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lists_each_kind_at_its_number() {
        for (at, (kind, ..)) in INPUTS.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
    }

    #[test]
    fn the_error_names_limit_and_kind() {
        assert_eq!(
            InputKind::Settings.too_large().to_string(),
            "it is larger than 4M, the most that is read of a file of settings"
        );
    }
}
