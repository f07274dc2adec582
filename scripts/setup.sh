#!/usr/bin/env bash
# Makes a machine that has Rust ready to build pxnbench: looks for each thing, installs only what is missing.
#
#   scripts/setup.sh            what the build and a run need: a C compiler, an MPI, libclang
#   scripts/setup.sh --slurm    and the Slurm daemons that the tests start for themselves
#   scripts/setup.sh --check    and what the checks need: shellcheck, rustfmt, clippy, a C++ compiler, kill
#
# Where it may not install, it says what to install and exits 8. See docs/BUILD.md for login nodes without root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

want_slurm=no want_check=no
for arg in "$@"; do
    case $arg in
        --slurm) want_slurm=yes ;;
        --check) want_check=yes ;;
        -h | --help) print_help && exit 0 ;;
        *) die 6 "unknown option '$arg' (--help lists them)." ;;
    esac
done

# --- what is here ---------------------------------------------------------------------------------------------------

# Debian's gcc comes without the C library's headers and its mpich without mpi.h: a compiler alone proves nothing.
finds() { # header compiler
    have "$2" && "$2" -E -x c - -o /dev/null <<<"#include <$1>" 2>/dev/null
}
cc_works() { finds stdlib.h cc; }

# Where the crate build-probe-mpi looks for one.
mpi_builds() { [[ -n ${MPI_PKG_CONFIG:-}${CRAY_MPICH_DIR:-} ]] || finds mpi.h "${MPICC:-mpicc}"; }

