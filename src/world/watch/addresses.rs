//! The addresses of this host, at which other nodes may find it.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The most addresses that are tried.
const MOST: usize = 16;

/// Returns the addresses of this host that other hosts may reach.
pub(super) fn of_this_host() -> Vec<IpAddr> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut all = ipv4(&text("/proc/net/fib_trie"));
    all.extend(ipv6(&text("/proc/net/if_inet6")));
    all.truncate(MOST);
    all
}

/// Returns the own addresses in the kernel's table of routes, `/proc/net/fib_trie`, without those
/// of the host alone.
fn ipv4(table: &str) -> Vec<IpAddr> {
    let mut all = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["|--", address] => last = address.parse().ok(),
            ["/32", "host", "LOCAL"] => {
                let own = last.filter(|own| !own.is_loopback()).map(IpAddr::from);
                // The table of each route has it again.
                all.extend(own.filter(|own| !all.contains(own)));
            }
            _ => {}
        }
    }
    all
}

/// Returns the addresses in `/proc/net/if_inet6` that reach beyond the link.
fn ipv6(table: &str) -> Vec<IpAddr> {
    const GLOBAL: &str = "00";
    let mut all = Vec::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [address, _, _, GLOBAL, ..] = words[..]
            && let Ok(bits) = u128::from_str_radix(address, 16)
        {
            all.push(Ipv6Addr::from_bits(bits).into());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.1.0.0/16 2 0 2
        |-- 10.1.0.0
           /16 link UNICAST
        |-- 10.1.0.7
           /32 host LOCAL
        |-- 10.1.255.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
Local:
        |-- 10.1.0.7
           /32 host LOCAL
        |-- 192.168.3.4
           /32 host LOCAL
";

    const INET6: &str = "\
00000000000000000000000000000001 01 80 10 80       lo
fe800000000000000000000000000001 02 40 20 80     eth0
fd00000000000000000000000000000a 02 40 00 80     eth0
not an address
";

    #[test]
    fn own_addresses_are_those_that_reach_other_hosts() {
        let expected: Vec<IpAddr> = ["10.1.0.7", "192.168.3.4"]
            .map(|text| text.parse().expect("an address"))
            .into();
        assert_eq!(ipv4(TRIE), expected);
        let expected: IpAddr = "fd00::a".parse().expect("an address");
        assert_eq!(ipv6(INET6), [expected]);
        assert!(ipv4("").is_empty() && ipv6("").is_empty());
    }

    #[test]
    fn those_of_this_host_are_its_own() {
        for address in of_this_host() {
            assert!(crate::world::tcp::socket::is_own(address), "{address}");
        }
    }
}
