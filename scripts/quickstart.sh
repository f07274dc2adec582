#!/usr/bin/env bash
# Builds pxnbench and runs its main job on this machine: one rank a GPU where there are GPUs, else 2 ranks on host memory.
#
#   scripts/quickstart.sh                                   all_reduce from 8 bytes to 64 MiB
#   scripts/quickstart.sh alltoall -b 1K -e 1M -c 1         any other arguments of pxnbench instead
#   RANKS=4 scripts/quickstart.sh                           another number of ranks
#   MPIRUN="mpirun --mca pml ob1" scripts/quickstart.sh     another launcher, or options for it
#
# What the build lacks is installed first (scripts/setup.sh). Ends with the exit code of the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

pick_ranks() { # prints how many ranks to start; the arguments are those of pxnbench
    local gpus
    gpus=$(gpus)
    if [[ -n ${RANKS:-} ]]; then
        echo "$RANKS"
    elif ((gpus == 0)) || [[ " $* " == *" --backend host "* || " $* " == *" --backend=host "* ]]; then
        echo 2
    else
        # A rank cannot share its GPU. With one GPU the bus bandwidth is 0 by definition, the times still mean something.
        ((gpus > 1)) || say "one GPU, so one rank; for two ranks on host memory add --backend host"
        echo "$gpus"
    fi
}

case ${1:-} in
    -h | --help) print_help && exit 0 ;;
esac

scripts/setup.sh
(($#)) || set -- all_reduce -b 8 -e 64M -f 2
say "cargo build --release --locked"
cargo build --release --locked
sessions=$(mktemp -d)
trap 'rm -rf "$sessions"' EXIT
mpi_sessions_in "$sessions"
launch_ranks "$(pick_ranks "$@")"
launch+=("${CARGO_TARGET_DIR:-target}/release/pxnbench" "$@")
say "${launch[*]}"
"${launch[@]}"
