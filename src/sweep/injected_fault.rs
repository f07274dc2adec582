//! A fault on one process, by which the check of the data tests itself.

use std::str::FromStr;

use crate::collective::FaultTarget;

/// A fault that one process adds once, after an operation whose data are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// The process.
    pub process: u32,
    /// What it changes.
    pub target: FaultTarget,
}

impl FromStr for InjectedFault {
    type Err = String;

    /// Parses `RANK` or `RANK:TARGET`.
    fn from_str(text: &str) -> Result<InjectedFault, String> {
        let (process, target) = text.split_once(':').unwrap_or((text, "data"));
        let mut known = FaultTarget::NAMES.iter();
        let found = known.find(|(name, _)| *name == target);
        match (process.parse(), found) {
            (Ok(process), Some(&(_, target))) => Ok(InjectedFault { process, target }),
            _ => {
                let names = FaultTarget::NAMES.map(|(name, _)| name).join(", ");
                Err(format!("write RANK or RANK:TARGET, with one of {names}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::guard::{BufferSide, CaseBuffer};

    #[test]
    fn a_fault_has_a_rank_and_a_target() {
        let fault = |text: &str| text.parse::<InjectedFault>();
        let data = InjectedFault {
            process: 3,
            target: FaultTarget::Data,
        };
        assert_eq!(fault("3"), Ok(data));
        assert_eq!(fault("3:data"), Ok(data));
        let after = FaultTarget::Beside(CaseBuffer::Send, BufferSide::After);
        assert_eq!(fault("0:after-send").map(|fault| fault.target), Ok(after));
        for wrong in ["", "-1", "1:", "1:behind", "a:data"] {
            assert!(fault(wrong).is_err(), "{wrong}");
        }
    }
}
