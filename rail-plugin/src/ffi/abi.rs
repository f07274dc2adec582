//! The interfaces of NCCL that are implemented, as its public headers lay them out: `net_v6.h`,
//! `net_v11.h` and `profiler_v5.h` in `src/include/plugin/` of its sources.
//!
//! NCCL 2.18 to 2.27 use v6. From 2.28 on v11 is used, which tells the communicator.

use std::ffi::{c_char, c_int, c_ulong, c_void};

use crate::wire::HANDLE_BYTES;

/// `NCCL_PTR_HOST`
pub(super) const POINTER_HOST: c_int = 1;
/// `NCCL_PTR_CUDA`
pub(super) const POINTER_CUDA: c_int = 2;
/// `NCCL_NET_DEVICE_HOST`: nothing is offloaded to the device.
pub(super) const DEVICE_HOST: c_int = 0;
/// `MAX_NET_SIZE`: the most bytes of a message.
pub(super) const MOST_BYTES: usize = 1 << 30;

/// NCCL's logger.
pub(super) type Logger =
    unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);

/// What NCCL passes for 128 bytes that a sender needs.
pub(super) type HandlePointer = *mut [u8; HANDLE_BYTES];

/// A pointer that means something to one side only.
pub(super) type Opaque = *mut c_void;

/// `ncclNetProperties_v6_t`
#[repr(C)]
pub(super) struct PropertiesV6 {
    pub(super) name: *const c_char,
    pub(super) pci_path: *const c_char,
    pub(super) guid: u64,
    pub(super) pointers: c_int,
    pub(super) speed: c_int,
    pub(super) port: c_int,
    pub(super) latency: f32,
    pub(super) most_connections: c_int,
    pub(super) most_receives: c_int,
}

/// `ncclNetVDeviceProps_v11_t`: the devices that a NIC is made of.
#[repr(C)]
pub(super) struct Devices {
    pub(super) count: c_int,
    pub(super) numbers: [c_int; 4],
}

/// `ncclNetProperties_v11_t`
#[repr(C)]
pub(super) struct PropertiesV11 {
    pub(super) name: *const c_char,
    pub(super) pci_path: *const c_char,
    pub(super) guid: u64,
    pub(super) pointers: c_int,
    pub(super) is_registration_global: c_int,
    pub(super) needs_flush: c_int,
    pub(super) speed: c_int,
    pub(super) port: c_int,
    pub(super) latency: f32,
    pub(super) most_connections: c_int,
    pub(super) most_receives: c_int,
    pub(super) device_type: c_int,
    pub(super) device_version: c_int,
    pub(super) devices: Devices,
    pub(super) most_bytes: usize,
    pub(super) most_collective_bytes: usize,
    pub(super) most_requests: c_int,
}

/// A function that is left out.
pub(super) type Absent = Option<unsafe extern "C" fn() -> c_int>;

/// `ncclNet_v6_t`
#[repr(C)]
pub(super) struct NetV6 {
    pub(super) name: &'static [u8; 9],
    pub(super) init: unsafe extern "C" fn(Option<Logger>) -> c_int,
    pub(super) devices: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub(super) get_properties: unsafe extern "C" fn(c_int, *mut PropertiesV6) -> c_int,
    pub(super) listen: unsafe extern "C" fn(c_int, HandlePointer, *mut Opaque) -> c_int,
    pub(super) connect: unsafe extern "C" fn(c_int, HandlePointer, *mut Opaque) -> c_int,
    pub(super) accept: unsafe extern "C" fn(Opaque, *mut Opaque) -> c_int,
    pub(super) reg_mr: unsafe extern "C" fn(Opaque, Opaque, c_int, c_int, *mut Opaque) -> c_int,
    pub(super) reg_mr_dma_buf: Absent,
    pub(super) dereg_mr: unsafe extern "C" fn(Opaque, Opaque) -> c_int,
    pub(super) isend:
        unsafe extern "C" fn(Opaque, Opaque, c_int, c_int, Opaque, *mut Opaque) -> c_int,
    pub(super) irecv: unsafe extern "C" fn(
        Opaque,
        c_int,
        *const Opaque,
        *const c_int,
        *const c_int,
        *const Opaque,
        *mut Opaque,
    ) -> c_int,
    pub(super) iflush: unsafe extern "C" fn(
        Opaque,
        c_int,
        *const Opaque,
        *const c_int,
        *const Opaque,
        *mut Opaque,
    ) -> c_int,
    pub(super) test: unsafe extern "C" fn(Opaque, *mut c_int, *mut c_int) -> c_int,
    pub(super) close_send: unsafe extern "C" fn(Opaque) -> c_int,
    pub(super) close_recv: unsafe extern "C" fn(Opaque) -> c_int,
    pub(super) close_listen: unsafe extern "C" fn(Opaque) -> c_int,
}

