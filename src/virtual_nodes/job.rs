//! One job: a short sweep of one collective on virtual nodes.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use super::{
    environment::{self, JobEnvironment},
    files::JobFiles,
    jobs::Job,
    machine::Machine,
    reading::{self, ShownJob},
    request::Request,
};
use crate::{
    exit::{Code, Failure},
    experiment,
    launch::join::virtual_nodes::{self, VirtualEnd, VirtualRanks},
    record::read,
    rehearsal::{cluster::Cluster, virtual_node},
};

/// Timed operations of a sweep; with warm-up and checks, enough for a rail that stalls after some
/// messages.
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

    /// Returns the files of a job.
    pub(super) fn files(&self, job: &Job) -> JobFiles {
        JobFiles::below(&self.folder.join(file_name(self.cluster(job), job)))
    }

    /// Returns what a job does, for messages.
    pub(super) fn label(&self, job: &Job) -> String {
        format!(
            "the rehearsal of {} at level {} on topology {}",
            job.algorithm.label(job.collective),
            job.level.name,
            self.cluster(job).topology_name()
        )
    }

    fn cluster(&self, job: &Job) -> &Cluster {
        &self.request.clusters[job.cluster]
    }

    /// Runs a job, and reads what it shows.
    ///
    /// # Errors
    /// Returns an error with the job's own sentence if it fails, or one that says what it does not
    /// show.
    pub(super) fn run(&self, job: &Job) -> anyhow::Result<ShownJob> {
        let files = self.files(job);
        files.make_folders()?;
        let end = self.start(job, &files)?;
        refuse_failure(&self.label(job), end, &files)?;
        reading::read(self.request, self.cluster(job), job, &files).map_err(|why| {
            let what = format!("{} cannot be judged: {why}", self.label(job));
            Failure::on_all_ranks(Code::WrongData, what)
        })
    }

    /// Starts the ranks of a job, and waits for them.
    fn start(&self, job: &Job, files: &JobFiles) -> anyhow::Result<VirtualEnd> {
        let cluster = self.cluster(job);
        let (nodes, ranks_per_node) = (cluster.nodes as u32, cluster.gpus() as u32);
        let (logs, counters) = (files.logs(), files.counters());
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
        let arguments = self.arguments(job, files);
        let file = files.start();
        let started = description(&arguments, &environment, nodes * ranks_per_node);
        fs::write(&file, started).map_err(|error| Failure::of_file("written", &file, &error))?;
        virtual_nodes::run(&VirtualRanks {
            nodes,
            ranks_per_node,
            arguments,
            is_left_out: environment::is_left_out,
            environment: &|rank| environment.of_rank(rank),
            output: &files.output(),
        })
    }

    /// Returns the arguments of a job's sweep.
    fn arguments(&self, job: &Job, files: &JobFiles) -> Vec<OsString> {
        let request = self.request;
        let size = request.size.0.to_string();
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |words: [&str; 2]| arguments.extend(words.map(OsString::from));
        add([job.collective.name(), "--backend=nccl"]);
        add(["-b", &size]);
        add(["-e", &size]);
        add(["-n", &ITERATIONS.to_string()]);
        add(["-w", "1"]);
        add(["-c", "1"]);
        add(["-r", &request.root.to_string()]);
        add(["-T", &request.timeout.to_string()]);
        add(["--level", &job.level.name]);
        arguments.extend(["--out".into(), files.results().into()]);
        if let Some(file) = &request.nccl_lib {
            arguments.extend(["--nccl-lib".into(), file.into()]);
        }
        arguments
    }
}

/// Describes how the ranks of a job are started: their command and their variables.
fn description(arguments: &[OsString], environment: &JobEnvironment<'_>, ranks: u32) -> String {
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let variables = environment.description(ranks);
    format!("pxnbench {}\n{variables}", words.join(" "))
}

/// Returns an error with what a job said of its end, unless it measured all. Wrong data are shown
/// beside the rest.
fn refuse_failure(label: &str, end: VirtualEnd, files: &JobFiles) -> anyhow::Result<()> {
    let is_complete = |code| matches!(code, Code::Fine | Code::WrongData);
    let recorded = read::read_run(&files.results().join("run.json")).and_then(|run| run.end);
    let recorded_code = recorded.as_ref().map_or(end.code, |recorded| recorded.name);
    if is_complete(end.code) && is_complete(recorded_code) {
        return Ok(());
    }
    // A rank may end well although the run did not, and the other way round. A signal is for all
    // jobs.
    let code = match (end.code, recorded_code) {
        (Code::Stopped, _) | (_, Code::Fine) => end.code,
        (_, recorded_code) => recorded_code,
    };
    let recorded = recorded.map(|recorded| recorded.message);
    let message = recorded
        .filter(|message| !message.is_empty())
        .unwrap_or_else(|| experiment::last_message(&files.output()));
    let mut what = format!("{label} failed: {}", message.trim_end_matches('.'));
    if let Some(sentence) = end.sentence {
        what += &format!(". {sentence}");
    }
    Err(Failure::on_all_ranks(code, what))
}

/// Returns a short name of a topology, for files.
fn short_name(cluster: &Cluster) -> &'static str {
    cluster.shape.map_or("file", |shape| shape.word())
}

/// Returns the name of a job's folder.
fn file_name(cluster: &Cluster, job: &Job) -> String {
    let algorithm = job.algorithm.word().replace('/', "");
    format!(
        "{}.{}.{algorithm}.{}",
        short_name(cluster),
        job.collective,
        job.level.name
    )
}
