//! libnccl: where it is found, which version it is, and its functions as thin calls that return sentences.
//!
//! NCCL reads its environment once a process, at the first call but `ncclGetVersion`, so that [`Nccl::load`] leaves the
//! environment open and [`Nccl::unique_id`] does not.
//! Only blocking communicators are driven: a call that comes back unfinished is an error.

#![expect(
    unsafe_code,
    reason = "the functions of libnccl are called as nccl.h declares them"
)]

use std::{
    env,
    error::Error,
    ffi::{OsStr, OsString, c_char, c_int, c_uint, c_void},
    fmt, mem,
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    ptr,
    sync::Arc,
};

use libloading::{
    Library,
    os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW},
};

use super::symbol::{Missing, Symbol, file_of, symbols, text};
use crate::exit::{Code, Failure};

/// `ncclSuccess`.
const SUCCESS: c_int = 0;
/// `ncclInProgress`: a call of a non-blocking communicator has not ended.
const IN_PROGRESS: c_int = 7;

/// The oldest NCCL this program runs with: the first whose configuration and types are all there.
const OLDEST: NcclVersion = NcclVersion(21800);

/// `ncclScalarHostImmediate`: a scalar is on the host, and read before the call returns.
const HOST_IMMEDIATE: c_int = 1;

/// Names of the library's file, in the order they are tried.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// A version of NCCL, as `ncclGetVersion` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NcclVersion(pub c_int);

impl fmt::Display for NcclVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Up to 2.8 the code has one digit less.
        let unit = if self.0 < 10_000 { 1000 } else { 10_000 };
        write!(
            f,
            "{}.{}.{}",
            self.0 / unit,
            self.0 % unit / 100,
            self.0 % 100
        )
    }
}

/// `ncclUniqueId`: what the ranks of a communicator find each other by.
pub type UniqueId = [u8; 128];

/// `ncclUniqueId` as C passes it: by value.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawId([c_char; 128]);

/// `ncclComm_t`.
pub type RawComm = *mut c_void;

/// What NCCL gives for a registered buffer: `ncclWindow_t`, or the handle of `ncclCommRegister`.
pub type RawHandle = *mut c_void;

/// `cudaStream_t`, which is `CUstream`.
pub type RawStream = *mut c_void;

/// `ncclConfig_t` of NCCL 2.30. NCCL only ever appends fields, so that this one serves every version: a library reads
/// as many bytes as `size` says and it knows, and takes its own defaults for what is newer than `version`.
#[repr(C)]
struct RawConfig {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: *const c_char,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
    nvls_ctas: c_int,
    n_channels_per_net_peer: c_int,
    nvlink_centric_sched: c_int,
    graph_usage_mode: c_int,
    num_rma_ctx: c_int,
    max_p2p_peers: c_int,
    graph_stream_ordering: c_int,
}

/// `NCCL_CONFIG_UNDEF_INT`: the library decides.
const UNDEFINED: c_int = c_int::MIN;

/// The layouts of `ncclConfig_t` that matter here: since which version of the library, bytes, and the version to
/// declare. The first is that of 2.18; 2.28 brought `nvlinkCentricSched`; 2.30 brought `maxP2pPeers`.
const LAYOUTS: [(NcclVersion, usize, c_uint); 4] = [
    (NcclVersion(23000), mem::size_of::<RawConfig>(), 23000),
    (
        NcclVersion(22800),
        mem::offset_of!(RawConfig, graph_usage_mode),
        22800,
    ),
    (
        NcclVersion(22700),
        mem::offset_of!(RawConfig, n_channels_per_net_peer),
        22700,
    ),
    (OLDEST, mem::offset_of!(RawConfig, comm_name), 21800),
];

