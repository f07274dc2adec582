//! The start of the watch: a few values are exchanged, and the rest happens on other threads while
//! the run goes on.

use std::{
    sync::{
        Arc,
        mpsc::{self, Sender},
    },
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    addresses,
    meeting::{self, Endpoint, Introducer, Listeners, WatchEvent},
    member::{Child, Member, Parent, TreePlace},
    watched::Watched,
    watcher::{Watcher, set_silence},
};
use crate::{
    env,
    world::{
        exchange::{self, World},
        placement,
        tcp::{
            identity::Identity,
            secret::{Secret, random_token},
            tree::Tree,
        },
    },
};

/// What the tree and the messages need of each process.
#[derive(Serialize, Deserialize)]
struct HostOfProcess {
    id: String,
    name: String,
}

/// Starts the watch over the processes of `world`, which may be silent for `silence`. A process
/// alone has none.
///
/// # Errors
/// Returns an error if a value cannot be converted to JSON and back, which would be a bug.
pub fn watched(world: Box<dyn World>, silence: Duration) -> anyhow::Result<Box<dyn World>> {
    set_silence(silence);
    if world.size() == 1 {
        return Ok(world);
    }
    match start(&*world)? {
        Some(watch) => Ok(Box::new(Watched { world, watch })),
        None => Ok(world),
    }
}

/// Starts the thread of the watch, and returns the way to it; `None` on all processes if rank 0 has
/// no secret, and on one whose system refuses the thread.
fn start(world: &dyn World) -> anyhow::Result<Option<Sender<WatchEvent>>> {
    // Rank 0 alone needs one; the empty one says that it has none.
    let own = if world.rank() == 0 {
        random_token().unwrap_or_default()
    } else {
        String::new()
    };
    let key = world.broadcast(own.as_bytes());
    let own = HostOfProcess {
        id: placement::host_id(&env::var),
        name: placement::host_name(),
    };
    let hosts = exchange::all_gather(world, &own)?;
    let place = place_of(world.rank(), &hosts);
    let (endpoint, listeners) = own_endpoint(&place);
    let endpoints = exchange::all_gather(world, &endpoint)?;
    if key.is_empty() {
        return Ok(None);
    }
    let introducer = Arc::new(Introducer {
        secret: Secret::from_rank_0(key),
        identity: Identity::of_rank(world.rank(), world.size()),
    });
    let (sender, events) = mpsc::channel();
    if let Some(listeners) = listeners {
        let expected = place.children.iter().map(|child| child.rank).collect();
        meeting::accept(listeners, &introducer, expected, &sender);
    }
    if let Some(Parent { rank, .. }) = place.parent
        && let Some(endpoint) = endpoints.into_iter().nth(rank as usize).flatten()
    {
        meeting::find_parent(rank, endpoint, introducer, sender.clone());
    }
    let watcher = Watcher::new(world.rank(), Member::new(place), events);
    let thread = thread::Builder::new().name("watch".into());
    Ok(thread.spawn(move || watcher.run()).ok().map(|_| sender))
}

/// Opens the endpoint of a process that has children.
fn own_endpoint(place: &TreePlace) -> (Option<Endpoint>, Option<Listeners>) {
    if place.children.is_empty() {
        return (None, None);
    }
    let (endpoint, listeners) = meeting::open(addresses::of_this_host());
    (Some(endpoint), Some(listeners))
}

/// Returns the place of `rank` in the tree over all processes.
fn place_of(rank: u32, hosts: &[HostOfProcess]) -> TreePlace {
    let ids: Vec<&str> = hosts.iter().map(|host| host.id.as_str()).collect();
    let tree = Tree::new(&ids);
    let name = |rank: u32| format!("rank {rank} on {}", hosts[rank as usize].name);
    place_in(&tree, rank, &name)
}

/// Returns the place of `rank` in `tree`; `name` names a rank.
pub(super) fn place_in(tree: &Tree, rank: u32, name: &dyn Fn(u32) -> String) -> TreePlace {
    let parent = tree.parent(rank).map(|parent| {
        let mut siblings = tree.children(parent).iter();
        Parent {
            rank: parent,
            order: siblings.position(|child| *child == rank).unwrap_or(0),
        }
    });
    let mut children = Vec::new();
    for child in tree.children(rank) {
        children.push(Child {
            rank: *child,
            name: name(*child),
            ranks: ranks_from(tree, *child),
        });
    }
    TreePlace { parent, children }
}

/// Returns the number of ranks from `rank` on down.
fn ranks_from(tree: &Tree, rank: u32) -> u32 {
    let mut count = 0;
    let mut pending = vec![rank];
    while let Some(rank) = pending.pop() {
        count += 1;
        pending.extend(tree.children(rank));
    }
    count
}
