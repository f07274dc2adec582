//! libcuda: is there a driver that works, which GPUs does this process see, and the few calls whose failure must be
//! told exactly. Contexts, streams and kernels are cudarc's, in [`crate::backend::nccl`].
//!
//! cudarc panics where the library or a function of it is missing, and its error type is an enum of the codes that CUDA
//! 12.0 had. So what can fail on a broken machine or while a job runs is called from here, with integers: a failing
//! NVLink, for one, has a code that came later.

#![expect(
    unsafe_code,
    reason = "the functions of libcuda are called as cuda.h declares them"
)]

use std::{
    collections::BTreeMap,
    env,
    ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void},
    fmt, fs,
    path::{Path, PathBuf},
    ptr,
    sync::OnceLock,
};

use cudarc::driver::{DriverError, sys};
use libloading::Library;

use super::symbol::{Symbol, file_of, symbols, text};
use crate::{
    exit::{Code, Failure},
    units::Bytes,
};

const SUCCESS: c_int = 0;
const NOT_READY: c_int = 600;
const NO_DEVICE: c_int = 100;

/// Attributes of a device, `CU_DEVICE_ATTRIBUTE_…`.
const PCI_BUS_ID: c_int = 33;
const PCI_DEVICE_ID: c_int = 34;
const PCI_DOMAIN_ID: c_int = 50;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: c_int = 102;

/// Attributes of a pair of devices, `CU_DEVICE_P2P_ATTRIBUTE_…`.
const ACCESS_SUPPORTED: c_int = 2;
const NATIVE_ATOMIC_SUPPORTED: c_int = 3;

/// The first CUDA whose driver NCCL uses cuMem with.
const CUMEM_SINCE: CudaVersion = CudaVersion(12_000);

/// A GPU, or a part of one, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaGpu {
    /// CUDA's number for it in this process.
    pub ordinal: usize,
    /// The model: `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// As nvidia-smi prints it: `GPU-…`, or `MIG-…` for a part of a GPU.
    pub uuid: String,
    /// PCI address as nccl-tests prints it: `0000:18:00`.
    pub bus: String,
    /// All its memory.
    pub memory: Bytes,
    /// Compute capability: 9.0 is (9, 0).
    pub capability: (u32, u32),
}

/// A version of CUDA as the driver gives it: 12040 is 12.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(pub c_int);

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

symbols! {
    /// The functions of cuda.h that this program calls without cudarc.
    Symbols {
        init: "cuInit" since "2.0", fn(c_uint) -> c_int;
        driver_get_version: "cuDriverGetVersion" since "2.2", fn(*mut c_int) -> c_int;
        get_error_name: "cuGetErrorName" since "6.0", fn(c_int, *mut *const c_char) -> c_int;
        get_error_string: "cuGetErrorString" since "6.0", fn(c_int, *mut *const c_char) -> c_int;
        device_get_count: "cuDeviceGetCount" since "2.0", fn(*mut c_int) -> c_int;
        device_get: "cuDeviceGet" since "2.0", fn(*mut c_int, c_int) -> c_int;
        device_get_name: "cuDeviceGetName" since "2.0", fn(*mut c_char, c_int, c_int) -> c_int;
        device_get_uuid: "cuDeviceGetUuid" since "9.2", fn(*mut [u8; 16], c_int) -> c_int;
        device_get_uuid_v2: "cuDeviceGetUuid_v2" since "11.4", fn(*mut [u8; 16], c_int) -> c_int;
        device_total_mem: "cuDeviceTotalMem_v2" since "3.2", fn(*mut usize, c_int) -> c_int;
        device_get_attribute: "cuDeviceGetAttribute" since "2.0", fn(*mut c_int, c_int, c_int) -> c_int;
        device_get_p2p_attribute: "cuDeviceGetP2PAttribute" since "8.0", fn(*mut c_int, c_int, c_int, c_int) -> c_int;
        primary_ctx_retain: "cuDevicePrimaryCtxRetain" since "7.0", fn(*mut *mut c_void, c_int) -> c_int;
        ctx_set_current: "cuCtxSetCurrent" since "4.0", fn(*mut c_void) -> c_int;
        mem_get_info: "cuMemGetInfo_v2" since "3.2", fn(*mut usize, *mut usize) -> c_int;
        mem_alloc: "cuMemAlloc_v2" since "3.2", fn(*mut u64, usize) -> c_int;
        mem_free: "cuMemFree_v2" since "3.2", fn(u64) -> c_int;
        memcpy_to_host: "cuMemcpyDtoH_v2" since "3.2", fn(*mut c_void, u64, usize) -> c_int;
        memcpy_to_device: "cuMemcpyHtoD_v2" since "3.2", fn(u64, *const c_void, usize) -> c_int;
        memcpy_async: "cuMemcpyDtoDAsync_v2" since "3.2", fn(u64, u64, usize, *mut c_void) -> c_int;
        memset_async: "cuMemsetD8Async" since "3.2", fn(u64, c_uchar, usize, *mut c_void) -> c_int;
        stream_query: "cuStreamQuery" since "2.0", fn(*mut c_void) -> c_int;
    }
}

