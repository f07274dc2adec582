//! `pxnbench kube`: a sweep, or the replay of a training step, on a Kubernetes cluster.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::args::values;
use crate::{
    exit::{Code, Failure},
    kube::{
        CheckedRun, Cluster,
        in_pod::{self, InPod},
        logs::LogRequest,
        manifests,
        names::{DeploymentName, ObjectName},
        rdma::RdmaRequest,
        request::{self, Request, Starter, Variable},
        settings::Token,
        size::SizeRange,
    },
    launch::template::{self, Template},
    levels::{self, Preset},
    output::stdout,
    run::target::Target,
    units::Bytes,
};

/// Runs a sweep, or the replay of a training step, on the GPUs of a Kubernetes cluster: a pod per
/// node, whose ranks meet over TCP, without an operator and without ssh.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print the manifests, for kubectl apply or for your own tools
    Render(Box<RenderArgs>),
    /// Make what render prints, with a random token
    Deploy(Box<DeployArgs>),
    /// Show the pods of a deployment, why one waits or has failed, and how the run ended; exit with
    /// the run's code
    Status(PlaceArgs),
    /// Print what the run prints
    Logs(LogsArgs),
    /// Copy the files of a run that has ended
    Results(ResultsArgs),
    /// Remove what deploy has made, and nothing else
    Cleanup(PlaceArgs),
    /// Run a program in a pod and leave its results in the log
    #[command(hide = true)]
    InPod(InPodArgs),
}

#[derive(Debug, clap::Args)]
struct RenderArgs {
    #[command(flatten)]
    job: JobArgs,

    /// Print a random token instead of a placeholder: the output is then a secret
    #[arg(long)]
    token: bool,
}

#[derive(Debug, clap::Args)]
struct DeployArgs {
    #[command(flatten)]
    job: JobArgs,

    #[command(flatten)]
    kubectl: KubectlArgs,
}

/// A deployment in the cluster.
#[derive(Debug, clap::Args)]
struct PlaceArgs {
    /// Name of the deployment
    #[arg(value_name = "NAME", default_value = "pxnbench")]
    name: DeploymentName,

    /// Namespace [default: that of kubectl's context]
    #[arg(short = 'n', long, value_name = "NAME")]
    namespace: Option<ObjectName>,

    #[command(flatten)]
    kubectl: KubectlArgs,
}

#[derive(Debug, clap::Args)]
struct KubectlArgs {
    /// Time that kubectl may wait for one answer of the cluster. KUBECTL names the program if it is
    /// not in PATH
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    request_timeout: Duration,
}

#[derive(Debug, clap::Args)]
struct LogsArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Number of the node, from 0 [default: where the table is printed]
    #[arg(long, value_name = "K", value_parser = values::natural)]
    node: Option<u32>,

    /// Go on until the pod ends
    #[arg(short = 'f', long)]
    follow: bool,
}

