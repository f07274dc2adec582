//! [`Threshold`]: a busbw that is required, at the peak or at a size.

use std::str::FromStr;

use crate::{
    collective::{Case, Collective, traffic},
    units::Bytes,
};

/// A busbw that is required.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The flag that requires it: `--min-busbw 1G:300`.
    pub flag: String,
    /// The collective; all if there is none.
    pub collective: Option<Collective>,
    /// The size; if there is none, the highest busbw over all sizes counts.
    pub size: Option<Bytes>,
    /// GB/s.
    pub gbps: f64,
}

impl FromStr for Threshold {
    type Err = String;

    /// Reads `300`, `1G:300`, `all_reduce:300` or `all_reduce:1G:300`.
    fn from_str(text: &str) -> Result<Threshold, String> {
        const HOW: &str = "it is GB/s, or a size and GB/s, and may begin with a collective: 300, \
                           1G:300, all_reduce:1G:300";
        let mut parts: Vec<&str> = text.split(':').collect();
        let value = parts.pop().unwrap_or_default();
        let gbps = value.trim().parse::<f64>().map_err(|_| HOW)?;
        if !gbps.is_finite() || gbps <= 0.0 {
            return Err("a busbw that is required is above 0 GB/s".into());
        }
        let (collective, size) = match parts[..] {
            [] => (None, None),
            [one] => match one.parse::<Collective>() {
                Ok(collective) => (Some(collective), None),
                Err(_) => (None, Some(one.parse::<Bytes>().map_err(|_| HOW)?)),
            },
            [collective, size] => (
                Some(collective.parse::<Collective>()?),
                Some(size.parse::<Bytes>().map_err(|_| HOW)?),
            ),
            _ => return Err(HOW.into()),
        };
        Ok(Threshold {
            flag: format!("--min-busbw {text}"),
            collective,
            size,
            gbps,
        })
    }
}

impl Threshold {
    /// Returns whether it is about `case`. A size is that of the command line, which a case may
    /// have rounded.
    pub fn concerns(&self, case: &Case) -> bool {
        let is_own = self.collective.is_none_or(|own| own == case.collective);
        let Some(size) = self.size else {
            return is_own;
        };
        is_own && case.with_size(size, &traffic::DEFAULT).size() == case.size()
    }

    /// Returns it as the user wrote it.
    pub fn text(&self) -> String {
        self.flag.clone()
    }

    /// Returns the sentence that refuses it if it is about no case.
    pub fn without_case(&self) -> String {
        let collective = self.collective.map_or("case", Collective::name);
        let of_size = match self.size {
            Some(size) => format!(" of {size}"),
            None => String::new(),
        };
        format!(
            "{}: there is no {collective}{of_size} among the cases, so this requirement could \
             never fail. Measure one, or leave it out",
            self.flag
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_has_a_collective_a_size_both_or_neither() {
        let read = |text: &str| {
            text.parse::<Threshold>()
                .map(|t| (t.collective, t.size, t.gbps))
        };
        let one_gib = Some(Bytes(1 << 30));
        assert_eq!(read("300"), Ok((None, None, 300.0)));
        assert_eq!(read("1G:300"), Ok((None, one_gib, 300.0)));
        let collective = Some(Collective::AllReduce);
        assert_eq!(read("all_reduce:3.5"), Ok((collective, None, 3.5)));
        assert_eq!(read("all_reduce:1G:3"), Ok((collective, one_gib, 3.0)));
        for wrong in ["", "x", "300:1G", "0", "-3", "nan", "sum:1G:3", "a:b:c:1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
