#!/usr/bin/env bash
# Passes every check of this project, on this machine. CI runs this and nothing else.
#
#   scripts/test.sh           everything; what the checks need is installed first (scripts/setup.sh)
#   scripts/test.sh --fast    without the Slurm daemons and without cargo deny
#
# A tool that is not here is never skipped in silence: with CI=true it is installed or the run fails, elsewhere the
# last line names what was skipped. GPUs are not needed: scripts/gpu-check.sh is for them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

fast=no
case ${1:-} in
    "") ;;
    --fast) fast=yes ;;
    -h | --help) print_help && exit 0 ;;
    *) die 6 "unknown option '$1' (--help lists them)." ;;
esac
in_ci() { [[ ${CI:-} == true ]]; }

skipped=()
current=set-up
trap '(($? == 0)) || say "FAILED at: $current (after $SECONDS s)"' EXIT
step() { # what command...: one check, with its time
    local began=$SECONDS
    current=$1
    say "--- $1"
    "${@:2}"
    say "    ok, $((SECONDS - began)) s"
}

# What one pass without incremental files, but with line tables, leaves in the build folder, 4.5 GiB, and room for what the tests write. A disk that fills up fails tests one
# by one, with words that are about their files. What is built already need not fit again.
check_space() {
    local needed=$((8 << 20)) folder=${CARGO_TARGET_DIR:-target} free built
    mkdir -p "$folder"
    free=$(df --output=avail -k "$folder" | tail -n 1)
    ((free < needed)) || return 0
    # A file that another build removes meanwhile is no failure.
    built=$(du -sk "$folder" 2>/dev/null | cut -f 1) || true
    ((free + built < needed)) || return 0
    die 11 "these checks need $((needed >> 20)) GiB in $folder: $((built >> 10)) MiB are there, and $((free >> 10)) MiB are free on its disk. Make room for $((((needed - built - free) >> 10) + 1)) MiB, or set CARGO_TARGET_DIR to a folder on another disk."
}

# --- the checks -----------------------------------------------------------------------------------------------------

check_shell() {
    local files
    mapfile -t files < <(find scripts slurm tests examples .ci -type f \( -name '*.sh' -o -name '*.sbatch' -o -path .ci/run \))
    shellcheck -x "${files[@]}"
}

lint() { cargo clippy --locked --all-targets "$@" -- -D warnings; }

# The database of advisories is a git repository elsewhere, and not every machine reaches it.
check_dependencies() {
    local deny=(cargo deny --locked --config .ci/deny.toml) checks=(bans licenses sources)
    if timeout 60 "${deny[@]}" fetch db 2>/dev/null; then
        checks+=(advisories)
    else
        skipped+=("advisories (their database could not be fetched)")
        say "the database of advisories could not be fetched (it needs git and a network): advisories are not checked"
    fi
    "${deny[@]}" check --hide-inclusion-graph "${checks[@]}"
}

# Without optimisation it builds in a third of the time, and judging this few crates takes it no time.
install_deny() { cargo install cargo-deny --version 0.20.2 --locked --debug; }

# MPI for tests: more ranks than cores, waiting without spinning, root in a container.
test_environment() {
    allow_root
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    # What the Rust tests may not skip. Locally a machine without Slurm may skip those tests, CI may not.
    PXNBENCH_REQUIRE=mpi,c++
    [[ $fast == yes ]] || ! in_ci || PXNBENCH_REQUIRE+=,slurm
    export PXNBENCH_REQUIRE
}

# A test that cannot run here passes, and notes why in a file.
note_skipped() {
    local lines
    mapfile -t lines < <(sort -u "$PXNBENCH_SKIPPED" | cut -c -200)
    skipped+=("${lines[@]}")
}

# Doc tests first: the last count that is printed is then that of the tests proper.
run_tests() {
    test_environment
    PXNBENCH_SKIPPED=$(mktemp)
    export PXNBENCH_SKIPPED
    cargo test --locked --doc
    if have cargo-nextest; then
        # Most tests wait for processes rather than compute.
        cargo nextest run --locked --no-fail-fast --test-threads "$((2 * $(nproc)))"
    else
        cargo test --locked --no-fail-fast --lib --bins --tests
    fi
    note_skipped
    rm -f "$PXNBENCH_SKIPPED"
}

# --- all of them ----------------------------------------------------------------------------------------------------

setup=(scripts/setup.sh --check)
[[ $fast == yes ]] || setup+=(--slurm)
# A machine of CI builds each file once: what would speed up a second build takes more of its disk than all else. Without
# incremental files, rustc would optimise each crate across its parts, which no other build for tests does. Line tables are for
# debuggers. Leaving out both saves four minutes on two cores.
! in_ci || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_LTO=off CARGO_PROFILE_DEV_DEBUG=0
step "disk space" check_space
step "set-up" "${setup[@]}"
step "format" cargo fmt --check
step "shell scripts" check_shell
step "clippy" lint
step "clippy, no features" lint --no-default-features
step "clippy, NCCL without MPI" lint --no-default-features --features nccl
step "documentation" env RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps
if [[ $fast == yes ]]; then
    skipped+=("cargo deny (--fast)" "Slurm (--fast)")
else
    have cargo-deny || ! in_ci || step "installing cargo-deny" install_deny
    if have cargo-deny; then
        step "dependencies" check_dependencies
    else
        skipped+=("cargo deny (get it: cargo install cargo-deny --locked)")
    fi
fi
step "tests" run_tests

IFS=';'
say "all checks passed in $SECONDS s${skipped[*]:+; SKIPPED: ${skipped[*]}}"
