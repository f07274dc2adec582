//! The variables of launchers, as lines of `NAME=VALUE`.

use crate::{
    levels::{
        Axis,
        conf::{self, NcclSettings},
        in_force,
    },
    slurm::SlurmJob,
    world::{launch, tcp::variables::Contract},
};

/// Reads who this process is, where the others are, and what is set for NCCL.
pub(super) fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let env = |name: &str| variable(&text, name).map(str::to_owned);
    let _ = launch::bootstrap(&env);
    let _ = launch::processes(&env);
    let _ = launch::speaks(&env);
    let _ = launch::settings_alone(&env);
    let _ = launch::check_before_mpi(&env);
    if let Ok(contract) = Contract::from_env(&env) {
        assert!(contract.rank < contract.size);
        assert!(contract.ports.len() <= 8 && !contract.ports.contains(&0));
    }
    if let Ok(Some(job)) = SlurmJob::from(&env) {
        assert!(!job.folder().contains(['/', '\0']));
    }
    for axis in [Axis::Level, Axis::Resources] {
        let _ = in_force(axis, &env);
    }
    let _ = conf::files(&env);
    // The text is an nccl.conf as well.
    let settings = NcclSettings::new([], [("nccl.conf", &*text)]);
    for (name, value) in settings.iter() {
        assert!(settings.describe(name).contains(&value.value));
    }
}

/// Returns the value of a variable in lines of `NAME=VALUE`, of which the last of a name counts.
fn variable<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().rev();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}
