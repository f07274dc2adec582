//! Functions of libraries that are loaded at run time.

#![expect(
    unsafe_code,
    reason = "a function found in a library by name is called as its header declares it"
)]

use std::{
    ffi::{CStr, OsStr, c_char, c_void},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use libloading::Library;

/// A function that a library may have.
pub(super) struct Symbol<F> {
    /// The function's name in the library.
    pub(super) name: &'static str,
    /// The first version of the library that has it.
    pub(super) since: &'static str,
    function: Option<F>,
}

impl<F: Copy> Symbol<F> {
    /// Looks up `name` in `library`.
    ///
    /// # Safety
    /// `F` is the type of the C function of that name.
    pub(super) unsafe fn find(
        library: &Library,
        name: &'static str,
        since: &'static str,
    ) -> Symbol<F> {
        // SAFETY: the caller guarantees that `F` is the function's type. The pointer outlives the
        // library's handle because the libraries of this program are never unloaded.
        let function = unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol);
        Symbol {
            name,
            since,
            function,
        }
    }

    /// Returns the function, or what is missing.
    pub(super) fn get(&self) -> Result<F, Missing> {
        self.function.ok_or(Missing {
            name: self.name,
            since: self.since,
        })
    }

    /// Returns whether the library has the function.
    pub(super) fn is_there(&self) -> bool {
        self.function.is_some()
    }
}

/// A function that a library lacks.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) name: &'static str,
    pub(super) since: &'static str,
}

/// Declares a table of C functions, one per line:
/// `field: "cName" since "1.2", fn(arguments) -> result;`.
macro_rules! symbols {
    ($(#[$doc:meta])* $table:ident {
        $($field:ident: $name:literal since $since:literal, fn($($arg:ty),*) -> $result:ty;)*
    }) => {
        $(#[$doc])*
        pub(super) struct $table {
            $(pub(super) $field: Symbol<unsafe extern "C" fn($($arg),*) -> $result>,)*
        }

        impl $table {
            /// Looks up all functions.
            ///
            /// # Safety
            /// `library` is the one whose header the table is made from.
            pub(super) unsafe fn find(library: &Library) -> $table {
                // SAFETY: the caller guarantees that the library is the right one, and the table
                // has its header's types.
                unsafe { $table { $($field: Symbol::find(library, $name, $since),)* } }
            }

            /// Returns the names of the functions that the library lacks.
            pub(super) fn missing(&self) -> Vec<&'static str> {
                [$((self.$field.name, self.$field.is_there()),)*]
                    .into_iter()
                    .filter_map(|(name, there)| (!there).then_some(name))
                    .collect()
            }
        }
    };
}
pub(super) use symbols;

/// Returns the file that contains `address`, with links resolved.
pub(super) fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: dladdr only compares the address, and writes to the structure given; the name it
    // gives is null or the dynamic loader's own, for as long as the library is loaded.
    let name = unsafe {
        (libc::dladdr(address, &mut info) != 0)
            .then(|| text(info.dli_fname))
            .flatten()?
    };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    Some(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
}

/// Returns a C string of a library; `None` if it is null.
///
/// # Safety
/// `string` is null, or ends in a zero byte and lives as long as its library, which is never
/// unloaded.
pub(super) unsafe fn text(string: *const c_char) -> Option<&'static CStr> {
    // SAFETY: the caller guarantees it.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
}
