//! [`Buffer`]: memory that NCCL passes by its address.

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
    /// Describes memory.
    ///
    /// # Safety
    /// Until the operation for which it is used is complete, the memory must exist, and no one else
    /// may use it in conflict with this use. NCCL guarantees this for what it passes to `isend` and
    /// `irecv`, except for a communicator that it aborts: then it tests no operation of the
    /// connection any more before it frees the memory and closes the connection. No thread of this
    /// plugin touches the memory in between, and `cudaFree` waits for a copy that a GPU has begun.
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
