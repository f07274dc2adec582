//! The plugin's functions, called as NCCL calls them. Each is found by its place in the structure
//! of NCCL's headers.

#![expect(
    unsafe_code,
    reason = "functions of a library that is found at run time"
)]

use std::{
    env,
    ffi::{CStr, c_char, c_int, c_ulong, c_void},
    path::PathBuf,
    ptr,
    sync::Mutex,
};

use libloading::Library;

/// `NCCL_PTR_HOST` and `NCCL_PTR_CUDA`
pub(crate) const HOST: c_int = 1;
pub(crate) const CUDA: c_int = 2;

/// Returns the shared object, which cargo builds for this test.
pub(crate) fn path() -> PathBuf {
    let test = env::current_exe().expect("this test");
    let path = test.with_file_name("libnccl_net_pxnbench.so");
    assert!(path.exists(), "{} is built", path.display());
    path
}

pub(crate) type Handle = [u8; 128];

/// What stands for a pointer.
pub(crate) type Opaque = *mut c_void;

/// What the plugin said in NCCL's log.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(crate) fn log() -> Vec<String> {
    LOG.lock().expect("a log").clone()
}

/// NCCL's logger, which here gets one value.
unsafe extern "C" fn logger(
    level: c_int,
    _subsystem: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the plugin passes strings.
    let (format, text) = unsafe { (CStr::from_ptr(format), CStr::from_ptr(text)) };
    assert_eq!(format, c"%s");
    let text = text.to_str().expect("text");
    eprintln!("log {level}: {text}");
    LOG.lock().expect("a log").push(format!("{level} {text}"));
}

/// The plugin with one version of the interface.
pub(crate) struct Plugin {
    library: Library,
    table: *const *const c_void,
    version: u32,
}

/// What `getProperties` says.
#[derive(Debug)]
pub(crate) struct Properties {
    pub(crate) name: String,
    pub(crate) pointers: c_int,
    pub(crate) speed: c_int,
    pub(crate) most_receives: c_int,
}

impl Plugin {
    /// Loads it.
    pub(crate) fn load(version: u32) -> Plugin {
        // SAFETY: the library is that of this crate, and its symbol is a structure of functions.
        unsafe {
            let library = Library::new(path()).expect("the plugin");
            let symbol = format!("ncclNetPlugin_v{version}\0");
            let table = *library
                .get::<*const *const c_void>(symbol.as_bytes())
                .expect("its symbol");
            Plugin {
                library,
                table,
                version,
            }
        }
    }

    /// Returns a function by its place in the structure.
    ///
    /// # Safety
    /// `F` is its type.
    unsafe fn function<F: Copy>(&self, place: usize) -> F {
        // SAFETY: the structure has that many pointers, and the caller guarantees the type.
        unsafe { self.table.add(place).cast::<F>().read() }
    }

    pub(crate) fn name(&self) -> String {
        // SAFETY: the first pointer is the name.
        let name = unsafe { CStr::from_ptr(self.table.read().cast()) };
        name.to_str().expect("text").to_owned()
    }

    fn is_v6(&self) -> bool {
        self.version == 6
    }

    /// Sets up for a communicator, and returns the code and NCCL's context.
    pub(crate) fn init(&self, communicator: u64) -> (c_int, Opaque) {
        type V6 = unsafe extern "C" fn(*const c_void) -> c_int;
        type V11 = unsafe extern "C" fn(*mut Opaque, u64, Opaque, *const c_void, Opaque) -> c_int;
        let logger = logger as *const c_void;
        let mut context = ptr::null_mut();
        // SAFETY: types and values are those of NCCL.
        let code = unsafe {
            if self.is_v6() {
                self.function::<V6>(1)(logger)
            } else {
                let null = ptr::null_mut();
                self.function::<V11>(1)(&mut context, communicator, null, logger, null)
            }
        };
        (code, context)
    }

