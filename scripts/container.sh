#!/usr/bin/env bash
# Builds the image of pxnbench, and runs it with the options that NCCL needs in a container. What runs is printed first, as a
# command that can be copied.
#
#   scripts/container.sh build                                    the image, from containers/Dockerfile
#   scripts/container.sh run                                      all_reduce on all GPUs, or 2 ranks on host memory
#   scripts/container.sh run --gpus 4 --size 1M:1G -- alltoall    other GPUs, sizes, collectives
#   scripts/container.sh join 0 --master node1 --nodes 2          on each node with its number: one job over all of them
#   scripts/container.sh shell                                    a shell in the image, with the same options
#
#   --gpus all|N|LIST   GPUs of this node: all, a number, a list (0,2 or device=3), or none (default: all that there are)
#   --ranks N           ranks on this node (default: one per GPU; without GPUs 2)
#   --size MIN[:MAX[:FACTOR]]   sizes of the sweep (default: 8:1G:2; without GPUs 8:64M:2)
#   --time TIME         repeat the sweep for that long: 60s, 2h
#   --network NAME, --level NAME     as in pxnbench --help
#   --out DIR           folder for the results (default: ./results)
#   --shm SIZE          a /dev/shm of its own, such as 8g, instead of the node's
#   --image NAME        image to build or run (default: pxnbench:VERSION)
#   --base IMAGE, --rust IMAGE       for build: the images to build from (docs/CONTAINERS.md says how to pin them)
#   --master HOST[:PORT], --nodes N  for join: where the ranks meet, and how many nodes there are
#   --dry-run           print the command on stdout, why each option is there on stderr, and run nothing
#   -- …                collectives and arguments of pxnbench instead of the default ones; for shell, a command
#
# CONTAINER names the runtime (default: docker, or else podman); CONTAINER_OPTIONS holds further options for it, such as
# "--volume /opt/topo.xml:/opt/topo.xml". NCCL_… variables that are set here, and PXNBENCH_TOKEN, reach the program.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"
top=${here%/*}

# --- the command line -----------------------------------------------------------------------------------------------

action='' node_rank='' dry_run=no
gpus='' ranks='' size='' time='' network='' level='' out=results shm='' image='' base='' rust='' master='' nodes=''
rest=()

parse() {
    case ${1:-} in
        build | run | shell | join) action=$1 ;;
        -h | --help) print_help && exit 0 ;;
        *) die 6 "say what to do: build, run, shell or join (--help explains them)." ;;
    esac
    shift
    if [[ $action == join ]]; then
        [[ ${1:-} =~ ^[0-9]+$ ]] || die 6 "join needs the number of this node: 0, 1, … (0 is the one that --master names)."
        node_rank=$1
        shift
    fi
    while (($#)); do
        [[ $1 != --*=* ]] || set -- "${1%%=*}" "${1#*=}" "${@:2}"
        case $1 in
            --gpus | --ranks | --size | --time | --network | --level | --out | --shm | --image | --base | --rust | --master | --nodes)
                [[ -n ${2:-} ]] || die 6 "$1 needs a value."
                printf -v "${1#--}" %s "$2"
                shift
                ;;
            --dry-run) dry_run=yes ;;
            -h | --help) print_help && exit 0 ;;
            --)
                rest=("${@:2}")
                break
                ;;
            *) die 6 "unknown option '$1' (--help lists them; arguments of pxnbench follow --)." ;;
        esac
        shift
    done
}

check_numbers() {
    [[ -z $ranks || $ranks =~ ^[1-9][0-9]*$ ]] || die 6 "--ranks $ranks: a number from 1 is needed."
    [[ $action == join ]] || return 0
    [[ -n $master ]] || die 6 "join needs --master HOST[:PORT]: the host of node 0, as the other nodes reach it."
    [[ $nodes =~ ^[1-9][0-9]*$ ]] || die 6 "join needs --nodes N: the number of nodes."
    ((node_rank < nodes)) || die 6 "there is no node $node_rank of $nodes: nodes are numbered from 0."
}

# --- the runtime ----------------------------------------------------------------------------------------------------

runtime=()
pick_runtime() {
    read -ra runtime <<<"${CONTAINER:-}"
    local name
    for name in docker podman; do
        ((${#runtime[@]} == 0)) && have "$name" && runtime=("$name")
    done
    ((${#runtime[@]})) || die 8 "neither docker nor podman is here. Install one, or name another in CONTAINER."
    have "${runtime[0]}" || die 8 "CONTAINER=$CONTAINER is not here."
}

# podman and buildah share their options, and start containers themselves; docker has a daemon start them.
runs_itself() { [[ ${runtime[0]##*/} != docker ]]; }

