//! Training steps on stand-ins for GPUs: computation and collectives in streams that wait for each
//! other.

use std::time::Duration;

use pxnbench::{
    backend::{
        nccl::NcclLibrary,
        step::{ComputeOptions, StepBackend, StepMode, StepSetup},
    },
    collective::Collective,
    units::Micros,
    workload::{Step, StepWork},
    world::World,
};

use crate::{
    common::{
        Ended, run,
        steps::{
            PIECES, as_rank, check_data, check_modes, check_overlap, check_what_runs, launcher_in,
            passed, rank_of, step_of_all, step_of_copies, step_of_two_streams,
        },
    },
    machine::Machine,
};

/// How long a wait of these tests may stand still on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn opened(step: &Step, world: &dyn World) -> anyhow::Result<Box<dyn StepBackend>> {
    with_share(step, world, 1.0)
}

/// Opens a backend whose computation fills `multiprocessors` of each GPU.
fn with_share(
    step: &Step,
    world: &dyn World,
    multiprocessors: f64,
) -> anyhow::Result<Box<dyn StepBackend>> {
    let library = NcclLibrary::load_on_all_ranks(None, world)?;
    let setup = StepSetup {
        step,
        rank: world.rank(),
        compute: ComputeOptions {
            multiprocessors,
            ..ComputeOptions::default()
        },
    };
    library.open_steps(&setup, world.rank() as usize, world)
}

/// Runs the ignored test `name` of this file as four ranks with a GPU each, of which something goes
/// wrong by `fault`.
fn on_four_gpus(name: &str, fault: &str) -> Option<Ended> {
    let machine = Machine::in_memory(4)?;
    let mut mpirun = machine.on(launcher_in(machine.path(), 4));
    mpirun.env("STANDIN_FAULT", fault);
    let ended = run(rank_of(&mut mpirun, &format!("steps::{name}")));
    assert!(!ended.stderr.contains("stand-in: "), "{}", ended.stderr);
    Some(ended)
}

#[track_caller]
fn expect_passed(ended: Ended) {
    let ended = ended.expect_code(0);
    assert_eq!(passed(&ended.stdout), 4, "{}", ended.stdout);
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_all_collectives() {
    as_rank(LIMIT, |world| {
        let step = step_of_all(&Collective::ALL);
        let mut backend = opened(&step, world)?;
        check_data(&mut *backend, &step, 1)?;
        check_modes(&mut *backend, &step, world)?;
        check_data(&mut *backend, &step, 2)?;
        backend.finish()
    });
}

#[test]
fn every_collective_is_right_in_each_group_of_a_grid_and_waits_for_its_turn() {
    if let Some(ended) = on_four_gpus("rank_of_all_collectives", "") {
        expect_passed(ended);
    }
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_an_overlap() {
    as_rank(LIMIT, |world| {
        let step = step_of_two_streams(Micros(4000.0));
        for share in [1.0, 0.25] {
            let mut backend = with_share(&step, world, share)?;
            check_modes(&mut *backend, &step, world)?;
            check_overlap(&mut *backend, world)?;
            backend.finish()?;
        }
        Ok(())
    });
}

#[test]
fn a_collective_begins_before_the_computation_ends_that_it_does_not_depend_on() {
    if let Some(ended) = on_four_gpus("rank_of_an_overlap", "") {
        expect_passed(ended);
    }
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

/// Each mode that communicates has run three steps and then two, and each piece is a call of the
/// driver.
#[test]
fn each_piece_is_a_copy_of_the_driver_in_the_modes_that_communicate() {
    let calls = 3 * (3 + 2) * PIECES.iter().sum::<u32>();
    let failing = |call: u32| format!("cuMemcpyDtoDAsync_v2:{call}:700:1");
    let Some(ended) = on_four_gpus("rank_of_copies", &failing(calls + 1)) else {
        return;
    };
    expect_passed(ended);
    let ended = on_four_gpus("rank_of_copies", &failing(calls)).expect("as before");
    let ended = ended.expect_code(2);
    let said =
        "while running training steps: cuMemcpyDtoDAsync_v2 failed: CUDA_ERROR_ILLEGAL_ADDRESS";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

/// Each rank opens two such streams, that of its communicator and that of the copies beside
/// computation: a fault in the second call stops it, and a third call never comes.
#[test]
fn what_runs_beside_computation_has_a_high_priority() {
    let failing = |call: u32| format!("cuStreamCreateWithPriority:{call}:2:1");
    let Some(ended) = on_four_gpus("rank_of_copies", &failing(3)) else {
        return;
    };
    expect_passed(ended);
    let ended = on_four_gpus("rank_of_copies", &failing(2)).expect("as before");
    let ended = ended.expect_code(2);
    let said = "GPU 1 does not start: CUDA_ERROR_OUT_OF_MEMORY";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_a_wrong_sum() {
    as_rank(LIMIT, |world| {
        let step = step_of_all(&[Collective::AllReduce]);
        let mut backend = opened(&step, world)?;
        for operation in &step.operations {
            if let StepWork::Collective { communicator, case } = &operation.work {
                let wrong = backend.verify(*communicator, case, 7)?;
                assert_eq!(wrong, u64::from(world.rank() == 1), "{case}");
            }
        }
        backend.finish()
    });
}

#[test]
fn a_wrong_element_is_found_by_the_rank_that_received_it() {
    if let Some(ended) = on_four_gpus("rank_of_a_wrong_sum", "flip:0:1:1") {
        expect_passed(ended);
    }
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_a_step() {
    as_rank(Duration::from_secs(5), |world| {
        let step = step_of_two_streams(Micros(100.0));
        let mut backend = opened(&step, world)?;
        backend.run(StepMode::Overlapped, 3, &|| world.barrier())?;
        backend.finish()
    });
}

#[test]
fn a_collective_that_hangs_ends_the_job_in_the_sentence_of_the_watch() {
    let Some(ended) = on_four_gpus("rank_of_a_step", "hang:2:1:1") else {
        return;
    };
    let ended = ended.expect_code(4);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{}", ended.stderr);
    for part in [
        "“the steps of a workload, ",
        " of 9 operations done”",
        "(GPU ",
    ] {
        assert!(sentences[0].contains(part), "{part}\n{}", ended.stderr);
    }
    assert!(ended.took < LIMIT, "{:?}", ended.took);
}

#[test]
fn a_gpu_that_fails_in_a_step_ends_the_job_with_its_error() {
    for (fault, code, part) in [
        (
            "broken:2:700:1",
            2,
            "while running training steps: cuStreamQuery failed: CUDA_ERROR_ILLEGAL_ADDRESS",
        ),
        (
            "cuStreamWaitEvent:3:400:1",
            2,
            "a stream cannot wait for an event",
        ),
        (
            "cuModuleLoadDataEx:1:200:1",
            2,
            "the driver cannot compile the kernels of computation",
        ),
    ] {
        let Some(ended) = on_four_gpus("rank_of_a_step", fault) else {
            return;
        };
        let ended = ended.expect_code(code);
        assert!(ended.stderr.contains(part), "{fault}: {}", ended.stderr);
        assert!(ended.took < LIMIT, "{fault}: {:?}", ended.took);
    }
}