#[derive(Debug, clap::Args)]
struct ResultsArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Folder for the files, which must be empty or new [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What is to run, and in what pods.
#[derive(Debug, clap::Args)]
struct JobArgs {
    /// Name of the deployment
    #[arg(value_name = "NAME", default_value = "pxnbench")]
    name: DeploymentName,

    /// Namespace [default: that of kubectl's context]
    #[arg(short = 'n', long, value_name = "NAME")]
    namespace: Option<ObjectName>,

    /// Image with this program, CUDA and NCCL
    #[arg(long, value_name = "IMAGE")]
    image: String,

    /// Secret for the registry of the image
    #[arg(long, value_name = "NAME")]
    pull_secret: Option<ObjectName>,

    /// Nodes, with one pod on each
    #[arg(long, value_name = "N", default_value = "2", value_parser = values::positive::<u32>)]
    nodes: u32,

    /// GPUs per node
    #[arg(long, value_name = "N", default_value = "8", value_parser = values::positive::<u32>)]
    gpus: u32,

    /// Sizes of the sweep: MIN, MIN:MAX or MIN:MAX:FACTOR, such as 8:1G:4
    #[arg(long, value_name = "SIZE", help_heading = "Sweep")]
    size: Option<SizeRange>,

    /// Repeat the sweep until this time is over, such as 60s or 2h
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Sweep")]
    time: Option<Duration>,

    /// PXN level: off conservative balanced aggressive default
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "aggressive",
        value_parser = levels::level,
        help_heading = "Sweep",
    )]
    level: &'static Preset,

    /// Transport to ask NCCL for: auto nvlink pcie shm ib ethernet (RoCE) socket (TCP) pxn
    #[arg(long, value_name = "NETWORK", value_parser = levels::network, help_heading = "Sweep")]
    network: Option<&'static Preset>,

    /// Variable for all ranks, such as NCCL_SOCKET_IFNAME=eth0; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", help_heading = "Sweep")]
    variables: Vec<Variable>,

    /// RDMA devices of a pod, as a device plugin names them, such as rdma/hca_shared_devices_a:1;
    /// the pods then run as root, with the capability to lock memory
    #[arg(long, value_name = "RESOURCE[:COUNT]", help_heading = "Pods")]
    rdma: Option<RdmaRequest>,

    /// Use the network of the nodes instead of the pods' own
    #[arg(long, help_heading = "Pods")]
    host_network: bool,

    /// Port at which the ranks meet
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = request::DEFAULT_PORT,
        value_parser = clap::value_parser!(u16).range(1024..),
        help_heading = "Pods",
    )]
    port: u16,

    /// Size of /dev/shm, which counts as memory of the pod
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "8G",
        value_parser = values::size,
        help_heading = "Pods",
    )]
    shm: Bytes,

    /// CPUs that a pod requests [default: 2 per GPU]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>, help_heading = "Pods")]
    cpus: Option<u32>,

    /// Memory that a pod requests [default: 4G per GPU, and /dev/shm]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "Pods")]
    memory: Option<Bytes>,

    /// Local queue of Kueue, which starts all pods at once when there is room for them
    #[arg(long, value_name = "NAME", help_heading = "Job")]
    queue: Option<ObjectName>,

    /// Make an MPIJob for Kubeflow's MPI operator (kubeflow.org/v2beta1) instead of an Indexed Job
    #[arg(long, help_heading = "Job")]
    mpi_operator: bool,

    /// Time that a pod may take after it was placed on a node, in addition to --time
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1h",
        value_parser = values::duration,
        help_heading = "Job",
    )]
    deadline: Duration,

    /// Time after its end at which the cluster removes the job, with its log and the results in it
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1d",
        value_parser = values::duration,
        help_heading = "Job",
    )]
    ttl: Duration,

    /// Keep the pod with the results, and its GPUs, for this time after the run: results that are
    /// too large for a log can then be copied
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Job")]
    keep: Option<Duration>,

    /// Arguments of the sweep, or replay with its own; options alone keep the collectives of
    /// `pxnbench submit`
    #[arg(last = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    ranks: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct InPodArgs {
    /// Folder whose files are left in the log
    #[arg(long, value_name = "DIR")]
    results: PathBuf,

    /// Seconds to stay after the run
    #[arg(long, value_name = "SECONDS", value_parser = values::natural, default_value = "0")]
    keep: u32,

    /// Print what is in the folder now, and run nothing
    #[arg(long)]
    print: bool,

    /// Arguments of the program
    #[arg(last = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// A function that reads the arguments of the ranks; if they are only options, the collectives are
/// those of the second argument. It returns the arguments as the ranks get them, and the target
/// that they name.
pub type TargetReader = fn(&[OsString], Option<&str>) -> anyhow::Result<(Vec<OsString>, Target)>;

impl PlaceArgs {
    fn cluster(&self) -> Cluster {
        Cluster::new(self.namespace.clone(), self.kubectl.request_timeout)
    }
}

