#!/usr/bin/env bash
# Makes the files of a release: archives of the program and of the sources, a Debian package, a bill of materials, checksums.
# The same sources and the same program give the same files, byte for byte.
#
#   scripts/release.sh                  into dist/
#
#   --out DIR        another folder
#   --binary FILE    release this program; otherwise target/release/pxnbench, which is built first
#   --no-deb         without the Debian package, which needs cargo-deb
#   --no-bom         without the bill of materials, which needs cargo-cyclonedx
#   --dirty          although files of the checkout were changed: the archive of sources has the last commit's
#
# SOURCE_DATE_EPOCH is the time in all files; by default that of the last commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

# --- the command line -----------------------------------------------------------------------------------------------

out=dist binary='' deb=yes bom=yes dirty=no
while (($#)); do
    [[ $1 != --*=* ]] || set -- "${1%%=*}" "${1#*=}" "${@:2}"
    case $1 in
        --out | --binary)
            [[ -n ${2:-} ]] || die 6 "$1 needs a value."
            printf -v "${1#--}" %s "$2"
            shift
            ;;
        --no-deb) deb=no ;;
        --no-bom) bom=no ;;
        --dirty) dirty=yes ;;
        -h | --help) print_help && exit 0 ;;
        *) die 6 "unknown option '$1' (--help lists them)." ;;
    esac
    shift
done

# --- what it takes --------------------------------------------------------------------------------------------------

need() { # program crate option: dies if a program of cargo's is missing
    have "$1" || die 8 "$1 is not here: cargo install $2 --locked, or leave its file out with $3."
}

check() {
    [[ $deb == no ]] || need cargo-deb cargo-deb --no-deb
    [[ $bom == no ]] || need cargo-cyclonedx cargo-cyclonedx --no-bom
    git rev-parse --verify --quiet HEAD >/dev/null || die 6 "a release is made in a git checkout, and this is none."
    [[ $dirty == yes || -z $(git status --porcelain) ]] ||
        die 6 "files of this checkout are not committed, so that the archive of sources would lack them. Commit them, or --dirty."
}

mpi_of() { # program: prints the kind of MPI that it was linked with
    case $(ldd "$1" 2>/dev/null) in
        *libmpich*) echo mpich ;;
        *libmpi.so*) echo openmpi ;;
        *) echo nompi ;;
    esac
}

# --- the files ------------------------------------------------------------------------------------------------------

stage_program() { # fills a folder of cargo's: the program, and what is installed with it, below package/usr
    mkdir -p "$stage/release"
    install -m 755 "$binary" "$stage/release/pxnbench"
    local plugin=${binary%"${binary##*/}"}libnccl_net_pxnbench.so # which install.sh looks for beside the program
    [[ ! -f $plugin ]] || install -m 644 "$plugin" "$stage/release/"
    scripts/install.sh --destdir "$stage/release/package" --prefix /usr --binary "$stage/release/pxnbench" 2>/dev/null
    rm "$stage/release/package/usr/share/pxnbench/manifest" # for --uninstall, where nobody else knows what was installed
}

archive_program() {
    local name=pxnbench-$version
    tar --directory "$stage/release/package" --create --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
        --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --transform "s,^usr,$name," usr |
        gzip --no-name --best >"$out/$name-linux-$(uname -m)-$(mpi_of "$binary").tar.gz"
}

archive_sources() {
    git archive --format=tar --prefix="pxnbench-$version/" HEAD | gzip --no-name --best >"$out/pxnbench-$version-src.tar.gz"
}

# Debian has rules of its own for some of the files, which are installed elsewhere too.
debianize() {
    local share=$stage/release/package/usr/share
    local doc=$share/doc/pxnbench
    gzip --no-name --best "$share"/man/man1/*.1
    rm "$doc/LICENSE"
    install -m 644 packaging/copyright "$doc/copyright"
    {
        printf 'pxnbench (%s-1) unstable; urgency=medium\n\n  * Changes are listed in CHANGELOG.md, in this folder.\n\n' "$version"
        printf ' -- %s  %s\n' "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)" "$(LC_ALL=C date --utc -R -d "@$SOURCE_DATE_EPOCH")"
    } | gzip --no-name --best >"$doc/changelog.Debian.gz"
}

make_deb() {
    debianize
    CARGO_TARGET_DIR=$stage cargo deb --quiet --locked --no-build --output "$out/" >/dev/null
}

# cargo-cyclonedx writes beside the Cargo.toml of each package, and the path of the checkout into the file. All that the plugin
# is made of is in the program too.
list_materials() {
    local name=.bom-$$
    cargo cyclonedx --quiet --format json --spec-version 1.5 --override-filename "$name"
    sed "s,path+file://$PWD,path+file:///src,g" "$name.json" >"$out/pxnbench-$version.cdx.json"
    rm -f "$name.json" "rail-plugin/$name.json"
}

checksums() {
    (cd "$out" && find . -maxdepth 1 -name 'pxnbench*' -printf '%f\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
}

check
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
if [[ -z $binary ]]; then
    say "cargo build --release --locked"
    cargo build --release --locked
    binary=${CARGO_TARGET_DIR:-target}/release/pxnbench
fi
[[ -x $binary ]] || die 6 "--binary $binary: no program there."
version=$("$binary" --version)
version=${version##* }
mkdir -p "$out"
[[ -z $(ls -A "$out") ]] || die 6 "$out is not empty: remove it, or name another folder with --out."
out=$(realpath "$out")
stage=$(mktemp -d)
trap 'rm -rf "$stage" .bom-$$.json rail-plugin/.bom-$$.json' EXIT
stage_program
archive_program
archive_sources
[[ $deb == no ]] || make_deb
[[ $bom == no ]] || list_materials
checksums
say "made $(wc -l <"$out/SHA256SUMS") files and SHA256SUMS in $out"
