//! Launchers, nodes and ranks that do not fit together.

use pxnbench::exit::Code;

use crate::{Exit, FaultGroup, FaultRow, common::evidence::Evidence::Test};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Launchers, nodes and ranks that do not fit together",
    introduction: "What cannot run is refused before anything is measured.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "each process believes to be alone: the launcher is of another MPI",
        seen: "`… started … processes (…) but MPI sees one`, or what `--mpi` to use",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("processes_that_each_believe_to_be_alone_are_refused")],
    },
    FaultRow {
        fault: "ranks with different arguments",
        seen: "`rank 0 on … and rank … on … were started with different arguments…. Start all \
               ranks with the same arguments`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("ranks_with_other_arguments_are_refused")],
    },
    FaultRow {
        fault: "ranks of different programs",
        seen: "`rank … on … runs …, and rank 0 on … runs …. Start the same program on all ranks`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("ranks_of_different_programs_are_named")],
    },
    FaultRow {
        fault: "ranks of different versions of pxnbench",
        seen: "`rank … on … is pxnbench …, and rank 0 on … is pxnbench …. Start the same version \
               on all ranks`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("the_rank_that_differs_is_named_with_its_host")],
    },
    FaultRow {
        fault: "a rank is stopped or has ended before MPI starts",
        seen: "`…, which is stopped by a signal`, with its process; or that it has ended",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T*",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_rank_that_stopped_or_ended_is_named_with_its_process",
        )],
    },
    FaultRow {
        fault: "without MPI: a rank has another secret",
        seen: "`rank 0 at …, …, refuses this rank: they have different secrets, and that of this \
               rank is from …`; rank 0 ends at *T* with 4",
        exit: Exit::Code(Code::Launch),
        ends: "at once",
        kept: "nothing was measured",
        shown_by: &[
            Test("a_rank_with_another_secret_is_refused_on_both_sides"),
            Test("a_rank_of_torchrun_with_another_secret_says_so"),
        ],
    },
    FaultRow {
        fault: "without MPI: two processes have one RANK",
        seen: "`two processes say that they are rank …`",
        exit: Exit::Code(Code::Launch),
        ends: "at once",
        kept: "nothing was measured",
        shown_by: &[Test("ranks_that_contradict_each_other_end_in_one_sentence")],
    },
    FaultRow {
        fault: "without MPI: WORLD_SIZE differs",
        seen: "`… has WORLD_SIZE=…, and … has …. Set it to the number of processes of the job, \
               the same on every rank`",
        exit: Exit::Code(Code::Launch),
        ends: "at once",
        kept: "nothing was measured",
        shown_by: &[Test("ranks_that_contradict_each_other_end_in_one_sentence")],
    },
    FaultRow {
        fault: "without MPI: the port of rank 0 is in use",
        seen: "`rank 0 cannot listen at …, where the other ranks look for it`",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_busy_port_a_lost_name_and_broken_variables_are_said",
        )],
    },
    FaultRow {
        fault: "without MPI: MASTER_ADDR does not resolve",
        seen: "`MASTER_ADDR=… has no address: …`",
        exit: Exit::Code(Code::Launch),
        ends: "*T*",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_busy_port_a_lost_name_and_broken_variables_are_said",
        )],
    },
    FaultRow {
        fault: "without MPI: 200 strangers connect to the port of rank 0",
        seen: "nothing",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("strangers_at_the_port_do_not_stall_the_job")],
    },
    FaultRow {
        fault: "without MPI: a node is cut off from the network",
        seen: "`… cannot be reached any more: …. Check that host and the network between`",
        exit: Exit::Code(Code::Launch),
        ends: "within 60 s",
        kept: "all finished cases",
        shown_by: &[Test("a_node_that_is_cut_off_is_named")],
    },
    FaultRow {
        fault: "a node vanishes, and the launcher says so",
        seen: "`… vanished with its ranks, which ended the run: the node failed, or the network \
               to it. Finished cases are kept`",
        exit: Exit::Code(Code::Launch),
        ends: "when the launcher sees it",
        kept: "all finished cases",
        shown_by: &[Test("a_node_that_vanished_is_named")],
    },
    FaultRow {
        fault: "`launch --hosts`: ssh is refused, a name is unknown, no server, another host key",
        seen: "`… is not ready: …`, with cause and remedy of each host",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_host_that_is_not_ready_is_named_with_cause_and_remedy",
        )],
    },
    FaultRow {
        fault: "`launch --hosts`: a host has no program, an older one, or another folder",
        seen: "`… is not ready: …`, with cause and remedy of each host",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_host_that_is_not_ready_is_named_with_cause_and_remedy",
        )],
    },
    FaultRow {
        fault: "`launch --hosts`: the port where the ranks meet is in use",
        seen: "`… is not ready: …`, with the port",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("a_port_in_use_is_found_before_ranks_start")],
    },
    FaultRow {
        fault: "`launch --hosts`: a host cannot resolve where the ranks meet",
        seen: "`… is not ready: …`, with the name",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_place_that_the_others_cannot_reach_is_found_before_ranks_start",
        )],
    },
    FaultRow {
        fault: "an srun that prints without end",
        seen: "`… prints without end: more than … came`",
        exit: Exit::Code(Code::Launch),
        ends: "after 64 MiB",
        kept: "nothing was measured",
        shown_by: &[Test("a_launcher_that_prints_without_end_is_ended")],
    },
    FaultRow {
        fault: "Slurm: the job does not find the program",
        seen: "one line with the path and `slurm/site.conf`",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("a_job_without_its_program_says_where_to_name_it")],
    },
    FaultRow {
        fault: "Slurm: the site has no such `--mpi`",
        seen: "`--mpi=… does not work`, and which types srun has",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("a_site_without_pmix_gets_mpirun_or_a_sentence")],
    },
    FaultRow {
        fault: "nodes load different MPIs or NCCLs",
        seen: "`… loads … but … loads …`",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("another_mpi_or_nccl_on_one_node_is_refused")],
    },
    FaultRow {
        fault: "Kubernetes: the image cannot be pulled",
        seen: "`kube status`: `the image cannot be pulled`",
        exit: Exit::Code(Code::Fine),
        ends: "when asked",
        kept: "nothing was measured",
        shown_by: &[Test("each_reason_has_a_cause_and_a_remedy")],
    },
    FaultRow {
        fault: "Kubernetes: a pod uses more memory than its limit",
        seen: "`kube status`: `the pod used more memory than its limit, and the kernel killed it`",
        exit: Exit::Code(Code::Launch),
        ends: "when asked",
        kept: "not a run",
        shown_by: &[Test("each_reason_has_a_cause_and_a_remedy")],
    },
    FaultRow {
        fault: "Kubernetes: the quota is used up",
        seen: "`the quota of the namespace is used up`; what was made before is removed",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("what_was_made_before_a_refusal_is_removed")],
    },
    FaultRow {
        fault: "Kubernetes: a node has dropped a part of the log with the results",
        seen: "`the log of … has … of the results: the node has dropped the rest`",
        exit: Exit::Code(Code::NothingRan),
        ends: "when asked",
        kept: "nothing is written",
        shown_by: &[Test(
            "a_log_that_has_lost_lines_is_not_taken_for_the_results",
        )],
    },
];