    /// Tells the rank in a communicator, as NCCL tells a profiler.
    pub(crate) fn tell_rank(&self, communicator: u64, rank: c_int) {
        type Init = unsafe extern "C" fn(
            *mut Opaque,
            u64,
            *mut c_int,
            *const c_char,
            c_int,
            c_int,
            c_int,
            *const c_void,
        ) -> c_int;
        let (mut context, mut events) = (ptr::null_mut(), 0x5d);
        // SAFETY: types and values are those of NCCL.
        unsafe {
            let table = *self
                .library
                .get::<*const *const c_void>(b"ncclProfiler_v5\0")
                .expect("its symbol");
            let init = table.add(1).cast::<Init>().read();
            let logger = logger as *const c_void;
            let code = init(
                &mut context,
                communicator,
                &mut events,
                c"name".as_ptr(),
                2,
                8,
                rank,
                logger,
            );
            assert_eq!(code, 0);
        }
        assert_eq!(events, 0, "no event is asked for");
    }

    pub(crate) fn devices(&self) -> c_int {
        type Devices = unsafe extern "C" fn(*mut c_int) -> c_int;
        let mut count = -1;
        // SAFETY: types and values are those of NCCL.
        let code = unsafe { self.function::<Devices>(2)(&mut count) };
        assert_eq!(code, 0);
        count
    }

    pub(crate) fn properties(&self, rail: c_int) -> Result<Properties, c_int> {
        type Get = unsafe extern "C" fn(c_int, *mut u64) -> c_int;
        let mut words = [0_u64; 20];
        // SAFETY: there is room for the properties of either version.
        let code = unsafe { self.function::<Get>(3)(rail, words.as_mut_ptr()) };
        if code != 0 {
            return Err(code);
        }
        // Name, path and id are 8 bytes each, what follows 4.
        let at = |place: usize| {
            let word = words[3 + place / 2].to_le_bytes();
            let half = &word[place % 2 * 4..][..4];
            c_int::from_le_bytes(half.try_into().expect("4 bytes"))
        };
        let (speed, most_receives) = if self.is_v6() { (1, 5) } else { (3, 7) };
        // SAFETY: the first word is the name.
        let name = unsafe { CStr::from_ptr(ptr::with_exposed_provenance(words[0] as usize)) };
        assert_eq!(words[1], 0, "no path");
        Ok(Properties {
            name: name.to_str().expect("text").to_owned(),
            pointers: at(0),
            speed: at(speed),
            most_receives: at(most_receives),
        })
    }

    pub(crate) fn listen(&self, context: Opaque, rail: c_int) -> (Handle, Opaque) {
        type V6 = unsafe extern "C" fn(c_int, *mut Handle, *mut Opaque) -> c_int;
        type V11 = unsafe extern "C" fn(Opaque, c_int, *mut Handle, *mut Opaque) -> c_int;
        let (mut handle, mut listener) = ([0; 128], ptr::null_mut());
        // SAFETY: types and values are those of NCCL.
        let code = unsafe {
            if self.is_v6() {
                self.function::<V6>(4)(rail, &mut handle, &mut listener)
            } else {
                self.function::<V11>(4)(context, rail, &mut handle, &mut listener)
            }
        };
        assert_eq!(code, 0);
        assert!(!listener.is_null());
        (handle, listener)
    }

    pub(crate) fn connect(
        &self,
        context: Opaque,
        rail: c_int,
        mut handle: Handle,
    ) -> Result<Opaque, c_int> {
        type V6 = unsafe extern "C" fn(c_int, *mut Handle, *mut Opaque) -> c_int;
        type V11 =
            unsafe extern "C" fn(Opaque, c_int, *mut Handle, *mut Opaque, *mut Opaque) -> c_int;
        let mut sender = ptr::null_mut();
        // SAFETY: types and values are those of NCCL.
        let code = unsafe {
            if self.is_v6() {
                self.function::<V6>(5)(rail, &mut handle, &mut sender)
            } else {
                let device = ptr::null_mut();
                self.function::<V11>(5)(context, rail, &mut handle, &mut sender, device)
            }
        };
        if code == 0 { Ok(sender) } else { Err(code) }
    }

