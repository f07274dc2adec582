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

/// Returns the value of `name`, one of nccl-tests' variables, in `env`. Scripts set such a variable to nothing if they have no
/// value for it, so an empty one is not set.
pub fn nccl_tests(env: Env, name: &str) -> Option<String> {
    env(name).filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_of_nccl_tests_is_not_set() {
        let value = |value: &str| nccl_tests(&|_| Some(value.to_owned()), "NCCL_TESTS_DEVICE");
        assert_eq!(value("0"), Some("0".into()));
        for empty in ["", " ", "\t"] {
            assert_eq!(value(empty), None);
        }
        assert_eq!(nccl_tests(&|_| None, "NCCL_TESTS_DEVICE"), None);
    }
}