impl JobArgs {
    /// Returns the options of a sweep that --size and --time stand for.
    fn sweep_options(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(size) = self.size {
            words.extend(size.options().map(OsString::from));
        }
        if let Some(time) = self.time {
            let seconds = time.as_secs_f64().to_string();
            words.extend(["--time".into(), seconds.into()]);
        }
        words
    }

    /// Returns the arguments of the ranks, once they are checked.
    fn checked(&self, read: TargetReader) -> anyhow::Result<CheckedRun> {
        let template = template::of_level(&self.level.name).ok();
        let default_sweep = template.and_then(Template::default_sweep);
        let options = self.sweep_options();
        let run = checked_run(&self.ranks, default_sweep, read)?;
        if options.is_empty() {
            return Ok(run);
        }
        if !run.is_sweep {
            let what = "--size and --time are for sweeps, and a replay has steps. Leave them out";
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        let words = [self.ranks.as_slice(), &options].concat();
        checked_run(&words, default_sweep, read)
    }

    /// Returns the request, once what the ranks do is checked.
    fn request(&self, read: TargetReader) -> anyhow::Result<Request> {
        let run = self.checked(read)?;
        let default_memory = (u64::from(self.gpus) << 32).saturating_add(self.shm.0);
        let time = self.time.unwrap_or_default();
        let request = Request {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            pull_secret: self.pull_secret.clone(),
            starter: if self.mpi_operator {
                Starter::MpiOperator
            } else {
                Starter::Job
            },
            nodes: self.nodes,
            gpus: self.gpus,
            ranks_per_node: self.gpus / run.gpus_per_process,
            level: self.level,
            network: self.network,
            variables: self.variables.clone(),
            rdma: self.rdma.clone(),
            host_network: self.host_network,
            port: self.port,
            queue: self.queue.clone(),
            shm: self.shm,
            cpus: self.cpus.unwrap_or(self.gpus.saturating_mul(2)),
            memory: self.memory.unwrap_or(Bytes(default_memory)),
            deadline: self.deadline.saturating_add(time),
            ttl: self.ttl,
            keep: self.keep.unwrap_or_default(),
            run: request::utf8(run.arguments)?,
        };
        request.check()?;
        Ok(request)
    }
}

fn checked_run(
    words: &[OsString],
    default_sweep: Option<&str>,
    read: TargetReader,
) -> anyhow::Result<CheckedRun> {
    let (arguments, target) = read(words, default_sweep)?;
    CheckedRun::new(arguments, &target)
}

/// Does what is asked for.
///
/// # Errors
///
/// Returns an error if the arguments contradict each other, or if the cluster does not do it.
pub fn run(args: Args, read: TargetReader) -> anyhow::Result<Code> {
    match args.action {
        Action::Render(args) => render(&args, read),
        Action::Deploy(args) => {
            let request = args.job.request(read)?;
            let timeout = args.kubectl.request_timeout;
            Cluster::new(request.namespace.clone(), timeout).deploy(&request)
        }
        Action::Status(place) => place.cluster().status(&place.name),
        Action::Logs(args) => {
            let request = LogRequest {
                node: args.node,
                follow: args.follow,
            };
            args.place.cluster().logs(&args.place.name, &request)
        }
        Action::Results(args) => {
            let cluster = args.place.cluster();
            cluster.results(&args.place.name, args.out)
        }
        Action::Cleanup(place) => place.cluster().cleanup(&place.name),
        Action::InPod(args) => run_in_pod(args),
    }
}

fn render(args: &RenderArgs, read: TargetReader) -> anyhow::Result<Code> {
    let request = args.job.request(read)?;
    let token = if args.token {
        Token::random()?
    } else {
        Token::placeholder()
    };
    let text = manifests::render(&request, &token)?;
    stdout::write(&text).map_err(|error| stdout::failure(&error))?;
    Ok(Code::Fine)
}

fn run_in_pod(args: InPodArgs) -> anyhow::Result<Code> {
    if args.print {
        return in_pod::print_results(&args.results);
    }
    let program = InPod {
        arguments: args.arguments,
        results: args.results,
        keep: Duration::from_secs(args.keep.into()),
    };
    program.run()
}
