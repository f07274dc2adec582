//! The settings under which NCCL logs what this program reads: `NCCL_DEBUG` and
//! `NCCL_DEBUG_SUBSYS`.

use std::fmt;

/// The amount that NCCL is to log. Each level also logs what the levels before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDetail {
    /// Settings, communicators, and connections with their transport.
    Transports,
    /// Networks, and whether a NIC has GPUDirect RDMA.
    Networks,
    /// Graphs and paths, which explain why a connection is relayed or not. Nothing is logged per
    /// operation, so a timed run can log this.
    Graphs,
    /// The algorithm and protocol of each operation.
    Algorithms,
    /// Everything that a proof reads.
    Everything,
}

impl LogDetail {
    /// All levels, from the least to the most.
    pub const ALL: [LogDetail; 5] = [
        LogDetail::Transports,
        LogDetail::Networks,
        LogDetail::Graphs,
        LogDetail::Algorithms,
        LogDetail::Everything,
    ];

    /// Returns the value of `NCCL_DEBUG_SUBSYS`.
    pub const fn subsystems(self) -> &'static str {
        match self {
            LogDetail::Transports => "INIT,ENV",
            LogDetail::Networks => "INIT,ENV,NET",
            LogDetail::Graphs => "INIT,ENV,NET,GRAPH",
            LogDetail::Algorithms => "INIT,ENV,NET,GRAPH,TUNING",
            LogDetail::Everything => "INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING",
        }
    }

    /// Returns the environment variables to set.
    pub const fn variables(self) -> [(&'static str, &'static str); 2] {
        [
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", self.subsystems()),
        ]
    }
}

/// Writes the variables as a shell takes them.
impl fmt::Display for LogDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(level, info), (subsystems, list)] = self.variables();
        write!(f, "{level}={info} {subsystems}={list}")
    }
}

/// Returns what to set so that the log holds everything that a proof reads.
pub fn how_to_log() -> String {
    format!(
        "{} NCCL_DEBUG_FILE=DIR/nccl.%h.%p.log",
        LogDetail::Everything
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_level_logs_what_the_levels_before_it_do() {
        let mut before = BTreeSet::new();
        for detail in LogDetail::ALL {
            let names: BTreeSet<&str> = detail.subsystems().split(',').collect();
            assert!(names.is_superset(&before), "{detail}");
            before = names;
        }
    }

    #[test]
    fn the_documentation_names_the_same_variables() {
        let page = include_str!("../../docs/PROOF.md");
        assert!(page.contains(&LogDetail::Everything.to_string()));
        assert!(how_to_log().starts_with("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,"));
    }
}
