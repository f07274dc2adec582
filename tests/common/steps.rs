//! Training steps on every backend: the ranks that run them, and what must hold of their data and
//! times.

use std::{io::Write, path::Path, process::Command, time::Duration};

use pxnbench::{
    backend::step::{Span, StepBackend, StepMode, StepTimes, waits},
    collective::{BufferMode, CaseShape, Collective, data::DType, data::RedOp},
    exit,
    units::{Bytes, Micros},
    workload::{Communicator, Group, MemoryCopies, Step, StepOperation, StepWork},
    world::{World, abort, deadline, open, scratch},
};

/// What a rank prints when it has passed: one byte, because mpirun puts the output of one rank
/// between the words of another.
const PASSED: char = '\u{6}';

/// How exact the times of a GPU's events are.
const TOLERANCE: f64 = 1.5;

/// Calls `work` as a rank of the job that mpirun started, whose failure ends the job. No wait may
/// stand still for `limit`.
pub fn as_rank(limit: Duration, work: impl FnOnce(&dyn World) -> anyhow::Result<()>) {
    std::panic::set_hook(Box::new(|panic| {
        abort::job(exit::Code::Internal, &panic.to_string());
    }));
    let world = open::world("a test of steps", true, open::WaitLimits::all(limit)).expect("ranks");
    let guard = deadline::limit("the steps of a workload", limit);
    if let Err(error) = work(&*world) {
        abort::job(exit::code_of(&error), &format!("{error:#}"));
    }
    world.barrier();
    drop(guard);
    world.finish();
    scratch::remove();
    write!(std::io::stdout(), "{PASSED}").expect("written");
}

/// Adds what starts the ignored test `name` of this file as a rank.
pub fn rank_of<'a>(mpirun: &'a mut Command, name: &str) -> &'a mut Command {
    mpirun.arg(std::env::current_exe().expect("this program"));
    mpirun.args(["--exact", name, "--ignored", "--nocapture"])
}

/// Returns how many ranks said that they passed.
pub fn passed(stdout: &str) -> usize {
    stdout.matches(PASSED).count()
}

fn group(colors: [u32; 4], ranks: [u32; 4], size: u64) -> Group {
    Group {
        colors: colors.to_vec(),
        ranks: ranks.to_vec(),
        size,
    }
}

/// Returns the communicators of four ranks in a grid: rows, columns, and all in the opposite order.
/// Each has a stream.
fn grid() -> Vec<Communicator> {
    let groups = [
        ("rows", group([0, 0, 1, 1], [0, 1, 0, 1], 2)),
        ("columns", group([0, 1, 0, 1], [0, 0, 1, 1], 2)),
        ("all", group([0; 4], [3, 2, 1, 0], 4)),
    ];
    let mut communicators = Vec::new();
    for (stream, (name, group)) in groups.into_iter().enumerate() {
        communicators.push(Communicator {
            name: name.into(),
            stream,
            group,
        });
    }
    communicators
}

fn collective(
    step: &mut Step,
    name: &str,
    communicator: usize,
    collective: Collective,
    size: Bytes,
    mode: BufferMode,
) -> usize {
    let spec = collective.spec();
    let ranks = step.communicators[communicator].group.size;
    let case = CaseShape {
        collective,
        dtype: DType::Float,
        redop: spec.reduces.then_some(RedOp::Sum),
        root: spec.rooted.then_some(ranks as u32 - 1),
        buffer_mode: mode,
        ranks,
    }
    .nearest(size);
    step.operations.push(StepOperation {
        name: name.into(),
        stream: step.communicators[communicator].stream,
        after: Vec::new(),
        work: StepWork::Collective { communicator, case },
    });
    step.operations.len() - 1
}

fn compute(step: &mut Step, name: &str, stream: usize, time: Micros, after: &[usize]) -> usize {
    step.operations.push(StepOperation {
        name: name.into(),
        stream,
        after: after.to_vec(),
        work: StepWork::Compute(time),
    });
    step.operations.len() - 1
}

/// Returns a step with every one of `collectives`, out of place and in place, in each communicator
/// of a grid.
pub fn step_of_all(collectives: &[Collective]) -> Step {
    let communicators = grid();
    let names = communicators.iter().map(|one| one.name.clone());
    let mut step = Step {
        streams: names.collect(),
        communicators,
        operations: Vec::new(),
    };
    for communicator in 0..step.communicators.len() {
        for mode in BufferMode::ALL {
            for &one in collectives {
                let size = Bytes(16 << 10);
                collective(&mut step, one.name(), communicator, one, size, mode);
            }
        }
    }
    step
}

/// Returns a step with computation in one stream and a collective in another that does not depend
/// on it, and computation that waits for the collective.
pub fn step_of_two_streams(time: Micros) -> Step {
    let mut communicators = grid();
    communicators.truncate(1);
    communicators[0].stream = 1;
    let mut step = Step {
        streams: vec!["computation".into(), "communication".into()],
        communicators,
        operations: Vec::new(),
    };
    compute(&mut step, "forward", 0, time, &[]);
    let sum = collective(
        &mut step,
        "sum",
        0,
        Collective::AllReduce,
        Bytes(64 << 10),
        BufferMode::OutOfPlace,
    );
    compute(&mut step, "update", 0, Micros(time.0 / 4.0), &[sum]);
    step
}

/// Pieces of the copies of [`step_of_copies`]: those around its collective, and those in a stream
/// of their own.
pub const PIECES: [u32; 3] = [14, 14, 3];