    pub(crate) fn accept(&self, listener: Opaque) -> Opaque {
        type V6 = unsafe extern "C" fn(Opaque, *mut Opaque) -> c_int;
        type V11 = unsafe extern "C" fn(Opaque, *mut Opaque, *mut Opaque) -> c_int;
        let mut receiver = ptr::null_mut();
        // SAFETY: types and values are those of NCCL.
        let code = unsafe {
            if self.is_v6() {
                self.function::<V6>(6)(listener, &mut receiver)
            } else {
                self.function::<V11>(6)(listener, &mut receiver, ptr::null_mut())
            }
        };
        assert_eq!(code, 0);
        receiver
    }

    pub(crate) fn register(
        &self,
        end: Opaque,
        data: *mut u8,
        bytes: usize,
        kind: c_int,
    ) -> Result<Opaque, c_int> {
        type V6 = unsafe extern "C" fn(Opaque, Opaque, c_int, c_int, *mut Opaque) -> c_int;
        type V11 = unsafe extern "C" fn(Opaque, Opaque, usize, c_int, *mut Opaque) -> c_int;
        let mut registration = ptr::null_mut();
        let data = data.cast();
        // SAFETY: types and values are those of NCCL.
        let code = unsafe {
            if self.is_v6() {
                self.function::<V6>(7)(end, data, bytes as c_int, kind, &mut registration)
            } else {
                self.function::<V11>(7)(end, data, bytes, kind, &mut registration)
            }
        };
        if code == 0 {
            Ok(registration)
        } else {
            Err(code)
        }
    }

    pub(crate) fn deregister(&self, end: Opaque, registration: Opaque) {
        type Deregister = unsafe extern "C" fn(Opaque, Opaque) -> c_int;
        // SAFETY: types and values are those of NCCL.
        let code = unsafe { self.function::<Deregister>(9)(end, registration) };
        assert_eq!(code, 0);
    }

    /// Starts to send; null is to be tried again.
    pub(crate) fn isend(
        &self,
        sender: Opaque,
        data: *mut u8,
        bytes: usize,
        tag: c_int,
        registration: Opaque,
    ) -> Result<Opaque, c_int> {
        type V6 = unsafe extern "C" fn(Opaque, Opaque, c_int, c_int, Opaque, *mut Opaque) -> c_int;
        type V11 = unsafe extern "C" fn(
            Opaque,
            Opaque,
            usize,
            c_int,
            Opaque,
            Opaque,
            *mut Opaque,
        ) -> c_int;
        let mut request = ptr::null_mut();
        let data = data.cast();
        // SAFETY: types and values are those of NCCL; the caller keeps the memory.
        let code = unsafe {
            if self.is_v6() {
                let bytes = bytes as c_int;
                self.function::<V6>(10)(sender, data, bytes, tag, registration, &mut request)
            } else {
                let profile = ptr::null_mut();
                self.function::<V11>(10)(
                    sender,
                    data,
                    bytes,
                    tag,
                    registration,
                    profile,
                    &mut request,
                )
            }
        };
        if code == 0 { Ok(request) } else { Err(code) }
    }