impl RawConfig {
    /// The configuration that nccl-tests uses with `version`, so that numbers compare.
    fn of(version: NcclVersion, settings: CommConfig) -> RawConfig {
        let layout = LAYOUTS
            .iter()
            .find(|(since, ..)| version >= *since)
            .unwrap_or(&LAYOUTS[LAYOUTS.len() - 1]);
        RawConfig {
            size: layout.1,
            magic: 0xcafe_beef,
            version: layout.2,
            blocking: UNDEFINED,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: ptr::null(),
            split_share: UNDEFINED,
            traffic_class: UNDEFINED,
            comm_name: ptr::null(),
            collnet_enable: UNDEFINED,
            cta_policy: settings.cta_policy.unwrap_or(UNDEFINED),
            shrink_share: UNDEFINED,
            nvls_ctas: UNDEFINED,
            n_channels_per_net_peer: UNDEFINED,
            nvlink_centric_sched: 1,
            graph_usage_mode: UNDEFINED,
            num_rma_ctx: UNDEFINED,
            max_p2p_peers: settings.max_p2p_peers.unwrap_or(UNDEFINED),
            graph_stream_ordering: UNDEFINED,
        }
    }
}

/// What a communicator is made with, beside NCCL's defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommConfig {
    /// With how many ranks each rank exchanges messages at most, from 2.30 on. nccl-tests sets 2 where it runs sendrecv
    /// and nothing else; with less than the truth other collectives get slower.
    pub max_p2p_peers: Option<c_int>,
    /// `CTAPolicy`: 0 default, 1 efficient, 2 without any CTA where that is possible; from 2.27 on.
    pub cta_policy: Option<c_int>,
}

