//! What the fuzzer does with what a cluster answers.

use std::fs;

use serde_json::Value;

use super::{
    causes,
    deployment::{DeployedPod, Deployment, of_job, of_mpi_job, typed},
    refusal,
    results_archive::{self, Found},
    status,
};

/// Reads an object as each kind, and says how it is doing.
pub(crate) fn objects(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = causes::findings("", &text);
    let _ = refusal::failure(&text);
    let Ok(object) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let mut pods = Vec::new();
    let items = object["items"].as_array().cloned().unwrap_or_default();
    for item in items.into_iter().chain([object.clone()]) {
        pods.extend(typed(item).map(DeployedPod::new));
    }
    let job = typed(object.clone()).map(of_job);
    for deployment in [job, of_mpi_job(&object)].into_iter().flatten() {
        let deployment = Deployment {
            pods: std::mem::take(&mut pods),
            ..deployment
        };
        assert!(!status::headline(&deployment).is_empty());
        let _ = status::pod_lines(&deployment);
        let _ = status::code(&deployment);
        for pod in &deployment.pods {
            let _ = status::last_words(pod);
            for (reason, message) in status::said_of_pod(&pod.pod) {
                let _ = causes::findings(&reason, &message);
            }
        }
    }
}

/// Finds results in a log, and unpacks them; as an archive alone, the bytes are unpacked too.
pub(crate) fn archive(bytes: &[u8]) {
    let log = String::from_utf8_lossy(bytes);
    if let Found::Whole(found) = results_archive::find(&log) {
        unpack(&found);
    }
    unpack(bytes);
}

fn unpack(archive: &[u8]) {
    let around = tempfile::tempdir().expect("a folder");
    let folder = around.path().join("inside");
    fs::create_dir(&folder).expect("made");
    if let Ok(written) = results_archive::unpack(archive, &folder) {
        assert!(written.iter().all(|path| path.starts_with(&folder)));
    }
    let outside = fs::read_dir(around.path()).expect("entries");
    assert_eq!(outside.count(), 1, "something is outside of the folder");
}
