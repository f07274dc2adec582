//! The objects of a deployment, and how they are printed.

use serde::Serialize;

use super::{
    job, mpi_job,
    request::{Request, Starter},
    security,
    settings::{self, Token},
};
use crate::exit::{Code, Failure};

/// An object, as it is sent to the cluster and as it is printed.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The kind of the object in small letters, as kubectl takes it.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The object.
    pub content: serde_json::Value,
    yaml: String,
}

impl Manifest {
    fn new(kind: &'static str, name: String, object: &impl Serialize) -> anyhow::Result<Manifest> {
        let mut options = serde_saphyr::SerializerOptions::default();
        // Long words stay on their line, and values of variables that look like numbers to some
        // readers stay text.
        options.prefer_block_scalars = false;
        options.quote_all = kind == CONFIG_MAP;
        let yaml = serde_saphyr::to_string_with_options(object, options).map_err(|error| {
            let what = format!("the {kind} cannot be printed: {error}");
            Failure::on_all_ranks(Code::Internal, what)
        })?;
        Ok(Manifest {
            kind,
            name,
            content: serde_json::to_value(object)?,
            yaml,
        })
    }
}

/// The kind of the settings.
const CONFIG_MAP: &str = "configmap";

/// The kind of the token.
const SECRET: &str = "secret";

/// Returns the objects in the order in which they are made: the job last, because its pods need the
/// others.
///
/// # Errors
///
/// Returns an error if an object cannot be written as text.
pub fn manifests(request: &Request, token: &Token) -> anyhow::Result<Vec<Manifest>> {
    let name = request.name.to_string();
    let settings = settings::config_map(request);
    let mut all = vec![Manifest::new(
        CONFIG_MAP,
        request.name.settings(),
        &settings,
    )?];
    match request.starter {
        Starter::Job => {
            let secret = settings::secret(request, token);
            all.push(Manifest::new(SECRET, request.name.token(), &secret)?);
            all.push(Manifest::new(
                "service",
                name.clone(),
                &job::service(request),
            )?);
            all.push(Manifest::new("job", name, &job::job(request))?);
        }
        Starter::MpiOperator => {
            all.push(Manifest::new("mpijob", name, &mpi_job::mpi_job(request))?);
        }
    }
    Ok(all)
}

/// Returns the objects as a stream of YAML, with remarks before them.
///
/// # Errors
///
/// Returns an error if an object cannot be written as text.
pub fn render(request: &Request, token: &Token) -> anyhow::Result<String> {
    let mut text = format!("# Made by `pxnbench kube`: {}.\n", request.summary());
    for note in notes(request) {
        text += &format!("# Note: {note}.\n");
    }
    for manifest in manifests(request, token)? {
        text += "---\n";
        if manifest.kind == SECRET && token.is_placeholder() {
            text += "# Not a secret yet: `pxnbench kube deploy` makes a random one. Put one here \
                     before you apply this yourself, such as that of `openssl rand -hex 32`.\n";
        }
        text += &manifest.yaml;
    }
    Ok(text)
}

/// Returns what a reader should know of the objects, a sentence each, without its full stop.
pub fn notes(request: &Request) -> Vec<String> {
    let mut notes = security::notes(request);
    if request.starter == Starter::MpiOperator {
        notes.push(
            "the image of an MPIJob needs sshd as in the base images of the MPI operator, and \
             this program with its Open MPI"
                .into(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::request::tests::request;

    #[test]
    fn what_is_printed_has_no_token_unless_asked() {
        let token = Token::random().expect("a token");
        let shown = render(&request(), &token).expect("text");
        assert!(!shown.contains("Not a secret yet"));
        let hidden = render(&request(), &Token::placeholder()).expect("text");
        assert!(hidden.contains("REPLACE-WITH") && hidden.contains("Not a secret yet"));
    }

    #[test]
    fn the_job_is_made_last() {
        let kinds = |starter| {
            let request = Request {
                starter,
                ..request()
            };
            let all = manifests(&request, &Token::placeholder()).expect("objects");
            all.iter().map(|one| one.kind).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds(Starter::Job),
            ["configmap", "secret", "service", "job"]
        );
        assert_eq!(kinds(Starter::MpiOperator), ["configmap", "mpijob"]);
    }

    #[test]
    fn values_that_look_like_numbers_stay_text() {
        let request = Request {
            variables: vec!["NCCL_X=1_0".parse().expect("a variable")],
            ..request()
        };
        let text = render(&request, &Token::placeholder()).expect("text");
        assert!(
            text.contains("'NCCL_X': '1_0'") || text.contains("NCCL_X: '1_0'"),
            "{text}"
        );
    }
}
