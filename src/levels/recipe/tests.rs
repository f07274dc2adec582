use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    check::{RecipeCheck, check},
    form::Form,
    read::read,
};
use crate::levels::audit::known_names;

fn checked(name: &str, text: &str) -> RecipeCheck {
    let all: BTreeSet<String> = known_names::of_any_version();
    check(name, text, &all, None)
}

/// What a file sets: line, name, value if it is known.
fn set(name: &str, text: &str) -> Vec<(usize, String, Option<String>)> {
    let all = read(name, text).assignments.into_iter();
    all.map(|one| (one.line, one.name, one.value)).collect()
}

fn known(line: usize, name: &str, value: &str) -> (usize, String, Option<String>) {
    (line, name.to_owned(), Some(value.to_owned()))
}

/// The findings: id, lines, and lines of conditions.
fn found(name: &str, text: &str) -> Vec<(&'static str, Vec<usize>, Vec<usize>)> {
    let all = checked(name, text).findings.into_iter();
    all.map(|one| (one.finding.id, one.lines, one.conditions))
        .collect()
}

#[test]
fn the_form_follows_from_name_and_text() {
    for (name, text, form) in [
        ("nccl.conf", "NCCL_DEBUG=INFO", Form::NcclConf),
        (".nccl.conf", "", Form::NcclConf),
        (
            "recipe",
            "# x\nNCCL_DEBUG=INFO\nHOME\nA=\"b c\"\n",
            Form::EnvFile,
        ),
        ("recipe.env", "NCCL_DEBUG=INFO\n", Form::EnvFile),
        ("recipe.env", "export NCCL_DEBUG=INFO\n", Form::Script),
        ("run", "NCCL_DEBUG=INFO srun ./a\n", Form::Script),
        ("job.sbatch", "NCCL_DEBUG=INFO\n", Form::Script),
        ("job", "#!/bin/bash\nNCCL_DEBUG=INFO\n", Form::Script),
        ("job.yaml", "", Form::Yaml),
        ("job", "apiVersion: v1\n", Form::Yaml),
    ] {
        assert_eq!(Form::of(name, text), form, "{name}: {text}");
    }
}

#[test]
fn an_env_file_is_read_as_docker_reads_it() {
    let text = "# NCCL_A=1\n\n  NCCL_DEBUG=INFO\nNCCL_IB_HCA=\"mlx5\"\nNCCL_ALGO\nHOME=/\n";
    assert_eq!(
        set("x.env", text),
        [
            known(3, "NCCL_DEBUG", "INFO"),
            known(4, "NCCL_IB_HCA", "\"mlx5\""),
            (5, "NCCL_ALGO".to_owned(), None),
        ]
    );
    assert_eq!(
        found("x.env", text),
        [("env.stray-characters", vec![4], vec![])]
    );
}

#[test]
fn a_script_is_read_with_its_lines() {
    let text = "#!/bin/bash
#SBATCH --export=ALL,NCCL_IB_TIMEOUT=22
export NCCL_DEBUG=INFO NCCL_ALGO='Ring' # NCCL_PROTO=LL
NCCL_PROTO=LL
declare -x NCCL_IB_SL=1
HCA=mlx5_0
export NCCL_IB_HCA=\"=$HCA:1\" \\
       NCCL_SOCKET_IFNAME=${IFNAME:-eth0}
NCCL_PXN_DISABLE=0 srun --export=ALL,NCCL_NTHREADS=256 -n 2 ./a
mpirun -np 2 -x NCCL_CROSS_NIC=1 -x NCCL_DEBUG \\
  -x NCCL_TOPO_FILE ./b
env -u X NCCL_NET=IB ./c > NCCL_X=1
bash -c 'export NCCL_BUFFSIZE=4096; ./d'
docker run -e NCCL_P2P_LEVEL=NVL --env=NCCL_SHM_DISABLE=1 image
mpiexec -genv NCCL_MIN_NCHANNELS 4 ./e
";
    assert_eq!(
        set("x.sbatch", text),
        [
            known(2, "NCCL_IB_TIMEOUT", "22"),
            known(3, "NCCL_DEBUG", "INFO"),
            known(3, "NCCL_ALGO", "Ring"),
            known(4, "NCCL_PROTO", "LL"),
            known(5, "NCCL_IB_SL", "1"),
            known(7, "NCCL_IB_HCA", "=mlx5_0:1"),
            (8, "NCCL_SOCKET_IFNAME".to_owned(), None),
            known(9, "NCCL_PXN_DISABLE", "0"),
            known(9, "NCCL_NTHREADS", "256"),
            known(10, "NCCL_CROSS_NIC", "1"),
            (11, "NCCL_TOPO_FILE".to_owned(), None),
            known(12, "NCCL_NET", "IB"),
            known(13, "NCCL_BUFFSIZE", "4096"),
            known(14, "NCCL_P2P_LEVEL", "NVL"),
            known(14, "NCCL_SHM_DISABLE", "1"),
            known(15, "NCCL_MIN_NCHANNELS", "4"),
        ]
    );
    let unknown = checked("x.sbatch", text).cannot_tell;
    let unknown: Vec<(usize, &str)> = unknown
        .iter()
        .map(|one| (one.line, one.what.as_str()))
        .collect();
    assert_eq!(
        unknown,
        [
            (
                4,
                "NCCL_PROTO=LL is not exported here: no program sees it, unless it is exported \
                 elsewhere"
            ),
            (
                8,
                "NCCL_SOCKET_IFNAME=${IFNAME:-eth0}: its value is known only when it runs"
            ),
            (
                11,
                "NCCL_TOPO_FILE=(from the caller): its value is known only when it runs"
            ),
        ]
    );
}

