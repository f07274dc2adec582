//! All that a log says, message by message.

use memchr::memmem;
use serde::Serialize;

use super::{
    algorithms::AlgorithmChoices,
    attribution::Attribution,
    connections::{Connections, Traffic},
    graph::Rings,
    line::{CommEvent, Connection, Message, Net, Side, Via},
    network::NetworkFacts,
    participants::Participants,
    quotes::{Quotes, Topic},
    relays::Relays,
    settings::ReadSettings,
    transports::TransportNames,
};

/// Lines of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    /// All lines.
    pub read: u64,
    /// Lines from NCCL.
    pub nccl: u64,
    /// Lines that begin like a known one and continue differently.
    pub not_understood: u64,
    /// Lines that another process's line or the end of the log tore.
    pub torn: u64,
    /// Lines that Ray or syslog left out because others look like them. If there are any, the log
    /// is not complete.
    pub left_out: u64,
}

/// Warnings and crashes.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    pub(super) warnings: u64,
    pub(super) segmentation_faults: u64,
    /// Whether NCCL chose PXN and then refused it, because the relay would need host buffers.
    pub(super) host_buffers: bool,
}

/// All that one or more logs say.
#[derive(Debug, Default)]
pub(super) struct LogFacts {
    pub(super) lines: LineCounts,
    pub(super) info_messages: u64,
    pub(super) connections: Connections,
    pub(super) relays: Relays,
    pub(super) network: NetworkFacts,
    pub(super) settings: ReadSettings,
    pub(super) participants: Participants,
    /// Communicators, and which lines belong to which.
    pub(super) attribution: Attribution,
    /// Messages that rings are connected.
    pub(super) rings: Rings,
    /// The number of messages that trees are connected.
    pub(super) trees: u64,
    /// Whether the log holds a line of the subsystem INIT, but for its end.
    pub(super) has_init: bool,
    pub(super) choices: AlgorithmChoices,
    pub(super) troubles: Troubles,
    pub(super) quotes: Quotes,
    transport_names: TransportNames,
}

impl LogFacts {
    /// Adds a torn line.
    pub(super) fn add_torn(&mut self, line: &[u8]) {
        self.lines.torn += 1;
        self.quotes.add(Topic::Torn, line);
    }

    /// Adds a line that reports a segmentation fault.
    pub(super) fn add_segmentation_fault(&mut self, line: &[u8]) {
        self.troubles.segmentation_faults += 1;
        self.quotes.add(Topic::SegmentationFault, line);
    }

    /// Adds `message` of `line`; `head` is the text before the message's header.
    pub(super) fn add(&mut self, line: &[u8], head: &[u8], message: Message<'_>) {
        let topic = match message {
            Message::Connection(connection) => self.add_connection(head, &connection),
            Message::CollNet(name) => {
                self.attribution.add_collnet(head);
                self.count_transport(b"COLLNET/", name, Traffic::Unsorted);
                Some(Topic::CollNet)
            }
            Message::Communicator(event, comm) => {
                self.participants.add(event, head, &comm);
                self.attribution.add_event(event, line, head, &comm);
                topic_of_event(event)
            }
            Message::Warning(warning) => {
                self.add_warning(line, warning);
                Some(Topic::Warning)
            }
            Message::Unclear => {
                self.lines.not_understood += 1;
                Some(Topic::Unclear)
            }
            Message::Version(_)
            | Message::Network(_)
            | Message::Plugin(_)
            | Message::PluginTooOld
            | Message::GpuDirect(_)
            | Message::GpuDirectTooFar => self.network.add(message),
            Message::Rings(numbers) => {
                self.rings.add_message(numbers);
                self.attribution.add_rings(head, numbers);
                Some(Topic::Rings)
            }
            Message::Trees => {
                self.trees += 1;
                self.attribution.add_trees(head);
                Some(Topic::Trees)
            }
            Message::Pattern(..) | Message::Paths(_) => self.attribution.add_paths(head, &message),
            _ => {
                self.add_unquoted(line, head, message);
                None
            }
        };
        if let Some(topic) = topic {
            self.quotes.add(topic, line);
        }
    }

    /// Adds a message that no topic quotes.
    fn add_unquoted(&mut self, line: &[u8], head: &[u8], message: Message<'_>) {
        match message {
            Message::CommEnded => self.attribution.add_end(head),
            Message::Bootstrap => self.has_init = true,
            Message::Setting(name, value) => self.add_setting(line, head, name, value),
            Message::Channels(channels) => self.connections.channels = Some(channels),
            Message::Algorithm(algorithm) => self.choices.add(&algorithm),
            _ => {}
        }
    }

    fn add_setting(&mut self, line: &[u8], head: &[u8], name: &[u8], value: &[u8]) {
        self.settings.add(line, name, value);
        if name == b"NCCL_PXN_DISABLE" {
            self.attribution.add_pxn_setting(head, value == b"1");
        }
    }

    /// Adds a connection, and returns the topic that quotes its line.
    fn add_connection(&mut self, head: &[u8], connection: &Connection<'_>) -> Option<Topic> {
        let traffic = Traffic::from_index(connection.index);
        self.attribution.add_connection(head, connection);
        match connection.via {
            Via::Other(name) => {
                self.count_transport(name, b"", traffic);
                Some(Topic::Local)
            }
            Via::Net(net) if connection.side == Side::Receive => {
                self.connections.count_receive(traffic, &net);
                Some(Topic::Receive)
            }
            Via::Net(net) => Some(self.add_send(head, connection, &net)),
        }
    }

    /// Adds the sending end of a network connection.
    fn add_send(&mut self, head: &[u8], connection: &Connection<'_>, net: &Net<'_>) -> Topic {
        let traffic = Traffic::from_index(connection.index);
        let is_same_rail = connection.is_same_rail();
        self.connections.count_send(traffic, net, is_same_rail);
        self.count_transport(b"NET/", net.name, traffic);
        let is_send_recv = traffic == Traffic::SendRecv;
        if let Some(rank) = net.relay {
            let host = self.attribution.host(head);
            self.relays.add(head, host, net, rank, is_send_recv);
            Topic::RelayUse
        } else if is_send_recv {
            Topic::SendRecv
        } else {
            Topic::Collective
        }
    }

    fn count_transport(&mut self, prefix: &[u8], name: &[u8], traffic: Traffic) {
        let transport = self.transport_names.intern(prefix, name);
        self.connections.count_transport(transport, traffic);
    }

    fn add_warning(&mut self, line: &[u8], warning: &[u8]) {
        self.troubles.warnings += 1;
        if memmem::find(warning, b"PXN should not use host buffers").is_some() {
            self.troubles.host_buffers = true;
            self.quotes.add(Topic::HostBuffers, line);
        }
    }
}

fn topic_of_event(event: CommEvent) -> Option<Topic> {
    match event {
        CommEvent::Start => Some(Topic::Start),
        CommEvent::Size => Some(Topic::Size),
        CommEvent::Complete => None,
    }
}
