#!/usr/bin/env bash
# Repeats all collectives for a time, with checks, and fails if the memory, file descriptors or threads of a rank grow.
#
#   scripts/soak.sh [MINUTES] [--backend host|nccl] [--bin BINARY] [-- more arguments of pxnbench]
#
# MINUTES is 10, the backend nccl where there are two GPUs and else host, BINARY target/release/pxnbench. RANKS=N changes the number
# of ranks: a rank per GPU, or 4 on host memory. MPIRUN="..." names another launcher or options for it. All ranks must be on
# this machine.
#
# Each rank is sampled from /proc, 240 times in all or every 0.25 s. What counts are the samples of the second half of the time, by
# when each case must have run at least once. The growth is the median slope between any two of them (Theil and Sen), times the
# time between the first and the last, so that no single sample decides. Allowed are
#
#   memory             1 MiB; for rank 0, which keeps up to 10,000 rows of results, 2 KiB more for each row that it adds
#   file descriptors   less than one
#   threads            less than one
#
# Exit codes: 0 nothing grows, 1 something grows, 4 too few samples, 5 too few GPUs, 6 arguments, 8 no MPI; those of a run that
# fails are its own (7: wrong data).
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

minutes=10 backend='' bin=$here/../target/release/pxnbench
while (($#)); do
    case $1 in
        -h | --help) print_help && exit 0 ;;
        --backend) backend=${2:-} && shift ;;
        --bin) bin=${2:-} && shift ;;
        --) shift && break ;;
        --*) die 6 "unknown option '$1' (--help lists them)." ;;
        *) minutes=$1 ;;
    esac
    shift || die 6 "a value is missing at the end."
done
[[ $minutes =~ ^[0-9]+(\.[0-9]+)?$ ]] || die 6 "'$minutes' is no number of minutes."
seconds=$(awk -v m="$minutes" 'BEGIN { printf "%d", m * 60 + 0.5 }')
((seconds >= 10)) || die 6 "$minutes minutes are too short: use 0.2 or more."
if [[ -z $backend ]]; then
    backend=host
    (($(gpus) < 2)) || backend=nccl
fi
case $backend in
    host) ranks=${RANKS:-4} ;;
    nccl)
        ranks=${RANKS:-$(gpus)}
        ((ranks >= 2)) || die 5 "needs two GPUs, and a program started here would see $(gpus)."
        ;;
    *) die 6 "'$backend' is no backend: write host or nccl." ;;
esac
have "${mpirun[0]}" || die 8 "needs an MPI, and there is no '${mpirun[0]}' in PATH: load one, or set MPIRUN."
[[ -x $bin ]] || die 6 "there is no program '$bin': build it with 'cargo build --release', or name it with --bin."
bin=$(readlink -f "$bin")

tmp=$(mktemp -d)
run=
end() {
    [[ -z $run ]] || kill "$run" 2>/dev/null || true
    rm -rf "$tmp"
}
trap end EXIT
trap 'exit 130' INT TERM
mpi_sessions_in "$tmp/mpi"

# --- sampling -------------------------------------------------------------------------------------------------------

# Each rank leaves its process id before it becomes pxnbench.
mkdir "$tmp/pids"
touch "$tmp/samples"
# shellcheck disable=SC2016  # expands in the wrapper
printf '%s\n' '#!/bin/sh' \
    'echo $$ >"$PXNBENCH_SOAK/${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-0}}}"' \
    'exec "$@"' >"$tmp/wrapper"
chmod +x "$tmp/wrapper"
export PXNBENCH_SOAK=$tmp/pids

# Prints a line for each rank that runs: rank, milliseconds, memory in KiB, file descriptors, threads, rows of results. Nothing is
# started for it: a machine that is busy has to be sampled too.
sample() { # milliseconds rows
    local file pid lines memory threads descriptors
    for file in "$tmp"/pids/*; do
        { read -r pid <"$file" && mapfile -t lines <"/proc/$pid/status"; } 2>/dev/null || continue
        descriptors=("/proc/$pid/fd"/*)
        [[ ${lines[*]} =~ VmRSS:[[:space:]]*([0-9]+) ]] || continue
        memory=${BASH_REMATCH[1]}
        [[ ${lines[*]} =~ Threads:[[:space:]]*([0-9]+) ]] || continue
        threads=${BASH_REMATCH[1]}
        echo "${file##*/} $1 $memory ${#descriptors[@]} $threads $2"
    done
}

rows() { # prints how many rows the results have
    local lines
    lines=$(wc -l 2>/dev/null <"$tmp/run/results.csv") || lines=1
    echo "$((lines - 1))"
}

interval=$(awk -v s="$seconds" 'BEGIN { print (s > 60 ? s / 240 : 0.25) }')
launch_ranks "$ranks"
say "$ranks ranks, backend $backend, $seconds s, a sample every $interval s"
"${launch_within[@]}" $((seconds + 300)) "${launch[@]}" "$tmp/wrapper" "$bin" all --backend "$backend" -b 1K -e 1M -f 32 -n 20 -c 1 \
    --time "${seconds}s" --out "$tmp/run" "$@" >"$tmp/out" 2>&1 </dev/null &
