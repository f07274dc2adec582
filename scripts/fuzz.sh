#!/usr/bin/env bash
# Fuzzes the parsers: scripts/fuzz.sh [TARGET|all] [SECONDS]
#
# Builds fuzz/ with libFuzzer, and runs it on one parser or on each in turn, for so many seconds each (60 if none are given).
# An input may take 10 s and 512 MiB. Prints the executions of each parser. Exits with 1 if an input was found that does harm;
# it is in fuzz/artifacts/TARGET. New inputs are kept in fuzz/corpus/TARGET for the next time. TARGET may be a path to a file
# behind a target's name, as in `scripts/fuzz.sh size fuzz/artifacts/size/crash-1`: it is read once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

case ${1:-} in
    -h | --help) print_help && exit 0 ;;
    -*) die 6 "unknown option '$1' (--help explains the script)." ;;
esac
target=${1:-all}
seconds=${2:-60}
seeds=tests/fuzz-corpus

if [[ $target != all && ! -d $seeds/$target ]]; then
    die 6 "there is no target $target. Use all, or one of: $(ls -m -w 0 "$seeds")"
fi

# Coverage by counters and comparisons, which a stable compiler knows as options of LLVM. Comparisons of memory stay calls, so
# that libFuzzer sees what they compare.
options=(
    --cfg fuzzing
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    -Cllvm-args=-max-loads-per-memcmp=0
)
host=$(rustc -vV | sed -n 's/^host: //p')
# With --target, build scripts and macros are not instrumented.
RUSTFLAGS="${options[*]}" cargo build --quiet --release --locked --manifest-path fuzz/Cargo.toml --target "$host" \
    --target-dir fuzz/target
program=$PWD/fuzz/target/$host/release/pxnbench-fuzz

if [[ -f $seconds ]]; then
    PXNBENCH_FUZZ=$target exec "$program" -timeout=10 -rss_limit_mb=512 "$seconds"
fi

# What a target writes is removed at the end, also of inputs that ended it.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# Fuzzes a target; the last line of its log has the executions.
fuzz() {
    local name=$1 log=fuzz/artifacts/$1.log
    mkdir -p "fuzz/corpus/$name" "fuzz/artifacts/$name"
    local status=0
    PXNBENCH_FUZZ=$name "$program" "fuzz/corpus/$name" "$seeds/$name" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=512 -malloc_limit_mb=512 -max_len=16384 -artifact_prefix="fuzz/artifacts/$name/" \
        -print_final_stats=1 >"$log" 2>&1 || status=$?
    local count
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if ((status == 0)); then
        printf '%-14s %12s executions in %s s, no finding\n' "$name" "${count:-0}" "$seconds"
    else
        printf '%-14s %12s executions, a finding: see %s\n' "$name" "${count:-0}" "$log"
    fi
    return "$status"
}

failed=0
if [[ $target == all ]]; then
    for folder in "$seeds"/*/; do
        fuzz "$(basename "$folder")" || failed=1
    done
else
    fuzz "$target" || failed=1
fi
exit "$failed"
