//! [`BackendKind`]: the backends that a run can use, as records and files name them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// NCCL on GPUs.
    Nccl,
    /// MPI on host memory.
    Host,
    /// Times computed by a formula.
    Model,
}

impl BackendKind {
    /// All backends, in the order of help texts.
    pub const ALL: [BackendKind; 3] = [BackendKind::Nccl, BackendKind::Host, BackendKind::Model];

    /// Returns the name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Nccl => "nccl",
            BackendKind::Host => "host",
            BackendKind::Model => "model",
        }
    }

    /// Returns whether each rank drives a GPU.
    pub fn uses_gpus(self) -> bool {
        match self {
            BackendKind::Nccl => true,
            BackendKind::Host | BackendKind::Model => false,
        }
    }

    /// Returns whether NCCL moves the data. Otherwise NCCL's settings, the PXN level among them,
    /// have no effect.
    pub fn runs_nccl(self) -> bool {
        match self {
            BackendKind::Nccl => true,
            BackendKind::Host | BackendKind::Model => false,
        }
    }

    /// Returns whether data are moved and timed, not only computed.
    pub fn measures(self) -> bool {
        match self {
            BackendKind::Nccl | BackendKind::Host => true,
            BackendKind::Model => false,
        }
    }

    /// Returns what the list of devices shows instead of a PCI address; `None` for GPUs, which have
    /// one.
    pub fn device_label(self) -> Option<&'static str> {
        match self {
            BackendKind::Nccl => None,
            BackendKind::Host => Some("host memory"),
            BackendKind::Model => Some("computed"),
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BackendKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(BackendKind::name).join(", ");
                format!("unknown backend {text}; known backends: {known}")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_command_line_use_the_same_names() {
        for kind in BackendKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            let json = serde_json::to_value(kind).expect("JSON");
            assert_eq!(json, kind.name());
        }
        assert!("auto".parse::<BackendKind>().is_err());
    }
}
