//! The stand-in for libcuda, whose GPUs have host memory.

#![expect(
    unsafe_code,
    reason = "functions of a library that is found at run time"
)]

use std::{
    env,
    ffi::{c_int, c_uint, c_void},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    ptr,
};

use libloading::Library;

use crate::skipping::skip;

/// What the library is built from.
const SOURCES: [&str; 6] = [
    include_str!("../../../tests/standin/cuda.cpp"),
    include_str!("../../../tests/standin/standin.h"),
    include_str!("../../../tests/standin/builtins.h"),
    include_str!("../../../tests/standin/kinds.h"),
    include_str!("../../../src/backend/nccl/kernels.cu"),
    include_str!("../../../src/backend/nccl/compute.cu"),
];

/// Returns the folder with the library, which is built once for all tests; `None`, with a message,
/// if there is no C++ compiler.
pub(crate) fn library_folder() -> Option<PathBuf> {
    if Command::new("c++").arg("--version").output().is_err() {
        let why = "c++ does not run, so that no stand-in for a GPU can be built";
        skip("c++", why);
        return None;
    }
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = all.join(format!("rails-libcuda-{:016x}", hasher.finish()));
    if !built.exists() {
        let fresh = tempfile::tempdir_in(all).expect("a folder").keep();
        build(&fresh);
        // Whole or not at all. Where another test was faster, its library is the one.
        if fs::rename(&fresh, &built).is_err() {
            fs::remove_dir_all(&fresh).expect("removed");
        }
    }
    Some(built)
}

fn build(folder: &Path) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ended = Command::new("c++")
        .args(["-std=c++17", "-O1", "-Wno-unknown-pragmas", "-pthread"])
        .args(["-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-I"])
        .arg(top.join("src/backend/nccl"))
        .arg("-o")
        .arg(folder.join("libcuda.so.1"))
        .arg(top.join("tests/standin/cuda.cpp"))
        .output()
        .expect("c++");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
}

/// Makes a GPU's context current, and returns the library.
pub(crate) fn start() -> Library {
    // SAFETY: the stand-in's functions have the types of cuda.h.
    unsafe {
        let library = Library::new("libcuda.so.1").expect("the stand-in");
        let init = library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0");
        assert_eq!(init.expect("cuInit")(0), 0);
        choose(&library);
        library
    }
}

/// Makes a GPU's context current for this thread.
pub(crate) fn choose(library: &Library) {
    type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
    type Set = unsafe extern "C" fn(*mut c_void) -> c_int;
    let mut context = ptr::null_mut();
    // SAFETY: the stand-in's functions have the types of cuda.h.
    unsafe {
        let retain = library.get::<Retain>(b"cuDevicePrimaryCtxRetain\0");
        assert_eq!(retain.expect("a function")(&mut context, 0), 0);
        let set = library.get::<Set>(b"cuCtxSetCurrent\0");
        assert_eq!(set.expect("a function")(context), 0);
    }
}

/// Allocates memory of the GPU, which is never freed.
pub(crate) fn allocate(library: &Library, bytes: usize) -> *mut u8 {
    type Allocate = unsafe extern "C" fn(*mut u64, usize) -> c_int;
    let mut address = 0;
    // SAFETY: the stand-in's function has the type of cuda.h, and its memory is the processor's.
    unsafe {
        let allocate = library.get::<Allocate>(b"cuMemAlloc_v2\0");
        assert_eq!(allocate.expect("a function")(&mut address, bytes.max(1)), 0);
    }
    ptr::with_exposed_provenance_mut(address as usize)
}

/// Leaves the context: the plugin has to enter it where it needs it.
pub(crate) fn leave(library: &Library) {
    type Set = unsafe extern "C" fn(*mut c_void) -> c_int;
    // SAFETY: the stand-in's function has the type of cuda.h.
    unsafe {
        let set = library.get::<Set>(b"cuCtxSetCurrent\0");
        assert_eq!(set.expect("a function")(ptr::null_mut()), 0);
    }
}