fn failure(what: impl Into<String>) -> anyhow::Error {
    Failure::on_this_rank(Code::Cuda, what)
}

/// The loaded and initialised driver.
pub struct Driver {
    symbols: Symbols,
}

/// The library, not yet initialised; `None` where there is none.
fn library() -> Option<&'static Driver> {
    static LIBRARY: OnceLock<Option<Driver>> = OnceLock::new();
    let load = || {
        // SAFETY: loading libcuda runs only its own initialisation. cudarc is asked, so that both use the same file; it
        // would panic in culib() where there is none.
        let library = unsafe { sys::is_culib_present().then(|| sys::culib()) }?;
        Some(Driver::of(library))
    };
    LIBRARY.get_or_init(load).as_ref()
}

/// The driver, initialised by the first call.
///
/// # Errors
/// Where there is no driver, or it does not start; the sentence says which, and what to do.
pub fn driver() -> anyhow::Result<&'static Driver> {
    static STARTED: OnceLock<Result<&'static Driver, String>> = OnceLock::new();
    STARTED.get_or_init(start).clone().map_err(failure)
}

fn start() -> Result<&'static Driver, String> {
    let driver = library().ok_or(
        "there is no libcuda.so.1, the NVIDIA driver's library: this node has no NVIDIA driver, or the container was \
         started without it (Apptainer: --nv; Enroot, Docker: the NVIDIA container toolkit)",
    )?;
    // SAFETY: cuInit takes the flags 0 and nothing else.
    let code = driver.symbols.init.get().map(|init| unsafe { init(0) });
    match code {
        Ok(SUCCESS) => Ok(driver),
        Ok(code) => Err(driver.why(code)),
        Err(missing) => Err(format!(
            "libcuda has no {}: its file is not NVIDIA's driver",
            missing.name
        )),
    }
}

/// What a failing cuInit is explained from.
struct Told {
    visible: Option<String>,
    kernel: Option<String>,
    file: Option<PathBuf>,
}

