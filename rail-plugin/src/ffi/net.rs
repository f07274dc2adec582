//! NCCL's net interface. What NCCL gets as pointers are numbers of [`Plugin`], so that a wrong one
//! is an error and no crash.

use std::{
    ffi::{CString, c_int},
    io::Write,
    panic::{self, AssertUnwindSafe},
    process, ptr, slice,
    sync::OnceLock,
};

use super::{
    abi::{
        DEVICE_HOST, Devices, HandlePointer, Logger, MOST_BYTES, NetV6, NetV11, Opaque,
        POINTER_CUDA, POINTER_HOST, PropertiesV6, PropertiesV11,
    },
    buffer::{Buffer, Memory},
    log,
};
use crate::{
    failure::{Failure, Result},
    plugin::Plugin,
    settings::Settings,
    wire::MOST_RECEIVES,
};

/// The plugin's name, which `NCCL_NET` may ask for.
pub(super) const NAME: &[u8; 9] = b"pxnbench\0";

/// The most connections of a rail: as many as NCCL may want.
const MOST_CONNECTIONS: c_int = 65536;

/// What NCCL 2.18 to 2.27 look up.
#[unsafe(no_mangle)]
static ncclNetPlugin_v6: NetV6 = NetV6 {
    name: NAME,
    init: init_v6,
    devices,
    get_properties: get_properties_v6,
    listen: listen_v6,
    connect: connect_v6,
    accept: accept_v6,
    reg_mr: reg_mr_v6,
    reg_mr_dma_buf: None,
    dereg_mr,
    isend: isend_v6,
    irecv: irecv_v6,
    iflush,
    test,
    close_send: close,
    close_recv: close,
    close_listen: close,
};

/// What NCCL 2.28 and newer look up.
#[unsafe(no_mangle)]
static ncclNetPlugin_v11: NetV11 = NetV11 {
    name: NAME,
    init: init_v11,
    devices,
    get_properties: get_properties_v11,
    listen: listen_v11,
    connect: connect_v11,
    accept: accept_v11,
    reg_mr: reg_mr_v11,
    reg_mr_dma_buf: None,
    dereg_mr,
    isend: isend_v11,
    irecv: irecv_v11,
    iflush,
    test,
    close_send: close,
    close_recv: close,
    close_listen: close,
    get_device_mr: None,
    irecv_consumed: None,
    make_v_device: None,
    finalize,
    set_net_attr: None,
};

/// The plugin of this process, and what NCCL needs from it for as long as the process lives.
struct Running {
    plugin: Plugin,
    names: Vec<CString>,
    process: u32,
}

static RUNNING: OnceLock<Running> = OnceLock::new();

fn running() -> Result<&'static Running> {
    RUNNING
        .get()
        .ok_or_else(|| Failure::internal("NCCL uses the rails before it has set them up."))
}

/// Returns the plugin, which NCCL has set up.
pub(super) fn plugin() -> Result<&'static Plugin> {
    Ok(&running()?.plugin)
}

// --- answers to
// NCCL --------------------------------------------------------------------------------------------

/// Does `work`, and returns NCCL's code for how it ended. An error, or a panic, becomes one
/// sentence in NCCL's log.
pub(super) fn answer(work: impl FnOnce() -> Result<()>) -> c_int {
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    let failure = match result {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::internal(
            "A rail of the rehearsal panicked, which is a bug of it: stderr has the place.",
        ),
    };
    log::warn(&failure.sentence);
    failure.code as c_int
}

fn to_nccl(number: usize) -> Opaque {
    ptr::without_provenance_mut(number)
}

fn from_nccl(pointer: Opaque) -> usize {
    pointer.addr()
}

/// Writes a number to where NCCL wants a pointer; none is null.
///
/// # Safety
/// NCCL passed `place` for a pointer.
unsafe fn put(place: *mut Opaque, number: Option<usize>) {
    // SAFETY: the caller guarantees it.
    unsafe { place.write(number.map_or(ptr::null_mut(), to_nccl)) };
}

// --- setting
// up ----------------------------------------------------------------------------------------------

/// Sets the plugin up, if that is not done.
fn set_up(logger: Option<Logger>) -> Result<&'static Plugin> {
    log::keep(logger);
    if let Some(running) = RUNNING.get() {
        return Ok(&running.plugin);
    }
    // What is not UTF-8 is refused as a number, or is no folder, and is not ignored.
    let variable = |name: &str| -> Option<String> {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    let settings = Settings::read(variable)?;
    let names = (0..settings.rails.len()).map(|rail| CString::new(format!("rail{rail}")));
    let names = names
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| Failure::system("Naming the rails", error))?;
    let mut is_new = false;
    let running = RUNNING.get_or_init(|| {
        is_new = true;
        Running {
            plugin: Plugin::new(settings, on_stall),
            names,
            process: process::id(),
        }
    });
    if is_new {
        let settings = running.plugin.settings();
        log::info(&format!(
            "pxnbench plays {} rails of {} Mb/s on {}; times mean nothing.",
            settings.rails.len(),
            settings.speed,
            settings.node
        ));
        // SAFETY: the function takes nothing, and the library is never unloaded (build.rs).
        unsafe { libc::atexit(at_exit) };
    }
    Ok(&running.plugin)
}

