//! A backend of one's own: the sweep runs on anything that implements `Backend`. This one copies
//! memory of one process, so with one rank every collective is a copy from the send to the receive
//! buffer.
//!
//! `cargo run --example own_backend`

#![allow(clippy::print_stdout, reason = "an example")]

use std::time::{Duration, Instant};

use pxnbench::{
    backend::{Backend, Timing, Waived, rotation},
    collective::{
        BufferMode, Case, Collective, FaultTarget,
        data::{self, DType, RedOp, Region},
        traffic,
    },
    sweep::{
        self, Event,
        measure::Measure,
        plan::{Plan, Roots, SizeStep, SweepSpec},
    },
    units::Bytes,
    world::solo::Solo,
};

#[derive(Default)]
struct Copies {
    send: Vec<u8>,
    recv: Vec<u8>,
}

fn part(region: &Region, size: u64) -> std::ops::Range<usize> {
    (region.offset * size) as usize..((region.offset + region.len) * size) as usize
}

impl Backend for Copies {
    fn supports(&self, case: &Case) -> Result<(), Waived> {
        if case.ranks == 1 {
            Ok(())
        } else {
            Err(Waived("this example has one rank".into()))
        }
    }

    fn capacity(&self) -> anyhow::Result<Option<Bytes>> {
        Ok(None)
    }

    fn allocate(&mut self, largest: Bytes) -> anyhow::Result<()> {
        self.send = vec![0; largest.0 as usize];
        self.recv = vec![0; largest.0 as usize];
        Ok(())
    }

    fn fill(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let (layout, key, size) = (case.layout(0), case.data(seed), case.dtype.size());
        layout
            .send
            .iter()
            .for_each(|r| data::write(&key, &r.content, &mut self.send[part(r, size)]));
        layout
            .recv
            .iter()
            .for_each(|r| data::write(&key, &r.content, &mut self.recv[part(r, size)]));
        Ok(())
    }

    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing> {
        let start = Instant::now();
        for iteration in 0..times {
            let at = rotation(case.size(), Bytes(self.send.len() as u64), iteration) as usize;
            let message = at..at + case.size().0 as usize;
            if case.buffer_mode == BufferMode::OutOfPlace {
                self.recv[message.clone()].copy_from_slice(&self.send[message]);
            }
        }
        Ok(Timing::new(start.elapsed(), times))
    }

    fn count_wrong(&mut self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let (layout, key, size) = (case.layout(0), case.data(seed), case.dtype.size());
        let wrong = |r: &Region| data::count_wrong(&key, &r.content, &self.recv[part(r, size)]);
        Ok(layout.expected.iter().map(wrong).sum())
    }

    fn corrupt(&mut self, _case: &Case, _target: FaultTarget) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

fn main() -> anyhow::Result<()> {
    let ask = SweepSpec {
        collectives: Collective::ALL.to_vec(),
        begin: Bytes(1 << 10),
        end: Bytes(1 << 20),
        step: SizeStep::Factor(32),
        dtypes: vec![DType::Float],
        redops: vec![RedOp::Sum],
        roots: Roots::One(0),
        traffic: &traffic::DEFAULT,
    };
    let plan = Plan::new(&ask, 1);
    let mut measure = Measure {
        timeout: Duration::from_secs(60),
        ..Measure::default()
    };
    let mut backend = Copies::default();
    backend.allocate(plan.largest(&|case| backend.supports(case).is_ok()))?;
    sweep::run(
        &plan,
        sweep::EarlierRecords::default(),
        &mut measure,
        &Solo,
        &mut backend,
        &mut |event| {
            if let Event::Finished(record) = event {
                let (time, wrong) = (record.time.map_or(0.0, |time| time.0), record.wrong);
                println!(
                    "{:48} {time:9.2} us  wrong {wrong:?}",
                    record.case.to_string()
                );
                assert_eq!(record.wrong.unwrap_or(0), 0);
            }
            Ok(())
        },
    )?;
    Ok(())
}