/// The sentence for a cuInit that returned `code`: what is wrong, and what to do.
fn why_it_does_not_start(code: c_int, name: &str, told: &Told) -> String {
    let kernel = told.kernel.as_deref().unwrap_or("unknown");
    let file = told
        .file
        .as_ref()
        .map_or("libcuda".into(), |file| file.display().to_string());
    let why = match (code, told.visible.as_deref()) {
        (NO_DEVICE, Some(visible)) => format!(
            "CUDA_VISIBLE_DEVICES={visible} shows no GPU of this node; unset it, or ask Slurm for GPUs \
             (--gpus-per-node=N)"
        ),
        (NO_DEVICE, None) => {
            "this node has no GPU, or the job was given none; ask Slurm for GPUs (--gpus-per-node=N), and \
                              see what nvidia-smi -L shows"
                .into()
        }
        (101, Some(visible)) => {
            format!("CUDA_VISIBLE_DEVICES={visible} names a GPU that is not there; correct or unset it")
        }
        (34, _) => format!(
            "{file} is a stub that is only good for linking; take its directory (it often ends in /stubs) out of \
             LD_LIBRARY_PATH"
        ),
        (802, _) => {
            "the GPUs of this node are not ready: on machines with NVSwitch, nvidia-fabricmanager must run; have it \
                     started, or drain the node"
                .into()
        }
        (803, _) => format!(
            "{file} and the kernel's driver ({kernel}) are of different versions: reboot the node after a driver \
             update; in a container, use the host's libcuda"
        ),
        (804, _) => format!(
            "{file} is CUDA's forward compatibility package, which this GPU or driver ({kernel}) does not support; \
             take its directory (it often ends in /compat) out of LD_LIBRARY_PATH"
        ),
        (304 | 999, _) => format!(
            "the kernel's driver ({kernel}) does not answer: see that /dev/nvidia-uvm is there (nvidia-modprobe -u \
             -c 0) and that the job may open /dev/nvidia*, and look for Xid in dmesg"
        ),
        _ => {
            format!("see whether nvidia-smi works on this node (kernel's driver: {kernel}), and look for Xid in dmesg")
        }
    };
    format!("CUDA does not start: {name} (code {code}): {why}")
}

/// The GPUs that this process can see, by ordinal.
///
/// # Errors
/// Where there is no driver or it does not start; the sentence says which, and what to do.
#[doc(alias = "cuInit")]
pub fn gpus() -> anyhow::Result<Vec<CudaGpu>> {
    let driver = driver()?;
    let count = driver.count()?;
    if count == 0 {
        return Err(failure(driver.why(NO_DEVICE)));
    }
    (0..count).map(|ordinal| driver.gpu(ordinal)).collect()
}

/// What is installed: `driver`, the version of the kernel's driver, and `cuda`, the newest CUDA that libcuda supports.
/// What cannot be read is absent. Starts nothing.
pub fn versions() -> BTreeMap<String, String> {
    let driver = kernel_driver(Path::new("/")).map(|version| ("driver".to_owned(), version));
    let cuda = library()
        .and_then(|driver| driver.version().ok())
        .map(|version| ("cuda".to_owned(), version.to_string()));
    driver.into_iter().chain(cuda).collect()
}

/// The error of a call of cudarc, in the words that errors of this module have.
pub fn described(error: DriverError) -> String {
    let code = error.0 as c_int;
    library().map_or_else(|| format!("code {code}"), |driver| driver.explain(code))
}

/// What to do where a call returned `code`.
fn remedy(code: c_int) -> &'static str {
    match code {
        2 => "nvidia-smi shows what else uses the GPU's memory; end that, or lower -e",
        46 => {
            "nvidia-smi shows whether another process has the GPU to itself, and the compute mode"
        }
        218 | 222 => "nvidia-smi shows the driver's version",
        900..=908 => "run it without -G",
        _ => "see whether nvidia-smi works on this node, and look for Xid in dmesg",
    }
}

/// What CUDA says of one GPU reaching another's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLink {
    /// It can.
    pub access: bool,
    /// With atomic operations over the link: NVLink has them, PCIe has not.
    pub atomics: bool,
}

/// How each GPU that this process sees reaches each other one; `None` where there are fewer than two, or the driver does
/// not tell.
#[doc(alias = "cuDeviceGetP2PAttribute")]
pub fn peer_links() -> Option<Vec<PeerLink>> {
    let driver = driver().ok()?;
    let count = driver.count().ok().filter(|count| *count > 1)?;
    let pairs = (0..count)
        .flat_map(|a| (0..count).map(move |b| (a, b)))
        .filter(|(a, b)| a != b);
    pairs.map(|(a, b)| driver.peer_link(a, b).ok()).collect()
}

/// Can NCCL use cuMem here, as far as driver and GPUs go? `None` where the driver does not tell.
#[doc(alias = "cuMemCreate")]
pub fn has_cumem() -> Option<bool> {
    let driver = driver().ok()?;
    let new_enough = driver.version().ok()? >= CUMEM_SINCE;
    let all_can = (0..driver.count().ok()?)
        .map(|ordinal| driver.has_virtual_memory(ordinal).ok())
        .collect::<Option<Vec<_>>>()?;
    Some(new_enough && all_can.into_iter().all(|can| can))
}

