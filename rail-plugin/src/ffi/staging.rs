//! [`Staging`]: blocks of host memory through which messages are copied.

use std::{
    alloc::{self, Layout},
    ptr::{self, NonNull},
    slice, thread,
    time::{Duration, Instant},
};

use super::{
    buffer::{Buffer, Memory},
    cuda::Copies,
};
use crate::failure::{Failure, Result};

/// The blocks of a connection.
pub(crate) const BLOCKS: usize = 4;

/// The bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// How long to wait for copies before their memory is given up rather than freed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pages for all blocks of a connection.
struct Pages(NonNull<u8>);

// SAFETY: it owns its memory.
unsafe impl Send for Pages {}

impl Pages {
    const LAYOUT: Layout = match Layout::from_size_align(BLOCKS * BLOCK_BYTES, 4096) {
        Ok(layout) => layout,
        Err(_) => panic!("a page is a power of two"),
    };

    fn new() -> Pages {
        // SAFETY: the layout has a size.
        let start = unsafe { alloc::alloc_zeroed(Pages::LAYOUT) };
        Pages(NonNull::new(start).unwrap_or_else(|| alloc::handle_alloc_error(Pages::LAYOUT)))
    }

    /// Returns where a block begins.
    fn block(&self, slot: usize) -> *mut u8 {
        assert!(slot < BLOCKS, "there is such a block");
        // SAFETY: the block is in the pages.
        unsafe { self.0.as_ptr().add(slot * BLOCK_BYTES) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it was allocated with that layout, and nobody uses it any more.
        unsafe { alloc::dealloc(self.0.as_ptr(), Pages::LAYOUT) };
    }
}

/// The blocks of one end of a connection. Copies from and to a GPU take time; those of host memory
/// do not.
pub(crate) struct Staging {
    /// Dropped before the pages, which are pinned by it.
    copies: Option<Copies>,
    pages: Option<Pages>,
    /// Blocks that a GPU reads or writes.
    is_busy: [bool; BLOCKS],
}

impl Staging {
    pub(crate) fn new() -> Staging {
        Staging {
            copies: None,
            pages: None,
            is_busy: [false; BLOCKS],
        }
    }

    fn pages(&mut self) -> &Pages {
        self.pages.get_or_insert_with(Pages::new)
    }

    /// Prepares copies from and to the GPU whose context is current. It is done when NCCL registers
    /// memory, so that nothing is allocated while kernels run.
    ///
    /// # Errors
    /// Returns an error if the CUDA driver refuses.
    pub(crate) fn use_gpu(&mut self) -> Result<()> {
        if self.copies.is_none() {
            let start = self.pages().block(0);
            // SAFETY: the pages are dropped after the copies.
            self.copies = Some(unsafe { Copies::new(start, BLOCKS * BLOCK_BYTES, BLOCKS) }?);
        }
        Ok(())
    }

    fn copies(&self) -> Result<&Copies> {
        self.copies.as_ref().ok_or_else(|| {
            Failure::internal("NCCL uses memory of a GPU that it has not registered.")
        })
    }

    /// Starts to copy a part of a buffer to a block.
    ///
    /// # Errors
    /// Returns an error if the CUDA driver refuses.
    pub(crate) fn load(
        &mut self,
        slot: usize,
        from: &Buffer,
        offset: usize,
        bytes: usize,
    ) -> Result<()> {
        let to = self.free_block(slot, bytes);
        let address = from.address_of(offset, bytes);
        match from.memory() {
            Memory::Gpu if bytes > 0 => {
                // SAFETY: the buffer's maker guarantees that it is there, and the block is not used
                // while it is busy.
                let started = unsafe { self.copies()?.start_to_host(slot, to, address, bytes) };
                self.note_start(slot, started)?;
            }
            _ => {
                let from = ptr::with_exposed_provenance::<u8>(address);
                // SAFETY: the buffer's maker guarantees that it is there; the block is large enough
                // and no part of it.
                unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
            }
        }
        Ok(())
    }

    /// Starts to copy a block to a part of a buffer.
    ///
    /// # Errors
    /// Returns an error if the CUDA driver refuses.
    pub(crate) fn store(
        &mut self,
        slot: usize,
        to: &Buffer,
        offset: usize,
        bytes: usize,
    ) -> Result<()> {
        let from = self.free_block(slot, bytes);
        let address = to.address_of(offset, bytes);
        match to.memory() {
            Memory::Gpu if bytes > 0 => {
                // SAFETY: the buffer's maker guarantees that it is there, and the block is not used
                // while it is busy.
                let started = unsafe { self.copies()?.start_to_gpu(slot, address, from, bytes) };
                self.note_start(slot, started)?;
            }
            _ => {
                let to = ptr::with_exposed_provenance_mut::<u8>(address);
                // SAFETY: the buffer's maker guarantees that it is there; the block is large enough
                // and no part of it.
                unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
            }
        }
        Ok(())
    }

    /// Notes that the copy of a block was started. One that could not be may be under way all the
    /// same, and nothing tells when it ends: then the pages are given up.
    fn note_start(&mut self, slot: usize, started: Result<()>) -> Result<()> {
        match started {
            Ok(()) => self.is_busy[slot] = true,
            Err(_) => self.give_up(),
        }
        started
    }

    /// Gives the pages up without freeing them. What a GPU may still write to is never used again.
    fn give_up(&mut self) {
        std::mem::forget(self.copies.take());
        std::mem::forget(self.pages.take());
        self.is_busy = [false; BLOCKS];
    }

    /// Returns whether the copy from or to a block is complete.
    ///
    /// # Errors
    /// Returns an error if it failed.
    pub(crate) fn is_ready(&mut self, slot: usize) -> Result<bool> {
        if self.is_busy[slot] && self.copies()?.is_done(slot)? {
            self.is_busy[slot] = false;
        }
        Ok(!self.is_busy[slot])
    }

    fn free_block(&mut self, slot: usize, bytes: usize) -> *mut u8 {
        assert!(
            !self.is_busy[slot] && bytes <= BLOCK_BYTES,
            "the block is free and large enough"
        );
        self.pages().block(slot)
    }

    /// Returns what is in a block that is ready.
    pub(crate) fn block(&mut self, slot: usize, bytes: usize) -> &[u8] {
        self.block_mut(slot, bytes)
    }

    /// Returns a block that is ready.
    pub(crate) fn block_mut(&mut self, slot: usize, bytes: usize) -> &mut [u8] {
        let start = self.free_block(slot, bytes);
        // SAFETY: the block is large enough, initialised, and not busy, so that nobody else uses
        // it.
        unsafe { slice::from_raw_parts_mut(start, bytes) }
    }
}

impl Drop for Staging {
    /// Waits for copies. What a GPU may still write to is never freed.
    fn drop(&mut self) {
        let began = Instant::now();
        for slot in 0..BLOCKS {
            // A copy that failed is over.
            while !self.is_ready(slot).unwrap_or(true) {
                if began.elapsed() > PATIENCE {
                    self.give_up();
                    return;
                }
                thread::sleep(Duration::from_micros(100));
            }
        }
    }
}
