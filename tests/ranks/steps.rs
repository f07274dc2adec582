//! Training steps on host memory: real MPI ranks compute while their collectives run.

use std::time::Duration;

use pxnbench::{
    backend::{
        host::open_steps,
        step::{ComputeOptions, StepBackend, StepMode, StepSetup},
    },
    collective::Collective,
    units::Micros,
    workload::{Step, StepWork},
    world::World,
};

use crate::{
    common::{
        Ended, has_mpi, run,
        steps::{
            as_rank, check_data, check_modes, check_overlap, check_what_runs, launcher_in, passed,
            rank_of, step_of_all, step_of_copies, step_of_two_streams,
        },
    },
    folder,
    guard::faulty_mpi,
};

/// How long a wait of these tests may stand still on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn opened(step: &Step, world: &dyn World) -> anyhow::Result<Box<dyn StepBackend>> {
    open_steps(&StepSetup {
        step,
        rank: world.rank(),
        compute: ComputeOptions::default(),
    })
}

/// Runs the ignored test `name` of this file on four ranks.
#[track_caller]
fn on_four_ranks(name: &str) -> Ended {
    let folder = folder();
    let name = format!("steps::{name}");
    let mut mpirun = launcher_in(folder.path(), 4);
    run(rank_of(&mut mpirun, &name))
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_all_collectives() {
    as_rank(LIMIT, |world| {
        let mut collectives = Collective::ALL.to_vec();
        collectives.retain(|collective| *collective != Collective::HyperCube);
        let step = step_of_all(&collectives);
        let mut backend = opened(&step, world)?;
        check_data(&mut *backend, &step, 1)?;
        check_modes(&mut *backend, &step, world)?;
        check_data(&mut *backend, &step, 2)?;
        backend.finish()
    });
}

#[test]
fn every_collective_is_right_in_each_group_of_a_grid_and_waits_for_its_turn() {
    if !has_mpi() {
        return;
    }
    let ended = on_four_ranks("rank_of_all_collectives").expect_code(0);
    assert_eq!(passed(&ended.stdout), 4, "{}", ended.stdout);
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_an_overlap() {
    as_rank(LIMIT, |world| {
        let step = step_of_two_streams(Micros(4000.0));
        let mut backend = opened(&step, world)?;
        check_modes(&mut *backend, &step, world)?;
        check_overlap(&mut *backend, world)?;
        // Work is counted: nothing makes it faster than on the idle processor.
        for times in backend.run(StepMode::Computation, 3, &|| world.barrier())? {
            assert!(times.total.0 > 0.5 * 5000.0, "{times:?}");
        }
        backend.finish()
    });
}

#[test]
fn a_collective_begins_before_the_computation_ends_that_it_does_not_depend_on() {
    if !has_mpi() {
        return;
    }
    let ended = on_four_ranks("rank_of_an_overlap").expect_code(0);
    assert_eq!(passed(&ended.stdout), 4, "{}", ended.stdout);
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_copies() {
    as_rank(LIMIT, |world| {
        let step = step_of_copies();
        let mut backend = opened(&step, world)?;
        check_modes(&mut *backend, &step, world)?;
        check_what_runs(&mut *backend, &step, world)?;
        backend.finish()
    });
}

#[test]
fn copies_run_in_the_modes_that_communicate_and_in_their_turn() {
    if !has_mpi() {
        return;
    }
    let ended = on_four_ranks("rank_of_copies").expect_code(0);
    assert_eq!(passed(&ended.stdout), 4, "{}", ended.stdout);
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_a_wrong_sum() {
    as_rank(LIMIT, |world| {
        let step = step_of_all(&[Collective::AllReduce]);
        let mut backend = opened(&step, world)?;
        let mut found = Vec::new();
        for operation in &step.operations {
            if let StepWork::Collective { communicator, case } = &operation.work {
                found.push(backend.verify(*communicator, case, 7)?);
            }
        }
        // Rank 1 adds a wrong element out of place. It is in the first row and in the second
        // column.
        let in_row = u64::from(world.rank() < 2);
        let in_column = u64::from(world.rank() % 2 == 1);
        assert_eq!(found, [in_row, 0, in_column, 0, 1, 0]);
        backend.finish()
    });
}

#[test]
fn a_wrong_element_is_found_by_the_ranks_that_received_it() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let library = faulty_mpi(folder.path());
    let mut mpirun = launcher_in(folder.path(), 4);
    mpirun
        .args(["env", &format!("LD_PRELOAD={}", library.display())])
        .envs([("MPI_FAULT", "input"), ("MPI_FAULT_RANK", "1")]);
    let ended = run(rank_of(&mut mpirun, "steps::rank_of_a_wrong_sum")).expect_code(0);
    assert_eq!(passed(&ended.stdout), 4, "{}", ended.stdout);
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_a_refused_step() {
    as_rank(LIMIT, |world| {
        let step = step_of_all(&[Collective::HyperCube]);
        let error = opened(&step, world).err().expect("a refusal");
        assert_eq!(
            error.to_string(),
            "the operation hypercube (hypercube 16K float out of place) cannot run on host \
             memory: a hypercube has rounds, which MPI cannot run while a rank computes"
        );
        Ok(())
    });
}

#[test]
fn a_hypercube_in_a_step_is_refused_in_one_sentence() {
    if !has_mpi() {
        return;
    }
    let ended = on_four_ranks("rank_of_a_refused_step").expect_code(0);
    assert_eq!(passed(&ended.stdout), 4, "{}", ended.stdout);
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_a_stuck_step() {
    as_rank(Duration::from_secs(3), |world| {
        let step = step_of_two_streams(Micros(100.0));
        let mut backend = opened(&step, world)?;
        if world.rank() == 1 {
            std::thread::sleep(Duration::from_secs(100));
        }
        backend.run(StepMode::Overlapped, 1, &|| {})?;
        backend.finish()
    });
}

#[test]
fn a_collective_that_does_not_end_ends_the_job_in_the_sentence_of_the_watch() {
    if !has_mpi() {
        return;
    }
    let ended = on_four_ranks("rank_of_a_stuck_step").expect_code(4);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{}", ended.stderr);
    assert!(
        sentences[0].contains("“the steps of a workload”"),
        "{}",
        ended.stderr
    );
    assert!(ended.took < LIMIT, "nobody waits for it: {:?}", ended.took);
}
