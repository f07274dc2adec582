//! The world of processes that no MPI launcher started: they meet over TCP.
//!
//! The variables are those that torchrun, Kubernetes operators and `pxnbench join` set
//! (`variables`). Rank 0 listens until every rank has come (`gather`); the others look for it
//! (`join`). Both sides of a connection prove that they know the secret of the job before anything
//! else is read (`handshake`, `secret`). Rank 0 then tells each rank its place in a `tree`, whose
//! connections (`link`) carry every exchange (`exchange`) and the end of a job that fails
//! (`failure`).
//!
//! The proof keeps strangers out of the job. It does not encrypt, nor protect against somebody who
//! can change packets on their way; NCCL's own connections do not either.

mod acceptor;
pub(super) mod dial;
mod exchange;
mod failure;
pub(super) mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod gather;
pub(super) mod handshake;
pub(super) mod identity;
mod join;
mod link;
mod parts;
mod position;
pub(super) mod secret;
pub(super) mod socket;
pub(super) mod tree;
pub mod variables;

pub use self::{
    exchange::NAME,
    secret::{TOKEN, random_token},
    socket::ReservedPort,
};

use std::time::{Duration, Instant};

use self::{
    identity::Identity,
    variables::{Contract, LOCAL_RANK, RANK},
};
use super::{World, abort, deadline, solo::Solo};
use crate::{env::Env, exit};

/// How much longer than the rendezvous its deadline waits: the rendezvous itself knows who is
/// missing.
const SLACK: Duration = Duration::from_secs(15);

/// Meets the other ranks of the job, and returns them. A failure ends the job here: each rank has
/// another one, and says it.
pub fn start(contract: &Contract, timeout: Duration) -> Box<dyn World> {
    abort::set_rank(contract.rank);
    if contract.size == 1 {
        return Box::new(Solo);
    }
    abort::set_aborter(failure::tell_others, abort::OthersEnd::Told);
    abort::expect_news_within(failure::NEWS_TAKE);
    let _guard = deadline::limit("the rendezvous over TCP", timeout + SLACK);
    let until = Instant::now() + timeout;
    let identity = Identity::own(contract);
    let connected = if contract.rank == 0 {
        gather::all_ranks(contract, &identity, until)
    } else {
        join::rank_0(contract, &identity, until)
    };
    let world = exchange::Tcp::new(contract.rank, contract.size, connected.neighbours);
    world.confirm(&connected.waiting);
    Box::new(world)
}

/// Ends this process because its variables cannot be used.
pub fn refuse(env: Env, error: &anyhow::Error) -> ! {
    let number = |name: &str| env(name)?.trim().parse().ok();
    if let Some(rank) = number(RANK) {
        abort::set_rank(rank);
    }
    failure::of_this_rank(
        number(LOCAL_RANK),
        exit::code_of(error),
        &format!("{error:#}"),
    )
}