/// The version of NVIDIA's kernel driver: `570.133.20`. `root` is the root of the file system.
pub fn kernel_driver(root: &Path) -> Option<String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let module = read("sys/module/nvidia/version")
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty());
    module.or_else(|| version_in_proc(&read("proc/driver/nvidia/version")?))
}

/// The version in `/proc/driver/nvidia/version`: in its first line, the first word that is numbers and dots.
fn version_in_proc(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.')
            && word
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    text.lines()
        .next()?
        .split_whitespace()
        .find(is_version)
        .map(str::to_owned)
}

/// A UUID as nvidia-smi prints it. A part of a GPU has one of its own, beside that of the whole.
fn uuid_text(own: &[u8; 16], whole: Option<&[u8; 16]>) -> String {
    let kind = if whole.is_none_or(|whole| whole == own) {
        "GPU"
    } else {
        "MIG"
    };
    let hex: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{kind}-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Calls `$field` of the table with `$arg`s and checks the result.
macro_rules! call {
    ($driver:expr, $field:ident($($arg:expr),*)) => {{
        let driver: &Driver = $driver;
        let function = driver.symbols.$field.get().map_err(|missing| {
            failure(format!("the driver has no {}; it needs CUDA {} or newer", missing.name, missing.since))
        })?;
        // SAFETY: the function has the type that cuda.h gives it, the results are written to variables of that type,
        // and unsafe callers of this macro are told what the other arguments must be.
        let code = unsafe { function($($arg),*) };
        driver.check(driver.symbols.$field.name, code)
    }};
}

/// Questions, which change nothing.
impl Driver {
    fn of(library: &Library) -> Driver {
        Driver {
            // SAFETY: the table is made from cuda.h, and cudarc found this library by libcuda's name.
            symbols: unsafe { Symbols::find(library) },
        }
    }

    /// Why it does not start, where cuInit returned `code`.
    fn why(&self, code: c_int) -> String {
        let told = Told {
            visible: env::var("CUDA_VISIBLE_DEVICES").ok(),
            kernel: kernel_driver(Path::new("/")),
            file: self.file(),
        };
        why_it_does_not_start(code, &self.name_of(code), &told)
    }

    /// The library's file.
    pub fn file(&self) -> Option<PathBuf> {
        file_of(self.symbols.init.get().ok()? as *const c_void)
    }

    /// Names of the functions that this program may call and the driver does not have.
    pub fn missing(&self) -> Vec<&'static str> {
        self.symbols.missing()
    }

    /// The newest CUDA that the driver supports.
    ///
    /// # Errors
    /// Where the driver fails.
    #[doc(alias = "cuDriverGetVersion")]
    pub fn version(&self) -> anyhow::Result<CudaVersion> {
        let mut version = 0;
        call!(self, driver_get_version(&mut version))?;
        Ok(CudaVersion(version))
    }

    /// How many GPUs this process sees.
    fn count(&self) -> anyhow::Result<c_int> {
        let mut count = 0;
        call!(self, device_get_count(&mut count))?;
        Ok(count)
    }

    fn device(&self, ordinal: c_int) -> anyhow::Result<c_int> {
        let mut device = 0;
        call!(self, device_get(&mut device, ordinal))?;
        Ok(device)
    }

    fn gpu(&self, ordinal: c_int) -> anyhow::Result<CudaGpu> {
        let device = self.device(ordinal)?;
        let mut name = [0_u8; 256];
        call!(
            self,
            device_get_name(name.as_mut_ptr().cast(), name.len() as c_int - 1, device)
        )?;
        let name = CStr::from_bytes_until_nul(&name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let mut memory = 0;
        call!(self, device_total_mem(&mut memory, device))?;
        let attribute = |which: c_int| -> anyhow::Result<u32> {
            let mut value = 0;
            call!(self, device_get_attribute(&mut value, which, device))?;
            Ok(value as u32)
        };
        let (domain, bus, slot) = (
            attribute(PCI_DOMAIN_ID)?,
            attribute(PCI_BUS_ID)?,
            attribute(PCI_DEVICE_ID)?,
        );
        Ok(CudaGpu {
            ordinal: ordinal as usize,
            name,
            uuid: self.uuid(device)?,
            bus: format!("{domain:04x}:{bus:02x}:{slot:02x}"),
            memory: Bytes(memory as u64),
            capability: (
                attribute(COMPUTE_CAPABILITY_MAJOR)?,
                attribute(COMPUTE_CAPABILITY_MINOR)?,
            ),
        })
    }

    fn peer_link(&self, from: c_int, to: c_int) -> anyhow::Result<PeerLink> {
        let (from, to) = (self.device(from)?, self.device(to)?);
        let attribute = |which: c_int| -> anyhow::Result<bool> {
            let mut value = 0;
            call!(self, device_get_p2p_attribute(&mut value, which, from, to))?;
            Ok(value != 0)
        };
        Ok(PeerLink {
            access: attribute(ACCESS_SUPPORTED)?,
            atomics: attribute(NATIVE_ATOMIC_SUPPORTED)?,
        })
    }

    fn has_virtual_memory(&self, ordinal: c_int) -> anyhow::Result<bool> {
        let device = self.device(ordinal)?;
        let mut value = 0;
        call!(
            self,
            device_get_attribute(&mut value, VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device)
        )?;
        Ok(value != 0)
    }

    /// The UUID of a device. The first version of the function gives that of the whole GPU, the second that of the
    /// part.
    #[doc(alias = "cuDeviceGetUuid")]
    fn uuid(&self, device: c_int) -> anyhow::Result<String> {
        let (mut whole, mut own) = ([0; 16], [0; 16]);
        // In closures, because `call!` returns where the function is missing.
        let ask_whole = |uuid: &mut [u8; 16]| -> anyhow::Result<()> {
            call!(self, device_get_uuid(uuid, device))
        };
        let ask_own = |uuid: &mut [u8; 16]| -> anyhow::Result<()> {
            call!(self, device_get_uuid_v2(uuid, device))
        };
        match (ask_whole(&mut whole), ask_own(&mut own)) {
            (Ok(()), Ok(())) => Ok(uuid_text(&own, Some(&whole))),
            (Err(_), Ok(())) => Ok(uuid_text(&own, None)),
            (Ok(()), Err(_)) => Ok(uuid_text(&whole, None)),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// `CUDA_ERROR_NO_DEVICE`, or `unknown error` for a code that the driver does not know.
    #[doc(alias = "cuGetErrorName")]
    fn name_of(&self, code: c_int) -> String {
        let mut string = ptr::null();
        // SAFETY: cuGetErrorName takes any integer, and writes null or a constant string.
        let string = unsafe {
            let asked = self
                .symbols
                .get_error_name
                .get()
                .is_ok_and(|call| call(code, &mut string) == SUCCESS);
            asked.then(|| text(string)).flatten()
        };
        string.map_or_else(
            || "unknown error".into(),
            |string| string.to_string_lossy().into_owned(),
        )
    }

    /// `CUDA_ERROR_NO_DEVICE (code 100): no CUDA-capable device is detected`.
    #[doc(alias = "cuGetErrorString")]
    fn describe(&self, code: c_int) -> String {
        let mut string = ptr::null();
        // SAFETY: as in `name_of`.
        let string = unsafe {
            let asked = self
                .symbols
                .get_error_string
                .get()
                .is_ok_and(|call| call(code, &mut string) == SUCCESS);
            asked.then(|| text(string)).flatten()
        };
        let what = string.map_or_else(String::new, |string| {
            format!(": {}", string.to_string_lossy())
        });
        format!("{} (code {code}){what}", self.name_of(code))
    }

    /// As [`Driver::describe`], with what to do.
    #[cold]
    fn explain(&self, code: c_int) -> String {
        format!("{}; {}", self.describe(code), remedy(code))
    }

    #[inline]
    fn check(&self, function: &str, code: c_int) -> anyhow::Result<()> {
        if code == SUCCESS {
            Ok(())
        } else {
            Err(failure(format!(
                "{function} failed: {}",
                self.explain(code)
            )))
        }
    }
}

/// Work on the GPU. The memory functions act on the thread's current context.
impl Driver {
    /// Starts the primary context of GPU `ordinal`, which is the one that NCCL uses, makes it this thread's, and keeps
    /// it until the process ends: what cudarc does with it later cannot fail in a new way, nor wait for its end.
    ///
    /// # Errors
    /// Where there is no such GPU, or another process has it to itself.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn start_gpu(&self, ordinal: usize) -> anyhow::Result<()> {
        let count = self.count()?;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        if ordinal >= count {
            return Err(failure(format!(
                "there is no GPU {ordinal}: this process sees {count}; ask for fewer ranks a node, or more GPUs"
            )));
        }
        let device = self.device(ordinal)?;
        let mut context = ptr::null_mut();
        call!(self, primary_ctx_retain(&mut context, device))?;
        call!(self, ctx_set_current(context))
    }

    /// Free and total memory of the current GPU.
    ///
    /// # Errors
    /// Where the driver fails.
    #[doc(alias = "cuMemGetInfo")]
    pub fn memory(&self) -> anyhow::Result<(Bytes, Bytes)> {
        let (mut free, mut total) = (0, 0);
        call!(self, mem_get_info(&mut free, &mut total))?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    /// Allocates `bytes`, at least 1, on the current GPU.
    ///
    /// # Errors
    /// Where there is not enough memory.
    #[doc(alias = "cuMemAlloc")]
    pub fn allocate(&self, bytes: usize) -> anyhow::Result<u64> {
        let mut address = 0;
        call!(self, mem_alloc(&mut address, bytes))?;
        Ok(address)
    }

    /// Frees what [`Driver::allocate`] gave.
    ///
    /// # Errors
    /// Where the driver fails.
    ///
    /// # Safety
    /// `address` is from [`Driver::allocate`], is freed once, and nothing uses it any more.
    #[doc(alias = "cuMemFree")]
    pub unsafe fn free(&self, address: u64) -> anyhow::Result<()> {
        call!(self, mem_free(address))
    }

    /// Copies from the GPU.
    ///
    /// # Errors
    /// Where the GPU fails.
    ///
    /// # Safety
    /// `address` is memory of the current GPU with as many bytes as `to` has, and no stream writes them meanwhile.
    #[doc(alias = "cuMemcpyDtoH")]
    pub unsafe fn read(&self, to: &mut [u8], address: u64) -> anyhow::Result<()> {
        call!(
            self,
            memcpy_to_host(to.as_mut_ptr().cast(), address, to.len())
        )
    }

    /// Copies to the GPU.
    ///
    /// # Errors
    /// Where the GPU fails.
    ///
    /// # Safety
    /// `address` is memory of the current GPU with as many bytes as `from` has, and no stream uses them meanwhile.
    #[doc(alias = "cuMemcpyHtoD")]
    pub unsafe fn write(&self, address: u64, from: &[u8]) -> anyhow::Result<()> {
        call!(
            self,
            memcpy_to_device(address, from.as_ptr().cast(), from.len())
        )
    }

    /// Copies `bytes` bytes from one place of the GPU's memory to another, in the stream's order.
    ///
    /// # Errors
    /// Where the driver fails.
    ///
    /// # Safety
    /// Both are memory of the stream's GPU with that many bytes, they are apart, and `stream` is a stream.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    pub unsafe fn copy(
        &self,
        to: u64,
        from: u64,
        bytes: usize,
        stream: *mut c_void,
    ) -> anyhow::Result<()> {
        call!(self, memcpy_async(to, from, bytes, stream))
    }

    /// Sets `bytes` bytes to zero, in the stream's order.
    ///
    /// # Errors
    /// Where the driver fails.
    ///
    /// # Safety
    /// `address` is memory of the stream's GPU with that many bytes, and `stream` is a stream.
    #[doc(alias = "cuMemsetD8Async")]
    pub unsafe fn zero(
        &self,
        address: u64,
        bytes: usize,
        stream: *mut c_void,
    ) -> anyhow::Result<()> {
        call!(self, memset_async(address, 0, bytes, stream))
    }

    /// Has everything in `stream` ended? Does not wait.
    ///
    /// # Errors
    /// Where something in the stream, or the GPU, failed.
    ///
    /// # Safety
    /// `stream` is a stream.
    #[doc(alias = "cuStreamQuery")]
    #[inline]
    pub unsafe fn is_done(&self, stream: *mut c_void) -> anyhow::Result<bool> {
        let symbol = &self.symbols.stream_query;
        let query = symbol
            .get()
            .map_err(|missing| failure(format!("the driver has no {}", missing.name)))?;
        // SAFETY: the caller says that it is a stream.
        match unsafe { query(stream) } {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            code => self.check(symbol.name, code).map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_decoded() {
        for (code, text) in [(13000, "13.0"), (12040, "12.4"), (11080, "11.8")] {
            assert_eq!(CudaVersion(code).to_string(), text);
        }
    }

    #[test]
    fn uuids_are_printed_as_nvidia_smi_does() {
        let uuid: [u8; 16] = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(
            uuid_text(&uuid, Some(&uuid)),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
        assert_eq!(
            uuid_text(&uuid, None),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
        assert_eq!(
            uuid_text(&uuid, Some(&[0; 16])),
            "MIG-00112233-4455-6677-8899-aabbccddeeff"
        );
    }

    #[test]
    fn the_kernels_driver_is_read_from_either_file() {
        for (text, version) in [
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15\nGCC version: 12",
                "535.104.05",
            ),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (dvs-builder)",
                "570.133.20",
            ),
        ] {
            assert_eq!(version_in_proc(text).as_deref(), Some(version));
        }
        assert_eq!(version_in_proc(""), None);

        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(kernel_driver(root.path()), None);
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat",
        );
        assert_eq!(kernel_driver(root.path()).as_deref(), Some("535.104.05"));
        write("sys/module/nvidia/version", "550.1\n");
        assert_eq!(kernel_driver(root.path()).as_deref(), Some("550.1"));
    }

    #[test]
    fn a_driver_that_does_not_start_is_explained() {
        let told = |visible: Option<&str>| Told {
            visible: visible.map(str::to_owned),
            kernel: Some("550.1".into()),
            file: Some("/opt/cuda/lib64/stubs/libcuda.so".into()),
        };
        let why = |code, visible| why_it_does_not_start(code, "NAME", &told(visible));
        for (code, visible, part) in [
            (100, Some(""), "CUDA_VISIBLE_DEVICES= shows no GPU"),
            (100, Some("7"), "CUDA_VISIBLE_DEVICES=7 shows no GPU"),
            (100, None, "--gpus-per-node=N"),
            (
                101,
                Some("GPU-1"),
                "CUDA_VISIBLE_DEVICES=GPU-1 names a GPU that is not there",
            ),
            (34, None, "/opt/cuda/lib64/stubs/libcuda.so is a stub"),
            (802, None, "nvidia-fabricmanager"),
            (
                803,
                None,
                "the kernel's driver (550.1) are of different versions",
            ),
            (804, None, "forward compatibility"),
            (999, None, "/dev/nvidia-uvm"),
            (46, None, "nvidia-smi"),
        ] {
            let sentence = why(code, visible);
            assert!(
                sentence.starts_with(&format!("CUDA does not start: NAME (code {code}): ")),
                "{sentence}"
            );
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    #[test]
    fn a_failed_call_says_what_to_do() {
        for (code, part) in [
            (2, "lower -e"),
            (901, "without -G"),
            (700, "Xid"),
            (719, "Xid"),
        ] {
            assert!(remedy(code).contains(part), "{code}: {}", remedy(code));
        }
    }

    #[test]
    fn what_is_missing_is_said_and_nothing_panics() {
        // True on a machine with a GPU as on one without.
        match gpus() {
            Ok(gpus) => assert!(gpus.iter().enumerate().all(|(at, gpu)| gpu.ordinal == at)),
            Err(error) => assert_eq!(crate::exit::code_of(&error), Code::Cuda),
        }
        versions();
    }
}
