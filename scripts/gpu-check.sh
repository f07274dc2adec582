#!/usr/bin/env bash
# Proves pxnbench on real GPUs: any machine with two or more of them, NCCL, and an MPI. Takes about eight minutes.
#
#   scripts/gpu-check.sh [--quick] [--only PARTS] [BINARY]
#
# BINARY is target/release/pxnbench if it is not given. --quick sends 1 MiB at most. --only runs some of the parts, with commas
# between them:
#
#   sweeps       data, flags, refusals, and what is known of the GPUs meanwhile
#   ends         how soon, and with which words, a sweep ends that a signal disturbs
#   rehearsals   NCCL on two virtual nodes at every level; needs NVLink between the GPUs, and no MPI
#
# MPIRUN="..." names another launcher or options for it. NCCL's own variables are left as they are set.
# Prints a line a check and goes on after a failure; exits 0 only if all are ok, and 5 where there are too few GPUs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

parts=(sweeps ends rehearsals)
large=64M soak_minutes=1 soak_sizes=() chosen=("${parts[@]}")
while [[ ${1:-} == -* ]]; do
    case $1 in
        --quick) large=1M soak_minutes=0.5 soak_sizes=(-e 1K -n 2) ;;
        --only) IFS=, read -ra chosen <<<"${2:-}" && shift ;;
        -h | --help) print_help && exit 0 ;;
        *) die 6 "unknown option '$1' (--help lists them)." ;;
    esac
    shift || die 6 "a value is missing at the end."
