//! Names that Kubernetes takes: of a deployment and its objects, of namespaces, queues and secrets.

use std::{fmt, str::FromStr};

/// The longest label of a host name (RFC 1123).
const LONGEST_LABEL: usize = 63;

/// The longest name of a deployment: the host name of a pod has the number of the pod behind it,
/// and other objects have a word.
const LONGEST_NAME: usize = 50;

/// The name of a deployment. Its job and its service are called so, which makes it a part of the
/// pods' host names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentName(String);

impl DeploymentName {
    /// Returns the name of the ConfigMap with NCCL's settings.
    pub fn settings(&self) -> String {
        format!("{self}-settings")
    }

    /// Returns the name of the Secret with the ranks' token.
    pub fn token(&self) -> String {
        format!("{self}-token")
    }

    /// Returns the host name of the pod that the others meet at, as the pods of its namespace find
    /// it.
    pub fn first_host(&self) -> String {
        format!("{self}-0.{self}")
    }
}

impl fmt::Display for DeploymentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DeploymentName {
    type Err = String;

    fn from_str(text: &str) -> Result<DeploymentName, String> {
        let starts_with_letter = text.starts_with(|first: char| first.is_ascii_lowercase());
        if starts_with_letter && is_label(text) && text.len() <= LONGEST_NAME {
            return Ok(DeploymentName(text.to_owned()));
        }
        Err(format!(
            "a name has at most {LONGEST_NAME} small letters, digits and hyphens. It starts with \
             a letter and does not end with a hyphen, such as pxn-8-nodes"
        ))
    }
}

/// The name of something that is already in the cluster: a namespace, a queue of Kueue, or a
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName(String);

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<ObjectName, String> {
        if is_label(text) {
            return Ok(ObjectName(text.to_owned()));
        }
        Err(format!(
            "names in Kubernetes have at most {LONGEST_LABEL} small letters, digits and hyphens, \
             with no hyphen at either end"
        ))
    }
}

/// Returns whether `text` is a label of a host name in small letters.
fn is_label(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty()
        && text.len() <= LONGEST_LABEL
        && text.bytes().all(is_allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_of_host_names() {
        for good in ["pxnbench", "a", "pxn-8-nodes"] {
            assert!(good.parse::<DeploymentName>().is_ok(), "{good}");
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        for wrong in ["", "8-nodes", "Pxn", "a_b", "a-", "-a", "a.b", &long] {
            assert!(wrong.parse::<DeploymentName>().is_err(), "{wrong}");
        }
        for good in ["8-nodes", &long] {
            assert!(good.parse::<ObjectName>().is_ok(), "{good}");
        }
        for wrong in ["", "a b", "a/b", &"a".repeat(LONGEST_LABEL + 1)] {
            assert!(wrong.parse::<ObjectName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_pod_has_a_name_below_the_service() {
        let name: DeploymentName = "pxn".parse().expect("a name");
        assert_eq!(name.first_host(), "pxn-0.pxn");
    }
}
