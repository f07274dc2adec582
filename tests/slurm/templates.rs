//! The templates in `slurm/`: what is in them, and what Slurm makes of them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use pxnbench::levels;

use crate::{
    common::{BINARY, clean, run},
    home::{Home, templates},
    lab::lab,
};

#[test]
fn slurm_accepts_each_template() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    for template in templates() {
        let mut command = lab.command("sbatch", &home);
        run(command
            .args(["--test-only", "-N4", "--gpus-per-node=2"])
            .arg(&template))
        .expect_code(0);
        // The number of GPUs in the template is one that the lab has not: what is asked for
        // arrives.
        let mut command = lab.command("sbatch", &home);
        assert_ne!(
            run(command.arg("--test-only").arg(&template)).code,
            Some(0),
            "{template:?}"
        );
    }
}

#[test]
fn templates_agree_with_the_table_of_levels_and_with_each_other() {
    let rule = "# ----------";
    let mut preambles = Vec::new();
    for path in templates() {
        let text = fs::read_to_string(&path).expect("text");
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let exports: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("export NCCL_"))
            .collect();
        let level = match name.as_str() {
            "container" => Some("aggressive"),
            other => other.strip_prefix("pxn_"),
        };
        let set = level.map(|name| {
            &levels::all()
                .iter()
                .find(|level| level.name == name)
                .expect("a level")
                .set
        });
        let expected: Vec<String> = set
            .into_iter()
            .flatten()
            .map(|setting| {
                format!(
                    "export {0}=\"${{{0}-{1}}}\" # {2}",
                    setting.name, setting.value, setting.why
                )
            })
            .collect();
        assert_eq!(exports, expected, "{name}: slurm/levels.toml is the source");

        let (directives, rest) = text
            .split_once(&format!("{rule}-"))
            .expect("the block that a site may edit ends");
        for directive in [
            "exclusive",
            "mem=0",
            "signal=USR1@120",
            "open-mode=append",
            "output=%x_%j.out",
            "time=",
        ] {
            assert!(
                directives.contains(&format!("\n#SBATCH --{directive}")),
                "{name}: {directive}"
            );
        }
        // Beside --gpus-per-node it is an error from 26.05; the others differ between sites.
        for directive in ["gres", "partition", "account", "ntasks", "cpus"] {
            assert!(
                !text.contains(&format!("\n#SBATCH --{directive}")),
                "{name}: {directive}"
            );
        }
        let last = text.trim_end().lines().last().expect("a last line");
        let ends = ["exec \"$PXNBENCH\" launch", "exec \"$PXNBENCH\" experiment"];
        assert!(
            ends.iter().any(|end| last.starts_with(end)),
            "{name}: nothing may hide the exit status: {last}"
        );
        let preamble = rest
            .split_once("\n\n")
            .expect("a block")
            .1
            .split("\n\n")
            .next()
            .expect("a block");
        preambles.push((name, preamble.to_owned()));
    }
    for (name, preamble) in &preambles {
        assert_eq!(
            *preamble, preambles[0].1,
            "{name} finds the program in another way than {}",
            preambles[0].0
        );
    }
}

/// Runs a template as Slurm would, with an srun that only writes down how it was called.
#[test]
fn a_container_gets_every_name_of_nccl() {
    let home = Home::new("export NCCL_IB_HCA=mlx5_0 PXNBENCH_MPI=pmix");
    let srun = home.path().join("srun");
    let report = |node: &str, rank: u32, size: u32| {
        format!(
            "pxnbench-probe: \
             {{\"rank\":{rank},\"size\":{size},\"node\":\"{node}\",\"built_with\":\"\",\"loaded\":\
             \"\",\"nccl\":{{\"Err\":\"\"}},\"hardware\":null,\"gpus\":8}}"
        )
    };
    let script = format!(
        "#!/bin/bash\ncase \"$* \" in\n*'probe --alone '*) printf '%s\\n' '{}' '{}' ;;\n*'probe \
         '*) printf '%s\\n' '{}' '{}' ;;\n*) printf '%s\\n' srun \"$@\" >called ;;\nesac\n",
        report("n1", 0, 1),
        report("n2", 0, 1),
        report("n1", 0, 2),
        report("n2", 1, 2),
    );
    fs::write(&srun, script).expect("written");
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).expect("made executable");
    let mut command = Command::new("bash");
    clean(&mut command);
    let path = format!(
        "{}:{}",
        home.path().display(),
        std::env::var("PATH").expect("a PATH")
    );
    let here = home.path().display().to_string();
    let job = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_NAME", "pxn_container"),
        ("SLURM_JOB_NODELIST", "n[1-2]"),
        ("SLURM_JOB_CPUS_PER_NODE", "96(x2)"),
        ("SLURM_GPUS_PER_NODE", "8"),
        ("SLURM_SUBMIT_DIR", &here),
        ("PXNBENCH_IMAGE", "/images/nccl.sqsh"),
        ("PATH", &path),
    ];
    command
        .current_dir(home.path())
        .envs(job)
        .args(["slurm/container.sbatch", "alltoall"]);
    run(&mut command).expect_code(0);
    let called = fs::read_to_string(home.path().join("called")).expect("srun was called");
    let folder = Path::new(BINARY)
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    let expected = format!(
        "srun --mpi=pmix --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=12 \
         --distribution=block --gpu-bind=none --kill-on-bad-exit=1 --wait=60 \
         --container-image=/images/nccl.sqsh --container-mounts={here}:{here},{folder}:{folder} \
         --container-workdir={here} \
         --container-env=NCCL_IB_HCA,NCCL_P2P_PXN_LEVEL,NCCL_PXN_DISABLE {BINARY} alltoall"
    );
    assert_eq!(called.lines().collect::<Vec<_>>().join(" "), expected);
}
