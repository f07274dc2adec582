//! Making communicators, and what belongs to one: groups, memory, registered buffers, errors.

use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
};

use super::{
    config::{CommConfig, RawConfig},
    library::{IN_PROGRESS, Nccl, RawComm, RawId, SUCCESS, call, failure},
};

/// `ncclUniqueId`, by which the ranks of a communicator find each other.
pub type UniqueId = [u8; 128];

/// What NCCL knows of errors on a communicator.
#[derive(Clone, Debug)]
pub struct CommState {
    /// Whether there is one.
    pub has_error: bool,
    /// How messages say it.
    pub clause: String,
}

/// The handle of a registered buffer: `ncclWindow_t`, or that of `ncclCommRegister`.
pub type RawHandle = *mut c_void;

/// Calls that need no communicator, and those that make one.
impl Nccl {
    /// Returns a new unique id, which one rank passes to the others. The first call reads NCCL's
    /// environment and opens a socket.
    ///
    /// # Errors
    /// Returns an error if NCCL fails, for example because it finds no network interface.
    #[doc(alias = "ncclGetUniqueId")]
    pub fn unique_id(&self) -> anyhow::Result<UniqueId> {
        let mut id = RawId([0; 128]);
        // ncclGetUniqueId writes one id.
        call!(self, ptr::null_mut(), get_unique_id(&mut id))?;
        Ok(id.0.map(|byte| byte as u8))
    }

    /// Begins a group of calls that form one operation.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    #[doc(alias = "ncclGroupStart")]
    #[inline]
    pub fn group_start(&self) -> anyhow::Result<()> {
        call!(self, ptr::null_mut(), group_start())
    }

    /// Ends the group and starts its calls.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    #[doc(alias = "ncclGroupEnd")]
    #[inline]
    pub fn group_end(&self) -> anyhow::Result<()> {
        call!(self, ptr::null_mut(), group_end())
    }

    /// Allocates `bytes` on the current GPU, so that NCCL can register and share them.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or NCCL is older than 2.19.
    #[doc(alias = "ncclMemAlloc")]
    pub fn mem_alloc(&self, bytes: usize) -> anyhow::Result<u64> {
        let mut address = ptr::null_mut();
        // ncclMemAlloc writes one pointer.
        call!(self, ptr::null_mut(), mem_alloc(&mut address, bytes))?;
        Ok(address as u64)
    }

    /// Frees memory from [`Nccl::mem_alloc`].
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    ///
    /// # Safety
    /// `address` is from [`Nccl::mem_alloc`], is freed once, and nothing uses it any more.
    #[doc(alias = "ncclMemFree")]
    pub unsafe fn mem_free(&self, address: u64) -> anyhow::Result<()> {
        call!(self, ptr::null_mut(), mem_free(address as *mut c_void))
    }

    /// Joins the communicator `id` of `ranks` ranks as each rank in `mine`, and returns the
    /// communicators in that order. Before each rank joins, `choose` is called with the rank's
    /// index in `mine` to make its GPU current. All ranks must call this; it waits for them.
    ///
    /// # Errors
    /// Returns an error if NCCL or `choose` fails.
    #[doc(alias = "ncclCommInitRankConfig")]
    pub fn comm_init(
        &self,
        id: &UniqueId,
        mine: &[c_int],
        ranks: c_int,
        settings: CommConfig,
        choose: &dyn Fn(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<RawComm>> {
        // In a group NCCL writes the handles only when the group ends: they stay where they are
        // until then, and so do the configurations.
        let mut comms: Vec<RawComm> = vec![ptr::null_mut(); mine.len()];
        let mut configs: Vec<RawConfig> = mine
            .iter()
            .map(|_| RawConfig::new(self.version, settings))
            .collect();
        let id = RawId(id.map(|byte| byte as c_char));
        self.grouped(mine.len() > 1, || {
            for (at, &rank) in mine.iter().enumerate() {
                choose(at)?;
                let (comm, config) = (&raw mut comms[at], &raw mut configs[at]);
                // NCCL writes one handle and reads as much of the configuration as its size says.
                call!(
                    self,
                    ptr::null_mut(),
                    comm_init_rank_config(comm, ranks, id, rank, config)
                )?;
            }
            Ok(())
        })?;
        Ok(comms)
    }

    /// Runs `calls`, as one group if `is_group` is set.
    ///
    /// # Errors
    /// Returns an error if a call fails. The group then stays open, and the caller has to end the
    /// job: ending the group would start its calls and wait for ranks whose call never came.
    #[inline]
    pub fn grouped(
        &self,
        is_group: bool,
        calls: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !is_group {
            return calls();
        }
        self.group_start()?;
        calls()?;
        self.group_end()
    }
}

/// Calls on a communicator that move no data.
///
/// # Safety
/// `comm` is from [`Nccl::comm_init`] and not yet destroyed or aborted, and no other thread is
/// inside a call on it, except for `comm_async_error`. Registered buffers are memory of the
/// communicator's GPU.
#[expect(clippy::missing_safety_doc, reason = "one section covers all of them")]
#[expect(
    clippy::missing_errors_doc,
    reason = "they fail if NCCL fails or lacks the function"
)]
#[expect(missing_docs, reason = "nccl.h says what each does")]
impl Nccl {
    #[doc(alias = "ncclCommDestroy")]
    pub unsafe fn comm_destroy(&self, comm: RawComm) -> anyhow::Result<()> {
        // The communicator is gone whatever the result.
        call!(self, ptr::null_mut(), comm_destroy(comm))
    }

