//! The bytes of the protocol between the two ends of a connection.
//!
//! The sender introduces itself ([`Hello`]) and sends messages, each after a [`Header`]. The
//! receiver sends a [`Grant`] for each receive that NCCL posts. A message is sent only if a grant
//! has a place for it, so that it never arrives before NCCL has given memory for it. Receives of
//! one connection may be grouped and have different tags, so a message without a receive would
//! block those behind it.

/// The most receives that NCCL may post at once.
pub(crate) const MOST_RECEIVES: usize = 8;

/// The bytes of NCCL's handle.
pub(crate) const HANDLE_BYTES: usize = 128;

const MAGIC: [u8; 8] = *b"pxnrail1";

/// Random bytes that no other user can guess: the name of a socket, or the token that a connection
/// must send first.
pub(crate) type Secret = [u8; 16];

/// A process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    /// Its rank in the job.
    pub(crate) rank: Option<i32>,
    /// The rail that it uses.
    pub(crate) rail: u32,
}

impl Peer {
    /// Returns the process's name for messages.
    pub(crate) fn name(self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => "the process at the other end".to_owned(),
        }
    }
}

/// Bytes that are written one value after the other.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = rest;
    }

    fn put_peer(&mut self, peer: Peer) {
        self.put(&peer.rank.unwrap_or(-1).to_le_bytes());
        self.put(&peer.rail.to_le_bytes());
    }
}

/// Bytes that are read one value after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (here, rest) = self.0.split_first_chunk().expect("a frame has its values");
        self.0 = rest;
        *here
    }

    fn take_peer(&mut self) -> Peer {
        let rank = i32::from_le_bytes(self.take());
        Peer {
            rank: (rank >= 0).then_some(rank),
            rail: u32::from_le_bytes(self.take()),
        }
    }

    /// Takes the bytes with which a frame begins; `None` if they are others.
    fn take_magic(&mut self) -> Option<()> {
        (self.take() == MAGIC).then_some(())
    }
}

/// The handle with which a sender finds its receiver. NCCL passes it from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) name: Secret,
    pub(crate) token: Secret,
    pub(crate) listener: Peer,
}

impl Handle {
    pub(crate) fn to_bytes(self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put(&MAGIC);
        writer.put(&self.name);
        writer.put(&self.token);
        writer.put_peer(self.listener);
        bytes
    }

    /// Reads a handle; `None` if another plugin made it.
    pub(crate) fn from_bytes(bytes: &[u8; HANDLE_BYTES]) -> Option<Handle> {
        let mut reader = Reader(bytes);
        reader.take_magic()?;
        Some(Handle {
            name: reader.take(),
            token: reader.take(),
            listener: reader.take_peer(),
        })
    }
}

/// The first frame of a sender, with which it introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) token: Secret,
    pub(crate) sender: Peer,
}

impl Hello {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn to_bytes(self) -> [u8; Hello::BYTES] {
        let mut bytes = [0; Hello::BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put(&MAGIC);
        writer.put(&self.token);
        writer.put_peer(self.sender);
        bytes
    }

    /// Reads a frame; `None` if it is not one of this protocol.
    pub(crate) fn from_bytes(bytes: &[u8; Hello::BYTES]) -> Option<Hello> {
        let mut reader = Reader(bytes);
        reader.take_magic()?;
        Some(Hello {
            token: reader.take(),
            sender: reader.take_peer(),
        })
    }
}

/// A place for a message in a receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) tag: i32,
    pub(crate) capacity: u64,
}

/// A receive that NCCL has posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Its number on this connection.
    pub(crate) receive: u64,
    pub(crate) count: usize,
    pub(crate) places: [Place; MOST_RECEIVES],
}

impl Grant {
    pub(crate) const BYTES: usize = 16 + 12 * MOST_RECEIVES;

    pub(crate) fn to_bytes(self) -> [u8; Grant::BYTES] {
        let mut bytes = [0; Grant::BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put(&self.receive.to_le_bytes());
        writer.put(&(self.count as u64).to_le_bytes());
        for place in self.places {
            writer.put(&place.tag.to_le_bytes());
            writer.put(&place.capacity.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Grant::BYTES]) -> Grant {
        let mut reader = Reader(bytes);
        let receive = u64::from_le_bytes(reader.take());
        let count = u64::from_le_bytes(reader.take());
        Grant {
            receive,
            count: usize::try_from(count).map_or(MOST_RECEIVES, |count| count.min(MOST_RECEIVES)),
            places: [(); MOST_RECEIVES].map(|()| Place {
                tag: i32::from_le_bytes(reader.take()),
                capacity: u64::from_le_bytes(reader.take()),
            }),
        }
    }
}

/// The frame before the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The number of the receive that the message is for.
    pub(crate) receive: u64,
    /// The index of its place in the receive.
    pub(crate) place: usize,
    pub(crate) bytes: u64,
    /// Whether the sender sends it for another rank; `None` if it cannot tell.
    pub(crate) is_relayed: Option<bool>,
}

impl Header {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn to_bytes(self) -> [u8; Header::BYTES] {
        let relayed: u64 = match self.is_relayed {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        };
        let mut bytes = [0; Header::BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put(&self.receive.to_le_bytes());
        writer.put(&(self.place as u64).to_le_bytes());
        writer.put(&self.bytes.to_le_bytes());
        writer.put(&relayed.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Header::BYTES]) -> Header {
        let mut reader = Reader(bytes);
        Header {
            receive: u64::from_le_bytes(reader.take()),
            place: usize::try_from(u64::from_le_bytes(reader.take())).unwrap_or(usize::MAX),
            bytes: u64::from_le_bytes(reader.take()),
            is_relayed: match u64::from_le_bytes(reader.take()) {
                1 => Some(false),
                2 => Some(true),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Peer = Peer {
        rank: Some(3),
        rail: 1,
    };

    #[test]
    fn what_is_written_is_read() {
        let handle = Handle {
            name: [7; 16],
            token: [9; 16],
            listener: Peer {
                rank: None,
                rail: 63,
            },
        };
        assert_eq!(Handle::from_bytes(&handle.to_bytes()), Some(handle));
        let hello = Hello {
            token: [9; 16],
            sender: PEER,
        };
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
        let mut grant = Grant {
            receive: u64::MAX,
            count: MOST_RECEIVES,
            places: [Place::default(); MOST_RECEIVES],
        };
        grant.places[7] = Place {
            tag: -5,
            capacity: 1 << 40,
        };
        assert_eq!(Grant::from_bytes(&grant.to_bytes()), grant);
        for is_relayed in [None, Some(false), Some(true)] {
            let header = Header {
                receive: 4,
                place: 7,
                bytes: 1 << 33,
                is_relayed,
            };
            assert_eq!(Header::from_bytes(&header.to_bytes()), header);
        }
    }

    #[test]
    fn what_another_program_wrote_is_no_handle_and_no_hello() {
        assert_eq!(Handle::from_bytes(&[0; HANDLE_BYTES]), None);
        assert_eq!(Hello::from_bytes(&[0xff; Hello::BYTES]), None);
    }

    #[test]
    fn a_grant_has_no_more_places_than_there_are() {
        let bytes = [0xff; Grant::BYTES];
        assert_eq!(Grant::from_bytes(&bytes).count, MOST_RECEIVES);
    }
}
