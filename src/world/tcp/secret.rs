//! The shared secret of a job, and the proof of knowing it, which does not reveal it.
//!
//! A proof is HMAC-SHA256 (RFC 2104, FIPS 198-1) over a label, random numbers of both sides and
//! what is to be vouched for.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::{
    env::Env,
    exit::{Code, Failure},
};

/// The variable with a secret that the user chose.
pub const TOKEN: &str = "PXNBENCH_TOKEN";

/// The variables with the id of the job, from which the secret follows if the user chose none.
const JOB_IDS: [&str; 3] = ["PXNBENCH_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"];

/// The variable that tells jobs of one id apart: torchrun's id is the same for all jobs unless it
/// is told another one.
const PORT: &str = "MASTER_PORT";

/// A random number that is used once.
pub(in crate::world) type Nonce = [u8; 32];

/// A proof of knowing the secret.
pub(in crate::world) type Proof = [u8; 32];

/// The secret of a job.
pub(in crate::world) struct Secret {
    key: Vec<u8>,
    /// What it follows from.
    pub(in crate::world) source: SecretSource,
}

/// What a secret follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::world) enum SecretSource {
    /// PXNBENCH_TOKEN.
    Token,
    /// The id of the job.
    JobId,
    /// The port alone, which anybody can guess.
    Port,
    /// A random number that rank 0 gave to all ranks.
    Rank0,
}

impl SecretSource {
    /// Returns how messages name it.
    pub(in crate::world) fn name(self) -> &'static str {
        match self {
            SecretSource::Token => TOKEN,
            SecretSource::JobId => "the id of the job",
            SecretSource::Port => "MASTER_PORT alone",
            SecretSource::Rank0 => "rank 0",
        }
    }
}

impl Secret {
    /// Returns the secret that rank 0 gave to all ranks.
    pub(in crate::world) fn from_rank_0(key: Vec<u8>) -> Secret {
        Secret {
            key,
            source: SecretSource::Rank0,
        }
    }

    /// Returns the secret that the variables give: the token, or what follows from the id of the
    /// job and the port.
    pub(in crate::world) fn from_env(env: Env) -> Secret {
        if let Some(token) = env(TOKEN) {
            return Secret {
                key: token.into_bytes(),
                source: SecretSource::Token,
            };
        }
        let mut text = "pxnbench".to_owned();
        let mut source = SecretSource::Port;
        for name in JOB_IDS {
            if let Some(id) = env(name) {
                text += &format!("\n{name}={id}");
                source = SecretSource::JobId;
            }
        }
        text += &format!("\n{PORT}={}", env(PORT).unwrap_or_default());
        Secret {
            key: text.into_bytes(),
            source,
        }
    }

    /// Returns the proof for `parts` in the role `label`.
    pub(in crate::world) fn prove(&self, label: &str, parts: &[&[u8]]) -> Proof {
        self.mac(label, parts).finalize().into_bytes().into()
    }

    /// Returns whether `proof` is the one for `parts`, in a time that does not depend on where it
    /// differs.
    pub(in crate::world) fn is_proved(&self, label: &str, parts: &[&[u8]], proof: &Proof) -> bool {
        self.mac(label, parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, label: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key");
        for part in std::iter::once(label.as_bytes()).chain(parts.iter().copied()) {
            // The length comes first, so that no two lists of parts are the same bytes.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

/// Returns a fresh random number.
///
/// # Errors
/// Returns an error if the system has no source of randomness.
pub(in crate::world) fn nonce() -> std::io::Result<Nonce> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(std::io::Error::other)?;
    Ok(nonce)
}

/// Returns a secret that nobody can guess, as a word of 64 hexadecimal digits.
///
/// # Errors
/// Returns an error if the system has no source of randomness.
pub fn random_token() -> anyhow::Result<String> {
    let random = nonce().map_err(|error| {
        let what = format!("the system gives no random numbers for a secret: {error}");
        Failure::on_all_ranks(Code::Internal, what)
    })?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(pairs: &[(&str, &str)]) -> Secret {
        let env = |name: &str| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Secret::from_env(&env)
    }

    #[test]
    fn only_the_same_secret_label_and_parts_prove() {
        let own = secret(&[(TOKEN, "a")]);
        let proof = own.prove("join", &[b"xy", b"z"]);
        assert!(own.is_proved("join", &[b"xy", b"z"], &proof));
        assert!(!own.is_proved("tree", &[b"xy", b"z"], &proof));
        assert!(!own.is_proved("join", &[b"x", b"yz"], &proof));
        assert!(!secret(&[(TOKEN, "b")]).is_proved("join", &[b"xy", b"z"], &proof));
    }

    #[test]
    fn a_token_wins_over_the_id_of_the_job_and_that_over_nothing() {
        let id = ("SLURM_JOB_ID", "7");
        assert_eq!(secret(&[(TOKEN, "a"), id]).source, SecretSource::Token);
        assert_eq!(secret(&[id]).source, SecretSource::JobId);
        assert_eq!(secret(&[]).source, SecretSource::Port);
        let (one, other) = (secret(&[id, (PORT, "1")]), secret(&[id, (PORT, "2")]));
        assert_ne!(one.key, other.key);
    }

    /// Test case 2 of RFC 4231 gives HMAC-SHA256 itself.
    #[test]
    fn the_proof_is_hmac_sha256() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").expect("a key");
        mac.update(b"what do ya want for nothing?");
        let bytes = mac.finalize().into_bytes();
        assert_eq!(bytes[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(bytes[28..], [0x64, 0xec, 0x38, 0x43]);
    }
}
