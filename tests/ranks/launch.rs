//! How ranks are started, and ways of it that are refused.

use crate::{
    common::{self, has_mpi, mpirun, run},
    folder,
};

#[test]
fn processes_that_each_believe_to_be_alone_are_refused() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = common::alone(folder.path());
    command.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ]);
    let ended =
        run(command
            .env("SLURM_STEP_NUM_TASKS", "4")
            .args(["all_reduce", "-b", "8", "-e", "8"]))
        .expect_code(8);
    let sentence = ended.sentences().join("");
    assert!(
        sentence.contains("srun started 4 processes") && sentence.contains("--mpi=pmix"),
        "{sentence}"
    );
}

#[test]
fn ranks_with_other_arguments_are_refused() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = mpirun(1, folder.path());
    command.args([
        "all_reduce",
        "-b",
        "8",
        "-e",
        "16",
        "-f",
        "2",
        "-d",
        "int32",
        ":",
        "-np",
        "1",
        common::BINARY,
    ]);
    let ended = run(command.args(["all_reduce", "-b", "8", "-e", "16", "-f", "2"])).expect_code(6);
    assert!(
        ended.stderr.contains(
            "ranks 0 and 1 were started with different arguments (`-d int32` and nothing). Start all ranks"
        ),
        "{}",
        ended.stderr
    );
}

#[test]
fn one_process_needs_no_session_folder() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    // A file where Open MPI's session folder would be.
    std::fs::write(folder.path().join(".mpi"), "").expect("written");
    let mut command = common::alone(folder.path());
    command.args(["all_reduce", "-b", "8", "-e", "8", "--backend", "host"]);
    run(&mut command).expect_code(0);
}