run=$!
first_row=
started=${EPOCHREALTIME/[.,]/}
while kill -0 "$run" 2>/dev/null; do
    now=$(((${EPOCHREALTIME/[.,]/} - started) / 1000))
    written=$(rows)
    [[ -n $first_row ]] || ((written < 1)) || first_row=$now
    sample "$now" "$written" >>"$tmp/samples"
    sleep "$interval"
done
ended=$(((${EPOCHREALTIME/[.,]/} - started) / 1000))
last_rows=$(rows)
rc=0
wait "$run" || rc=$?
run=
if ((rc != 0)); then
    tail -n 20 "$tmp/out" >&2
    die "$rc" "the run failed with exit code $rc."
fi

# --- judging --------------------------------------------------------------------------------------------------------

# The run says how many passes were complete: of the first one nothing may be in the samples.
passes=$(awk -F'"passes": *' '/"passes"/ { print $2 + 0; exit }' "$tmp/run/run.json")
cases=$(awk -F'"cases": *' '/"over_time"/ { found = 1 } found && /"cases"/ { print $2 + 0; exit }' "$tmp/run/run.json")
say "$cases cases, complete passes: $passes, no wrong data"
((passes >= 2)) || die 4 "complete passes: $passes, and two are needed: use more minutes, or fewer sizes."
# The time begins with the first row, because a start can be slow; or earlier, if the disk was slow and the row came late. At the
# end the files are written and MPI ends, which is no part of it.
took=$(awk -F'"elapsed_s": *' '/"elapsed_s"/ { printf "%d", 1000 * $2; exit }' "$tmp/run/run.json")
began=$((ended - took))
[[ -z $first_row ]] || ((first_row > began)) || began=$first_row
from=$((began + took / 2)) until=$((began + took * 98 / 100))
((until < ended - 1000)) || until=$((ended - 1000))
awk -v from="$from" -v until="$until" '$2 >= from && $2 < until' "$tmp/samples" >"$tmp/counted"
first_rows=$(awk '{ print $6; exit }' "$tmp/counted")
# Rows that a slow disk keeps back hide the first pass, but not one of many.
is_warm=$(awk -v rows="${first_rows:-0}" -v cases="$cases" -v passes="$passes" \
    'BEGIN { print (rows >= 10000 || rows >= cases / passes || passes >= 10) }')
((is_warm)) || die 4 "half of the time was over before the first pass: use more minutes, or fewer sizes."

# Prints the median slope and the length of the time of a rank's samples.
slope() { # rank column
    awk -v rank="$1" -v column="$2" '
        $1 == rank { n++; at[n] = $2; value[n] = $column }
        END {
            for (i = 1; i <= n; i++)
                for (j = i + 1; j <= n; j++)
                    if (at[j] > at[i]) printf "%.6f %d\n", (value[j] - value[i]) / (at[j] - at[i]), at[n] - at[1]
        }' "$tmp/counted" | sort -g | awk '
        { slope[NR] = $1; span = $2 }
        END { if (NR) print (slope[int((NR + 1) / 2)] + slope[int(NR / 2) + 1]) / 2, span }'
}

last_of() { # rank column
    awk -v rank="$1" -v column="$2" '$1 == rank { value = $column } END { print value }' "$tmp/counted"
}

row() { printf '%-5s %-18s %12s %14s %12s %10s  %s\n' "$@"; }
grown=0
row rank what last "a minute" growth allowed verdict
for ((rank = 0; rank < ranks; rank++)); do
    kib=1024
    samples=$(awk -v rank="$rank" '$1 == rank { n++ } END { print n + 0 }' "$tmp/counted")
    ((samples >= 8)) || die 4 "rank $rank has $samples samples, and 8 are needed: use more minutes, or a machine that is less busy."
    ((rank > 0)) || kib=$((1024 + 2 * (last_rows - ${first_rows:-0})))
    for kind in "3 memory_KiB $kib" "4 file_descriptors 1" "5 threads 1"; do
        read -r column name allowed <<<"$kind"
        read -r rate span <<<"$(slope "$rank" "$column")"
        read -r per_minute growth verdict <<<"$(awk -v s="$rate" -v t="$span" -v a="$allowed" 'BEGIN {
            printf "%.2f %.2f %s\n", 60000 * s, s * t, s * t < a ? "ok" : "GROWS" }')"
        [[ $verdict == ok ]] || grown=$((grown + 1))
        row "$rank" "$name" "$(last_of "$rank" "$column")" "$per_minute" "$growth" "<$allowed" "$verdict"
    done
done
((grown == 0)) || die 1 "$grown of these grow."
# Of the memory of GPUs only the run itself knows.
if remark=$(grep -E 'the (GPU )?memory of process [0-9]+ .* grew from ' "$tmp/out"); then
    die 1 "$remark."
fi
say "nothing grows"
