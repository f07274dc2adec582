//! The host and port at which ranks meet, as they are typed.

use std::{net::Ipv6Addr, str::FromStr};

/// The port if none is given, as in torchrun.
pub const DEFAULT_PORT: u16 = 29500;

/// The host where ranks meet, and its port if one is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// Host name or address; one of IPv6 has no brackets.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
}

/// Returns a host and a port as they are typed: `node1:29500`, `[::1]:29500`.
pub(in crate::launch) fn with_port(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

impl FromStr for Master {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix('[') {
            return in_brackets(rest);
        }
        match text.matches(':').count() {
            0 => Ok(Master {
                host: host_name(text)?,
                port: None,
            }),
            1 => {
                let (host, port) = text.split_once(':').unwrap_or((text, ""));
                Ok(Master {
                    host: host_name(host)?,
                    port: Some(parse_port(port)?),
                })
            }
            _ => Ok(Master {
                host: ipv6(text)?,
                port: None,
            }),
        }
    }
}

/// Parses `ADDRESS]` or `ADDRESS]:PORT`.
fn in_brackets(rest: &str) -> Result<Master, String> {
    let Some((address, after)) = rest.split_once(']') else {
        return Err("a bracket is not closed. Write [ADDRESS]:PORT".into());
    };
    let host = ipv6(address)?;
    let port = match after.strip_prefix(':') {
        Some(port) => Some(parse_port(port)?),
        None if after.is_empty() => None,
        None => {
            return Err(format!(
                "'{after}' after the bracket is no port. Write [ADDRESS]:PORT"
            ));
        }
    };
    Ok(Master { host, port })
}

/// Checks an address of IPv6, which may end in the interface of a link-local one: `fe80::1%eth0`.
fn ipv6(text: &str) -> Result<String, String> {
    let (address, _) = text.split_once('%').unwrap_or((text, ""));
    match address.parse::<Ipv6Addr>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!(
            "'{text}' is no IPv6 address. Write HOST:PORT or [ADDRESS]:PORT"
        )),
    }
}

fn host_name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the host is missing. Write HOST or HOST:PORT".into());
    }
    let is_odd = |c: char| !c.is_alphanumeric() && !"-_.".contains(c);
    if text.starts_with('-') || text.contains(is_odd) {
        return Err(format!(
            "'{text}' is no host name. Write HOST or HOST:PORT, without a protocol or a user"
        ));
    }
    Ok(text.to_owned())
}

/// Parses a port.
///
/// # Errors
/// Returns an error if it is not a number from 1 to 65535.
pub fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("'{text}' is no port. Use a number from 1 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port_and_an_ipv6_address_has_brackets_then() {
        for (text, host, port) in [
            ("node1", "node1", None),
            ("node1.cluster:29501", "node1.cluster", Some(29501)),
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1:1", "10.0.0.1", Some(1)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:29500", "::1", Some(29500)),
            ("fe80::1%ib0", "fe80::1%ib0", None),
            ("[fe80::1%ib0]:65535", "fe80::1%ib0", Some(65535)),
        ] {
            let host = host.to_owned();
            assert_eq!(text.parse(), Ok(Master { host, port }), "{text}");
        }
    }

    #[test]
    fn what_names_no_place_is_refused_with_the_form() {
        for (text, says) in [
            ("", "the host is missing"),
            (":29500", "the host is missing"),
            ("node1:", "'' is no port"),
            ("node1:0", "from 1 to 65535"),
            ("node1:65536", "from 1 to 65535"),
            ("node1:http", "from 1 to 65535"),
            ("tcp://node1", "is no port"),
            ("user@node1", "without a protocol or a user"),
            ("node 1", "is no host name"),
            ("-oProxyCommand=x", "is no host name"),
            ("[::1", "a bracket is not closed"),
            ("[::1]29500", "'29500' after the bracket"),
            ("[node1]:29500", "is no IPv6 address"),
            ("::1:29500:x", "is no IPv6 address"),
        ] {
            let error = text.parse::<Master>().expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_host_with_its_port_is_written_as_it_is_typed() {
        for text in ["node1:29500", "[::1]:29500"] {
            let Master { host, port } = text.parse().expect("a master");
            assert_eq!(with_port(&host, port.expect("a port")), text);
        }
    }
}
