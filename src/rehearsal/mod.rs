//! What NCCL does with PXN on several nodes with several NICs each: derived from NCCL's rules, and
//! compared with what a run shows. Nothing here starts or measures anything.
//!
//! | step | module |
//! |---|---|
//! | the cluster: equal nodes of GPUs and NICs | [`cluster`] |
//! | such a node, and the topology file that makes NCCL see it | [`virtual_node`] |
//! | what NCCL reads of the settings of a level | [`settings`] |
//! | the NIC and the relay of each GPU | `node_rules` |
//! | which rank sends how much to which | `messages` |
//! | the rails that messages, rings and trees take | `send_recv`, `rings`, `trees` |
//! | relays and bytes that follow from them | [`theory`] |
//! | what the rails of a run counted | [`counters`] |
//! | theory, log and counters side by side | [`comparison`] |
//! | what a run showed, and what its level changed | [`rehearsed_case`], `change` |
//! | all that a rehearsal showed, and its table | [`rehearsed`], [`rehearsed_table`] |
//! | messages that a rail does not send | [`waiting`] |
//! | the table, and who relays through whom as a picture | [`table`], [`picture`] |
//!
//! A rail is a NIC of a node, by its number. The rails of all nodes with the same number are one
//! network.
//!
//! The rules are those of NCCL 2.21.5 to 2.28.9, whose source was read; each module names the
//! functions it follows. NCCL 2.29.2 to 2.30.7 differ in one: how many connections two ranks have
//! (`send_recv`). Where the rules leave the answer to a search or to a measurement, the answer here
//! is that it cannot be told.

mod change;
pub mod cluster;
pub mod comparison;
#[cfg(test)]
mod conservation_tests;
pub mod counters;
pub mod flow;
mod messages;
mod node_rules;
pub mod picture;
#[cfg(test)]
mod recorded_tests;
pub mod rehearsed;
pub mod rehearsed_case;
pub mod rehearsed_table;
#[cfg(test)]
mod rehearsed_tests;
mod rings;
mod send_recv;
pub mod settings;
pub mod table;
pub mod theory;
mod trees;
pub mod virtual_node;
pub mod waiting;
