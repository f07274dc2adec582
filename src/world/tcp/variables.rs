//! The variables in which a process learns its place in the job, as torchrun and Kubernetes set
//! them.

use std::{ops::RangeInclusive, sync::Arc};

use super::secret::Secret;
use crate::{
    env::Env,
    exit::{Code, Failure},
};

/// The variable with the rank of this process.
pub const RANK: &str = "RANK";
/// The variable with the number of processes.
pub const SIZE: &str = "WORLD_SIZE";
/// The variable with the order of this process on its node.
pub const LOCAL_RANK: &str = "LOCAL_RANK";
/// The variable with the number of processes on this node.
const LOCAL_SIZE: &str = "LOCAL_WORLD_SIZE";
/// The variable with the host of rank 0.
const ADDRESS: &str = "MASTER_ADDR";
/// The variable with the port of rank 0, or of torchrun's store beside it.
const PORT: &str = "MASTER_PORT";
/// The variable with the port of rank 0 if it is not to follow from `MASTER_PORT`.
pub const OWN_PORT: &str = "PXNBENCH_PORT";
/// The variable in which torchrun says that its agent holds [`PORT`] itself, for a store that the
/// ranks share.
const AGENT_HOLDS_PORT: &str = "TORCHELASTIC_USE_AGENT_STORE";

/// How many ports after that of torchrun's store rank 0 tries. The store takes a free port of the
/// system's choice, so the next one may be in use.
const PORTS_AFTER_STORE: u16 = 8;

/// The place of this process in the job, and where the job meets.
pub struct Contract {
    /// Its rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// Its order on its node, if known.
    pub local_rank: Option<u32>,
    /// The number of ranks on its node, if known.
    pub local_size: Option<u32>,
    /// The name or address of the host of rank 0.
    pub address: String,
    /// The ports on which rank 0 may listen: on the first that is free.
    pub ports: Vec<u16>,
    /// What the ranks of this job know and no one else.
    pub(super) secret: Arc<Secret>,
}

impl Contract {
    /// Reads the variables.
    ///
    /// # Errors
    /// Returns an error if one is missing, is no number, or contradicts another.
    pub fn from_env(env: Env) -> anyhow::Result<Contract> {
        let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let rank = required_number(&set, RANK, SIZE)?;
        let size = required_number(&set, SIZE, RANK)?;
        if size == 0 {
            return Err(broken(
                "WORLD_SIZE=0 is no number of ranks. Set it to the number of processes of the job",
            ));
        }
        if rank >= size {
            return Err(broken(&format!(
                "RANK={rank} does not fit WORLD_SIZE={size}: ranks are numbered from 0 to {}. \
                 Start as many processes as WORLD_SIZE says",
                size - 1
            )));
        }
        let local_rank = number(&set, LOCAL_RANK)?;
        let local_size = number(&set, LOCAL_SIZE)?;
        check_local(local_rank, local_size, size)?;
        let ports = if size == 1 { Vec::new() } else { ports(&set)? };
        let address = set(ADDRESS).unwrap_or_default();
        if size > 1 && address.is_empty() {
            return Err(broken(
                "RANK and WORLD_SIZE are set and MASTER_ADDR is not. Set it to the host of rank \
                 0, the same on every rank",
            ));
        }
        Ok(Contract {
            rank,
            size,
            local_rank,
            local_size,
            address: without_brackets(address.trim()).to_owned(),
            secret: Arc::new(Secret::from_env(&set)),
            ports,
        })
    }

    /// Returns how messages name the ports of rank 0: `port 29500`, `ports 29501 to 29508`.
    pub(super) fn port_names(&self) -> String {
        match (self.ports.first(), self.ports.last()) {
            (Some(first), Some(last)) if first != last => format!("ports {first} to {last}"),
            (Some(port), _) => format!("port {port}"),
            (None, _) => "no port".into(),
        }
    }

    /// Returns how messages say to choose another port.
    pub(super) fn other_port(&self) -> String {
        format!("Set {OWN_PORT} to a free port of that host, the same on every rank")
    }
}

/// Returns `fe80::1` of `[fe80::1]`, as URLs write it.
fn without_brackets(address: &str) -> &str {
    let inner = address.strip_prefix('[');
    inner
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(address)
}

/// Returns the ports on which rank 0 may listen.
///
/// torchrun's agent keeps a store of its own on `MASTER_PORT` for the whole job. The protocol of
/// that store differs between releases of PyTorch, so nothing is asked of it: rank 0 takes the
/// first free port of those that follow, and the others try them in turn. The handshake tells which
/// one is theirs.
fn ports(env: Env) -> anyhow::Result<Vec<u16>> {
    if let Some(port) = number::<u16>(env, OWN_PORT)? {
        return Ok(vec![usable(OWN_PORT, port)?]);
    }
    let Some(port) = number::<u16>(env, PORT)? else {
        return Err(broken(
            "RANK and WORLD_SIZE are set and MASTER_PORT is not. Set it to a free port of the \
             host of rank 0, such as 29500",
        ));
    };
    usable(PORT, port)?;
    if env(AGENT_HOLDS_PORT).is_none_or(|value| value != "True") {
        return Ok(vec![port]);
    }
    Ok(beside(port).collect())
}

/// Returns the ports after `port`, or those before it at the end of the range.
fn beside(port: u16) -> RangeInclusive<u16> {
    match port.checked_add(PORTS_AFTER_STORE) {
        Some(last) => port + 1..=last,
        None => port - PORTS_AFTER_STORE..=port - 1,
    }
}