    /// Posts a receive of all these: memory, bytes, tag and registration.
    pub(crate) fn irecv(
        &self,
        receiver: Opaque,
        parts: &[(*mut u8, usize, c_int, Opaque)],
    ) -> Result<Opaque, c_int> {
        type V6 = unsafe extern "C" fn(
            Opaque,
            c_int,
            *mut Opaque,
            *mut c_int,
            *mut c_int,
            *mut Opaque,
            *mut Opaque,
        ) -> c_int;
        type V11 = unsafe extern "C" fn(
            Opaque,
            c_int,
            *mut Opaque,
            *mut usize,
            *mut c_int,
            *mut Opaque,
            *mut Opaque,
            *mut Opaque,
        ) -> c_int;
        let count = parts.len() as c_int;
        let mut data: Vec<Opaque> = parts.iter().map(|part| part.0.cast()).collect();
        let mut bytes: Vec<usize> = parts.iter().map(|part| part.1).collect();
        let mut small: Vec<c_int> = bytes.iter().map(|bytes| *bytes as c_int).collect();
        let mut tags: Vec<c_int> = parts.iter().map(|part| part.2).collect();
        let mut registrations: Vec<Opaque> = parts.iter().map(|part| part.3).collect();
        // NCCL passes 1 where it can do without being told that a receive is complete.
        let mut request = ptr::without_provenance_mut(1);
        let (data, tags) = (data.as_mut_ptr(), tags.as_mut_ptr());
        let registrations = registrations.as_mut_ptr();
        // SAFETY: types and values are those of NCCL; the caller keeps the memory.
        let code = unsafe {
            if self.is_v6() {
                let sizes = small.as_mut_ptr();
                self.function::<V6>(11)(
                    receiver,
                    count,
                    data,
                    sizes,
                    tags,
                    registrations,
                    &mut request,
                )
            } else {
                let (sizes, profiles) = (bytes.as_mut_ptr(), ptr::null_mut());
                self.function::<V11>(11)(
                    receiver,
                    count,
                    data,
                    sizes,
                    tags,
                    registrations,
                    profiles,
                    &mut request,
                )
            }
        };
        if code == 0 { Ok(request) } else { Err(code) }
    }

    /// Flushes what was received, and returns the request, which is null if that is done.
    pub(crate) fn iflush(&self, receiver: Opaque, data: *mut u8, registration: Opaque) -> Opaque {
        type Flush = unsafe extern "C" fn(
            Opaque,
            c_int,
            *const Opaque,
            *const c_int,
            *const Opaque,
            *mut Opaque,
        ) -> c_int;
        let mut request = ptr::without_provenance_mut(1);
        let (data, bytes) = (data.cast(), 1);
        // SAFETY: types and values are those of NCCL.
        let code = unsafe {
            self.function::<Flush>(12)(receiver, 1, &data, &bytes, &registration, &mut request)
        };
        assert_eq!(code, 0);
        request
    }

    /// Returns the sizes of the messages if the operation is complete.
    pub(crate) fn test(&self, request: Opaque) -> Result<Option<[c_int; 8]>, c_int> {
        type Test = unsafe extern "C" fn(Opaque, *mut c_int, *mut c_int) -> c_int;
        let (mut done, mut sizes) = (-1, [-1; 8]);
        // SAFETY: types and values are those of NCCL.
        let code = unsafe { self.function::<Test>(13)(request, &mut done, sizes.as_mut_ptr()) };
        match (code, done) {
            (0, 0) => Ok(None),
            (0, 1) => Ok(Some(sizes)),
            (0, other) => panic!("done is {other}"),
            (code, _) => Err(code),
        }
    }

    fn close(&self, place: usize, end: Opaque) {
        type Close = unsafe extern "C" fn(Opaque) -> c_int;
        // SAFETY: types and values are those of NCCL.
        let code = unsafe { self.function::<Close>(place)(end) };
        assert_eq!(code, 0);
    }

    pub(crate) fn close_send(&self, end: Opaque) {
        self.close(14, end);
    }

    pub(crate) fn close_recv(&self, end: Opaque) {
        self.close(15, end);
    }

    pub(crate) fn close_listen(&self, end: Opaque) {
        self.close(16, end);
    }

    pub(crate) fn finalize(&self, context: Opaque) {
        if !self.is_v6() {
            self.close(20, context);
        }
    }
}