symbols! {
    /// The functions of nccl.h that this program calls.
    Symbols {
        get_version: "ncclGetVersion" since "2.0", fn(*mut c_int) -> c_int;
        get_unique_id: "ncclGetUniqueId" since "2.0", fn(*mut RawId) -> c_int;
        get_error_string: "ncclGetErrorString" since "2.0", fn(c_int) -> *const c_char;
        get_last_error: "ncclGetLastError" since "2.13", fn(RawComm) -> *const c_char;
        comm_init_rank_config: "ncclCommInitRankConfig" since "2.14",
            fn(*mut RawComm, c_int, RawId, c_int, *mut RawConfig) -> c_int;
        comm_destroy: "ncclCommDestroy" since "2.0", fn(RawComm) -> c_int;
        comm_get_async_error: "ncclCommGetAsyncError" since "2.4", fn(RawComm, *mut c_int) -> c_int;
        comm_register: "ncclCommRegister" since "2.19",
            fn(RawComm, *mut c_void, usize, *mut *mut c_void) -> c_int;
        comm_deregister: "ncclCommDeregister" since "2.19", fn(RawComm, *mut c_void) -> c_int;
        comm_window_register: "ncclCommWindowRegister" since "2.27",
            fn(RawComm, *mut c_void, usize, *mut *mut c_void, c_int) -> c_int;
        comm_window_deregister: "ncclCommWindowDeregister" since "2.27", fn(RawComm, *mut c_void) -> c_int;
        mem_alloc: "ncclMemAlloc" since "2.19", fn(*mut *mut c_void, usize) -> c_int;
        mem_free: "ncclMemFree" since "2.19", fn(*mut c_void) -> c_int;
        group_start: "ncclGroupStart" since "2.0", fn() -> c_int;
        group_end: "ncclGroupEnd" since "2.0", fn() -> c_int;
        all_reduce: "ncclAllReduce" since "2.0",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        all_gather: "ncclAllGather" since "2.0",
            fn(*const c_void, *mut c_void, usize, c_int, RawComm, RawStream) -> c_int;
        reduce_scatter: "ncclReduceScatter" since "2.0",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        broadcast: "ncclBroadcast" since "2.2",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        reduce: "ncclReduce" since "2.0",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, RawComm, RawStream) -> c_int;
        redop_create_premulsum: "ncclRedOpCreatePreMulSum" since "2.11",
            fn(*mut c_int, *mut c_void, c_int, c_int, RawComm) -> c_int;
        redop_destroy: "ncclRedOpDestroy" since "2.11", fn(c_int, RawComm) -> c_int;
        send: "ncclSend" since "2.7", fn(*const c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        recv: "ncclRecv" since "2.7", fn(*mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        all_to_all: "ncclAlltoAll" since "2.28",
            fn(*const c_void, *mut c_void, usize, c_int, RawComm, RawStream) -> c_int;
        gather: "ncclGather" since "2.28",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        scatter: "ncclScatter" since "2.28",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
    }
}

/// A loaded libnccl. It stays loaded until the process ends, because NCCL's threads run its code.
pub struct Nccl {
    path: PathBuf,
    version: NcclVersion,
    symbols: Symbols,
}

/// One place where the library may be.
#[derive(Debug, PartialEq, Eq)]
enum Candidate {
    /// A file. If it is there, it is the one, and a fault of it ends the search.
    File(PathBuf),
    /// A name that the dynamic loader looks for.
    Name(&'static str),
}

/// Where to look: at `explicit` and nowhere else if it is given, else in `$NCCL_HOME`, else where the system looks.
fn candidates(explicit: Option<&Path>, nccl_home: Option<&OsStr>) -> Vec<Candidate> {
    if let Some(path) = explicit {
        return vec![Candidate::File(path.to_owned())];
    }
    let home = nccl_home.filter(|home| !home.is_empty()).map(Path::new);
    let folders = home
        .into_iter()
        .flat_map(|home| [home.join("lib"), home.join("lib64")]);
    let files = folders.flat_map(|folder| NAMES.map(|name| Candidate::File(folder.join(name))));
    files.chain(NAMES.map(Candidate::Name)).collect()
}

/// Loads a library so that nothing of it is found by others, and faults of it show now; or says what is wrong with it.
fn open(name: impl AsRef<OsStr>) -> Result<Library, String> {
    // SAFETY: what runs at loading is libnccl's own initialisation, which asks nothing of its caller.
    let library = unsafe { UnixLibrary::open(Some(name.as_ref()), RTLD_NOW | RTLD_LOCAL) };
    // The words of the dynamic loader, which name the file, are the error's source.
    library.map(Library::from).map_err(|error| {
        error
            .source()
            .map_or(error.to_string(), ToString::to_string)
    })
}

/// Where the reason of a failed call is, under this `NCCL_DEBUG`.
fn remedy(debug: &str) -> &'static str {
    if ["INFO", "ABORT", "TRACE"]
        .iter()
        .any(|level| debug.eq_ignore_ascii_case(level))
    {
        "NCCL's log has the reason"
    } else {
        "NCCL_DEBUG=INFO writes the reason to NCCL's log"
    }
}

fn failure(what: impl Into<String>) -> anyhow::Error {
    Failure::on_this_rank(Code::Nccl, what)
}

impl Nccl {
    /// Loads libnccl from `explicit` if that is given, else the first of: `libnccl.so.2` and `libnccl.so` in
    /// `$NCCL_HOME/lib` and `$NCCL_HOME/lib64`, then the same names where the system looks for libraries.
    ///
    /// # Errors
    /// Where it is not found, cannot be loaded, or is too old.
    pub fn load(explicit: Option<&Path>) -> anyhow::Result<Arc<Nccl>> {
        Nccl::search(explicit, env::var_os("NCCL_HOME"))
    }

    fn search(explicit: Option<&Path>, nccl_home: Option<OsString>) -> anyhow::Result<Arc<Nccl>> {
        let mut tried = Vec::new();
        for candidate in candidates(explicit, nccl_home.as_deref()) {
            match &candidate {
                Candidate::File(path) if !path.exists() => tried.push(path.display().to_string()),
                Candidate::File(path) => {
                    let unloadable = |error| {
                        format!("libnccl cannot be loaded: {error}; give the path of another one")
                    };
                    let library = open(path).map_err(|error| failure(unloadable(error)))?;
                    return Nccl::of(library, &path.display().to_string()).map(Arc::new);
                }
                Candidate::Name(name) => match open(name) {
                    Ok(library) => return Nccl::of(library, name).map(Arc::new),
                    Err(error) => tried.push(error),
                },
            }
        }
        Err(failure(match explicit {
            Some(path) => format!(
                "{} does not exist; give the path of a libnccl.so.2",
                path.display()
            ),
            None => format!(
                "found no libnccl: load the site's NCCL module, set NCCL_HOME or LD_LIBRARY_PATH, or give the path of \
                 a libnccl.so.2 (tried {})",
                tried.join("; ")
            ),
        }))
    }

    /// The functions of a library that was loaded as `name`.
    fn of(library: Library, name: &str) -> anyhow::Result<Nccl> {
        // Dropping the handle would unload the code that NCCL's threads run.
        let library = ManuallyDrop::new(library);
        // SAFETY: the table is made from nccl.h, and a library without ncclGetVersion is refused before any other call.
        let symbols = unsafe { Symbols::find(&library) };
        let no_nccl = |_| {
            failure(format!(
                "{name} is not NCCL: it has no ncclGetVersion; give the path of a libnccl.so.2"
            ))
        };
        let get_version = symbols.get_version.get().map_err(no_nccl)?;
        let mut code = 0;
        // SAFETY: ncclGetVersion writes one integer.
        let result = unsafe { get_version(&mut code) };
        let path = file_of(get_version as *const c_void).unwrap_or_else(|| PathBuf::from(name));
        let nccl = Nccl {
            path,
            version: NcclVersion(code),
            symbols,
        };
        nccl.check("ncclGetVersion", ptr::null_mut(), result)?;
        if nccl.version < OLDEST {
            return Err(failure(format!(
                "{nccl} is too old; load {OLDEST} or newer, or give the path of one"
            )));
        }
        Ok(nccl)
    }

    /// The file that is loaded, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version.
    pub fn version(&self) -> NcclVersion {
        self.version
    }

    /// Names of the functions that this program would call and the library does not have.
    pub fn missing(&self) -> Vec<&'static str> {
        self.symbols.missing()
    }

    /// Can it allocate memory for the GPU?
    pub fn has_memory(&self) -> bool {
        self.symbols.mem_alloc.is_there() && self.symbols.mem_free.is_there()
    }

    /// Can it register buffers with a communicator?
    pub fn has_registration(&self) -> bool {
        self.symbols.comm_register.is_there() && self.symbols.comm_deregister.is_there()
    }

    /// Can it register buffers as windows, which all ranks have at one address?
    pub fn has_windows(&self) -> bool {
        self.symbols.comm_window_register.is_there()
            && self.symbols.comm_window_deregister.is_there()
    }

    /// Has it an alltoall of its own?
    pub fn has_all_to_all(&self) -> bool {
        self.symbols.all_to_all.is_there()
    }

    /// Has it a gather of its own?
    pub fn has_gather(&self) -> bool {
        self.symbols.gather.is_there()
    }

    /// Has it a scatter of its own?
    pub fn has_scatter(&self) -> bool {
        self.symbols.scatter.is_there()
    }

    /// Turns a result code of `function` into an error.
    #[inline]
    fn check(&self, function: &str, comm: RawComm, code: c_int) -> anyhow::Result<()> {
        if code == SUCCESS {
            Ok(())
        } else {
            Err(failure(self.explain(function, comm, code)))
        }
    }

    #[cold]
    fn explain(&self, function: &str, comm: RawComm, code: c_int) -> String {
        if code == IN_PROGRESS {
            return format!(
                "{function} came back before its end, because NCCL_COMM_BLOCKING=0 is set in the environment or in an \
                 nccl.conf; unset it: this program needs blocking communicators"
            );
        }
        let debug = env::var("NCCL_DEBUG").unwrap_or_default();
        format!(
            "{function} failed: {}{}; {}",
            self.describe(code),
            self.last_error(comm),
            remedy(&debug)
        )
    }

    /// `unhandled cuda error (code 1)`.
    #[doc(alias = "ncclGetErrorString")]
    fn describe(&self, code: c_int) -> String {
        // SAFETY: ncclGetErrorString takes any integer and returns a constant string.
        let string = self
            .symbols
            .get_error_string
            .get()
            .ok()
            .and_then(|call| unsafe { text(call(code)) });
        let string = string.map_or("unknown error".into(), |string| string.to_string_lossy());
        format!("{string} (code {code})")
    }

    /// `; NCCL's last error: …`, or nothing where NCCL has no more to say.
    #[doc(alias = "ncclGetLastError")]
    fn last_error(&self, comm: RawComm) -> String {
        // SAFETY: ncclGetLastError ignores its argument in all versions so far, and takes null; the string is a static
        // buffer of NCCL. A thread of NCCL may write to it meanwhile, which at worst garbles the sentence.
        let string = self
            .symbols
            .get_last_error
            .get()
            .ok()
            .and_then(|call| unsafe { text(call(comm)) });
        match string.map(|string| string.to_string_lossy().trim().to_owned()) {
            Some(string) if !string.is_empty() => format!("; NCCL's last error: {string}"),
            _ => String::new(),
        }
    }

    #[cold]
    fn lacks(&self, missing: Missing) -> anyhow::Error {
        failure(format!(
            "{} needs NCCL {} or newer, but {self} was found; load a newer one",
            missing.name, missing.since
        ))
    }
}