/// As public scripts do it: options in a variable, a launcher after another command, a document, a
/// function, a list that a comma cuts.
#[test]
fn settings_in_odd_places_are_found() {
    let text = "#!/bin/bash
args=\"-x NCCL_DEBUG=WARN -x PATH\"
args+=\" -x NCCL_ALGO=Ring\"
timeout 180 mpirun $args -x NCCL_PROTO=LL ./a
set_all() {
  export NCCL_IB_TC=106
}
sbatch <<'EOF'
#!/bin/bash
# it's fine
export NCCL_NTHREADS=256
EOF
echo don't
srun --export=ALL,NCCL_IB_HCA=mlx5_0,mlx5_1 ./b
set -a; NCCL_BUFFSIZE=4096; set +a
";
    assert_eq!(
        set("x.sh", text),
        [
            known(2, "NCCL_DEBUG", "WARN"),
            known(3, "NCCL_ALGO", "Ring"),
            known(4, "NCCL_PROTO", "LL"),
            known(6, "NCCL_IB_TC", "106"),
            known(11, "NCCL_NTHREADS", "256"),
            known(14, "NCCL_IB_HCA", "mlx5_0"),
            known(15, "NCCL_BUFFSIZE", "4096"),
        ]
    );
    let all = read("x.sh", text);
    assert_eq!(all.assignments[3].condition, Some(5));
    assert!(all.assignments.iter().all(|one| one.is_exported));
    assert_eq!(all.unseen[0].line, 14);
    assert!(
        all.unseen[0]
            .what
            .starts_with("mlx5_1 is not a part of NCCL_IB_HCA")
    );
}

/// Slurm hands on what the list of `--export` names, and everything else only with ALL.
#[test]
fn exports_that_slurm_keeps_from_the_ranks_are_told() {
    let text = "#!/bin/bash
#SBATCH --export=NONE
export NCCL_MIN_CTAS=8
srun --export=NCCL_MAX_CTAS=4 ./a
srun --export=ALL,NCCL_DEBUG=WARN ./b
srun --export=$LIST ./c
";
    let all = read("x.sh", text);
    let unseen: Vec<(usize, &str)> = all
        .unseen
        .iter()
        .map(|unseen| (unseen.line, unseen.what.as_str()))
        .collect();
    assert_eq!(
        unseen,
        [
            (
                2,
                "--export=NONE has no ALL, so ranks that srun starts see nothing else that is \
                 exported here. Put ALL first in the list, or give srun --export=ALL"
            ),
            (
                4,
                "srun --export=NCCL_MAX_CTAS=4 has no ALL, so these ranks see nothing else that \
                 is exported. Put ALL first in the list"
            ),
        ]
    );
    // The least is not above the most in any of them, because no ranks get both.
    assert_eq!(found("x.sh", text), []);
    let both = text.replace("--export=NCCL_MAX", "--export=ALL,NCCL_MAX");
    assert_eq!(
        found("x.sh", &both),
        [("env.min-above-max", vec![3, 4], vec![])]
    );
}