    /// Registers `bytes` at `address`, until the returned handle is passed to `comm_deregister`.
    #[doc(alias = "ncclCommRegister")]
    pub unsafe fn comm_register(
        &self,
        comm: RawComm,
        address: u64,
        bytes: usize,
    ) -> anyhow::Result<RawHandle> {
        let mut handle = ptr::null_mut();
        call!(
            self,
            comm,
            comm_register(comm, address as *mut c_void, bytes, &mut handle)
        )?;
        Ok(handle)
    }

    #[doc(alias = "ncclCommDeregister")]
    pub unsafe fn comm_deregister(&self, comm: RawComm, handle: RawHandle) -> anyhow::Result<()> {
        call!(self, comm, comm_deregister(comm, handle))
    }

    /// Registers a symmetric window of `bytes` at `address`. All ranks must call this with buffers
    /// of the same size. In a group `window` is written when the group ends.
    #[doc(alias = "ncclCommWindowRegister")]
    pub unsafe fn comm_window_register(
        &self,
        comm: RawComm,
        address: u64,
        bytes: usize,
        window: *mut RawHandle,
    ) -> anyhow::Result<()> {
        // NCCL_WIN_COLL_SYMMETRIC.
        const SYMMETRIC: c_int = 1;
        call!(
            self,
            comm,
            comm_window_register(comm, address as *mut c_void, bytes, window, SYMMETRIC)
        )
    }

    #[doc(alias = "ncclCommWindowDeregister")]
    pub unsafe fn comm_window_deregister(
        &self,
        comm: RawComm,
        window: RawHandle,
    ) -> anyhow::Result<()> {
        call!(self, comm, comm_window_deregister(comm, window))
    }

    /// Returns an error if something went wrong on the communicator since it was made, in a thread
    /// of NCCL or at a peer.
    #[doc(alias = "ncclCommGetAsyncError")]
    #[inline]
    pub unsafe fn comm_async_error(&self, comm: RawComm) -> anyhow::Result<()> {
        let mut state = SUCCESS;
        call!(self, comm, comm_get_async_error(comm, &mut state))?;
        if state == SUCCESS || state == IN_PROGRESS {
            return Ok(());
        }
        let what = format!(
            "NCCL reports {}{}",
            self.describe(state),
            self.last_error(comm)
        );
        Err(failure(format!(
            "{what}; look for the rank that failed first, and in NCCL's log with NCCL_DEBUG=WARN"
        )))
    }

    /// Returns what NCCL knows of errors on the communicator, without waiting.
    pub unsafe fn comm_state(&self, comm: RawComm) -> anyhow::Result<CommState> {
        let mut state = SUCCESS;
        call!(self, comm, comm_get_async_error(comm, &mut state))?;
        let has_error = state != SUCCESS && state != IN_PROGRESS;
        let what = if has_error {
            self.describe(state)
        } else {
            "no error".to_owned()
        };
        let last_error = self.last_error(comm);
        Ok(CommState {
            has_error,
            clause: format!("NCCL reports {what}{last_error}"),
        })
    }
}