/// `ncclNet_v11_t`
#[repr(C)]
pub(super) struct NetV11 {
    pub(super) name: &'static [u8; 9],
    pub(super) init:
        unsafe extern "C" fn(*mut Opaque, u64, Opaque, Option<Logger>, Opaque) -> c_int,
    pub(super) devices: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub(super) get_properties: unsafe extern "C" fn(c_int, *mut PropertiesV11) -> c_int,
    pub(super) listen: unsafe extern "C" fn(Opaque, c_int, HandlePointer, *mut Opaque) -> c_int,
    pub(super) connect:
        unsafe extern "C" fn(Opaque, c_int, HandlePointer, *mut Opaque, *mut Opaque) -> c_int,
    pub(super) accept: unsafe extern "C" fn(Opaque, *mut Opaque, *mut Opaque) -> c_int,
    pub(super) reg_mr: unsafe extern "C" fn(Opaque, Opaque, usize, c_int, *mut Opaque) -> c_int,
    pub(super) reg_mr_dma_buf: Absent,
    pub(super) dereg_mr: unsafe extern "C" fn(Opaque, Opaque) -> c_int,
    pub(super) isend:
        unsafe extern "C" fn(Opaque, Opaque, usize, c_int, Opaque, Opaque, *mut Opaque) -> c_int,
    pub(super) irecv: unsafe extern "C" fn(
        Opaque,
        c_int,
        *const Opaque,
        *const usize,
        *const c_int,
        *const Opaque,
        *const Opaque,
        *mut Opaque,
    ) -> c_int,
    pub(super) iflush: unsafe extern "C" fn(
        Opaque,
        c_int,
        *const Opaque,
        *const c_int,
        *const Opaque,
        *mut Opaque,
    ) -> c_int,
    pub(super) test: unsafe extern "C" fn(Opaque, *mut c_int, *mut c_int) -> c_int,
    pub(super) close_send: unsafe extern "C" fn(Opaque) -> c_int,
    pub(super) close_recv: unsafe extern "C" fn(Opaque) -> c_int,
    pub(super) close_listen: unsafe extern "C" fn(Opaque) -> c_int,
    pub(super) get_device_mr: Absent,
    pub(super) irecv_consumed: Absent,
    pub(super) make_v_device: Absent,
    pub(super) finalize: unsafe extern "C" fn(Opaque) -> c_int,
    pub(super) set_net_attr: Absent,
}

/// `ncclProfiler_v5_t`
#[repr(C)]
pub(super) struct ProfilerV5 {
    pub(super) name: &'static [u8; 9],
    pub(super) init: unsafe extern "C" fn(
        *mut Opaque,
        u64,
        *mut c_int,
        *const c_char,
        c_int,
        c_int,
        c_int,
        Option<Logger>,
    ) -> c_int,
    pub(super) start_event: unsafe extern "C" fn(Opaque, *mut Opaque, Opaque) -> c_int,
    pub(super) stop_event: unsafe extern "C" fn(Opaque) -> c_int,
    pub(super) record_event_state: unsafe extern "C" fn(Opaque, c_int, Opaque) -> c_int,
    pub(super) finalize: unsafe extern "C" fn(Opaque) -> c_int,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    // The numbers are those that a C compiler gives for NCCL's headers on machines with 64 bits.
    #[test]
    fn structures_have_the_sizes_of_nccl() {
        assert_eq!(size_of::<PropertiesV6>(), 48);
        assert_eq!(offset_of!(PropertiesV6, most_receives), 44);
        assert_eq!(size_of::<PropertiesV11>(), 112);
        assert_eq!(offset_of!(PropertiesV11, latency), 44);
        assert_eq!(offset_of!(PropertiesV11, devices), 64);
        assert_eq!(offset_of!(PropertiesV11, most_bytes), 88);
        assert_eq!(offset_of!(PropertiesV11, most_requests), 104);
        assert_eq!(size_of::<NetV6>(), 17 * 8);
        assert_eq!(offset_of!(NetV6, isend), 10 * 8);
        assert_eq!(size_of::<NetV11>(), 22 * 8);
        assert_eq!(offset_of!(NetV11, finalize), 20 * 8);
        assert_eq!(size_of::<ProfilerV5>(), 6 * 8);
    }
}
