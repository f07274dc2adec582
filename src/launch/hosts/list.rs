//! The hosts of a launch, as they are typed or as a hostfile lists them.

use std::{collections::HashMap, str::FromStr};

use crate::{slurm::hosts, visible::excerpt};

/// A host, and how many ranks it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name, as ssh takes it.
    pub name: String,
    /// Its ranks, if the list says.
    pub slots: Option<u32>,
}

/// Hosts in the order of their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostList(pub Vec<Host>);

/// The most names in a list, which may have one per slot.
const MOST_NAMES: usize = 1_000_000;

/// Keys of Open MPI's hostfiles that limit what else may run on a host, which does not matter to
/// one job.
const OTHER_KEYS: [&str; 2] = ["max_slots", "max-slots"];

impl FromStr for HostList {
    type Err = String;

    /// Parses `a,b:8,node[1-4]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut list = ListReader::default();
        for part in hosts::parts(text)? {
            list.add(part, None)?;
        }
        list.finish()
    }
}

impl HostList {
    /// Parses a hostfile: `node1 slots=8` as for Open MPI, `node1:8` as for MPICH, names alone, or
    /// a name per slot as batch systems list them; also `node[1-4] slots=8`. `#` begins a comment.
    ///
    /// # Errors
    /// Returns an error that names the line.
    pub fn parse_file(text: &str) -> Result<HostList, String> {
        let mut list = ListReader::default();
        for (at, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or_default().trim();
            if !content.is_empty() {
                let of_line = |why| format!("line {}: {why}", at + 1);
                list.add_line(content).map_err(of_line)?;
            }
        }
        list.finish()
    }

    /// Returns the names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|host| host.name.as_str()).collect()
    }

    /// Returns the ranks of every host, if the list says so.
    ///
    /// # Errors
    /// Returns an error if hosts have different numbers, or only some have one.
    pub fn slots(&self) -> Result<Option<u32>, String> {
        let Some(first) = self.0.first() else {
            return Ok(None);
        };
        match self.0.iter().find(|host| host.slots != first.slots) {
            None => Ok(first.slots),
            Some(other) => Err(format!(
                "{} but {}, and all hosts need the same number of ranks. Give --ranks-per-node",
                describe(first),
                describe(other)
            )),
        }
    }
}

/// A list that is being read.
#[derive(Default)]
struct ListReader {
    hosts: Vec<Host>,
    /// The place of each host in the list.
    places: HashMap<String, usize>,
    /// How often hosts were named.
    named: usize,
}

impl ListReader {
    fn add_line(&mut self, line: &str) -> Result<(), String> {
        // Open MPI takes blanks around the sign.
        let line = line.replace(" = ", "=");
        let mut words = line.split_whitespace();
        let names = words.next().unwrap_or_default();
        let mut slots = None;
        for word in words {
            match word.split_once('=') {
                Some(("slots", number)) => slots = Some(parse_slots(number)?),
                Some((key, _)) if OTHER_KEYS.contains(&key) => {}
                _ => {
                    let word = excerpt(word);
                    return Err(format!("'{word}' is unknown. Write NAME slots=N"));
                }
            }
        }
        for part in hosts::parts(names)? {
            self.add(part, slots)?;
        }
        Ok(())
    }

    /// Adds `NAME` or `NAME:SLOTS`, of which the name may stand for several.
    fn add(&mut self, part: &str, slots: Option<u32>) -> Result<(), String> {
        let (names, own_slots) = without_slots(part)?;
        let slots = own_slots.or(slots);
        let names = match names.strip_prefix('[') {
            // Brackets at the beginning hold an IPv6 address.
            Some(address) => vec![address.trim_end_matches(']').to_owned()],
            None => hosts::expand(names).map_err(|why| format!("'{}': {why}", excerpt(names)))?,
        };
        for name in names {
            check_name(&name)?;
            self.add_host(name, slots)?;
        }
        Ok(())
    }

    /// Adds a host. One that is listed again has the slots of both places; without a number, each
    /// is one.
    fn add_host(&mut self, name: String, slots: Option<u32>) -> Result<(), String> {
        self.named += 1;
        if self.named > MOST_NAMES {
            return Err(format!("more than {MOST_NAMES} hosts are named"));
        }
        let Some(place) = self.places.get(&name) else {
            self.places.insert(name.clone(), self.hosts.len());
            self.hosts.push(Host { name, slots });
            return Ok(());
        };
        let host = &mut self.hosts[*place];
        let sum = host
            .slots
            .unwrap_or(1)
            .checked_add(slots.unwrap_or(1))
            .ok_or_else(|| format!("{name} has too many slots"))?;
        host.slots = Some(sum);
        Ok(())
    }

    fn finish(self) -> Result<HostList, String> {
        match self.hosts.is_empty() {
            true => Err("it names no host".into()),
            false => Ok(HostList(self.hosts)),
        }
    }
}

fn describe(host: &Host) -> String {
    match host.slots {
        Some(1) => format!("{} has 1 slot", host.name),
        Some(slots) => format!("{} has {slots} slots", host.name),
        None => format!("{} has no number of slots", host.name),
    }
}

