//! Short texts and small files.

use std::{collections::BTreeSet, str};

use crate::{
    check,
    collective::traffic::{MATRIX_FILE, MATRIX_SCALE, Traffic, TrafficShares},
    doctor::RecipeReport,
    launch::hosts::HostList,
    levels,
    levels::recipe,
    slurm::hosts,
    units::Bytes,
};

/// A size: what is read is printed, and read again.
pub(super) fn size(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(size) = text.parse::<Bytes>() {
        assert_eq!(size.to_string().parse(), Ok(size));
    }
}

/// A list of nodes: what it stands for is made a list, and stands for the same.
pub(super) fn node_list(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(names) = hosts::expand(&text) else {
        return;
    };
    assert!(names.len() <= 100_000);
    let has_blanks = names.iter().any(|name| name.contains(char::is_whitespace));
    if !has_blanks {
        assert_eq!(hosts::expand(&hosts::compress(&names)), Ok(names));
    }
}

/// A hostfile, and a list of hosts as it is typed.
pub(super) fn hostfile(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for list in [HostList::parse_file(&text), text.parse()]
        .into_iter()
        .flatten()
    {
        assert!(!list.names().is_empty());
        let _ = list.slots();
    }
}

/// The traffic of an alltoallv. The first line is the factor of the others.
pub(super) fn matrix(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (scale, rows) = text.split_once('\n').unwrap_or_default();
    let env = |name: &str| match name {
        MATRIX_FILE => Some("matrix".to_owned()),
        MATRIX_SCALE => Some(scale.to_owned()),
        _ => None,
    };
    match Traffic::from_env(&env, &|_| Ok(rows.to_owned())) {
        Ok(traffic) => {
            let Traffic::Matrix(matrix) = &traffic else {
                panic!("a matrix was read");
            };
            let shares = TrafficShares {
                traffic: &traffic,
                ranks: matrix.side(),
                total: 0,
                element_size: 1,
            };
            let (sent, received) = shares.most();
            assert!(sent % 16 == 0 && received % 16 == 0);
        }
        Err(why) => assert!(why.len() < 600, "{} bytes", why.len()),
    }
}

/// A file that sets variables, in every form.
pub(super) fn recipe(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let names =
        BTreeSet::from(["NCCL_DEBUG", "NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL"].map(String::from));
    for file in ["nccl.conf", "run.sh", "run.env", "pod.yaml"] {
        let report = RecipeReport {
            file: file.to_owned(),
            check: recipe::check(file, &text, &names, None),
            library: String::new(),
            is_strict: true,
        };
        assert!(!report.text().is_empty());
        assert!(report.json().is_object());
    }
}

/// The tables that are compiled in: what is not such a table is an error.
pub(super) fn tables(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let _ = levels::table::parse(text);
    let _ = check::reference::parse(text);
}