libclang() { # prints the library's file, looking where the crate clang-sys looks
    local dirs=() more=() dir file
    if [[ -n ${LIBCLANG_PATH:-} ]]; then
        dirs=("$LIBCLANG_PATH" "${LIBCLANG_PATH%/*}")
    else
        ! have llvm-config || dirs+=("$(llvm-config --prefix)"/lib{,64})
        IFS=: read -ra more <<<"${LD_LIBRARY_PATH:-}:${LIBRARY_PATH:-}"
        dirs+=(${more[@]+"${more[@]}"} /usr/local/llvm*/lib* /usr/local/lib*{/*/*,/*,} /usr/lib*{/*/*,/*,})
    fi
    for dir in "${dirs[@]}"; do
        for file in "$dir"/libclang.so "$dir"/libclang-[0-9]*.so "$dir"/libclang.so.* "$dir"/libclang-[0-9]*.so.*; do
            [[ ! -e $file ]] || { echo "$file" && return 0; }
        done
    done
    return 1
}

# libclang without clang's own headers (Debian's libclang1, PyPI's libclang) stops at `stddef.h: No such file`.
libclang_works() {
    local lib
    lib=$(libclang) || return 1
    [[ -z ${BINDGEN_EXTRA_CLANG_ARGS:-} ]] || return 0
    have clang && return
    compgen -G "$(dirname "$(readlink -f "$lib")")/clang/*/include/stddef.h" >/dev/null && return
    [[ $lib == /usr/lib* ]] && compgen -G "/usr/lib*/clang/*/include/stddef.h" >/dev/null
}

# Whoever has one half of an MPI gets the other half of the same: ranks started by another MPI's mpirun never meet.
mpi_packages() {
    local kind=openmpi
    if have "${mpirun[0]}"; then
        kind=$(mpi_kind)
    elif "${MPICC:-mpicc}" -show 2>/dev/null | grep -qi mpich; then
        kind=mpich
    fi
    if [[ $kind == mpich ]]; then echo libmpich-dev mpich; else echo libopenmpi-dev openmpi-bin; fi
}

missing() { # prints the Debian packages of what is not here, a word each
    cc_works || echo gcc libc6-dev
    { mpi_builds && have "${mpirun[0]}"; } || mpi_packages
    libclang_works || echo libclang-dev
    [[ $want_check == no ]] || missing_for_checks
    [[ $want_slurm == no ]] || missing_for_slurm
}

missing_for_checks() {
    have shellcheck || echo shellcheck
    have c++ || echo g++                   # tests/kernels.rs and tests/standin build with it
    type -P kill >/dev/null || echo procps # the shell's own does not serve the tests
}

missing_for_slurm() {
    have slurmctld || echo slurmctld
    have slurmd || echo slurmd
    have srun || echo slurm-client
    have munged || echo munge
}

# --- Rust -----------------------------------------------------------------------------------------------------------

check_rust() {
    local need got
    need=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$here/../Cargo.toml")
    got=$(rustc --version 2>/dev/null | cut -d' ' -f2) || true
    [[ -n $got ]] || die 8 "Rust is not here: get it from https://rustup.rs (no root needed), then run this again."
    [[ $(printf '%s\n' "$need" "${got%%-*}" | sort -V | head -n 1) == "$need" ]] ||
        die 8 "Rust $got is too old, $need is needed: 'rustup update stable', or https://rustup.rs (no root needed)."
    [[ $want_check == yes ]] || return 0
    { have cargo-fmt && have cargo-clippy && cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 ||
        rustup component add rustfmt clippy ||
        die 8 "rustfmt or clippy is not here, and 'rustup component add rustfmt clippy' failed."
}

# What the user has set and is wrong: installing something beside it would not help.
check_settings() {
    [[ -z ${MPICC:-} ]] || mpi_builds || die 8 "MPICC=$MPICC compiles nothing with mpi.h: set it to an MPI's C compiler, or unset it."
    [[ -n ${LIBCLANG_PATH:-} ]] || return 0
    libclang >/dev/null || die 8 "LIBCLANG_PATH=$LIBCLANG_PATH holds no libclang*.so: set it to the folder that does, or unset it."
    libclang_works || die 8 "the libclang in LIBCLANG_PATH has no C headers of its own: lend it the compiler's with" \
        "export BINDGEN_EXTRA_CLANG_ARGS=\"-I\$(cc -print-file-name=include)\""
}

# --- installing -----------------------------------------------------------------------------------------------------

may_install() { # fills `as_root` with what makes a command run as root
    as_root=()
    have apt-get || return 1
    [[ $EUID -ne 0 ]] || return 0
    as_root=(sudo)
    have sudo && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }
}

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends "$@" >>"$log" 2>&1
}

install() {
    log=$(mktemp)
    say "installing what is missing with ${as_root[*]:+${as_root[*]} }apt-get: $*"
    # A dead source elsewhere in the list makes `update` fail though these packages are there: `install` decides.
    apt update || say "'apt-get update' had errors; going on with the lists that are here"
    apt install "$@" || {
        tail -n 8 "$log" >&2
        die 8 "apt-get could not install $* (its log is $log)."
    }
    rm -f "$log"
}

explain() { # package...
    say "this machine lacks the equivalent of these Debian packages, and this script may not install them: $*"
    cat >&2 <<END

  Debian, Ubuntu   sudo apt-get update && sudo apt-get install -y $*
  RHEL and kin     sudo dnf install -y gcc openmpi-devel clang-devel, then: module load mpi/openmpi-x86_64
  a login node without root:
    module load openmpi              an MPI: any that puts mpicc and mpirun in PATH (or set MPICC=...)
    pip install --user libclang      libclang, then:
    export LIBCLANG_PATH="\$(python3 -c 'import clang, os; print(os.path.dirname(clang.__file__))')/native"
    export BINDGEN_EXTRA_CLANG_ARGS="-I\$(cc -print-file-name=include)"
    cargo vendor                     where there is a network, when this node has none
  Build on the cluster: a binary built on Debian 12 does not start on an older glibc, and any binary is tied to the MPI
  that it was linked with. Details, and a build without any MPI: docs/BUILD.md
END
    exit 8
}

check_rust
check_settings
read -ra packages <<<"$(missing | tr '\n' ' ')"
((${#packages[@]})) || exit 0
may_install || explain "${packages[@]}"
install "${packages[@]}"
hash -r
read -ra packages <<<"$(missing | tr '\n' ' ')"
((${#packages[@]} == 0)) || die 8 "installed, and still not found in PATH or where libclang is looked for: ${packages[*]}"
