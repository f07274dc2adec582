//! Variables that name a file, a folder or a plugin, and what happens if it is not there.

/// The kind of thing that a variable's value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// A file that is read.
    File,
    /// A file that is written, in a folder that must exist.
    Output,
    /// Plugins that are loaded: paths, file names, or the NAME in `PREFIX-NAME.so`.
    Plugins {
        /// The prefix of their files.
        prefix: &'static str,
    },
}

/// A variable that names something on disk.
#[derive(Clone, Copy, Debug)]
pub struct PathVariable {
    /// Its name.
    pub name: &'static str,
    /// What it names.
    pub names: Names,
    /// Whether a run fails without it.
    pub fails: bool,
    /// What happens if it is not there; follows a colon.
    pub otherwise: &'static str,
}

const fn file(name: &'static str, fails: bool, otherwise: &'static str) -> PathVariable {
    PathVariable {
        name,
        names: Names::File,
        fails,
        otherwise,
    }
}

const fn output(name: &'static str, otherwise: &'static str) -> PathVariable {
    PathVariable {
        name,
        names: Names::Output,
        fails: false,
        otherwise,
    }
}

const fn plugins(
    name: &'static str,
    prefix: &'static str,
    otherwise: &'static str,
) -> PathVariable {
    PathVariable {
        name,
        names: Names::Plugins { prefix },
        fails: false,
        otherwise,
    }
}

/// All such variables. `NCCL_NET_PLUGIN` has a check of its own.
#[rustfmt::skip]
pub const PATH_VARIABLES: [PathVariable; 16] = [
    file("NCCL_TOPO_FILE", false, "NCCL goes on without it, and detects the topology itself"),
    file("NCCL_GRAPH_FILE", true, "NCCL ends with an error"),
    file("NCCL_CONF_FILE", false, "NCCL goes on without it, and does not read ~/.nccl.conf either"),
    file("NCCL_TUNER_CONFIG_PATH", false, "a tuner plugin that reads it has no configuration"),
    file("NCCL_TUNER_CONFIG_FILE", false, "a tuner plugin that reads it has no configuration"),
    file("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", false, "a sweep of alltoallv ends with an error"),
    output("NCCL_DEBUG_FILE", "NCCL logs to stdout instead"),
    output("NCCL_TOPO_DUMP_FILE", "NCCL writes no such file"),
    output("NCCL_GRAPH_DUMP_FILE", "NCCL writes no such file"),
    plugins("NCCL_TUNER_PLUGIN", "libnccl-tuner", "NCCL goes on with its own tuning"),
    plugins("NCCL_PROFILER_PLUGIN", "libnccl-profiler", "NCCL goes on without a profiler"),
    plugins("NCCL_ENV_PLUGIN", "libnccl-env", "NCCL goes on without it, and reads the environment itself"),
    plugins("NCCL_GIN_PLUGIN", "libnccl-gin", "NCCL goes on with its own"),
    plugins("NCCL_RMA_PLUGIN", "libnccl-rma", "NCCL goes on with its own"),
    plugins("NCCL_IBVERBS_LIB", "libibverbs", "NCCL loads the system's libibverbs instead"),
    file("NCCL_HOME", false, "pxnbench loads the system's libnccl instead"),
];

/// Returns the plugins that a value names: none for `none`, and for one that is part of the
/// program.
pub fn plugin_names(value: &str) -> impl Iterator<Item = &str> {
    let is_none = value.eq_ignore_ascii_case("none");
    let names = value
        .split(',')
        .filter(move |name| !is_none && !name.is_empty());
    names.filter(|name| !name.eq_ignore_ascii_case("STATIC_PLUGIN"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_names_no_plugin() {
        let names = |value| plugin_names(value).collect::<Vec<_>>();
        assert_eq!(names("ofi,/x/libfoo.so"), ["ofi", "/x/libfoo.so"]);
        for value in ["", "none", "NONE", "STATIC_PLUGIN", ","] {
            assert!(names(value).is_empty(), "{value}");
        }
    }
}
