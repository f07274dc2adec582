//! A resource of RDMA devices, as a device plugin offers it.

use std::str::FromStr;

/// The RDMA devices of a pod: a resource of the nodes, and how many of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaRequest {
    /// The name of the resource, such as `rdma/hca_shared_devices_a`.
    pub resource: String,
    /// How many a pod gets.
    pub count: u32,
}

impl FromStr for RdmaRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<RdmaRequest, String> {
        let (resource, count) = text.split_once(':').unwrap_or((text, "1"));
        let count = count.parse().ok().filter(|count| *count > 0);
        match count {
            Some(count) if is_extended_resource(resource) => Ok(RdmaRequest {
                resource: resource.to_owned(),
                count,
            }),
            _ => Err(
                "it must be the resource of a device plugin with an optional number, such as \
                 rdma/hca_shared_devices_a:1. `kubectl describe node` lists the resources of a \
                 node"
                    .into(),
            ),
        }
    }
}

/// Returns whether `name` is of the form `DOMAIN/NAME`, as resources of device plugins are.
fn is_extended_resource(name: &str) -> bool {
    let Some((domain, resource)) = name.split_once('/') else {
        return false;
    };
    let is_in_domain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !domain.is_empty()
        && !resource.is_empty()
        && domain.chars().all(is_in_domain)
        && resource.chars().all(is_in_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_may_have_a_number() {
        let parsed = |text: &str| {
            text.parse::<RdmaRequest>()
                .map(|it| (it.resource, it.count))
        };
        assert_eq!(parsed("rdma/hca"), Ok(("rdma/hca".into(), 1)));
        assert_eq!(
            parsed("nvidia.com/hostdev:8"),
            Ok(("nvidia.com/hostdev".into(), 8))
        );
        for wrong in [
            "",
            "rdma",
            "rdma/",
            "/hca",
            "rdma/hca:0",
            "rdma/hca:x",
            "a/b/c",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
