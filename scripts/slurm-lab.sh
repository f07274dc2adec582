#!/usr/bin/env bash
# A private Slurm of several nodes on this machine, to try the templates in slurm/ and to test them.
#
#   scripts/slurm-lab.sh start [N] [options]   N nodes (4), up in a second or two; replaces one that is there
#   eval "$(scripts/slurm-lab.sh env)"         sbatch, srun, squeue of this shell then talk to it
#   scripts/slurm-lab.sh status                a line a daemon; exit code 0 where all of them run
#   scripts/slurm-lab.sh stop                  ends it and its jobs, and removes its folder
#
#   --gpus G      pretended GPUs a node (2; 0 for none): Slurm hands them out, no program can use them
#   --cpus C      CPUs that a node claims to have (8)
#   --owner PID   stop by itself when that process ends, however it ends
#   --no-pmix     a site that lacks Slurm's PMIx plugin
#
# Each node has a host name, process ids and /dev/shm of its own, as MPI expects of nodes; that takes root. Files are
# shared. All it writes is in SLURM_LAB_DIR (/tmp/slurm-lab.$UID). Slurm's: slurmctld slurmd slurm-client munge.
set -euo pipefail
self=$(readlink -f "${BASH_SOURCE[0]}")
# shellcheck source=scripts/lib.sh
source "$(dirname "$self")/lib.sh"

dir=${SLURM_LAB_DIR:-/tmp/slurm-lab.$UID}
conf=$dir/slurm.conf

# --- processes ------------------------------------------------------------------------------------------------------

