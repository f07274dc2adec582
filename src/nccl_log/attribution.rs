//! To which communicator a line belongs. Lines about connections do not name theirs. It follows
//! from the process, from the ranks that the line names, and from what the same thread logged
//! before. If that leaves several, the line counts for no communicator in particular.

use std::collections::HashMap;

use super::{
    communicator::Communicator,
    connections::SendCounts,
    graph::GraphPaths,
    heads::HeadCache,
    limits::{MANY, hashed},
    line::{CommEvent, CommView, Connection, Message, RingNumbers, Side, Speaker, Via},
    process::{Process, View},
    quotes::Topic,
};

/// The communicator of lines that name none and fit none.
const UNKNOWN: usize = 0;

/// A thread of a process, and what it logged last.
#[derive(Debug, Default)]
struct Thread {
    process: usize,
    /// A number that stands for its host; `None` if its lines do not name it.
    host: Option<u64>,
    /// The communicator that it is making.
    open: Option<usize>,
    /// The communicator whose connections it is making.
    current: Option<usize>,
    /// Sends of collectives until a line says what they are for.
    pending: SendCounts,
    /// Paths until a line says of which communicator.
    paths: GraphPaths,
    last: Option<Located>,
}

/// A connection that was located, to save work for those that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Located {
    sought: Sought,
    /// The number of communicators of the process when it was located.
    views: usize,
    communicator: usize,
}

/// What is known of a communicator that is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sought {
    /// The rank of the process in it.
    rank: Option<i64>,
    /// Another rank.
    other: i64,
    /// Whether it must span nodes.
    spans_nodes: bool,
}

/// All threads, processes and communicators of a log.
#[derive(Debug)]
pub(super) struct Attribution {
    threads: Vec<Thread>,
    thread_numbers: HashMap<u64, usize>,
    processes: Vec<Process>,
    process_numbers: HashMap<u64, usize>,
    communicators: Vec<Communicator>,
    communicator_numbers: HashMap<u64, usize>,
    /// How many processes claim a rank of communicators that have no id.
    claims: HashMap<u64, u64>,
    heads: HeadCache<usize>,
}

impl Default for Attribution {
    fn default() -> Attribution {
        Attribution {
            threads: vec![Thread::default()],
            thread_numbers: HashMap::new(),
            processes: vec![Process::default()],
            process_numbers: HashMap::new(),
            communicators: vec![Communicator::default()],
            communicator_numbers: HashMap::new(),
            claims: HashMap::new(),
            heads: HeadCache::default(),
        }
    }
}

impl Attribution {
    /// Adds `event` of a communicator, which `line` tells; `head` is the text before the line's
    /// header.
    pub(super) fn add_event(
        &mut self,
        event: CommEvent,
        line: &[u8],
        head: &[u8],
        view: &CommView,
    ) {
        let at = self.thread(head);
        let process = self.threads[at].process;
        self.processes[process].count(event);
        let communicator = match self.processes[process].find(event, view) {
            Some(known) => known.communicator,
            None => self.join(process, view),
        };
        if communicator != UNKNOWN {
            let host = self.threads[at].host;
            self.communicators[communicator].add_view(view, host);
            self.communicators[communicator].quote(event, line);
        }
        let thread = &mut self.threads[at];
        thread.open = (event != CommEvent::Complete).then_some(communicator);
        if event != CommEvent::Start {
            let paths = std::mem::take(&mut thread.paths);
            self.communicators[communicator].paths.add(&paths);
        }
    }

    /// Makes `process` a member of the communicator of `view`, and returns it.
    fn join(&mut self, process: usize, view: &CommView) -> usize {
        let identity = match view.id {
            Some(id) => hashed((id, view.ranks)),
            None => self.identify_without_id(process, view),
        };
        let communicator = match self.communicator_numbers.get(&identity) {
            Some(known) => *known,
            None if self.communicators.len() >= MANY => UNKNOWN,
            None => {
                self.communicators.push(Communicator::default());
                let new = self.communicators.len() - 1;
                self.communicator_numbers.insert(identity, new);
                new
            }
        };
        self.processes[process].join(view, communicator);
        communicator
    }

    /// Identifies a communicator without an id (before 2.14) by its size and by how many of this
    /// size came before it. A rank that another process has already is one of another communicator.
    fn identify_without_id(&mut self, process: usize, view: &CommView) -> u64 {
        let order = self.processes[process].count_alike(view);
        let claim = hashed((view.ranks, order, view.rank));
        if self.claims.len() >= MANY && !self.claims.contains_key(&claim) {
            return hashed(view.ranks);
        }
        let claimed = self.claims.entry(claim).or_default();
        *claimed += 1;
        hashed((view.ranks, order, *claimed))
    }

    /// Adds the end of a communicator.
    pub(super) fn add_end(&mut self, head: &[u8]) {
        let at = self.thread(head);
        self.process_of(at).count_end();
    }