impl fmt::Display for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NCCL {} ({})", self.version, self.path.display())
    }
}

/// Calls `$field` of the table with `$arg`s and checks the result; `$comm` is where NCCL's last error is asked.
macro_rules! call {
    ($nccl:expr, $comm:expr, $field:ident($($arg:expr),*)) => {{
        let nccl: &Nccl = $nccl;
        let function = nccl.symbols.$field.get().map_err(|missing| nccl.lacks(missing))?;
        // SAFETY: the function has the type that nccl.h gives it, and each caller of this macro says why its arguments
        // are what NCCL demands.
        let code = unsafe { function($($arg),*) };
        nccl.check(nccl.symbols.$field.name, $comm, code)
    }};
}

/// Calls that need no communicator.
impl Nccl {
    /// A new unique id, for one rank to give to the others. The first call reads NCCL's environment and opens a socket.
    ///
    /// # Errors
    /// Where NCCL fails, for example because it finds no network interface.
    #[doc(alias = "ncclGetUniqueId")]
    pub fn unique_id(&self) -> anyhow::Result<UniqueId> {
        let mut id = RawId([0; 128]);
        // ncclGetUniqueId writes one id.
        call!(self, ptr::null_mut(), get_unique_id(&mut id))?;
        Ok(id.0.map(|byte| byte as u8))
    }

