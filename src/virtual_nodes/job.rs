//! One job: a short sweep of one collective on virtual nodes.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use super::{
    environment::{self, JobEnvironment},
    jobs::Job,
    machine::Machine,
    reading::{self, JobFiles, ShownJob},
    request::Request,
};
use crate::{
    exit::{Code, Failure},
    experiment,
    launch::join::virtual_nodes::{self, VirtualEnd, VirtualRanks},
    record::read,
    rehearsal::{cluster::Cluster, virtual_node},
};

/// Timed operations of a sweep; with warm-up and checks, enough for a rail that stalls after some messages.
const ITERATIONS: u32 = 5;

/// What all jobs of a rehearsal share.
pub(super) struct JobSetup<'a> {
    request: &'a Request,
    machine: &'a Machine,
    folder: &'a Path,
    /// The topology file of each cluster.
    topologies: Vec<PathBuf>,
}

impl<'a> JobSetup<'a> {
    /// Writes the topology file of each cluster into `folder`.
    ///
    /// # Errors
    /// Returns an error if there cannot be such a node here, or if a file cannot be written.
    pub(super) fn new(
        request: &'a Request,
        machine: &'a Machine,
        folder: &'a Path,
    ) -> anyhow::Result<JobSetup<'a>> {
        let mut topologies = Vec::new();
        for cluster in &request.clusters {
            let bus_ids = &machine.bus_ids;
            let text = match cluster.shape {
                Some(shape) => virtual_node::xml(shape, bus_ids, cluster.rails()),
                None => virtual_node::xml_like(&cluster.node, bus_ids),
            };
            let text = text.map_err(|why| {
                let what = format!(
                    "topology {} cannot be rehearsed: {why}",
                    cluster.topology_name()
                );
                Failure::on_all_ranks(Code::Usage, what)
            })?;
            let file = folder.join(format!("{}.xml", short_name(cluster)));
            fs::write(&file, text).map_err(|error| Failure::of_file("written", &file, &error))?;
            topologies.push(file);
        }
        Ok(JobSetup {
            request,
            machine,
            folder,
            topologies,
        })
    }

    /// Runs a job, and reads what it shows.
    ///
    /// # Errors
    /// Returns an error with the job's own sentence if it fails, or one that says what it does not show.
    pub(super) fn run(&self, job: &Job) -> anyhow::Result<ShownJob> {
        let cluster = &self.request.clusters[job.cluster];
        let files = JobFiles::below(&self.folder.join(name(cluster, job)));
        let logs = files.logs();
        let counters = files.counters();
        for folder in [&files.folder, &logs, &counters] {
            fs::create_dir(folder).map_err(|error| Failure::of_file("made", folder, &error))?;
        }
        let ranks_per_node = cluster.gpus() as u32;
        let environment = JobEnvironment {
            plugin: &self.machine.plugin,
            topology: &self.topologies[job.cluster],
            visible: &self.machine.visible,
            rails: cluster.rails(),
            ranks_per_node,
            algorithm: job.algorithm,
            played: &self.request.played,
            logs: &logs,
            counters: &counters,
        };
        let end = virtual_nodes::run(&VirtualRanks {
            nodes: cluster.nodes as u32,
            ranks_per_node,
            arguments: self.arguments(job, &files),
            is_left_out: environment::is_left_out,
            environment: &|rank| environment.of_rank(rank),
            output: &files.output(),
        })?;
        let what = format!(
            "the rehearsal of {} at level {} on topology {}",
            job.algorithm.label(job.collective),
            job.level.name,
            cluster.topology_name()
        );
        refuse_failure(&what, end, &files)?;
        reading::read(self.request, cluster, job, &files).map_err(|why| {
            let what = format!("{what} cannot be judged: {why}");
            Failure::on_all_ranks(Code::WrongData, what)
        })
    }

    /// Returns the sweep of a job.
    fn arguments(&self, job: &Job, files: &JobFiles) -> Vec<OsString> {
        let Request {
            size,
            root,
            timeout,
            nccl_lib,
            ..
        } = self.request;
        let (size, iterations) = (size.0.to_string(), ITERATIONS.to_string());
        let (root, timeout) = (root.to_string(), timeout.to_string());
        let words = [
            job.collective.name(),
            "-b",
            &size,
            "-e",
            &size,
            "-n",
            &iterations,
            "-w",
            "1",
            "-c",
            "1",
            "-r",
            &root,
            "-T",
            &timeout,
            "--backend",
            "nccl",
            "--level",
            &job.level.name,
            "--out",
        ];
        let mut arguments: Vec<OsString> = words.map(OsString::from).into();
        arguments.push(files.results().into());
        if let Some(file) = nccl_lib {
            arguments.extend(["--nccl-lib".into(), file.into()]);
        }
        arguments
    }
}

/// Returns an error with what a job said of its end, unless it measured all. Wrong data are shown beside the rest.
fn refuse_failure(what: &str, end: VirtualEnd, files: &JobFiles) -> anyhow::Result<()> {
    let recorded = read::read_run(&files.results().join("run.json")).and_then(|run| run.end);
    let code = match &recorded {
        Some(recorded) if end.code != Code::Stopped => recorded.name,
        _ => end.code,
    };
    if matches!(
        (code, end.code),
        (Code::Fine | Code::WrongData, Code::Fine | Code::WrongData)
    ) {
        return Ok(());
    }
    let code = if code == Code::Fine { end.code } else { code };
    let said = recorded.map(|recorded| recorded.message);
    let message = match (said.filter(|message| !message.is_empty()), end.sentence) {
        (Some(message), _) => message,
        (None, None) => experiment::last_message(&files.output()),
        (None, Some(sentence)) => {
            let last = experiment::last_message(&files.output());
            format!("{sentence}. What the ranks printed last is: {last}")
        }
    };
    let sentence = format!("{what} failed: {}", message.trim_end_matches('.'));
    Err(Failure::on_all_ranks(code, sentence))
}

/// Returns a short name of a topology, for files.
fn short_name(cluster: &Cluster) -> &'static str {
    cluster.shape.map_or("file", |shape| shape.word())
}

fn name(cluster: &Cluster, job: &Job) -> String {
    let algorithm = job.algorithm.word().replace('/', "");
    format!(
        "{}.{}.{algorithm}.{}",
        short_name(cluster),
        job.collective,
        job.level.name
    )
}
