//! The environment of this process, read in one place.
//!
//! Code that decides by variables takes an [`Env`], so that a test can pass its own; [`var`] is the
//! one of the process.

/// A function that looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the value of the variable `name` in the environment of this process. Bytes that are not
/// UTF-8 are replaced: a variable with an odd value is set all the same.
pub fn var(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Returns the value of `name`, one of nccl-tests' variables, in `env`. Scripts set such a variable
/// to nothing if they have no value for it, so an empty one is not set.
pub fn nccl_tests(env: Env, name: &str) -> Option<String> {
    env(name).filter(|value| !value.trim().is_empty())
}

/// Words in the name of a variable that holds a secret.
const SECRET: [&str; 8] = [
    "TOKEN",
    "SECRET",
    "KEY",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTH",
];

/// The same, where the name has nothing more between its underscores: longer words may mean
/// something else.
const SECRET_WORDS: [&str; 4] = ["PASS", "PWD", "CRED", "CREDS"];

/// Names with such a word whose value is no secret: the index of InfiniBand's partition.
const NO_SECRET: [&str; 1] = ["NCCL_IB_PKEY"];

/// What stands for a value that is neither recorded nor printed.
pub const NOT_RECORDED: &str = "not recorded";

/// Returns whether the name of a variable, or what stands before `=` on a line, says that the value
/// is a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let bare = name.rsplit([' ', '\t']).find(|word| !word.is_empty());
    let is_known = bare.is_some_and(|bare| NO_SECRET.contains(&bare));
    let has_word =
        bare.is_some_and(|bare| bare.split('_').any(|word| SECRET_WORDS.contains(&word)));
    !is_known && (has_word || SECRET.iter().any(|word| name.contains(word)))
}

/// Returns whether `value` has the form of an address with a password in it, such as
/// `https://user:password@host/`.
fn has_password(value: &str) -> bool {
    let mut addresses = value.split("://").skip(1);
    addresses.any(|address| {
        let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':'))
    })
}

/// Returns the value of a variable as it may be recorded and printed.
pub fn recorded(name: &str, value: String) -> String {
    if is_secret(name) || has_password(&value) {
        NOT_RECORDED.to_owned()
    } else {
        value
    }
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

    #[test]
    fn values_that_their_name_calls_secret_are_not_recorded() {
        for name in [
            "NCCL_X_TOKEN",
            "NCCL_api_key",
            "export NCCL_SECRET_ID",
            "NCCL_PASSWD",
            "NCCL_AUTHORITY",
            "NCCL_CRED",
            "NCCL_PWD",
            "NCCL_PASSPHRASE",
        ] {
            assert_eq!(recorded(name, "hush".into()), NOT_RECORDED, "{name}");
        }
        for name in [
            "NCCL_DEBUG",
            "NCCL_IB_PKEY",
            "export NCCL_IB_PKEY",
            "NCCL_CREDITS",
            "NCCL_BYPASS",
        ] {
            assert_eq!(recorded(name, "1".into()), "1", "{name}");
        }
        for value in ["https://me:hush@host/x", "a,http://me:hush@host"] {
            assert_eq!(recorded("NCCL_X", value.into()), NOT_RECORDED, "{value}");
        }
        for value in ["https://host:80/a@b", "^mlx5:1@x", "http://me@host"] {
            assert_eq!(recorded("NCCL_X", value.into()), value);
        }
    }
}
