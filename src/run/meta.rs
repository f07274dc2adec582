//! What is known of a run before its first case, as its files record it.

use std::collections::BTreeMap;

use super::{context::RunContext, name, outcome::least_busbw, traffic};
use crate::{
    env, facts,
    record::{
        self, BackendKind, Device, FORMAT, ProcessMeta, RunMeta,
        peak::PeakMeta,
        run_meta::{hosts_of, models_of},
    },
    slurm::SlurmJob,
};

impl RunContext<'_> {
    /// Returns the meta data of the run, which has no name yet.
    pub(super) fn meta(&self) -> RunMeta {
        let (environment, environment_files) = recorded_environment();
        // The run does not depend on the job: one that cannot be read is left out.
        let job = SlurmJob::from(&env::var).ok().flatten();
        let reports_ranks = traffic::wants_summary().unwrap_or(false);
        let least_busbw = least_busbw().ok().flatten();
        let processes = self.process_metas();
        let measured: &[ProcessMeta] = if self.backend.measures() {
            &processes
        } else {
            &[]
        };
        RunMeta {
            format: FORMAT,
            pxnbench: env!("CARGO_PKG_VERSION").into(),
            run_id: String::new(),
            started_at: record::now(),
            continued_at: Vec::new(),
            ended_at: None,
            end: None,
            command: name::command(),
            drop_in: self.request.files.is_drop_in,
            backend: self.backend,
            backend_why: self.backend_why.clone(),
            level: self.settings.level.clone(),
            network: self.settings.network.clone(),
            resources: self.settings.resources.clone(),
            step: job.as_ref().and_then(|job| job.step),
            job,
            repeat: self.request.repeat,
            nodes: self.nodes(),
            ranks: self.total_ranks(),
            gpus_per_process: if self.backend.uses_gpus() {
                self.request.process.gpus()
            } else {
                0
            },
            hosts: hosts_of(measured),
            device: models_of(measured),
            sweep: self.request.sweep_meta(reports_ranks, least_busbw),
            peak: PeakMeta::default(),
            memory: None,
            telemetry: None,
            over_time: None,
            versions: self.versions(),
            environment,
            environment_files,
            remarks: self.settings.remarks.clone(),
            stragglers: None,
            proof: None,
            processes,
            startup_s: None,
            phases: Vec::new(),
        }
    }

    fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = if self.backend.uses_gpus() {
            self.processes[0].versions.clone()
        } else {
            BTreeMap::new()
        };
        let mpi = self.world.library();
        if !mpi.is_empty() {
            versions.insert("mpi".into(), mpi);
        }
        versions
    }

    fn process_metas(&self) -> Vec<ProcessMeta> {
        let mut all = Vec::new();
        for (process, facts) in self.processes.iter().enumerate() {
            let placement = self.placements[process];
            for device in self.devices(process) {
                all.push(ProcessMeta {
                    rank: all.len() as u32,
                    group: self.group_of(process as u32).unwrap_or(0),
                    host: facts.peer.host.clone(),
                    node: placement.node,
                    local_rank: placement.local_rank,
                    pid: facts.peer.pid,
                    device,
                });
            }
        }
        all
    }

    /// Returns what each rank of a process drives.
    fn devices(&self, process: usize) -> Vec<Device> {
        let facts = &self.processes[process];
        if let Some(gpus) = self.gpus.get(process) {
            return gpus.iter().map(|&gpu| facts.gpus[gpu].clone()).collect();
        }
        let bus = if self.backend == BackendKind::Model {
            "computed"
        } else {
            "host memory"
        };
        vec![Device {
            index: self.placements[process].local_rank,
            bus: bus.into(),
            name: facts.processor.clone(),
            uuid: String::new(),
        }]
    }
}

/// Returns the variables that the run records, and the files that some of them come from.
fn recorded_environment() -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut environment, mut files) = (facts::environment(), BTreeMap::new());
    for (name, setting) in facts::settings().iter() {
        if let Some(file) = &setting.file {
            environment.insert(name.to_owned(), setting.value.clone());
            files.insert(name.to_owned(), file.clone());
        }
    }
    (environment, files)
}
