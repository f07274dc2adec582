//! Loaders of NVIDIA's libraries, [`cuda`], [`nccl`] and [`nvml`]. They are looked for when the program runs, so that it
//! builds and starts where there are none. [`names`] reads in libnccl's file which variables it knows.
//!
//! Each function is looked up once and may be missing: then a call of it fails with a sentence, and nothing else does.
//! Result codes stay integers, because a library newer than this program returns codes that it does not know, and a
//! Rust enum of them would be undefined behaviour. Nothing in here decides what to run; that is [`crate::backend`].

#![cfg_attr(
    feature = "nccl",
    expect(
        unsafe_code,
        reason = "a function found in a library by name is called as its header declares it"
    )
)]

#[cfg(feature = "nccl")]
pub mod cuda;
#[cfg(feature = "nccl")]
pub mod names;
#[cfg(feature = "nccl")]
pub mod nccl;
pub mod nvml;

#[cfg(feature = "nccl")]
mod symbol {
    use std::{
        ffi::{CStr, OsStr, c_char, c_void},
        fs,
        os::unix::ffi::OsStrExt,
        path::{Path, PathBuf},
    };

    use libloading::Library;

    /// A function of a library: there or not.
    pub(super) struct Symbol<F> {
        /// Its name in the library.
        pub(super) name: &'static str,
        /// The first version of the library that has it.
        pub(super) since: &'static str,
        function: Option<F>,
    }

    impl<F: Copy> Symbol<F> {
        /// Looks `name` up in `library`.
        ///
        /// # Safety
        /// `F` is the type of the C function of that name.
        pub(super) unsafe fn find(
            library: &Library,
            name: &'static str,
            since: &'static str,
        ) -> Symbol<F> {
            // SAFETY: the caller says that `F` is the function's type. The pointer outlives the library's handle
            // because the libraries of this program are never unloaded.
            let function = unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol);
            Symbol {
                name,
                since,
                function,
            }
        }

        /// The function, or what is missing.
        pub(super) fn get(&self) -> Result<F, Missing> {
            self.function.ok_or(Missing {
                name: self.name,
                since: self.since,
            })
        }

        pub(super) fn is_there(&self) -> bool {
            self.function.is_some()
        }
    }

    /// A function that a library does not have.
    #[derive(Debug)]
    pub(super) struct Missing {
        pub(super) name: &'static str,
        pub(super) since: &'static str,
    }

    /// Declares a table of C functions, one line each: `field: "cName" since "1.2", fn(arguments) -> result;`.
    macro_rules! symbols {
        ($(#[$doc:meta])* $table:ident {
            $($field:ident: $name:literal since $since:literal, fn($($arg:ty),*) -> $result:ty;)*
        }) => {
            $(#[$doc])*
            struct $table {
                $($field: Symbol<unsafe extern "C" fn($($arg),*) -> $result>,)*
            }

            impl $table {
                /// Looks all of them up.
                ///
                /// # Safety
                /// `library` is the one whose header the table is made from.
                unsafe fn find(library: &Library) -> $table {
                    // SAFETY: the caller says that the library is the right one, and the table has its header's types.
                    unsafe { $table { $($field: Symbol::find(library, $name, $since),)* } }
                }

                /// Names of the functions that the library does not have.
                fn missing(&self) -> Vec<&'static str> {
                    [$((self.$field.name, self.$field.is_there()),)*]
                        .into_iter()
                        .filter_map(|(name, there)| (!there).then_some(name))
                        .collect()
                }
            }
        };
    }
    pub(super) use symbols;

    /// The file that holds `address`, with links resolved.
    pub(super) fn file_of(address: *const c_void) -> Option<PathBuf> {
        let mut info = libc::Dl_info {
            dli_fname: std::ptr::null(),
            dli_fbase: std::ptr::null_mut(),
            dli_sname: std::ptr::null(),
            dli_saddr: std::ptr::null_mut(),
        };
        // SAFETY: dladdr only compares the address, and writes to the structure given; the name it gives is null or the
        // dynamic loader's own, for as long as the library is loaded.
        let name = unsafe {
            (libc::dladdr(address, &mut info) != 0)
                .then(|| text(info.dli_fname))
                .flatten()?
        };
        let path = Path::new(OsStr::from_bytes(name.to_bytes()));
        Some(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// A C string of a library; `None` where it is null.
    ///
    /// # Safety
    /// `string` is null, or ends in a zero byte and lives as long as its library, which is never unloaded.
    pub(super) unsafe fn text(string: *const c_char) -> Option<&'static CStr> {
        // SAFETY: the caller says so.
        (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
    }
}