/// Splits `NAME:SLOTS`. A name with several colons is an IPv6 address, which has brackets if a
/// number follows.
fn without_slots(part: &str) -> Result<(&str, Option<u32>), String> {
    let after_brackets = part.rfind(']').map_or(0, |at| at + 1);
    let Some(at) = part[after_brackets..].rfind(':') else {
        return Ok((part, None));
    };
    let (name, slots) = part.split_at(after_brackets + at);
    if name.contains(':') && after_brackets == 0 {
        return Ok((part, None));
    }
    Ok((name, Some(parse_slots(&slots[1..])?)))
}

fn parse_slots(text: &str) -> Result<u32, String> {
    let slots = text.parse().ok().filter(|slots| *slots > 0);
    slots.ok_or_else(|| {
        let text = excerpt(text);
        format!("'{text}' is no number of slots. Use a number of at least 1")
    })
}

/// Refuses what ssh would take for an option, and a user.
fn check_name(name: &str) -> Result<(), String> {
    if let Some((_, host)) = name.split_once('@') {
        let (name, host) = (excerpt(name), excerpt(host));
        return Err(format!(
            "'{name}' names a user. Name the user in ~/.ssh/config, and here only {host}"
        ));
    }
    let is_odd = |c: char| !c.is_alphanumeric() && !"-_.:%".contains(c);
    if name.is_empty() || name.starts_with('-') || name.contains(is_odd) {
        return Err(format!("'{}' is no host name", excerpt(name)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(list: Result<HostList, String>) -> String {
        let HostList(hosts) = match list {
            Ok(list) => list,
            Err(why) => return why,
        };
        let host = |host: &Host| match host.slots {
            Some(slots) => format!("{}*{slots}", host.name),
            None => host.name.clone(),
        };
        hosts.iter().map(host).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lists_name_hosts_ranges_and_slots() {
        for (text, expected) in [
            ("a,b", "a b"),
            ("a:8,b:4", "a*8 b*4"),
            ("node[1-3]", "node1 node2 node3"),
            (
                "node[08-09,12]-ib:2,login",
                "node08-ib*2 node09-ib*2 node12-ib*2 login",
            ),
            ("10.0.0.1:8", "10.0.0.1*8"),
            ("fd00::1", "fd00::1"),
            ("[fd00::1]:8,[fd00::2]", "fd00::1*8 fd00::2"),
            ("a,a,b", "a*2 b"),
            ("", "it names no host"),
            ("a,,b", "a name is empty"),
            (
                "a:0",
                "'0' is no number of slots. Use a number of at least 1",
            ),
            (
                "a:x",
                "'x' is no number of slots. Use a number of at least 1",
            ),
            ("node[1-", "a bracket is not closed"),
            ("node[3-1]", "'node[3-1]': the range 3-1 runs backwards"),
            ("-oProxyCommand=x", "'-oProxyCommand=x' is no host name"),
            ("a b", "'a b' is no host name"),
            (
                "me@a",
                "'me@a' names a user. Name the user in ~/.ssh/config, and here only a",
            ),
            ("a:4294967295,a:1", "a has too many slots"),
        ] {
            assert_eq!(described(text.parse()), expected, "{text}");
        }
    }

    #[test]
    fn hostfiles_of_open_mpi_mpich_and_batch_systems_are_read() {
        for (text, expected) in [
            (
                "# mine\nn1 slots=8\nn2 slots=8 max_slots=16 # two\n\n",
                "n1*8 n2*8",
            ),
            ("n1 slots = 4\nn2 max-slots=4\n", "n1*4 n2"),
            ("n1:8\nn2:8\n", "n1*8 n2*8"),
            ("node[1-2] slots=4\n", "node1*4 node2*4"),
            ("n1\nn1\nn2\nn2\n", "n1*2 n2*2"),
            ("n1,n2\n", "n1 n2"),
            ("n1\r\nn2\r\n", "n1 n2"),
            ("# nothing\n", "it names no host"),
            (
                "n1\nn2 slots=x\n",
                "line 2: 'x' is no number of slots. Use a number of at least 1",
            ),
            (
                "n1 gpus=8\n",
                "line 1: 'gpus=8' is unknown. Write NAME slots=N",
            ),
        ] {
            assert_eq!(described(HostList::parse_file(text)), expected, "{text}");
        }
    }

    #[test]
    fn all_hosts_need_the_same_number_of_slots() {
        let slots = |text: &str| text.parse::<HostList>().expect("a list").slots();
        assert_eq!(slots("a,b"), Ok(None));
        assert_eq!(slots("a:8,b:8"), Ok(Some(8)));
        let why = slots("a:8,b:4").expect_err("different");
        assert!(why.contains("a has 8 slots but b has 4 slots"), "{why}");
        let why = slots("a:1,b").expect_err("unknown");
        assert!(
            why.contains("a has 1 slot but b has no number of slots"),
            "{why}"
        );
    }
}