/// Says that a rail stalls, and writes the counters: the job may be killed.
fn on_stall(sentence: &str) {
    log::warn(sentence);
    if let Some(running) = RUNNING.get()
        && let Err(failure) = running.plugin.write_counters()
    {
        log::warn(&failure.sentence);
    }
}

/// Writes the counters when the process ends. A child that was forked has none.
extern "C" fn at_exit() {
    let write = || {
        let running = RUNNING
            .get()
            .filter(|running| running.process == process::id());
        running.map_or(Ok(()), |running| running.plugin.write_counters())
    };
    // NCCL's logger may be gone.
    if let Ok(Err(failure)) = panic::catch_unwind(write) {
        let _ = writeln!(std::io::stderr(), "pxnbench: {}", failure.sentence);
    }
}

unsafe extern "C" fn init_v6(logger: Option<Logger>) -> c_int {
    answer(|| set_up(logger).map(|_| ()))
}

unsafe extern "C" fn init_v11(
    context: *mut Opaque,
    communicator: u64,
    _config: Opaque,
    logger: Option<Logger>,
    _profiler: Opaque,
) -> c_int {
    answer(|| {
        let number = set_up(logger)?.open_communicator(communicator);
        // SAFETY: NCCL passes a place for a pointer.
        unsafe { put(context, Some(number)) };
        Ok(())
    })
}

unsafe extern "C" fn finalize(context: Opaque) -> c_int {
    answer(|| {
        plugin()?.close_communicator(from_nccl(context));
        Ok(())
    })
}

unsafe extern "C" fn devices(count: *mut c_int) -> c_int {
    answer(|| {
        let rails = plugin()?.settings().rails.len();
        // SAFETY: NCCL passes a place for a number. There are at most 64 rails.
        unsafe { count.write(rails as c_int) };
        Ok(())
    })
}

/// Returns what both versions of the properties have: name, id and speed.
fn properties(rail: c_int) -> Result<(&'static CString, u64, c_int)> {
    let running = running()?;
    let number = running.plugin.check_rail(rail)?;
    // NCCL takes NICs with one id for ports of one card.
    let guid = 0x7078_6e72_6169_6c00 + number as u64;
    let speed = running.plugin.settings().speed;
    Ok((&running.names[number], guid, speed))
}

unsafe extern "C" fn get_properties_v6(rail: c_int, to: *mut PropertiesV6) -> c_int {
    answer(|| {
        let (name, guid, speed) = properties(rail)?;
        let properties = PropertiesV6 {
            name: name.as_ptr(),
            pci_path: ptr::null(),
            guid,
            pointers: POINTER_HOST | POINTER_CUDA,
            speed,
            port: 1,
            latency: 0.0,
            most_connections: MOST_CONNECTIONS,
            most_receives: MOST_RECEIVES as c_int,
        };
        // SAFETY: NCCL passes a place for properties of this version.
        unsafe { to.write(properties) };
        Ok(())
    })
}

unsafe extern "C" fn get_properties_v11(rail: c_int, to: *mut PropertiesV11) -> c_int {
    answer(|| {
        let (name, guid, speed) = properties(rail)?;
        let properties = PropertiesV11 {
            name: name.as_ptr(),
            pci_path: ptr::null(),
            guid,
            pointers: POINTER_HOST | POINTER_CUDA,
            is_registration_global: 0,
            needs_flush: 0,
            speed,
            port: 1,
            latency: 0.0,
            most_connections: MOST_CONNECTIONS,
            most_receives: MOST_RECEIVES as c_int,
            device_type: DEVICE_HOST,
            device_version: 0,
            devices: Devices {
                count: 1,
                numbers: [rail, 0, 0, 0],
            },
            most_bytes: MOST_BYTES,
            most_collective_bytes: MOST_BYTES,
            most_requests: 1,
        };
        // SAFETY: NCCL passes a place for properties of this version.
        unsafe { to.write(properties) };
        Ok(())
    })
}

// ---
// connections -------------------------------------------------------------------------------------

