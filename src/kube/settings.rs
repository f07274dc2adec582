//! The settings of the ranks, and the secret that they share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::{pod, request::Request};
use crate::world::tcp::{TOKEN, random_token};

/// What a manifest that is only printed has in place of a token.
const PLACEHOLDER: &str = "REPLACE-WITH-A-RANDOM-TOKEN";

/// The secret of a deployment.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Makes a random token.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no randomness.
    pub fn random() -> anyhow::Result<Token> {
        random_token().map(Token)
    }

    /// Returns the words that stand for a token in manifests that are printed.
    pub fn placeholder() -> Token {
        Token(PLACEHOLDER.to_owned())
    }

    /// Returns whether this is no token yet.
    pub fn is_placeholder(&self) -> bool {
        self.0 == PLACEHOLDER
    }
}

/// Returns the variables of all ranks: those of level and network, and those that are requested,
/// which take precedence. What depends on the ports of a node is absent: the ranks set that
/// themselves.
pub(super) fn variables(request: &Request) -> BTreeMap<String, String> {
    let presets = request.presets();
    let set = presets.environment(&|_| None, &Vec::new);
    let mut all: BTreeMap<String, String> = set.into_iter().collect();
    for variable in &request.variables {
        all.insert(variable.name.clone(), variable.value.clone());
    }
    all
}

/// Returns the settings as an object.
pub(super) fn config_map(request: &Request) -> ConfigMap {
    ConfigMap {
        metadata: pod::metadata(request, request.name.settings()),
        data: Some(variables(request)),
        ..ConfigMap::default()
    }
}

/// Returns the secret as an object.
pub(super) fn secret(request: &Request, token: &Token) -> Secret {
    let data = BTreeMap::from([(TOKEN.to_owned(), token.0.clone())]);
    Secret {
        metadata: pod::metadata(request, request.name.token()),
        type_: Some("Opaque".into()),
        string_data: Some(data),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kube::request::tests::request, levels};

    #[test]
    fn settings_are_those_of_level_and_network_and_what_is_requested_wins() {
        let request = Request {
            network: Some(levels::network("ib").expect("a network")),
            variables: vec!["NCCL_IB_DISABLE=1".parse().expect("a variable")],
            ..request()
        };
        let variables = variables(&request);
        let value = |name: &str| variables.get(name).map(String::as_str);
        assert_eq!(value("NCCL_P2P_PXN_LEVEL"), Some("2"));
        assert_eq!(value("NCCL_NET"), Some("IB"));
        assert_eq!(value("NCCL_IB_DISABLE"), Some("1"));
        assert_eq!(value("NCCL_IB_HCA"), None, "each node has its own ports");
    }

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let [one, other] = [(); 2].map(|()| Token::random().expect("a token"));
        assert_eq!(one.0.len(), 64);
        assert!(one != other && !one.is_placeholder());
        assert!(Token::placeholder().is_placeholder());
    }
}
