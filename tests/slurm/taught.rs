//! The pages that teach, on a cluster: what they have for one runs as printed, on the Slurm that
//! they tell to start.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    ROOT,
    common::pages::{Block, Place, blocks, check_out, prelude, run_blocks},
    lab::Lab,
};

/// A cluster as the page has it, in a test: jobs are small, `sbatch` returns when the job has
/// ended, and `tail -F` ends with the file. NCCL's log of a run on GPUs is a recorded one.
const SMALL_JOBS: &str = r#"
export PXN_LEVELS="off aggressive"
sbatch() {
    local id state small=(-b 1K -e 64K -f 8 -n 2)
    [[ $* != *doctor* ]] || small=()
    id=$(PXN_BLOCKS=2 command sbatch "$@" "${small[@]}") || return
    echo "$id"
    until state=$(squeue -t all -h -j "$id" -o %T) && [[ $state != @(PENDING|CONFIGURING|RUNNING|COMPLETING) ]]; do
        sleep 0.1
    done
    [[ $* != *pxn_aggressive* ]] || for run in results/*-"$id"/*/; do
        mkdir "$run/nccl"
        cp tests/data/nccl-logs/a2a.split.default.log "$run/nccl/node1.1.log"
    done
    [[ $state == COMPLETED ]]
}
tail() { command tail "${@/-F/-vn+1}"; }
"#;

/// The Slurm of the pages, which ends with this process.
fn own_lab(folder: &Path, lab: &Lab) -> String {
    let script = folder.join("scripts/slurm-lab.sh");
    fs::create_dir(folder.join("scripts")).expect("made");
    let owner = std::process::id();
    let text = format!(
        "#!/bin/bash\n[[ $1 != start ]] || set -- \"$@\" --owner {owner}\nexec \
         {ROOT}/scripts/slurm-lab.sh \"$@\"\n"
    );
    fs::write(&script, text).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    format!("export SLURM_LAB_DIR={}\n", lab.folder.display())
}

/// Copies the templates, whose folder gets the site's own file.
fn copy_templates(folder: &Path) {
    fs::create_dir(folder.join("slurm")).expect("made");
    for entry in fs::read_dir(Path::new(ROOT).join("slurm"))
        .expect("slurm/")
        .flatten()
    {
        fs::copy(entry.path(), folder.join("slurm").join(entry.file_name())).expect("copied");
    }
}

/// The second and the third part of the tutorial, then the guide, whose jobs need the same Slurm.
#[test]
fn what_the_pages_have_for_a_cluster_runs_as_printed() {
    let Some(lab) = Lab::start(&["1", "--gpus", "0"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    check_out(folder.path());
    copy_templates(folder.path());
    let prelude = prelude() + &own_lab(folder.path(), &lab) + SMALL_JOBS;
    let page = |name| blocks(&Path::new(ROOT).join(name));
    let (steps, more) = (page("docs/TUTORIAL.md"), page("docs/PXN_GUIDE.md"));
    let on_cluster = |block: &&Block| block.place == Place::Cluster;
    let mut all: Vec<&Block> = steps.iter().filter(on_cluster).collect();
    let stop = all.pop().expect("the tutorial stops its Slurm");
    let ran: Vec<&String> = all.iter().flat_map(|block| &block.commands).collect();
    let is_new = |block: &&Block| !block.commands.iter().all(|command| ran.contains(&command));
    all.extend(more.iter().filter(on_cluster).filter(is_new));
    all.push(stop);
    run_blocks(&all, folder.path(), &prelude);
}