/// # Safety
/// NCCL passed `handle` for a handle, and `listener` for a pointer.
unsafe fn listen(
    communicator: Option<usize>,
    rail: c_int,
    handle: HandlePointer,
    listener: *mut Opaque,
) -> c_int {
    answer(|| {
        let (bytes, number) = plugin()?.listen(communicator, rail)?;
        // SAFETY: the caller guarantees it.
        unsafe {
            handle.write(bytes);
            put(listener, Some(number));
        }
        Ok(())
    })
}

unsafe extern "C" fn listen_v6(rail: c_int, handle: HandlePointer, to: *mut Opaque) -> c_int {
    // SAFETY: NCCL passes places for both.
    unsafe { listen(None, rail, handle, to) }
}

unsafe extern "C" fn listen_v11(
    context: Opaque,
    rail: c_int,
    handle: HandlePointer,
    to: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes places for both.
    unsafe { listen(Some(from_nccl(context)), rail, handle, to) }
}

/// # Safety
/// NCCL passed a `handle`, and `sender` for a pointer.
unsafe fn connect(
    communicator: Option<usize>,
    rail: c_int,
    handle: HandlePointer,
    sender: *mut Opaque,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees it.
        let handle = unsafe {
            put(sender, None);
            handle.read()
        };
        let number = plugin()?.connect(communicator, rail, &handle)?;
        // SAFETY: the caller guarantees it.
        unsafe { put(sender, number) };
        Ok(())
    })
}

unsafe extern "C" fn connect_v6(rail: c_int, handle: HandlePointer, to: *mut Opaque) -> c_int {
    // SAFETY: NCCL passes a handle and a place for a pointer.
    unsafe { connect(None, rail, handle, to) }
}

unsafe extern "C" fn connect_v11(
    context: Opaque,
    rail: c_int,
    handle: HandlePointer,
    to: *mut Opaque,
    _device: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes a handle and a place for a pointer.
    unsafe { connect(Some(from_nccl(context)), rail, handle, to) }
}

unsafe extern "C" fn accept_v6(listener: Opaque, receiver: *mut Opaque) -> c_int {
    answer(|| {
        // SAFETY: NCCL passes a place for a pointer.
        unsafe { put(receiver, None) };
        let number = plugin()?.accept(from_nccl(listener))?;
        // SAFETY: NCCL passes a place for a pointer.
        unsafe { put(receiver, number) };
        Ok(())
    })
}

unsafe extern "C" fn accept_v11(
    listener: Opaque,
    receiver: *mut Opaque,
    _device: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes a place for a pointer.
    unsafe { accept_v6(listener, receiver) }
}

unsafe extern "C" fn close(end: Opaque) -> c_int {
    answer(|| plugin()?.close(from_nccl(end)))
}

// ---
// memory ------------------------------------------------------------------------------------------

/// # Safety
/// NCCL passed `registration` for a pointer.
unsafe fn register(end: Opaque, kind: c_int, registration: *mut Opaque) -> c_int {
    answer(|| {
        let memory = Memory::from_nccl(kind).ok_or_else(|| {
            Failure::internal(format!(
                "NCCL registers memory of kind {kind}, which rails do not claim to know."
            ))
        })?;
        plugin()?.register(from_nccl(end), memory)?;
        // The kind is all that there is to remember.
        // SAFETY: the caller guarantees it.
        unsafe { put(registration, Some(kind as usize)) };
        Ok(())
    })
}

unsafe extern "C" fn reg_mr_v6(
    end: Opaque,
    _data: Opaque,
    _bytes: c_int,
    kind: c_int,
    registration: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes a place for a pointer.
    unsafe { register(end, kind, registration) }
}

unsafe extern "C" fn reg_mr_v11(
    end: Opaque,
    _data: Opaque,
    _bytes: usize,
    kind: c_int,
    registration: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes a place for a pointer.
    unsafe { register(end, kind, registration) }
}

unsafe extern "C" fn dereg_mr(_end: Opaque, _registration: Opaque) -> c_int {
    0
}

/// Names memory that NCCL passed with what [`register`] gave it.
///
/// # Safety
/// As [`Buffer::new`].
unsafe fn buffer(data: Opaque, bytes: usize, registration: Opaque) -> Buffer {
    let kind = c_int::try_from(from_nccl(registration)).unwrap_or_default();
    // A message without bytes needs no registration.
    let memory = Memory::from_nccl(kind).unwrap_or(Memory::Host);
    // SAFETY: the caller guarantees it.
    unsafe { Buffer::new(data.expose_provenance(), bytes, memory) }
}

// ---
// messages ----------------------------------------------------------------------------------------

fn size(bytes: c_int) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| {
        Failure::internal(format!("NCCL passes a message of {bytes} bytes to a rail."))
    })
}