#[test]
fn what_is_unset_before_a_program_sees_it_is_not_set() {
    let text = "export NCCL_ALGO=Ring
echo off
unset NCCL_ALGO
export NCCL_PROTO=LL
./a
unset NCCL_PROTO
export NCCL_DEBUG=WARN
if [ -n \"$X\" ]; then unset NCCL_DEBUG; fi
srun ./b
";
    assert_eq!(
        set("x.sh", text),
        [known(4, "NCCL_PROTO", "LL"), known(7, "NCCL_DEBUG", "WARN")]
    );
    // Places of what is left are those of what is in force.
    let text = "export NCCL_ALGO=Ring; unset NCCL_ALGO
export NCCL_MIN_CTAS=8
NCCL_MAX_CTAS=4 srun ./b
";
    let crossed = [("env.min-above-max", vec![2, 3], vec![])];
    assert_eq!(found("x.sh", text), crossed);
}

#[test]
fn containers_of_a_yaml_file_are_told_apart() {
    let list = |name: &str, value: &str| {
        format!("  - name: x\n    env:\n    - name: {name}\n      value: \"{value}\"\n")
    };
    let text = list("NCCL_MIN_CTAS", "8") + &list("NCCL_MAX_CTAS", "4");
    assert_eq!(found("x.yaml", &text), []);
}

#[test]
fn conditions_are_told() {
    let text = "export NCCL_P2P_PXN_LEVEL=1
if [ \"$FAST\" = 1 ]; then
  export NCCL_RUNTIME_CONNECT=0
fi
[ -f /x ] && export NCCL_PXN_DISABLE=yes
export A=1 && export NCCL_DEBUG=info2
srun ./a
";
    assert_eq!(
        found("x.sh", text),
        [
            ("env.crashes", vec![1, 3], vec![2]),
            ("env.misread-integer", vec![5], vec![5]),
            ("env.unknown-word", vec![6], vec![]),
        ]
    );
    let all = read("x.sh", text);
    let conditions: Vec<Option<usize>> = all.assignments.iter().map(|one| one.condition).collect();
    assert_eq!(conditions, [None, Some(2), Some(5), None]);
}

#[test]
fn what_holds_together_is_what_one_command_gets() {
    // Each of the two is of another command.
    let apart = "NCCL_MIN_CTAS=8 srun ./a\nNCCL_MAX_CTAS=4 srun ./b\n";
    assert_eq!(found("x.sh", apart), []);
    let text = "export NCCL_MIN_CTAS=8\nNCCL_MAX_CTAS=4 srun ./b\nunset NCCL_MIN_CTAS\n";
    let crossed = [("env.min-above-max", vec![1, 2], vec![])];
    assert_eq!(found("x.sh", text), crossed);
    // The later one counts.
    let text = "export NCCL_MAX_CTAS=4\nexport NCCL_MAX_CTAS=8\nexport NCCL_MIN_CTAS=8\n./a\n";
    assert_eq!(found("x.sh", text), []);
    // What is unknown may be what is missed.
    let text = "export NCCL_DEBUG=$LEVEL\nexport NCCL_DEBUG_SUBSYS=INIT,ENV\n./a\n";
    assert_eq!(found("x.sh", text), []);
    assert_eq!(
        found("x.sh", "export NCCL_DEBUG_SUBSYS=INIT,ENV\n./a\n"),
        [("env.no-effect", vec![1], vec![])]
    );
}

#[test]
fn a_name_is_audited_though_its_value_is_unknown() {
    let text = "export NCCL_PNX_DISABLE=$X\nexport NCCL_PXN_DISABLE=$X\n";
    assert_eq!(found("x.sh", text), [("env.unknown-name", vec![1], vec![])]);
}

#[test]
fn an_nccl_conf_is_audited_with_its_dead_lines() {
    let text = "NCCL_DEBUG=INFO\nexport NCCL_ALGO=Ring\nNCCL_PXN_DISABLE=true\nNCCL_DEBUG=WARN\n";
    assert_eq!(
        found("/etc/nccl.conf", text),
        [
            ("env.dead-line", vec![2], vec![]),
            ("env.misread-integer", vec![3], vec![]),
        ]
    );
}

#[test]
fn a_yaml_file_is_read() {
    let text = "apiVersion: v1
spec:
  - command: [bash, -c, 'export NCCL_ALGO=Tree; ./a']
    args:
    - mpirun
    - -x
    - NCCL_PROTO=Simple
    env:
    - name: NCCL_DEBUG
      value: \"INFO\" # loud
    - name: NCCL_IB_HCA
      valueFrom: {configMapKeyRef: {name: a}}
    - {name: NCCL_NET, value: IB}
    - name: HOME
      value: /
  environment:
    NCCL_IB_TIMEOUT: 22
    NCCL_SOCKET_IFNAME: {{ .Values.ifname }}
";
    assert_eq!(
        set("x.yaml", text),
        [
            known(3, "NCCL_ALGO", "Tree"),
            known(7, "NCCL_PROTO", "Simple"),
            known(10, "NCCL_DEBUG", "INFO"),
            (11, "NCCL_IB_HCA".to_owned(), None),
            known(13, "NCCL_NET", "IB"),
            known(17, "NCCL_IB_TIMEOUT", "22"),
            (18, "NCCL_SOCKET_IFNAME".to_owned(), None),
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Arbitrary text and arbitrary shell: never a panic, in no form.
    #[test]
    fn no_file_is_a_panic(text in any::<String>(), shell in "(NCCL_DEBUG|NCCL_X=|export |if |fi|\\$\\{?|\\$\\(|[\"'`\\\\#;&|<>(){}=\n, a])*") {
        for name in ["a.conf", "a.sh", "a.yaml", "a.env"] {
            for text in [&text, &shell] {
                let _ = checked(name, text);
            }
        }
    }
}