    /// Adds what the process read for `NCCL_PXN_DISABLE`.
    pub(super) fn add_pxn_setting(&mut self, head: &[u8], is_off: bool) {
        let at = self.thread(head);
        let known = &mut self.process_of(at).pxn_off;
        *known = Some(known.unwrap_or(true) && is_off);
    }

    /// Adds a connection.
    pub(super) fn add_connection(&mut self, head: &[u8], connection: &Connection<'_>) {
        let at = self.thread(head);
        self.process_of(at).note_progress();
        let is_receive = connection.side == Side::Receive;
        let (own, other) = if is_receive {
            (connection.to.rank, connection.from.rank)
        } else {
            (connection.from.rank, connection.to.rank)
        };
        let communicator = self.locate(
            at,
            Sought {
                rank: Some(own),
                other,
                spans_nodes: matches!(connection.via, Via::Net(_)),
            },
        );
        self.communicators[communicator].add_connection(connection);
        self.enter(at, communicator);
        if let Via::Net(net) = connection.via
            && connection.index == Some(0)
            && !is_receive
        {
            let is_same_rail = connection.from.gpu == connection.to.gpu;
            self.threads[at].pending.add_send(&net, is_same_rail);
        }
    }

    /// Makes `communicator` the current one of a thread. Sends that no line explained stay with the
    /// one before it.
    fn enter(&mut self, at: usize, communicator: usize) {
        let thread = &mut self.threads[at];
        if let Some(before) = thread.current.replace(communicator)
            && before != communicator
        {
            let pending = std::mem::take(&mut thread.pending);
            let traffic = &mut self.communicators[before].traffic;
            traffic.rings_or_trees.add(&pending);
        }
    }

    /// Adds a connection to the network's own reduction.
    pub(super) fn add_collnet(&mut self, head: &[u8]) {
        let at = self.thread(head);
        let communicator = self.locate_for_message(at, true);
        let communicator = communicator.unwrap_or(UNKNOWN);
        self.communicators[communicator].has_collnet = true;
    }

    /// Adds a message that rings are connected. One that fits several communicators and reports no
    /// PXN says nothing, because it may come from a communicator on one node.
    pub(super) fn add_rings(&mut self, head: &[u8], numbers: Option<RingNumbers>) {
        let at = self.thread(head);
        self.process_of(at).note_progress();
        let has_pxn = numbers.is_some_and(|numbers| numbers.pxn);
        let found = self.locate_for_message(at, has_pxn);
        let pending = self.leave(at);
        match found {
            Some(communicator) => {
                self.communicators[communicator].add_rings(numbers, &pending);
            }
            None if has_pxn => self.communicators[UNKNOWN].add_rings(numbers, &pending),
            None => {}
        }
    }

    /// Adds a message that trees are connected.
    pub(super) fn add_trees(&mut self, head: &[u8]) {
        let at = self.thread(head);
        self.process_of(at).note_progress();
        let found = self.locate_for_message(at, false);
        let pending = self.leave(at);
        if let Some(communicator) = found {
            self.communicators[communicator].add_trees(&pending);
        }
    }

    /// Ends the connections that a thread makes for one purpose, and returns the sends.
    fn leave(&mut self, at: usize) -> SendCounts {
        let thread = &mut self.threads[at];
        thread.current = None;
        thread.last = None;
        std::mem::take(&mut thread.pending)
    }

    /// Adds a message about paths and graphs, and returns the topic that quotes its line.
    pub(super) fn add_paths(&mut self, head: &[u8], message: &Message<'_>) -> Option<Topic> {
        let at = self.thread(head);
        self.threads[at].paths.add_message(message)
    }

    /// Returns the number of the thread that `head` names.
    fn thread(&mut self, head: &[u8]) -> usize {
        if let Some(known) = self.heads.get(head) {
            return known;
        }
        let speaker = Speaker::parse(head);
        let process = identity(speaker);
        let identity = hashed((process, speaker.map(|speaker| speaker.tid)));
        let thread = match self.thread_numbers.get(&identity) {
            Some(known) => *known,
            None => self.add_thread(speaker, process, identity),
        };
        self.heads.insert(head, thread);
        thread
    }

    /// Returns a number that stands for the host of the process that `head` names. A process that
    /// does not name its host counts as a host of its own.
    pub(super) fn host(&mut self, head: &[u8]) -> u64 {
        let at = self.thread(head);
        let thread = &self.threads[at];
        thread
            .host
            .unwrap_or_else(|| hashed(("process", thread.process)))
    }

    /// Adds a thread. Beyond the limits all threads and processes are one.
    fn add_thread(&mut self, speaker: Option<Speaker<'_>>, process: u64, identity: u64) -> usize {
        if self.threads.len() >= MANY {
            return 0;
        }
        let process = match self.process_numbers.get(&process) {
            Some(known) => *known,
            None => {
                self.processes.push(Process::default());
                let new = self.processes.len() - 1;
                self.process_numbers.insert(process, new);
                new
            }
        };
        self.threads.push(Thread {
            process,
            host: speaker
                .filter(|speaker| !speaker.host.is_empty())
                .map(|speaker| hashed(speaker.host)),
            ..Thread::default()
        });
        let new = self.threads.len() - 1;
        self.thread_numbers.insert(identity, new);
        new
    }

