//! Memory that NCCL names by address.

use super::abi::{POINTER_CUDA, POINTER_HOST};

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Host,
    Gpu,
}

impl Memory {
    /// Reads NCCL's constant.
    pub(super) fn from_nccl(kind: i32) -> Option<Memory> {
        match kind {
            POINTER_HOST => Some(Memory::Host),
            POINTER_CUDA => Some(Memory::Gpu),
            _ => None,
        }
    }
}

/// Memory that a message is sent from or received into.
#[derive(Debug)]
pub(crate) struct Buffer {
    address: usize,
    bytes: usize,
    memory: Memory,
}

impl Buffer {
    /// Names memory.
    ///
    /// # Safety
    /// The memory is there, and nobody else uses it in a way that is in conflict with this one, until the operation that it
    /// is for is complete. NCCL guarantees that for what it passes to `isend` and `irecv`, but for a communicator that it
    /// aborts: then it tests nothing of the connection any more before it frees the memory and closes the connection. No
    /// thread of this plugin touches the memory in between; a copy that a GPU has begun is waited for by `cudaFree`.
    pub(super) unsafe fn new(address: usize, bytes: usize, memory: Memory) -> Buffer {
        Buffer {
            address,
            bytes,
            memory,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn memory(&self) -> Memory {
        self.memory
    }

    /// Returns where a part of it is.
    pub(super) fn address_of(&self, offset: usize, bytes: usize) -> usize {
        assert!(offset + bytes <= self.bytes, "the part is in the buffer");
        self.address + offset
    }
}

/// Memory of a test that stays until the process ends.
#[cfg(test)]
pub(crate) struct TestMemory {
    start: *mut u8,
    bytes: usize,
}

#[cfg(test)]
impl TestMemory {
    pub(crate) fn with(contents: Vec<u8>) -> TestMemory {
        let contents = contents.leak();
        TestMemory {
            start: contents.as_mut_ptr(),
            bytes: contents.len(),
        }
    }

    pub(crate) fn buffer(&self) -> Buffer {
        // SAFETY: the memory is never freed, and a test reads it when the operation is complete.
        unsafe { Buffer::new(self.start.expose_provenance(), self.bytes, Memory::Host) }
    }

    pub(crate) fn contents(&self) -> Vec<u8> {
        // SAFETY: the memory is never freed, and no operation uses it any more.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }.to_vec()
    }
}
