//! The environment of this process, read in one place.
//!
//! Code that decides by variables takes an [`Env`], so that a test can pass its own; [`var`] is the one of the process.

/// A function that looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the value of the variable `name` in the environment of this process. Bytes that are not UTF-8 are replaced: a
/// variable with an odd value is set all the same.
pub fn var(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}
