# shellcheck shell=bash
# What the scripts beside this file share: help, speaking, and launching ranks under whichever MPI is here. Sourced, never run.

say() { echo "${0##*/}: $*" >&2; }
die() { # exit-code sentence
    local code=$1
    shift
    say "$*"
    exit "$code"
}
# Prints the help of the script that calls this: the comment at its beginning.
print_help() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]%/*}/${BASH_SOURCE[1]##*/}"; }
have() { command -v "$1" >/dev/null 2>&1; }

# Debian keeps daemons out of a user's PATH, and rustup's line in the profile is read by the next login only.
PATH=$PATH:/usr/sbin:/sbin:${CARGO_HOME:-$HOME/.cargo}/bin
export PATH

# MPIRUN may name another launcher, with options: MPIRUN="/opt/mpi/bin/mpirun --mca btl self,vader".
read -ra mpirun <<<"${MPIRUN:-mpirun}"

mpi_kind() { # prints openmpi, mpich, or other: what the launcher says of itself
    local version
    version=$("${mpirun[@]}" --version 2>&1) || true
    case $version in
        *"Open MPI"* | *OpenRTE* | *PRRTE* | *prte*) echo openmpi ;;
        *HYDRA* | *Hydra* | *MPICH* | *"Intel(R) MPI"*) echo mpich ;;
        *) echo other ;;
    esac
}

# Open MPI will not start as root unless told twice. A container has no other user, so it is told, and so are you.
allow_root() {
    [[ $EUID -eq 0 && -z ${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-} ]] || return 0
    say "running as root: setting OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# Open MPI keeps what the processes of a job share in a session folder. All jobs of a user on a machine have one parent for
# theirs, /tmp/ompi.HOST.UID, which a job that ends removes while another one starts and then fails ("mkdir ... File
# exists", orte_init failed). This makes $1 the parent: for Open MPI 4, and for the mpirun of Open MPI 5.
mpi_sessions_in() { export OMPI_MCA_orte_tmpdir_base=$1 PRTE_MCA_prte_tmpdir_base=$1; }

# Fills `launch` with the command that starts $1 ranks here. Open MPI counts cores, not ranks, as its slots and refuses
# more ranks than slots; MPICH and its children start as many as they are asked for.
launch_ranks() {
    launch=("${mpirun[@]}")
    case $(mpi_kind) in
        openmpi)
            allow_root
            launch+=(--oversubscribe)
            ;;
        *) ;;
    esac
    launch+=(-np "$1")
}

# Runs a launcher for so many seconds at most. Without --foreground, `timeout` would pass a signal on twice, to the launcher and
# to its process group, and Open MPI's mpirun ends at the second one without letting its ranks save anything.
# shellcheck disable=SC2034 # the scripts that source this use it
launch_within=(timeout --foreground -k 5)

gpus() { # prints how many GPUs a program started here would see
    local all=0 shown
    ! have nvidia-smi || all=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
    if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
        IFS=, read -ra shown <<<"$CUDA_VISIBLE_DEVICES"
        ((all < ${#shown[@]})) || all=${#shown[@]}
    fi
    echo "$all"
}