done
((${#chosen[@]})) || die 6 "--only has no part: write one or more of ${parts[*]}, with commas between them."
for part in "${chosen[@]}"; do
    [[ " ${parts[*]} " == *" $part "* ]] || die 6 "there is no part '$part': write one or more of ${parts[*]}, with commas between them."
done
wanted() { [[ " ${chosen[*]} " == *" $1 "* ]]; } # part: whether it is asked for
bin=${1:-$here/../target/release/pxnbench}
limit=120 # seconds for one run of pxnbench; a hang is a failure, not an evening
collectives=(all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv hypercube alltoallv)
reducing=(all_reduce reduce reduce_scatter)

# --- running --------------------------------------------------------------------------------------------------------

ranks() { # number command...: runs it, everything it says in $out, its exit code in $rc
    launch_ranks "$1"
    rc=0
    "${launch_within[@]}" "$limit" "${launch[@]}" "${@:2}" >>"$out" 2>&1 </dev/null || rc=$?
}

# A wrapper around each rank that gives it its own environment, as a launcher or a site's script would.
write_wrapper() { # file lines: $rank and $local_rank can be used in them
    cat >"$1" <<END
#!/usr/bin/env bash
rank=\${OMPI_COMM_WORLD_RANK:-\${PMIX_RANK:-\${PMI_RANK:-0}}}
local_rank=\${OMPI_COMM_WORLD_LOCAL_RANK:-\${MPI_LOCALRANKID:-\$rank}}
IFS=, read -ra gpus <<<"\${CUDA_VISIBLE_DEVICES:-0,1}"
$2
exec "\$@"
END
    chmod +x "$1"
}

# Sum of the column `wrong` of CSV files, and how many cells of it hold a number: "0/36" is 36 checked and none wrong.
# Only the last column can hold a comma, so a plain split finds it.
wrong() { # file...
    awk -F, 'FNR == 1 { for (i = 1; i <= NF; i++) if ($i == "wrong") at = i; next }
             at && $at != "" { sum += $at; cells++ }
             END { printf "%d/%d\n", sum, cells }' "$@" 2>/dev/null || true
}

says() { grep -qE -- "$1" "$out"; }

# --- judging --------------------------------------------------------------------------------------------------------

failed=0
row() { printf '%-30s %-24s %-42s %-6s %4s\n' "$@"; }

# Each check leaves in `got` what it saw, and is ok if that is what is expected. Of one that is not, the last `lines_shown` lines are
# printed.
check() { # name expected function args...
    local began=$SECONDS verdict=ok lines_shown=12
    out=$tmp/out rc=0 got=
    rm -rf "$tmp"/out "$tmp"/csv
    mkdir "$tmp/csv"
    touch "$out"
    "${@:3}"
    [[ $got == "$2" ]] || { verdict=FAILED && failed=$((failed + 1)); }
    row "$1" "$2" "$got" "$verdict" $((SECONDS - began))
    [[ $verdict == ok ]] || { tail -n "$lines_shown" "$out" | sed 's/^/    | /' && echo "    (exit $rc, wrong/checked $(wrong "$tmp"/csv/*))"; }
}

# A sweep passes when it ends with 0, has checked something, and found nothing wrong.
judge_sweep() {
    local count
    count=$(wrong "$tmp"/csv/*)
    if ((rc != 0)); then
        got="exit $rc"
    elif [[ $count == 0/0 || $count != 0/* ]]; then
        got="exit 0, wrong/checked $count"
    else
        got="exit 0, 0 wrong"
    fi
}

# --- the checks -----------------------------------------------------------------------------------------------------

selfcheck() { # the GPU's fill and check agree with Rust's
    timeout -k 5 "$limit" "$bin" selfcheck >"$out" 2>&1 </dev/null || rc=$?
    got="exit $rc"
}

sweep() { # ranks args of pxnbench...
    ranks "$1" ${wrapper[@]+"${wrapper[@]}"} "$bin" "${@:2}" --backend nccl -c 1 -w 1 --csv "$tmp/csv/sweep.csv"
    judge_sweep
}

# The one flipped element is seen, counted once, and ends the run as documented.
injected_fault() {
    sweep 2 all_reduce -b 64K -e 1M -f 4 -n 5 --inject-fault 1
    got="exit $rc, $(wrong "$tmp"/csv/* | cut -d/ -f1) wrong, $(says FAILED && echo FAILED || echo 'no FAILED')"
}

# A byte beside each side of both buffers, and an element of the send buffer: each is found in its place and ends the run.
faults_beside() {
    local target place found=0
    while read -r target place; do
        : >"$out"
        sweep 2 alltoall -b 64K -e 64K -n 5 --inject-fault "1:$target"
        ((rc == 7)) && says "alltoall 64K float out of place: rank 1: 1 $place" && found=$((found + 1))
    done <<'END'
after byte after the receive buffer changed, the first at \+0$
before byte before the receive buffer changed, the first at -1$
after-send byte after the send buffer changed, the first at \+0$
before-send byte before the send buffer changed, the first at -1$
send element of the send buffer changed, the first at 16383$
END
    got="$found of 5 found"
}

# Memory, file descriptors and threads stay the same while all collectives are repeated.
soak() {
    RANKS=2 timeout -k 5 "$limit" "$here/soak.sh" "$soak_minutes" --backend nccl --bin "$bin" -- \
        ${soak_sizes[@]+"${soak_sizes[@]}"} >>"$out" 2>&1 </dev/null || rc=$?
    got="exit $rc, $(grep -c ' ok$' "$out" || true) flat"
}

one_gpu_each() {
    # shellcheck disable=SC2016  # expands in the wrapper
    write_wrapper "$tmp/wrapper" 'export CUDA_VISIBLE_DEVICES=${gpus[local_rank]}'
    local wrapper=("$tmp/wrapper")
    sweep 2 all_reduce -b 8 -e 1M -f 32 -n 5
}

# Refused before NCCL starts, by a sentence with both ranks in it.
same_gpu() {
    # shellcheck disable=SC2016
    write_wrapper "$tmp/wrapper" 'export CUDA_VISIBLE_DEVICES=${gpus[0]} NCCL_DEBUG=INFO'
    local wrapper=("$tmp/wrapper")
    NCCL_DEBUG_FILE=$tmp/csv/nccl.%p sweep 2 all_reduce -b 8 -e 8 -n 1
    case $rc in
        5 | 6) got="refused" ;;
        *) got="exit $rc" ;;
    esac
    says '[Rr]ank.*\b0\b.*\b1\b' || got+=", no sentence with both ranks"
    { says 'NCCL (INFO|WARN|version)' || compgen -G "$tmp/csv/nccl.*" >/dev/null; } && got+=", NCCL started"
    return 0
}

# Two ranks share each GPU by turns, which NCCL allows only because it takes them to be on two nodes.
two_virtual_nodes() {
    # shellcheck disable=SC2016
    write_wrapper "$tmp/wrapper" 'export NCCL_HOSTID=node$((rank / 2)) CUDA_VISIBLE_DEVICES="${gpus[0]},${gpus[1]}"'
    local wrapper=("$tmp/wrapper")
    sweep 4 all_reduce alltoall -b 64 -e 64K -f 32 -n 2
}

# One process, no mpirun.
alone() { # args of pxnbench...
    timeout -k 5 "$limit" "$bin" "$@" --backend nccl -c 1 -w 1 --csv "$tmp/csv/sweep.csv" >"$out" 2>&1 </dev/null || rc=$?
    judge_sweep
}

# Two sweeps: two processes, and one process with two GPUs or threads.
both_ways() { # args of pxnbench...
    sweep 2 "$@"
    [[ $got == "exit 0, 0 wrong" ]] && alone "$@" -g 2
    [[ $got == "exit 0, 0 wrong" ]] && alone "$@" -t 2
    return 0
}

# As `both_ways`, for each value of a flag.
each_value() { # flag "values" args of pxnbench...
    local value
    for value in $2; do
        both_ways "${@:3}" "$1" "$value"
        [[ $got == "exit 0, 0 wrong" ]] || { got+=" with $1 $value" && return 0; }
    done
}

# As `both_ways`, and every case ran that many operations.
counted() { # operations args of pxnbench...
    both_ways "${@:2}"
    awk -F, -v all="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "iters") at = i; next } $at != all { exit 1 }' \
        "$tmp/csv/sweep.csv" || got+=", other numbers of operations"
}

# The first ones are left out. With -z 3 no wait for other ranks is in an iteration: the shortest is then no longer than the
# mean on the slowest rank (-a 3).
single_iterations() {
    both_ways all_reduce -b 1M -e 1M -n 10 -I 1 -K 2 -J "$tmp/csv/i.json"
    says 'i_min +i_max +i_p99 +i_cv%' || got+=", no columns"
    grep -q '"skipped_iterations":2' "$tmp/csv/i.json" || got+=", none left out"
    rm -f "$tmp"/csv/i.json*
    [[ $got == "exit 0, 0 wrong" ]] || return 0
    both_ways all_reduce -b "$large" -e "$large" -n 10 -I 1 -z 3 -a 3
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
             !($at["iter_min_us"] > 0 && $at["iter_min_us"] <= 1.02 * $at["time_us"]) { exit 1 }' \
        "$tmp/csv/sweep.csv" || got+=", longer than the time"
}

memory_in_use() {
    alone all_reduce -b 1M -e 1M -g 2 -M 1
    says 'GPU memory usage +: Initialization .* User-Allocated [0-9.]+ [MG]B .* Collective .* Total' || got+=", no line"
}

first_gpu() {
    NCCL_TESTS_DEVICE=1 alone all_reduce -b 1M -e 1M -n 2
    says '^#  Rank  0 .* device  1 ' || got+=", another GPU"
}

# Each GPU has a line with a clock and a power draw.
monitor_once() {
    timeout -k 5 "$limit" "$bin" monitor --once --csv --interval 200ms >"$out" 2>&1 </dev/null || rc=$?
    got="exit $rc"
    awk -F, '/^time,/ { for (i = 1; i <= NF; i++) at[$i] = i; next }
             at["gpu"] && $at["sm_clock_MHz"] > 0 && $at["power_W"] > 0 { known++ }
             END { exit known < 2 }' "$out" || got+=", no clock or power of two GPUs"
}

# Both GPUs are sampled while a case runs, and the summary has both.
telemetry_of_run() {
    ranks 2 "$bin" all_reduce --backend nccl -b "$large" -e "$large" -n 500 -c 1 --telemetry=100ms --out "$tmp/run"
    got="exit $rc"
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
             $at["sm_clock_MHz"] > 0 { gpus[$at["uuid"]]++ }
             END { exit length(gpus) < 2 }' "$tmp/run/telemetry.csv" || got+=", no clocks of two GPUs"
    grep -q '"max_temperature_C": [0-9]' "$tmp/run/run.json" || got+=", no summary"
    rm -rf "$tmp/run"
}

# The peak of NVLink is the number of links times their rate; without NVLink or NVML there is another, or a reason.
peak_of_links() {
    rm -rf "$tmp/run"
    alone all_reduce -b 1M -e 1M -g 2 -n 5 --out "$tmp/run"
    [[ $got == "exit 0, 0 wrong" ]] || return 0
    local kind count each peak
    kind=$(grep -o '"kind": *"[^"]*"' "$tmp/run/run.json" | head -n 1 | cut -d'"' -f4 || true)
    count=$(grep -o '"count": *[0-9]*' "$tmp/run/run.json" | head -n 1 | grep -o '[0-9]*$' || true)
    each=$(grep -o '"each_GBps": *[0-9.]*' "$tmp/run/run.json" | head -n 1 | grep -o '[0-9.]*$' || true)
    peak=$(grep -o '"peak_GBps": *[0-9.]*' "$tmp/run/run.json" | head -n 1 | grep -o '[0-9.]*$' || true)
    case $kind in
        NVLink*) awk -v a="$count" -v b="$each" -v c="$peak" 'BEGIN { exit !(a * b == c && c > 0) }' || got+=", $count x $each is not $peak" ;;
        *) says 'peak busbw (is unknown|by the links): ' || got+=", no peak and no reason" ;;
    esac
    echo "    | peak ${peak:-unknown} GB/s: ${count:-no} x ${kind:-link}"
}

no_such_nccl() {
    ranks 2 "$bin" all_reduce --backend nccl --nccl-lib /nonexistent.so -b 8 -e 8
    got="exit $rc, $(grep -c /nonexistent.so "$out" || true) sentence"
}

# Starts a sweep of two ranks that has no end, and sends a signal to rank 1, or to the launcher, once a row is shown. Its exit
# code is in $rc, the seconds until its end in $took, and the pid of rank 1 in $victim.
disturb() { # signal rank|launcher
    local deadline=$((SECONDS + 60)) target job began
    # shellcheck disable=SC2016
    write_wrapper "$tmp/wrapper" "echo \$\$ >'$tmp/pid.'\$rank"
    rm -rf "$tmp/run" "$tmp"/pid.*
    launch_ranks 2
    "${launch_within[@]}" "$limit" "${launch[@]}" "$tmp/wrapper" "$bin" all_reduce -b "$large" -e "$large" -n 500 -N 0 -T 5 \
        --backend nccl --out "$tmp/run" >>"$out" 2>&1 </dev/null &
    job=$!
    until says '^ +[0-9]+ +[0-9]+ +float ' || ((SECONDS > deadline)); do sleep 0.1; done
    victim=$(cat "$tmp/pid.1" 2>/dev/null || true)
    case $2 in
        rank) target=$victim ;;
        *) target=$job ;; # its timeout passes it on
    esac
    began=$SECONDS
    [[ -z $target ]] || kill -s "$1" "$target"
    wait "$job" || rc=$?
    took=$((SECONDS - began))
    ! is_left "$victim" || got+=", rank 1 is left"
}

# Whether a process still runs three seconds later. One that is only not yet waited for does not.
is_left() { # pid
    local state tries
    for ((tries = 0; tries < 30; tries++)); do
        state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/${1:-none}/status" 2>/dev/null || true)
        [[ -n $state && $state != Z* ]] || return 1
        sleep 0.1
    done
}

# Appends to $got that the rows on disk are not all whole, if so.
judge_rows() {
    awk -F, 'NR == 1 { cells = NF; next } NF < cells { exit 1 } END { exit NR < 2 }' "$tmp/run/results.csv" 2>/dev/null ||
        got+=", no whole rows"
}

# The watch names a rank that stands still within -T and two seconds, and all are gone ten seconds later.
stopped_rank() {
    disturb STOP rank
    says "rank 1 on .*pid $victim\\) has been silent" && got="named$got" || got="not named$got"
    ((took <= 17)) || got+=", after $took s"
    [[ $(grep -o '"code": *[0-9]*' "$tmp/run/run.json" | grep -o '[0-9]*$') == 4 ]] || got+=", not exit 4"
    judge_rows
}

killed_rank() {
    disturb KILL rank
    says "rank 1 on .*was killed( by SIGKILL|, or)" && got="named$got" || got="not named$got"
    ((took <= 12)) || got+=", after $took s"
    judge_rows
}

# As Ctrl-C does: the launcher gets the signal.
interrupted() {
    disturb INT launcher
    grep -q '"code": *9' "$tmp/run/run.json" && got="exit 9 in run.json$got" || got="exit $rc$got"
    ((took <= 12)) || got+=", after $took s"
    judge_rows
}

# --- rehearsal ------------------------------------------------------------------------------------------------------

rehearsed=(alltoall alltoallv sendrecv gather scatter hypercube all_reduce) # all_reduce by ring and by tree
levels=(off conservative balanced aggressive default)

# NCCL on two virtual nodes whose NICs a plugin plays, at every level and on both topologies; it may take three minutes. The table
# goes to a file, from which the checks of each level read.
rehearsal() {
    local began=$SECONDS took
    lines_shown=200 # what the logs say of a job that failed
    timeout -k 5 240 "$bin" rehearse "${rehearsed[@]}" --topology both --csv "$tmp/rehearsal.csv" \
        --json "$tmp/rehearsal.json" >"$out" 2>&1 </dev/null || rc=$?
    took=$((SECONDS - began))
    cp "$out" "$tmp/rehearsal.txt"
    got="exit $rc, $(agreeing . .)"
    ((took <= 180)) || got+=", after $took s"
}

# How many collectives of a topology and a level had right data and the same numbers in theory, log and counters; `.` is any.
# Only the last column can hold a comma.
agreeing() { # topology level
    awk -F, -v topology="$1" -v level="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        (topology == "." || $at["topology"] == topology) && (level == "." || $at["level"] == level) {
            all[$at["topology"] $at["level"] $at["collective"] $at["algorithm"]] = $at["agrees"] == "yes" && $at["verified"] == "yes"
        }
        END { for (one in all) { count++; if (all[one]) good++ }; printf "%d of %d agree\n", good, count }
    ' "$tmp/rehearsal.csv" 2>/dev/null || echo "no table"
}

rehearsed_level() { # topology level
    got=$(agreeing "$1" "$2")
    [[ ! -e $tmp/rehearsal.txt ]] || awk -v level="$2" '$0 ~ level' "$tmp/rehearsal.txt" >"$out"
}

# Of a scatter from rank 0, rail 1 of its node carries bytes only with PXN.
rail_filled_by_pxn() {
    got=$(awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["topology"] == "split" && $at["collective"] == "scatter" && $at["node"] == 0 && $at["rail"] == 1 { sent[$at["level"]] = $at["sent_bytes"] }
        END { print "off " (sent["off"] == "0" ? "none" : "some") ", default " (sent["default"] > 0 ? "some" : "none") }
    ' "$tmp/rehearsal.csv" 2>/dev/null || true)
}

# A rail that sends no more ends the job, and the sentence names it with a rank.
stalled_rail() {
    lines_shown=100
    timeout -k 5 "$limit" "$bin" rehearse alltoall --levels default --stall 1:4 -T 10 >"$out" 2>&1 </dev/null || rc=$?
    got="exit $rc, $(says 'rail 1 of rank [0-9]+ holds' && echo named || echo 'not named')"
}

# A rail at little bandwidth: messages wait for it, and all numbers stay the same.
slow_rail() {
    lines_shown=100
    timeout -k 5 "$limit" "$bin" rehearse alltoall --levels default --bandwidth 1=0.05 >"$out" 2>&1 </dev/null || rc=$?
    got="exit $rc, $(says 'messages waited [0-9.]+ ms for rail 1' && echo waited || echo 'not waited')"
}

# --- all of them ----------------------------------------------------------------------------------------------------

check_sweeps() {
    check "fill and check as in Rust" "exit 0" selfcheck
    for collective in "${collectives[@]}"; do
        check "$collective" "exit 0, 0 wrong" sweep 2 "$collective" -b 8 -e "$large" -f 4 -n 5
    done
    check "all types and operations" "exit 0, 0 wrong" sweep 2 "${reducing[@]}" -d all -o all -b 8 -e 1M -f 64 -n 5
    check "the same, odd sizes" "exit 0, 0 wrong" sweep 2 "${reducing[@]}" -d all -o all -b 1000 -e 100000 -i 33000 -n 5
    check "types of 8 bits" "exit 0, 0 wrong" sweep 2 all -d f8e4m3,f8e5m2 -o all -b 64 -e 1M -f 64 -n 5
    check "two GPUs, one process" "exit 0, 0 wrong" alone all -g 2 -b 8 -e "$large" -f 64 -n 5
    check "two threads" "exit 0, 0 wrong" alone all -t 2 -b 8 -e "$large" -f 64 -n 5
    check "two threads that join at once" "exit 0, 0 wrong" alone all_reduce -t 2 -p 1 -b 8 -e 1M -f 32 -n 5
    check "operations in groups" "exit 0, 0 wrong" counted 20 all_reduce alltoall -m 4 -b 1K -e 1M -f 32 -n 5
    check "as a CUDA graph" "exit 0, 0 wrong" counted 15 all_reduce alltoall -G 3 -b 1K -e 1M -f 32 -n 5
    check "waiting after each operation" "exit 0, 0 wrong" each_value -z "1 2 3" all_reduce -b 1K -e 1M -f 32 -n 5
    check "registered buffers" "exit 0, 0 wrong" each_value -R "1 2" all_reduce all_gather -b 1K -e 1M -f 32 -n 5
    check "CTA policies" "exit 0, 0 wrong" each_value -x "0 1 2" all_reduce -b 1M -e 1M -n 5
    check "unaligned buffers" "exit 0, 0 wrong" both_ways all_reduce alltoall -u 3 -d half -b 1K -e 1M -f 32 -n 5
    check "the null stream" "exit 0, 0 wrong" both_ways all_reduce -y 1 -b 1K -e 1M -f 32 -n 5
    check "single iterations" "exit 0, 0 wrong" single_iterations
    check "memory in use" "exit 0, 0 wrong" memory_in_use
    check "a first GPU that is given" "exit 0, 0 wrong" first_gpu
    check "a fault put in" "exit 7, 1 wrong, FAILED" injected_fault
    check "nothing beside the buffers" "exit 0, 0 wrong" sweep 2 all -r all -d int8,half -b 1000 -e 100000 -i 33000 -n 2
    check "the same, unaligned" "exit 0, 0 wrong" both_ways all -u 3 -d half -b 1000 -e 100000 -i 33000 -n 2
    check "faults beside the buffers" "5 of 5 found" faults_beside
    check "a soak" "exit 0, 6 flat" soak
    check "each rank sees one GPU" "exit 0, 0 wrong" one_gpu_each
    check "two ranks on one GPU" "refused" same_gpu
    check "4 ranks as two virtual nodes" "exit 0, 0 wrong" two_virtual_nodes
    check "GPUs watched" "exit 0" monitor_once
    check "telemetry of a run" "exit 0" telemetry_of_run
    check "peak is links times rate" "exit 0, 0 wrong" peak_of_links
    check "no such libnccl" "exit 3, 1 sentence" no_such_nccl
}

check_ends() {
    check "a rank that stands still" "named" stopped_rank
    check "a rank that is killed" "named" killed_rank
    check "an interrupted sweep" "exit 9 in run.json" interrupted
}

check_rehearsals() {
    local topology level
    check "rehearsal of all levels" "exit 0, 80 of 80 agree" rehearsal
    for topology in split shared; do
        for level in "${levels[@]}"; do
            check "rehearsal, $topology, $level" "8 of 8 agree" rehearsed_level "$topology" "$level"
        done
    done
    check "a rail that PXN alone fills" "off none, default some" rail_filled_by_pxn
    check "a rail that stalls" "exit 4, named" stalled_rail
    check "a rail that is slow" "exit 0, waited" slow_rail
}

uses_mpi() { wanted sweeps || wanted ends; }
(($(gpus) >= 2)) || die 5 "needs two GPUs, and a program started here would see $(gpus)."
! uses_mpi || have "${mpirun[0]}" || die 8 "needs an MPI, and there is no '${mpirun[0]}' in PATH: load one, or set MPIRUN."
[[ -x $bin ]] || die 6 "there is no program '$bin': build it with 'cargo build --release', or name it."
bin=$(readlink -f "$bin")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mpi_sessions_in "$tmp/mpi"

! uses_mpi || launch_ranks 2 # says once, above the table, what it sets
row check expected got "" s
for part in "${parts[@]}"; do
    ! wanted "$part" || "check_$part"
done

((failed == 0)) || die 1 "$failed checks FAILED ($SECONDS s)."
echo "all checks ok on $(gpus) GPUs in $SECONDS s"