/// # Safety
/// NCCL passed `data` to `isend`, and `request` for a pointer.
unsafe fn send(
    sender: Opaque,
    data: Opaque,
    bytes: Result<usize>,
    tag: c_int,
    registration: Opaque,
    request: *mut Opaque,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees it; NCCL leaves the memory alone until the operation is
        // complete.
        let buffer = unsafe {
            put(request, None);
            buffer(data, bytes?, registration)
        };
        let number = plugin()?.send(from_nccl(sender), buffer, tag)?;
        // SAFETY: the caller guarantees it.
        unsafe { put(request, number) };
        Ok(())
    })
}

unsafe extern "C" fn isend_v6(
    sender: Opaque,
    data: Opaque,
    bytes: c_int,
    tag: c_int,
    registration: Opaque,
    request: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes data to send, and a place for a pointer.
    unsafe { send(sender, data, size(bytes), tag, registration, request) }
}

unsafe extern "C" fn isend_v11(
    sender: Opaque,
    data: Opaque,
    bytes: usize,
    tag: c_int,
    registration: Opaque,
    _profile: Opaque,
    request: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes data to send, and a place for a pointer.
    unsafe { send(sender, data, Ok(bytes), tag, registration, request) }
}

/// # Safety
/// NCCL passed `count` addresses, tags and registrations to `irecv`, and `request` for a pointer.
unsafe fn receive(
    receiver: Opaque,
    count: c_int,
    data: *const Opaque,
    bytes: impl Fn(usize) -> Result<usize>,
    tags: *const c_int,
    registrations: *const Opaque,
    request: *mut Opaque,
) -> c_int {
    answer(|| {
        let count = usize::try_from(count)
            .ok()
            .filter(|count| (1..=MOST_RECEIVES).contains(count))
            .ok_or_else(|| {
                Failure::internal(format!(
                    "NCCL posts a receive of {count} messages; a rail has from 1 to \
                     {MOST_RECEIVES}."
                ))
            })?;
        // SAFETY: the caller guarantees that there are this many.
        let (data, tags, registrations) = unsafe {
            put(request, None);
            (
                slice::from_raw_parts(data, count),
                slice::from_raw_parts(tags, count),
                slice::from_raw_parts(registrations, count),
            )
        };
        let mut buffers = Vec::with_capacity(count);
        for at in 0..count {
            // SAFETY: NCCL passed the memory to `irecv`, and leaves it alone until the operation is
            // complete.
            let buffer = unsafe { buffer(data[at], bytes(at)?, registrations[at]) };
            buffers.push((buffer, tags[at]));
        }
        let number = plugin()?.receive(from_nccl(receiver), buffers)?;
        // SAFETY: the caller guarantees it.
        unsafe { put(request, Some(number)) };
        Ok(())
    })
}

unsafe extern "C" fn irecv_v6(
    receiver: Opaque,
    count: c_int,
    data: *const Opaque,
    bytes: *const c_int,
    tags: *const c_int,
    registrations: *const Opaque,
    request: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes a size for each message.
    let bytes = |at| size(unsafe { bytes.add(at).read() });
    // SAFETY: NCCL passes this many of each, and a place for a pointer.
    unsafe { receive(receiver, count, data, bytes, tags, registrations, request) }
}

unsafe extern "C" fn irecv_v11(
    receiver: Opaque,
    count: c_int,
    data: *const Opaque,
    bytes: *const usize,
    tags: *const c_int,
    registrations: *const Opaque,
    _profiles: *const Opaque,
    request: *mut Opaque,
) -> c_int {
    // SAFETY: NCCL passes a size for each message.
    let bytes = |at| Ok(unsafe { bytes.add(at).read() });
    // SAFETY: NCCL passes this many of each, and a place for a pointer.
    unsafe { receive(receiver, count, data, bytes, tags, registrations, request) }
}

/// There is nothing to flush: a receive is complete when its bytes are in the GPU's memory.
unsafe extern "C" fn iflush(
    _receiver: Opaque,
    _count: c_int,
    _data: *const Opaque,
    _bytes: *const c_int,
    _registrations: *const Opaque,
    request: *mut Opaque,
) -> c_int {
    answer(|| {
        // SAFETY: NCCL passes a place for a pointer.
        unsafe { put(request, None) };
        Ok(())
    })
}

unsafe extern "C" fn test(request: Opaque, done: *mut c_int, sizes: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: NCCL passes a place for a number.
        unsafe { done.write(0) };
        let Some(bytes) = plugin()?.test(from_nccl(request))? else {
            return Ok(());
        };
        for (at, bytes) in bytes.into_iter().enumerate() {
            if !sizes.is_null() {
                let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
                // SAFETY: NCCL passes null or a place for the size of each message of the
                // operation.
                unsafe { sizes.add(at).write(bytes) };
            }
        }
        // SAFETY: NCCL passes a place for a number.
        unsafe { done.write(1) };
        Ok(())
    })
}