    fn process_of(&mut self, thread: usize) -> &mut Process {
        let process = self.threads[thread].process;
        &mut self.processes[process]
    }

    /// Returns the communicator of a connection; the unknown one if several fit.
    fn locate(&mut self, at: usize, sought: Sought) -> usize {
        let thread = &self.threads[at];
        let views = self.processes[thread.process].views.len();
        if views == 0 {
            return UNKNOWN;
        }
        if let Some(last) = thread.last
            && (last.sought, last.views) == (sought, views)
            && thread.open.is_none_or(|open| open == last.communicator)
        {
            return last.communicator;
        }
        let communicator = self.choose(at, sought).unwrap_or(UNKNOWN);
        self.threads[at].last = Some(Located {
            sought,
            views,
            communicator,
        });
        communicator
    }

    /// Returns the communicator of a message that names no rank: the one whose connections came
    /// before it, or the only one that fits.
    fn locate_for_message(&self, at: usize, spans_nodes: bool) -> Option<usize> {
        let thread = &self.threads[at];
        if thread.current.is_some() {
            return thread.current;
        }
        if self.processes[thread.process].views.is_empty() {
            return Some(UNKNOWN);
        }
        self.choose(
            at,
            Sought {
                spans_nodes,
                ..Sought::default()
            },
        )
    }

    /// Chooses among the communicators of a process: the one that the thread is making, the one
    /// whose connections it is making, or the only one. Communicators of one shape count as one,
    /// because the verdict on them is the same.
    fn choose(&self, at: usize, sought: Sought) -> Option<usize> {
        let thread = &self.threads[at];
        let mut fitting = None;
        let mut has_several_shapes = false;
        let mut fits_current = false;
        for view in &self.processes[thread.process].views {
            if !self.fits(view, sought) {
                continue;
            }
            if thread.open == Some(view.communicator) {
                return thread.open;
            }
            fits_current |= thread.current == Some(view.communicator);
            has_several_shapes |=
                fitting.is_some_and(|other| !self.have_one_shape(other, view.communicator));
            fitting = Some(view.communicator);
        }
        if fits_current {
            return thread.current;
        }
        fitting.filter(|_| !has_several_shapes)
    }

    fn fits(&self, view: &View, sought: Sought) -> bool {
        let is_member = match sought.rank {
            Some(rank) => {
                let ranks = i64::try_from(view.ranks).unwrap_or(i64::MAX);
                i64::try_from(view.rank) == Ok(rank) && sought.other < ranks
            }
            None => true,
        };
        let nodes = self.communicators[view.communicator].nodes;
        is_member && !(sought.spans_nodes && nodes == Some(1))
    }

    fn have_one_shape(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.communicators[one], &self.communicators[other]);
        (one.ranks, one.nodes, one.local_ranks) == (other.ranks, other.nodes, other.local_ranks)
    }

    /// Returns all processes that are a member of a communicator.
    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        let is_member = |process: &&Process| !process.views.is_empty();
        self.processes.iter().filter(is_member)
    }

    /// Returns the communicators, with what is known of them by the end of the log.
    pub(super) fn communicators(&self) -> Vec<Communicator> {
        let mut all = self.communicators.clone();
        for process in &self.processes {
            let Some(is_off) = process.pxn_off else {
                continue;
            };
            for view in &process.views {
                all[view.communicator].add_pxn_setting(is_off);
            }
        }
        for thread in &self.threads {
            let current = thread.current.unwrap_or(UNKNOWN);
            all[current].traffic.rings_or_trees.add(&thread.pending);
            let at = match &self.processes[thread.process].views[..] {
                [view] => view.communicator,
                _ => thread.open.unwrap_or(UNKNOWN),
            };
            all[at].paths.add(&thread.paths);
        }
        join_unknown(all)
    }
}

/// Leaves out the unknown communicator if it is no other than the only known one, or if it tells
/// nothing that the known ones do not.
fn join_unknown(mut all: Vec<Communicator>) -> Vec<Communicator> {
    let unknown = all.remove(UNKNOWN);
    if let [only] = &mut all[..]
        && only.may_include(&unknown)
    {
        only.absorb(&unknown);
        return all;
    }
    let most_ranks = all.iter().filter_map(|known| known.ranks).max();
    let names_more_ranks = most_ranks.is_none_or(|ranks| unknown.highest_rank() >= ranks);
    if unknown.has_network() || unknown.rings.pxn > 0 || names_more_ranks {
        all.push(unknown);
    }
    all
}

/// Returns the identity of a process. Lines whose beginning is torn count as one process.
fn identity(speaker: Option<Speaker<'_>>) -> u64 {
    hashed(speaker.map(|speaker| speaker.identity()))
}
