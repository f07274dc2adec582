//! Which ranks a communicator has: arithmetic with the numbers of ranks.

/// One way in which ranks divide the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Name, such as `data`, `tensor`, `pipeline` or `expert`.
    pub name: String,
    /// How many ranks it divides the work among.
    pub size: DimensionSize,
}

/// How many ranks a dimension has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimensionSize {
    /// So many.
    Ranks(u64),
    /// As many as the other dimensions leave. One dimension at most.
    Rest,
}

/// The ranks that form a communicator together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// For each rank of the job, the number of its communicator, from 0.
    pub colors: Vec<u32>,
    /// For each rank of the job, its rank in its communicator.
    pub ranks: Vec<u32>,
    /// Ranks of each communicator.
    pub size: u64,
}