/// Returns a step that copies before and after a collective in the stream that computes, and in a
/// stream where nothing else runs.
pub fn step_of_copies() -> Step {
    let mut step = step_of_two_streams(Micros(200.0));
    step.streams.push("copies".into());
    let [before, after, beside] = PIECES.map(|pieces| {
        StepWork::Copies(MemoryCopies {
            bytes: Bytes(1_000_001),
            pieces,
        })
    });
    let operation = |name: &str, stream, after: &[usize], work| StepOperation {
        name: name.into(),
        stream,
        after: after.to_vec(),
        work,
    };
    // As in DDP: forward, fill, sum, copy back, update.
    let mut update = step.operations.remove(2);
    let mut sum = step.operations.remove(1);
    sum.after = vec![1];
    update.after = vec![];
    step.operations.extend([
        operation("fill", 0, &[], before),
        sum,
        operation("copy back", 0, &[2], after),
        update,
        operation("beside", 2, &[], beside),
    ]);
    step
}

/// Checks that the operations that compute run unless the mode is communication, and those that
/// copy, as collectives, unless it is computation. What copies takes time.
pub fn check_what_runs(
    backend: &mut dyn StepBackend,
    step: &Step,
    world: &dyn World,
) -> anyhow::Result<()> {
    for (mode, computes, communicates) in [
        (StepMode::Computation, true, false),
        (StepMode::Communication, false, true),
        (StepMode::Serial, true, true),
        (StepMode::Overlapped, true, true),
    ] {
        for times in backend.run(mode, 2, &|| world.barrier())? {
            for (operation, span) in step.operations.iter().zip(&times.operations) {
                let runs = match &operation.work {
                    StepWork::Compute(_) => computes,
                    StepWork::Copies(_) | StepWork::Collective { .. } => communicates,
                };
                let what = format!("{mode:?}, {}: {times:?}", operation.name);
                assert_eq!(span.is_some(), runs, "{what}");
                if let (StepWork::Copies(_), Some(span)) = (&operation.work, span) {
                    assert!(span.end.0 > span.begin.0, "{what}");
                }
            }
        }
    }
    Ok(())
}

/// Checks that the data of all collectives of `step` that are checked are right.
pub fn check_data(backend: &mut dyn StepBackend, step: &Step, seed: u64) -> anyhow::Result<()> {
    for operation in &step.operations {
        if let StepWork::Collective { communicator, case } = &operation.work {
            let wrong = backend.verify(*communicator, case, seed)?;
            anyhow::ensure!(wrong == 0, "{case} in {communicator}: {wrong} are wrong");
        }
    }
    Ok(())
}

/// Runs `step` in every mode, and checks the times.
pub fn check_modes(
    backend: &mut dyn StepBackend,
    step: &Step,
    world: &dyn World,
) -> anyhow::Result<()> {
    for mode in StepMode::ALL {
        let all = backend.run(mode, 3, &|| world.barrier())?;
        assert_eq!(all.len(), 3, "{mode:?}");
        for times in &all {
            check_times(step, mode, times);
        }
    }
    Ok(())
}

/// Checks that exactly the operations of `mode` ran, and that each began when those had ended that
/// it waits for.
pub fn check_times(step: &Step, mode: StepMode, times: &StepTimes) {
    let spans = &times.operations;
    assert_eq!(spans.len(), step.operations.len());
    for (index, waited) in waits(step, mode).iter().enumerate() {
        let what = format!("{mode:?}, {}: {times:?}", step.operations[index].name);
        let Some(span) = spans[index] else {
            assert!(waited.is_none(), "{what}");
            continue;
        };
        assert!(0.0 <= span.begin.0 && span.begin.0 <= span.end.0, "{what}");
        assert!(span.end.0 <= times.total.0 + TOLERANCE, "{what}");
        for &earlier in waited.as_ref().expect("an operation of this mode") {
            let Span { end, .. } = spans[earlier].expect("an operation that ran");
            assert!(end.0 <= span.begin.0 + TOLERANCE, "{what}");
        }
        if mode == StepMode::Serial && index > 0 {
            let Span { end, .. } = spans[index - 1].expect("all run");
            assert!(end.0 <= span.begin.0 + TOLERANCE, "{what}");
        }
    }
}

/// Checks that the collective of [`step_of_two_streams`] begins before the computation has ended
/// that it does not depend on, and that the last computation waits for it. A busy machine may give
/// a stand-in for a stream no time that soon, so of many steps one has to show it.
pub fn check_overlap(backend: &mut dyn StepBackend, world: &dyn World) -> anyhow::Result<()> {
    for _ in 0..20 {
        let mut overlaps = 0;
        for times in backend.run(StepMode::Overlapped, 5, &|| world.barrier())? {
            let [Some(forward), Some(sum), Some(update)] = times.operations[..] else {
                panic!("all run: {times:?}");
            };
            assert!(update.begin.0 + TOLERANCE >= sum.end.0, "{times:?}");
            overlaps += u64::from(sum.begin.0 < forward.end.0);
        }
        // All ranks leave together.
        let without = world.all_reduce_sum(u64::from(overlaps == 0));
        if without == 0 {
            return Ok(());
        }
    }
    anyhow::bail!("no collective began before the computation had ended")
}

/// The folder of a test, and what it starts.
pub fn launcher_in(folder: &Path, ranks: u32) -> Command {
    let mut mpirun = super::launcher(folder);
    mpirun.args(["-np", &ranks.to_string()]);
    mpirun
}