    /// Begins a group of calls that are one operation.
    ///
    /// # Errors
    /// Where NCCL fails.
    #[doc(alias = "ncclGroupStart")]
    #[inline]
    pub fn group_start(&self) -> anyhow::Result<()> {
        call!(self, ptr::null_mut(), group_start())
    }

    /// Ends the group and starts what is in it.
    ///
    /// # Errors
    /// Where NCCL fails.
    #[doc(alias = "ncclGroupEnd")]
    #[inline]
    pub fn group_end(&self) -> anyhow::Result<()> {
        call!(self, ptr::null_mut(), group_end())
    }

    /// Allocates `bytes` on the current GPU, so that NCCL can register and share them.
    ///
    /// # Errors
    /// Where there is not enough memory, or NCCL is older than 2.19.
    #[doc(alias = "ncclMemAlloc")]
    pub fn mem_alloc(&self, bytes: usize) -> anyhow::Result<u64> {
        let mut address = ptr::null_mut();
        // ncclMemAlloc writes one pointer.
        call!(self, ptr::null_mut(), mem_alloc(&mut address, bytes))?;
        Ok(address as u64)
    }

    /// Frees what [`Nccl::mem_alloc`] gave.
    ///
    /// # Errors
    /// Where NCCL fails.
    ///
    /// # Safety
    /// `address` is from [`Nccl::mem_alloc`], is freed once, and nothing uses it any more.
    #[doc(alias = "ncclMemFree")]
    pub unsafe fn mem_free(&self, address: u64) -> anyhow::Result<()> {
        call!(self, ptr::null_mut(), mem_free(address as *mut c_void))
    }