# Found by what they are started with, so that nothing is lost when a file of process ids is.
members() { # prints "pid what" for each process of the lab; a zombie has no command line and is none
    local at pid name argv line
    for at in /proc/[0-9]*; do
        pid=${at#/proc/}
        [[ $pid != "$$" && $pid != "$BASHPID" ]] || continue
        { read -r name <"$at/comm" && mapfile -d '' -t argv <"$at/cmdline"; } 2>/dev/null || continue
        line=" ${argv[*]} "
        case $name in
            munged | slurmctld) [[ $line != *"$dir/"* ]] || echo "$pid $name" ;;
            slurmd) [[ $line != *"$dir/"* ]] || echo "$pid slurmd on ${line##* -N }" ;;
            unshare) [[ $line != *" node $dir/ "* ]] || echo "$pid node" ;;
            bash) [[ $line != *" watch $dir/ "* ]] || echo "$pid owner's watch" ;;
            # These two rewrite their command line; the folder they work in stays.
            slurmscriptd | slurmstepd) [[ $(readlink "$at/cwd") != "$dir"/* ]] || echo "$pid $name" ;;
            srun | sbatch | salloc) ! grep -qzxF "SLURM_CONF=$conf" "$at/environ" || echo "$pid $name" ;;
            *) ;;
        esac 2>/dev/null
    done
}

daemon() { # name command...: in a session of its own, holding nothing of the caller's open
    (cd "$dir/log" && exec setsid "${@:2}" </dev/null >>"$1.out" 2>&1 3>&- 9>&-) &
}

# The first process of a node. The kernel ends all the others of the node with it.
node() { # name
    hostname "$1"
    mount --bind "$dir/hosts" /etc/hosts
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    slurmd -D -f "$conf" -N "$1" &
    wait
}

watch() { # pid
    local state
    while state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) && [[ $state != Z* ]]; do sleep 0.3; done
    stop
}

# --- configuration --------------------------------------------------------------------------------------------------

free_ports() { # how-many: prints the first of that many in a row that nobody listens on
    local first port
    while :; do
        first=$((20000 + RANDOM % 10000))
        for ((port = first; port < first + $1; port++)); do
            ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue 2
        done
        echo "$first" && return
    done
}

write_conf() { # nodes gpus cpus plugins
    local nodes=$1 gpus=$2 cpus=$3 plugins=$4 port gres='' at
    port=$(free_ports $((nodes + 1)))
    if ((gpus > 0)); then
        # Slurm counts a GPU only with a file, and shows it to tasks only where that is a device.
        for ((at = 0; at < gpus; at++)); do ln -s /dev/null "$dir/dev/nvidia$at"; done
        gres="Gres=gpu:$gpus"
        printf 'AutoDetect=off\nNodeName=node[1-%s] Name=gpu File=%s\n' "$nodes" "$dir/dev/nvidia[0-$((gpus - 1))]" >"$dir/gres.conf"
    fi
    cat >"$conf" <<END
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge/socket
PluginDir=$plugins
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/run/slurmctld
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdPidFile=$dir/run/%n
SlurmdLogFile=$dir/log/%n.log
# A folder for each node: these two would collide.
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
TaskProlog=$dir/task-prolog
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
PropagateResourceLimits=NONE
KillWait=5
MinJobAge=3600
SlurmdTimeout=30
MailProg=/bin/true
${gres:+GresTypes=gpu}
NodeName=node[1-$nodes] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=$cpus RealMemory=64000 $gres
PartitionName=lab Nodes=ALL Default=YES State=UP
END
    # Not used, but loaded; what Slurm would detect wants systemd.
    echo "CgroupPlugin=cgroup/v1" >"$dir/cgroup.conf"
    # With Slurm's own choice, a tree, Open MPI 4.1.4 dies in some starts of 8 ranks and more.
    echo "PMIxCollFence=ring" >"$dir/mpi.conf"
    # What each task needs here whatever its environment: more ranks than cores, root, no files of MPI left in /tmp, and none
    # shared with another step.
    cat >"$dir/task-prolog" <<END
#!/bin/sh
tmp=$dir/tmp/\$SLURMD_NODENAME/\$SLURM_JOB_ID.\${SLURM_STEP_ID:-batch}
mkdir -p "\$tmp"
echo export TMPDIR="\$tmp"
echo export OMPI_ALLOW_RUN_AS_ROOT=1
echo export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
echo export OMPI_MCA_rmaps_base_oversubscribe=1
echo export OMPI_MCA_mpi_yield_when_idle=1
END
    chmod 755 "$dir/task-prolog"
    cp /etc/hosts "$dir/hosts"
    for ((at = 1; at <= nodes; at++)); do
        echo "127.0.0.1 node$at" >>"$dir/hosts"
        mkdir "$dir/spool/node$at" "$dir/tmp/node$at"
    done
}

plugins() { # yes|no: prints the folder of Slurm's plugins, or of all but PMIx
    local all
    all=$(dirname "$(find /usr/lib /usr/lib64 -name auth_munge.so -path '*slurm*' 2>/dev/null | head -n 1)")
    [[ $1 == no ]] || { echo "$all" && return; }
    mkdir "$dir/plugins"
    ln -s "$all"/*.so "$dir/plugins"
    rm "$dir"/plugins/mpi_pmix*.so
    echo "$dir/plugins"
}

# --- commands -------------------------------------------------------------------------------------------------------

start() {
    local nodes=4 gpus=2 cpus=8 pmix=yes owner='' began=$SECONDS tool
    while (($#)); do
        case $1 in
            --gpus) gpus=${2:?} && shift ;;
            --cpus) cpus=${2:?} && shift ;;
            --owner) owner=${2:?} && shift ;;
            --no-pmix) pmix=no ;;
            [1-9]*) nodes=$1 ;;
            -h | --help) print_help && exit 0 ;;
            *) die 6 "unknown option '$1' (--help lists them)." ;;
        esac
        shift
    done
    for tool in munged munge slurmctld slurmd sinfo; do
        have "$tool" || die 8 "$tool is not here: scripts/setup.sh --slurm installs Slurm's daemons."
    done
    unshare --uts --pid --mount --fork --mount-proc true 2>/dev/null ||
        die 8 "this user may not make namespaces for the nodes: run as root, in a container with --privileged."
    ((${#dir} <= 70)) || die 6 "SLURM_LAB_DIR=$dir is too long: sockets in it need short names."
    stop
    exec 9<"$self" && flock 9 # two that start at once must not take the same ports
    trap 'give_up' EXIT
    # The last folder must be new: in /tmp somebody else may have made one of that name, or a link.
    mkdir -p "$(dirname "$dir")" && mkdir -m 755 "$dir"
    mkdir "$dir"/{munge,state,spool,tmp,log,run,dev}
    write_conf "$nodes" "$gpus" "$cpus" "$(plugins "$pmix")"
    (umask 077 && head -c 1024 /dev/urandom >"$dir/munge/key")
    daemon munged munged --foreground --force --socket="$dir/munge/socket" --key-file="$dir/munge/key" \
        --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed"
    until_true 10 munge -n -S "$dir/munge/socket"
    daemon slurmctld slurmctld -D -c -f "$conf"
    for ((at = 1; at <= nodes; at++)); do
        daemon "node$at" unshare --uts --mount --propagation private --pid --fork --kill-child --mount-proc \
            bash "$self" node "$dir/" "node$at"
    done
    until_true 60 all_idle "$nodes"
    [[ -z $owner ]] || daemon watch bash "$self" watch "$dir/" "$owner"
    trap - EXIT
    say "$nodes nodes are up after $((SECONDS - began)) s; eval \"\$(${0} env)\" makes this shell use them"
}

until_true() { # seconds command...
    local until=$((SECONDS + $1))
    until "${@:2}" >/dev/null 2>&1; do
        ((SECONDS < until)) || return 1
        sleep 0.1
    done
}

all_idle() { (($(SLURM_CONF=$conf timeout 5 sinfo -h -N -t idle -o %N | sort -u | wc -l) == $1)); }

give_up() {
    say "the lab did not come up; the ends of its logs:"
    tail -n 8 "$dir"/log/* >&2 || true
    stop
    exit 8
}

stop() { # nothing of it is worth an orderly end
    local all=() try
    for ((try = 0; try < 100; try++)); do
        mapfile -t all < <(members)
        ((${#all[@]})) || break
        # shellcheck disable=SC2046 # a word a process
        kill -KILL $(printf '%s\n' "${all[@]%% *}") 2>/dev/null || true
        sleep 0.05
    done
    # What a node had open can keep a folder for a moment.
    until_true 5 rm -rf "$dir" || say "$dir could not be removed"
}

status() {
    local all nodes expected
    [[ -e $conf ]] || { echo "no lab in $dir" && return 3; }
    mapfile -t all < <(members)
    printf '%s\n' "${all[@]}"
    nodes=$(sed -n 's/^NodeName=node\[1-\([0-9]*\)\].*/\1/p' "$conf")
    expected=$((nodes + 2))
    (($(printf '%s\n' "${all[@]}" | grep -cE ' (munged|slurmctld|slurmd on .*)$') == expected))
}

# A caller that is itself in a job must not hand that on to the daemons.
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(SLURM_|SBATCH_|SALLOC_|SRUN_|PMI|OMPI_)' | grep -v '^SLURM_LAB_')
export SLURM_CONF=$conf

case ${1:-} in
    start) start "${@:2}" ;;
    stop) stop ;;
    status) status ;;
    env) echo "export SLURM_CONF=$conf" ;;
    node) dir=${2%/} conf=${2}slurm.conf && node "$3" ;;
    watch) dir=${2%/} conf=${2}slurm.conf && watch "$3" ;;
    -h | --help) print_help ;;
    *) die 6 "say what to do: start, env, status or stop (--help explains them)." ;;
esac