fn usable(name: &str, port: u16) -> anyhow::Result<u16> {
    if port == 0 {
        return Err(broken(&format!(
            "{name}=0 is no port that others can find. Set it to a free port of the host of rank \
             0, such as 29500"
        )));
    }
    Ok(port)
}

fn check_local(local_rank: Option<u32>, local_size: Option<u32>, size: u32) -> anyhow::Result<()> {
    let Some(local_size) = local_size else {
        return Ok(());
    };
    if local_size > size {
        return Err(broken(&format!(
            "LOCAL_WORLD_SIZE={local_size} is larger than WORLD_SIZE={size}. Set WORLD_SIZE to \
             the number of ranks on all nodes"
        )));
    }
    match local_rank {
        Some(local_rank) if local_rank >= local_size => Err(broken(&format!(
            "LOCAL_RANK={local_rank} does not fit LOCAL_WORLD_SIZE={local_size}. Number the ranks \
             of a node from 0"
        ))),
        _ => Ok(()),
    }
}

fn required_number(env: Env, name: &str, other: &str) -> anyhow::Result<u32> {
    match number(env, name)? {
        Some(number) => Ok(number),
        None => Err(broken(&format!(
            "{other} is set and {name} is not. Set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, \
             as torchrun and pxnbench join do, or unset {other}"
        ))),
    }
}

fn number<T: std::str::FromStr>(env: Env, name: &str) -> anyhow::Result<Option<T>> {
    let Some(value) = env(name) else {
        return Ok(None);
    };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(broken(&format!(
            "{name}={value} is not a number that fits. Set it as torchrun and pxnbench join do"
        ))),
    }
}

fn broken(what: &str) -> anyhow::Error {
    Failure::on_this_rank(Code::Launch, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 4] = [
        (RANK, "1"),
        (SIZE, "4"),
        (ADDRESS, "node1"),
        (PORT, "29500"),
    ];

    fn read(changes: &[(&str, &str)]) -> Result<Contract, String> {
        let env = |name: &str| {
            let all = changes.iter().chain(&GOOD);
            let found = all.into_iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Contract::from_env(&env).map_err(|error| error.to_string())
    }

    fn refused(changes: &[(&str, &str)]) -> String {
        match read(changes) {
            Ok(_) => panic!("{changes:?} is accepted"),
            Err(why) => why,
        }
    }

    #[test]
    fn the_variables_of_torchrun_are_read() {
        let contract = read(&[(LOCAL_RANK, "1"), (LOCAL_SIZE, "2")]).expect("complete");
        assert_eq!((contract.rank, contract.size), (1, 4));
        assert_eq!(
            (contract.local_rank, contract.local_size),
            (Some(1), Some(2))
        );
        assert_eq!(contract.address, "node1");
        assert_eq!(contract.ports, [29500]);
        let literal = read(&[(ADDRESS, "[::1]")]).expect("an IPv6 address");
        assert_eq!(literal.address, "::1");
    }

    #[test]
    fn a_rank_alone_needs_no_place_to_meet() {
        let alone = [(RANK, "0"), (SIZE, "1"), (ADDRESS, ""), (PORT, "")];
        assert_eq!(read(&alone).expect("complete").size, 1);
    }

    #[test]
    fn rank_0_leaves_the_port_of_torchruns_store_alone() {
        let agent = (AGENT_HOLDS_PORT, "True");
        let ports = |port| read(&[agent, (PORT, port)]).expect("complete").ports;
        assert_eq!(ports("29500"), (29501..=29508).collect::<Vec<_>>());
        assert_eq!(ports("65530"), (65522..=65529).collect::<Vec<_>>());
        let own = read(&[agent, (OWN_PORT, "4000")]).expect("complete");
        assert_eq!(own.ports, [4000]);
        let without = read(&[(AGENT_HOLDS_PORT, "False")]).expect("complete");
        assert_eq!(without.ports, [29500]);
    }

    #[test]
    fn what_is_missing_or_contradicts_is_said_with_its_remedy() {
        for (changes, said) in [
            (
                &[(RANK, "")][..],
                "WORLD_SIZE is set and RANK is not. Set RANK",
            ),
            (&[(SIZE, "")], "RANK is set and WORLD_SIZE is not. Set RANK"),
            (&[(RANK, "4")], "RANK=4 does not fit WORLD_SIZE=4"),
            (&[(RANK, "-1")], "RANK=-1 is not a number"),
            (&[(SIZE, "two")], "WORLD_SIZE=two is not a number"),
            (&[(SIZE, "0")], "WORLD_SIZE=0 is no number of ranks"),
            (&[(ADDRESS, "")], "MASTER_ADDR is not. Set it to the host"),
            (&[(PORT, "")], "MASTER_PORT is not. Set it to a free port"),
            (&[(PORT, "0")], "MASTER_PORT=0 is no port"),
            (&[(PORT, "70000")], "MASTER_PORT=70000 is not a number"),
            (&[(OWN_PORT, "x")], "PXNBENCH_PORT=x is not a number"),
            (&[(LOCAL_SIZE, "8")], "LOCAL_WORLD_SIZE=8 is larger"),
            (
                &[(LOCAL_RANK, "2"), (LOCAL_SIZE, "2")],
                "LOCAL_RANK=2 does not fit LOCAL_WORLD_SIZE=2",
            ),
        ] {
            let why = refused(changes);
            assert!(why.contains(said), "{changes:?}: {why}");
        }
    }
}
