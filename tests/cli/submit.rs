//! `pxnbench submit`: what is checked before a job is queued, and what is passed to sbatch.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{
    common::{alone, run},
    folder,
};

/// A command line, and what is said of it.
struct Line {
    words: &'static str,
    /// A part of stderr, or of stdout if it is right.
    says: &'static str,
}

#[test]
fn submit_refuses_what_would_fail_in_the_job() {
    let folder = folder();
    for Line { words, says } in [
        Line {
            words: "submit all_reduce -n 1.5",
            says: "at least 0",
        },
        Line {
            words: "submit all_reduce -b 2G -e 1G",
            says: "larger than the largest",
        },
        Line {
            words: "submit all_reduce -p gpu",
            says: "use 0 for no or 1 for yes; see pxnbench --help. If -p is meant for sbatch, put \
                   it before the collectives",
        },
        Line {
            words: "submit all_reduce -A project",
            says: "If -A is meant for sbatch, put it before the collectives",
        },
        Line {
            words: "submit all_reduce -t 1:00:00",
            says: "If -t is meant for sbatch, put it before the collectives",
        },
        Line {
            words: "submit allreduce",
            says: "did you mean all_reduce?",
        },
        Line {
            words: "submit --level agressive",
            says: "Use one of off, conservative, balanced, aggressive, default; see pxnbench \
                   submit --help",
        },
        Line {
            words: "submit --level compare",
            says: "compare is not a level. Use --template compare",
        },
        Line {
            words: "submit --template off",
            says: "off is a level. Use --level off",
        },
        Line {
            words: "submit --gpus-per-node eight",
            says: "it must be a number of GPUs, such as 8, h100:8 or 0",
        },
        Line {
            words: "submit all_reduce -g 4 -t 4",
            says: "each process uses 16 GPUs (-t times -g), but the job asks for 8 per node. Use \
                   fewer",
        },
        Line {
            words: "submit --gpus-per-node h100:2 all_reduce -g 4",
            says: "each process uses 4 GPUs (-t times -g), but the job asks for 2 per node",
        },
        Line {
            words: "submit --gpus-per-node 0 all_reduce --backend nccl",
            says: "--gpus-per-node 0 leaves no GPU for --backend nccl",
        },
        Line {
            words: "submit --template doctor --nonsense",
            says: "unexpected argument '--nonsense' found; see pxnbench submit --help, and \
                   pxnbench doctor --help",
        },
        Line {
            words: "submit all_reduce --wiat",
            says: "see pxnbench submit --help, and pxnbench --help",
        },
        Line {
            words: "submit --template suite --level off",
            says: "--template suite takes no --level of submit. Leave one of them out",
        },
        Line {
            words: "submit --template training fsdp-8b",
            says: "there is no workload 'fsdp-8b', and no such file",
        },
        Line {
            words: "submit --template training fsdp-7b --bucket-mb 5",
            says: "fsdp-7b has no --bucket-mb. Leave it out",
        },
        Line {
            words: "submit --template compare doctor",
            says: "an experiment runs sweeps and training steps only",
        },
        Line {
            words: "submit --template compare all_reduce --csv x",
            says: "an experiment decides where each step writes",
        },
        Line {
            words: "submit topo",
            says: "Name collectives, replay or doctor",
        },
    ] {
        let words = words.split(' ');
        let ended = run(alone(folder.path()).args(words).arg("--dry-run")).expect_code(6);
        assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
    }
}

#[test]
fn submit_takes_its_own_options_after_the_collectives() {
    let folder = folder();
    for Line { words, says } in [
        Line {
            words: "submit all_reduce -N 3 --dry-run --nodes 4 --level off",
            says: "# sbatch --nodes=4 pxn_off.sbatch all_reduce -N 3\n",
        },
        Line {
            words: "submit -N 2 --dry-run --backend host -b 8",
            says: "# sbatch --nodes=2 pxn_aggressive.sbatch --backend host -b 8\n",
        },
        Line {
            words: "submit --dry-run --gpus-per-node 0 all_reduce",
            says: "# sbatch --gpus-per-node=0 pxn_aggressive.sbatch all_reduce --backend host\n",
        },
        Line {
            words: "submit --dry-run --template training -N 4 --seed 2 --network ib",
            says: "# sbatch --nodes=4 pxn_training.sbatch --seed 2 --network ib\n",
        },
        Line {
            words: "submit --template training moe-8x7b --dry-run --level balanced \
                    --gpus-per-node 0",
            says: "# sbatch --gpus-per-node=0 pxn_training.sbatch moe-8x7b --level balanced \
                   --backend host\n",
        },
        Line {
            words: "submit --dry-run --gpus-per-node=0 --level default",
            says: "# sbatch --gpus-per-node=0 pxn_default.sbatch --backend host\n",
        },
        Line {
            words: "submit --dry-run --gpus-per-node 0 --template doctor --strict",
            says: "# sbatch --gpus-per-node=0 pxn_doctor.sbatch --strict\n",
        },
        Line {
            words: "submit --dry-run --template suite",
            says: "# sbatch  pxn_suite.sbatch \n",
        },
    ] {
        let ended = run(alone(folder.path()).args(words.split(' '))).expect_code(0);
        assert!(ended.stdout.starts_with(says), "{words}: {}", ended.stdout);
    }
}

/// What sbatch says is repeated with what it was asked for.
#[test]
fn a_job_that_slurm_refuses_says_what_was_asked_for() {
    let folder = folder();
    let sbatch = folder.path().join("sbatch");
    let why =
        "sbatch: error: Batch job submission failed: Requested node configuration is not available";
    fs::write(&sbatch, format!("#!/bin/sh\necho '{why}' >&2\nexit 1\n")).expect("written");
    fs::set_permissions(&sbatch, fs::Permissions::from_mode(0o755)).expect("a program");
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").expect("a PATH")
    );
    let mut command = alone(folder.path());
    let ended = run(command.env("PATH", path).args([
        "submit",
        "all_reduce",
        "-p",
        "1",
        "--partition",
        "gpu",
    ]))
    .expect_code(8);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
    for part in [
        why,
        "It requested --partition=gpu --nodes=2 (the template's) --gpus-per-node=8 (the \
         template's)",
        "Change that with --nodes, --gpus-per-node (0 requests none",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}