# --- the command, word by word, with the reason of each option ------------------------------------------------------

command=() lines=() reasons=()
add() { # reason word...: appends a line of the command; with a reason if it is not ''
    local line
    printf -v line '%q ' "${@:2}"
    command+=("${@:2}")
    lines+=("${line% }")
    [[ -z $1 ]] || reasons+=("${line% }  $1")
}

print_command() {
    local line text=''
    for line in "${lines[@]}"; do
        text+=$' \\\n    '$line
    done
    echo "${text#*$'    '}"
}

execute() {
    if [[ $dry_run == yes ]]; then
        print_command
        ((${#reasons[@]} == 0)) || printf '# %s\n' "${reasons[@]}" >&2
        exit 0
    fi
    print_command >&2
    exec "${command[@]}"
}

# --- build ----------------------------------------------------------------------------------------------------------

build() {
    local epoch=${SOURCE_DATE_EPOCH:-} revision
    revision=$(git -C "$top" describe --always --dirty 2>/dev/null) || revision=unknown
    [[ -n $epoch ]] || epoch=$(git -C "$top" log -1 --format=%ct 2>/dev/null) || epoch=0
    if [[ ${runtime[0]##*/} == buildah ]]; then add '' "${runtime[@]}" bud; else add '' "${runtime[@]}" build; fi
    add '' --file "$top/containers/Dockerfile"
    [[ -z $base ]] || add 'what the program runs on' --build-arg "BASE=$base"
    [[ -z $rust ]] || add 'the toolchain' --build-arg "RUST=$rust"
    add 'the time in the image: of the last commit' --build-arg "SOURCE_DATE_EPOCH=$epoch"
    ! runs_itself || add 'the same for all its files' --timestamp "$epoch"
    add '' --build-arg "REVISION=$revision"
    add '' --tag "$image"
    add_options
    add '' "$top"
    execute
}

# --- options that run, shell and join share -------------------------------------------------------------------------

add_options() {
    local options=()
    read -ra options <<<"${CONTAINER_OPTIONS:-}"
    ((${#options[@]} == 0)) || add 'from CONTAINER_OPTIONS' "${options[@]}"
}

add_limits() {
    add "NCCL locks memory that adapters and GPUs read" --ulimit "memlock=$(limit l -1)"
    add "NCCL's threads need more stack than 2 MiB, and a limit: without one they get 2 MiB" --ulimit "stack=$(limit s 67108864)"
}

# Docker's daemon may set any limit. podman may set none above that of its user, and would not start.
limit() { # letter-of-ulimit wanted: prints the limit in bytes
    local hard
    hard=$(ulimit -H "-$1")
    if ! runs_itself || [[ $hard == unlimited ]] || may_raise_limits; then
        echo "$2"
    elif (($2 == -1 || $2 > hard * 1024)); then
        say "ulimit -H -$1 is $hard KiB, and ${runtime[0]} may not set more: have the administrator raise it"
        echo $((hard * 1024))
    else
        echo "$2"
    fi
}

may_raise_limits() { # CAP_SYS_RESOURCE
    local mask
    mask=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
    ((0x${mask:-0} >> 24 & 1))
}

add_memory() {
    if [[ -n $shm ]]; then
        add "NCCL's buffers between the ranks of a node are in /dev/shm, of which a container has 64 MB" --shm-size "$shm"
    else
        add "NCCL's buffers between the ranks of a node are in /dev/shm: the node's, for a container's own has 64 MB" --ipc=host
    fi
}

add_devices() {
    [[ ! -d /dev/infiniband ]] || add 'the RDMA adapters of the node' --device /dev/infiniband
    [[ ! -d /dev/nvidia-caps-imex-channels ]] ||
        add 'memory that nodes of one NVLink cluster share' --device /dev/nvidia-caps-imex-channels
    [[ $gpus != none ]] || return 0
    if runs_itself; then
        add_gpus_by_name
    elif [[ $gpus == *,* || $gpus == device=* ]]; then
        add 'these GPUs' --gpus "\"device=${gpus#device=}\"" # Docker reads the value as CSV
    else
        add 'the GPUs, with the libraries of their driver' --gpus "$gpus"
    fi
}

# By the names that `nvidia-ctk cdi generate` gives them.
add_gpus_by_name() {
    local gpu names=()
    if [[ $gpus =~ ^[0-9]+$ ]]; then
        mapfile -t names < <(seq 0 $((gpus - 1)))
    else
        IFS=, read -ra names <<<"${gpus#device=}"
    fi
    for gpu in "${names[@]}"; do
        add 'a GPU (or all), with the libraries of its driver' --device "nvidia.com/gpu=$gpu"
    done
}

# Results belong to who called this. The image's own user stands in for root.
add_user() {
    if [[ $EUID -eq 0 ]]; then
        [[ $dry_run == yes || -d $out ]] || install -d -o 10001 -g 10001 "$out"
        return
    fi
    [[ $dry_run == yes ]] || mkdir -p "$out"
    add 'results belong to you' --user "$EUID:$(id -g)" --env HOME=/tmp
    ! runs_itself || add 'your number is the same inside' --userns keep-id
}

add_variables() {
    local name
    for name in $(compgen -e | grep -E '^(NCCL_.+|PXNBENCH_TOKEN)$' | sort); do
        add '' --env "$name" # without its value, which may be secret
    done
}

add_run() {
    add '' "${runtime[@]}" run --rm
    add 'a first process that passes signals on' --init
    [[ $action != shell ]] || add '' --interactive
    [[ $action != shell || ! -t 0 ]] || add '' --tty
    [[ $action != join ]] || add 'the other nodes reach the ranks at the addresses of this node' --network host
    add_memory
    add_limits
    add_devices
    add_user
    add 'the folder of the results' --volume "$(realpath -m "$out"):/work/results"
    add_variables
    add_options
    add '' "$image"
}

# --- what runs in it ------------------------------------------------------------------------------------------------

default_size=8:1G:2
pick_gpus() { # fills `gpus`, `ranks` and `default_size`
    local found
    found=$(gpus)
    [[ -n $gpus ]] || { ((found)) && gpus=all || gpus=none; }
    case $gpus in
        none | 0) gpus=none found=2 default_size=8:64M:2 ;;
        all) ;;
        *,* | device=*) found=$(tr ',' '\n' <<<"${gpus#device=}" | grep -c .) ;;
        *[!0-9]*) die 6 "--gpus $gpus: all, a number, a list such as 0,2, or none." ;;
        *) found=$gpus ;;
    esac
    ((found)) || [[ -n $ranks ]] || die 6 "--gpus all, but nvidia-smi shows no GPU here. Give their number: --gpus 8."
    : "${ranks:=$found}"
}

sweep=()
pick_sweep() { # fills `sweep` with collectives and their arguments; those after -- take the place of the default ones
    local sizes
    ((${#rest[@]})) || : "${size:=$default_size}"
    sweep=("${rest[@]}")
    [[ ${sweep[0]:--} != -* ]] || sweep=(all_reduce "${sweep[@]}")
    if [[ -n $size ]]; then
        IFS=: read -ra sizes <<<"$size"
        sweep+=(-b "${sizes[0]}" -e "${sizes[1]:-${sizes[0]}}" -f "${sizes[2]:-2}")
    fi
    [[ -z $time ]] || sweep+=(--time "$time")
}

add_choices() { # --level and --network, which a sweep and join have in common
    [[ -z $level ]] || add '' --level "$level"
    [[ -z $network ]] || add '' --network "$network"
}

add_sweep() {
    add 'a rank per GPU; NCCL places its threads itself' mpirun --oversubscribe --bind-to none -np "$ranks"
    add '' pxnbench "${sweep[@]}"
    [[ $gpus != none ]] || add 'there is no GPU in it' --backend host
    add_choices
}

add_join() {
    add 'starts the ranks of this node, without MPI' pxnbench join "$node_rank" "$master" --nodes "$nodes" --ranks-per-node "$ranks"
    add_choices
    add '' -- "${sweep[@]}"
}

# --- all of it ------------------------------------------------------------------------------------------------------

parse "$@"
check_numbers
pick_runtime
: "${image:=pxnbench:$(sed -n 's/^version *= *"\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)}"
[[ $action != build ]] || build
[[ ${runtime[0]##*/} != buildah ]] || die 6 "buildah builds images and runs them by other commands: see docs/CONTAINERS.md."
pick_gpus
[[ $action != join || $gpus != none ]] || die 6 "join measures GPUs, and there is none here. For host memory use run."
add_run
case $action in
    run) pick_sweep && add_sweep ;;
    join) pick_sweep && add_join ;;
    shell) if ((${#rest[@]})); then add '' "${rest[@]}"; else add '' bash; fi ;;
esac
execute
