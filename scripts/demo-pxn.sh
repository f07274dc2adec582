#!/usr/bin/env bash
# Tells what PXN is, in two minutes: with NCCL itself on virtual nodes of this machine, or from a recorded run.
#
#   scripts/demo-pxn.sh [BINARY]    default: target/release/pxnbench
#
# With two GPUs that NVLink connects, NCCL runs and is watched; no NIC is needed. Elsewhere the same story is told from a run
# on two H200 that was recorded.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

case ${1:-} in
    -h | --help) print_help && exit 0 ;;
    -*) die 6 "unknown option '$1' (--help explains the script)." ;;
esac
bin=${1:-${CARGO_TARGET_DIR:-$here/../target}/release/pxnbench}
recording=$here/../data/rehearsal/two-h200.json
[[ -x $bin ]] || die 6 "there is no program '$bin': build it with 'cargo build --release', or name it."
bin=$(readlink -f "$bin")

from=()
if (($(gpus) < 2)); then
    [[ -r $recording ]] || die 6 "there are fewer than two GPUs here, and no recording '$recording'."
    from=(--from "$recording")
fi

tell() { printf '\n%s\n' "$@" | fold -s -w 100; }

show() { # arguments of rehearse...
    echo "\$ pxnbench rehearse $*${from[*]:+ --from ${recording##*/}}"
    echo
    "$bin" rehearse "$@" ${from[@]+"${from[@]}"}
}

if ((${#from[@]})); then
    tell "There are fewer than two GPUs here, so this is a recorded run: NCCL on two H200."
else
    tell "NCCL runs on two GPUs of this machine. For NCCL they are two nodes with two GPUs and two NICs each: its ranks are told \
that they are on other hosts, and a plugin plays the NICs."
fi
tell "A node has several GPUs, with a NIC beside each. NICs with the same number are a rail: a network of their own, or the same \
leaf switch. A GPU that sends through its own NIC to a GPU with another number crosses from rail to rail, over the upper switches."
tell "1. Without PXN half of the bytes of an alltoall cross rails: each GPU sends through its own NIC, whoever receives."
show alltoall --topology split --levels off

tell "2. With PXN a GPU passes its data over NVLink to the GPU beside the NIC on the receiver's rail, which relays them. Nothing \
crosses rails. In NCCL's log such a connection names the relay; the plugin counts the same bytes; NCCL's rules say the same."
show alltoall --topology split --levels off,default

if ((${#from[@]})); then
    tell "3. sendrecv to the next rank shows it best: between nodes, the last GPU of one node sends to the first of the next. Without \
PXN every byte crosses; with it none does."
    show sendrecv --topology split --levels off,default
else
    tell "3. scatter from rank 0 shows it best. Only GPU 0 of a node has something to send, so without PXN the second rail carries \
nothing at all. With PXN it carries its half, although the GPU beside it sends nothing itself."
    show scatter --topology split --levels off,default
fi

tell "4. The levels between: conservative relays for rings, and not for sends and receives; balanced relays to NICs that the sender \
does not reach through PCI switches alone; aggressive relays to every other rail, as NCCL does by default. Whether balanced does \
anything depends on the node: on topology shared the sender reaches all NICs itself, so balanced does the same as \
conservative${from:+ (on shared, balanced was not recorded)}."
show alltoall --topology split
show alltoall --topology shared

tell "That was PXN. docs/PXN_GUIDE.md says which level suits a cluster, pxnbench proof finds relays in the log of any job, and \
pxnbench experiment measures which level is faster: a rehearsal shows decisions, never speed."