    /// Joins the communicator of `id`, which has `ranks` ranks, as each of `mine`; `choose` makes the GPU of one of them, by
    /// its place in `mine`, this thread's. All ranks call it; it waits for them. The communicators are in the order of `mine`.
    ///
    /// # Errors
    /// Where NCCL or `choose` fails.
    #[doc(alias = "ncclCommInitRankConfig")]
    pub fn comm_init(
        &self,
        id: &UniqueId,
        mine: &[c_int],
        ranks: c_int,
        settings: CommConfig,
        choose: &dyn Fn(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<RawComm>> {
        // In a group NCCL writes the handles only when the group ends: they stay where they are until then, and so do the
        // configurations.
        let mut comms: Vec<RawComm> = vec![ptr::null_mut(); mine.len()];
        let mut configs: Vec<RawConfig> = mine
            .iter()
            .map(|_| RawConfig::of(self.version, settings))
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

    /// Runs `calls` as one group where `is_group` says so.
    ///
    /// # Errors
    /// Where a call fails. The group then stays open, and the caller has to end the job: the end of a group starts what is in
    /// it, and waits for ranks whose call never came.
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

/// Calls on a communicator.
///
/// # Safety
/// For all of them: `comm` is from [`Nccl::comm_init`] and not yet destroyed or aborted; no other thread is inside a
/// call on it, except for `comm_async_error`. For those that move data also: `stream` is a stream of
/// the communicator's GPU, and the buffers are memory of that GPU which holds what the counts say, until the operation
/// has ended on the stream. Types, operations and roots are NCCL's numbers.
#[expect(clippy::missing_safety_doc, reason = "said once, for all of them")]
#[expect(
    clippy::missing_errors_doc,
    reason = "they fail where NCCL fails, or lacks the function"
)]
#[expect(clippy::too_many_arguments, reason = "they are NCCL's")]
#[expect(missing_docs, reason = "nccl.h says what each does")]
impl Nccl {
    #[doc(alias = "ncclCommDestroy")]
    pub unsafe fn comm_destroy(&self, comm: RawComm) -> anyhow::Result<()> {
        // The communicator is gone whatever comes back.
        call!(self, ptr::null_mut(), comm_destroy(comm))
    }

    /// Registers `bytes` from `address` on, for as long as the handle that comes back is not given to `comm_deregister`.
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

    /// Registers a window of `bytes` from `address` on, symmetric: all ranks call it with buffers of one size. In a group
    /// `window` is written when the group ends.
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

    /// Fails where something went wrong on the communicator since it was made, in a thread of NCCL or at a peer.
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

    #[doc(alias = "ncclAllReduce")]
    #[inline]
    pub unsafe fn all_reduce(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        op: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            all_reduce(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                op,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclAllGather")]
    #[inline]
    pub unsafe fn all_gather(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            all_gather(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclReduceScatter")]
    #[inline]
    pub unsafe fn reduce_scatter(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        op: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            reduce_scatter(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                op,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclBroadcast")]
    #[inline]
    pub unsafe fn broadcast(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        root: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            broadcast(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                root,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclReduce")]
    #[inline]
    pub unsafe fn reduce(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        op: c_int,
        root: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            reduce(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                op,
                root,
                comm,
                stream
            )
        )
    }

    /// Makes an operation that multiplies this rank's input by `scalar`, an element of `dtype`, and then adds. Gives back
    /// its number, which only this communicator knows.
    #[doc(alias = "ncclRedOpCreatePreMulSum")]
    pub unsafe fn redop_create_premulsum(
        &self,
        scalar: &[u8; 8],
        dtype: c_int,
        comm: RawComm,
    ) -> anyhow::Result<c_int> {
        // As aligned as any type.
        let mut scalar = u64::from_ne_bytes(*scalar);
        let (mut op, scalar) = (0, (&raw mut scalar).cast());
        call!(
            self,
            comm,
            redop_create_premulsum(&mut op, scalar, dtype, HOST_IMMEDIATE, comm)
        )?;
        Ok(op)
    }

    #[doc(alias = "ncclRedOpDestroy")]
    pub unsafe fn redop_destroy(&self, op: c_int, comm: RawComm) -> anyhow::Result<()> {
        call!(self, comm, redop_destroy(op, comm))
    }

    #[doc(alias = "ncclSend")]
    #[inline]
    pub unsafe fn send(
        &self,
        send: u64,
        count: usize,
        dtype: c_int,
        peer: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            send(send as *const c_void, count, dtype, peer, comm, stream)
        )
    }

    #[doc(alias = "ncclRecv")]
    #[inline]
    pub unsafe fn recv(
        &self,
        recv: u64,
        count: usize,
        dtype: c_int,
        peer: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            recv(recv as *mut c_void, count, dtype, peer, comm, stream)
        )
    }

    #[doc(alias = "ncclAlltoAll")]
    #[inline]
    pub unsafe fn all_to_all(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            all_to_all(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclGather")]
    #[inline]
    pub unsafe fn gather(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        root: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            gather(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                root,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclScatter")]
    #[inline]
    pub unsafe fn scatter(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        root: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            scatter(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                root,
                comm,
                stream
            )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::code_of;
    use std::{fs, os::unix::fs::symlink};

    fn load(explicit: Option<&Path>, home: Option<&Path>) -> Result<Arc<Nccl>, String> {
        Nccl::search(explicit, home.map(|home| home.as_os_str().to_owned())).map_err(|error| {
            assert_eq!(code_of(&error), Code::Nccl);
            error.to_string()
        })
    }

    /// A library that every test process has loaded: it stands for a file that is a library, but no NCCL.
    fn libc_file() -> PathBuf {
        file_of(libc::dladdr as *const c_void).expect("dladdr is in a library")
    }

    #[test]
    fn versions_are_decoded() {
        for (code, text) in [
            (2804, "2.8.4"),
            (20903, "2.9.3"),
            (21803, "2.18.3"),
            (22803, "2.28.3"),
            (23007, "2.30.7"),
            (30000, "3.0.0"),
        ] {
            assert_eq!(NcclVersion(code).to_string(), text);
        }
        assert!(NcclVersion(2804) < OLDEST && NcclVersion(22803) > OLDEST);
    }

    #[test]
    fn the_search_goes_from_near_to_far() {
        let file = |path: &str| Candidate::File(path.into());
        let system = || NAMES.map(Candidate::Name);
        assert_eq!(
            candidates(Some(Path::new("/x/y.so")), Some(OsStr::new("/h"))),
            [file("/x/y.so")]
        );
        let in_home = [
            "/h/lib/libnccl.so.2",
            "/h/lib/libnccl.so",
            "/h/lib64/libnccl.so.2",
            "/h/lib64/libnccl.so",
        ];
        let all: Vec<_> = in_home.into_iter().map(file).chain(system()).collect();
        assert_eq!(candidates(None, Some(OsStr::new("/h"))), all);
        assert_eq!(candidates(None, Some(OsStr::new(""))), system());
        assert_eq!(candidates(None, None), system());
    }

    #[test]
    fn a_path_that_is_not_there_is_named() {
        let error = load(Some(Path::new("/nowhere/libnccl.so.2")), None)
            .err()
            .expect("an error");
        assert_eq!(
            error,
            "/nowhere/libnccl.so.2 does not exist; give the path of a libnccl.so.2"
        );
    }

    #[test]
    fn the_first_file_of_nccl_home_is_the_one() {
        for (folder, names) in [
            ("lib", &["libnccl.so.2", "libnccl.so"][..]),
            ("lib", &["libnccl.so"]),
            ("lib64", &["libnccl.so.2"]),
        ] {
            let home = tempfile::tempdir().expect("a folder");
            let folder = home.path().join(folder);
            fs::create_dir(&folder).expect("made");
            for name in names {
                symlink(libc_file(), folder.join(name)).expect("linked");
            }
            let error = load(None, Some(home.path())).err().expect("an error");
            let first = folder.join(names[0]);
            assert!(
                error.starts_with(&format!("{} is not NCCL", first.display())),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_is_no_library_ends_the_search() {
        let home = tempfile::tempdir().expect("a folder");
        fs::create_dir(home.path().join("lib")).expect("made");
        let file = home.path().join("lib/libnccl.so");
        fs::write(&file, "not a library").expect("written");
        for error in [load(None, Some(home.path())), load(Some(&file), None)]
            .map(|r| r.err().expect("an error"))
        {
            assert!(
                error.starts_with(&format!("libnccl cannot be loaded: {}: ", file.display())),
                "{error}"
            );
        }
    }

    #[test]
    fn a_failed_call_says_where_the_reason_is() {
        for debug in ["", "WARN", "VERSION"] {
            assert_eq!(
                remedy(debug),
                "NCCL_DEBUG=INFO writes the reason to NCCL's log"
            );
        }
        for debug in ["INFO", "trace"] {
            assert_eq!(remedy(debug), "NCCL's log has the reason");
        }
    }

    #[test]
    fn a_missing_function_is_an_error_of_its_call() {
        let nccl = Nccl {
            path: "/x/libnccl.so.2".into(),
            version: NcclVersion(22707),
            symbols: no_symbols(),
        };
        // SAFETY: the function is missing, so that nothing is called.
        let error = unsafe { nccl.all_to_all(0, 0, 0, 0, ptr::null_mut(), ptr::null_mut()) }
            .expect_err("an error");
        let sentence = "ncclAlltoAll needs NCCL 2.28 or newer, but NCCL 2.27.7 (/x/libnccl.so.2) was found; load a newer one";
        assert_eq!(error.to_string(), sentence);
        assert_eq!(code_of(&error), Code::Nccl);
        assert!(!nccl.has_all_to_all() && nccl.missing().contains(&"ncclAllReduce"));
        assert_eq!(nccl.describe(8), "unknown error (code 8)");
        assert!(
            nccl.explain("ncclSend", ptr::null_mut(), IN_PROGRESS)
                .contains("NCCL_COMM_BLOCKING=0")
        );
    }

    fn no_symbols() -> Symbols {
        let libc = ManuallyDrop::new(open(libc_file()).expect("libc loads"));
        // SAFETY: libc has none of the table's functions, so that no type can be wrong.
        unsafe { Symbols::find(&libc) }
    }

    /// Offsets and sizes printed by a C program from the headers of 2.18.3, 2.27.7, 2.28.3, 2.30.7.
    #[test]
    fn the_configuration_has_the_layout_of_the_headers() {
        assert_eq!(mem::offset_of!(RawConfig, magic), 8);
        assert_eq!(mem::offset_of!(RawConfig, version), 12);
        assert_eq!(mem::offset_of!(RawConfig, blocking), 16);
        assert_eq!(mem::offset_of!(RawConfig, net_name), 32);
        assert_eq!(mem::offset_of!(RawConfig, split_share), 40);
        assert_eq!(mem::offset_of!(RawConfig, traffic_class), 44);
        assert_eq!(mem::offset_of!(RawConfig, comm_name), 48);
        assert_eq!(mem::offset_of!(RawConfig, cta_policy), 60);
        assert_eq!(mem::offset_of!(RawConfig, nvls_ctas), 68);
        assert_eq!(mem::offset_of!(RawConfig, n_channels_per_net_peer), 72);
        assert_eq!(mem::offset_of!(RawConfig, nvlink_centric_sched), 76);
        assert_eq!(mem::offset_of!(RawConfig, graph_usage_mode), 80);
        assert_eq!(mem::offset_of!(RawConfig, max_p2p_peers), 88);
        assert_eq!(mem::offset_of!(RawConfig, graph_stream_ordering), 92);
        for (library, size, version) in [
            (21803, 48, 21800),
            (22507, 48, 21800),
            (22707, 72, 22700),
            (22803, 80, 22800),
            (22907, 80, 22800),
            (23007, 96, 23000),
        ] {
            let config = RawConfig::of(NcclVersion(library), CommConfig::default());
            assert_eq!(
                (config.size, config.version, config.magic),
                (size, version, 0xcafe_beef),
                "{library}"
            );
        }
        assert_eq!(
            RawConfig::of(
                NcclVersion(23007),
                CommConfig {
                    max_p2p_peers: Some(2),
                    cta_policy: None
                }
            )
            .max_p2p_peers,
            2
        );
    }
}
