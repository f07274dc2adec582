#!/usr/bin/env bash
# Installs pxnbench with its man pages, shell completions, Slurm templates and documents, and its plugin for NCCL.
#
#   scripts/install.sh --prefix DIR     into DIR/bin, DIR/lib/pxnbench and DIR/share (default: /usr/local)
#   scripts/install.sh --uninstall --prefix DIR
#
#   --destdir DIR    put DIR in front of every path, as packagers do; the prefix stays as it will be
#   --binary FILE    install this program; otherwise target/release/pxnbench, which is built first if it is missing
#                    or older than its sources
#   --plugin FILE    install this plugin of NCCL's, for rehearsals; otherwise the one beside the program, if there is one
#
# A site.conf beside the installed templates is never touched. What was installed is listed in
# share/pxnbench/manifest; --uninstall and the next installation remove what that lists.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

# --- the command line -----------------------------------------------------------------------------------------------

prefix=/usr/local destdir='' binary='' plugin='' action=install
while (($#)); do
    [[ $1 != --*=* ]] || set -- "${1%%=*}" "${1#*=}" "${@:2}"
    case $1 in
        --prefix | --destdir | --binary | --plugin)
            (($# > 1)) || die 6 "$1 needs a value."
            printf -v "${1#--}" %s "$2"
            shift
            ;;
        --uninstall) action=uninstall ;;
        -h | --help) print_help && exit 0 ;;
        *) die 6 "unknown option '$1' (--help lists them)." ;;
    esac
    shift
done
[[ $prefix == /* ]] || die 6 "--prefix $prefix: an absolute path is needed."
root=$destdir${prefix%/}
manifest=$root/share/pxnbench/manifest

# --- installing -----------------------------------------------------------------------------------------------------

find_binary() { # fills `binary`, and builds it if it is missing or older than its sources
    [[ -z $binary ]] || return 0
    binary=${CARGO_TARGET_DIR:-target}/release/pxnbench
    if [[ ! -x $binary || -n $(find src rail-plugin slurm/levels.toml build.rs Cargo.toml Cargo.lock -newer "$binary" -print -quit) ]]; then
        say "cargo build --release --locked"
        cargo build --release --locked
    fi
}

# NCCL 2.20 and older look for plugins by a name with this form only. The folder is one where no program looks by itself.
put_plugin() {
    [[ -n $plugin ]] || plugin=${binary%"${binary##*/}"}libnccl_net_pxnbench.so
    if [[ ! -f $plugin ]]; then
        say "without the plugin for rehearsals: there is no $plugin."
        return 0
    fi
    install -D -m 644 "$plugin" "$root/lib/pxnbench/libnccl-net-pxnbench.so"
    echo lib/pxnbench/libnccl-net-pxnbench.so >>"$tmp/manifest"
}

put() { # mode folder file...: installs files into a folder below the root, and notes them in the manifest
    local file
    for file in "${@:3}"; do
        install -D -m "$1" "$file" "$root/$2/${file##*/}"
        echo "$2/${file##*/}" >>"$tmp/manifest"
    done
}

install_all() {
    local generated=$tmp/generated
    find_binary
    [[ -x $binary ]] || die 6 "--binary $binary: no program there."
    "$binary" generate man "$generated/man" >/dev/null
    "$binary" generate completions "$generated" >/dev/null
    mv "$generated/pxnbench.bash" "$generated/pxnbench" # the name that bash-completion looks for
    local version
    version=$("$binary" --version)
    version=${version##* }
    cp packaging/modulefile "$generated/$version" # modules are named by folder and file: pxnbench/VERSION

    mkdir -p "$root/share/pxnbench" 2>/dev/null || true
    [[ -w $root/share/pxnbench ]] || die 8 "cannot write to $root: choose another --prefix, or run this as a user who can."
    remove_listed
    # Under a fixed name, whatever the file of --binary is called.
    install -D -m 755 "$binary" "$root/bin/pxnbench"
    echo bin/pxnbench >"$tmp/manifest"
    put_plugin
    put 644 share/man/man1 "$generated"/man/*.1
    put 644 share/bash-completion/completions "$generated/pxnbench"
    put 644 share/zsh/site-functions "$generated/_pxnbench"
    put 644 share/fish/vendor_completions.d "$generated/pxnbench.fish"
    put 644 share/pxnbench/modulefiles/pxnbench "$generated/$version"
    put 644 share/pxnbench/slurm slurm/*.sbatch slurm/levels.toml slurm/site.conf.example
    put 644 share/doc/pxnbench README.md CHANGELOG.md CONTRIBUTING.md LICENSE
    put 644 share/doc/pxnbench/docs docs/*.md
    put 644 share/doc/pxnbench/docs/zh docs/zh/*.md
    put 644 share/doc/pxnbench/examples examples/*.*
    put 644 share/doc/pxnbench/examples/spreadsheet examples/spreadsheet/*
    put 644 share/doc/pxnbench/examples/k8s examples/k8s/*
    install -m 644 "$tmp/manifest" "$manifest"
    say "installed pxnbench $version to $prefix/bin, templates to $prefix/share/pxnbench/slurm"
    [[ ":$PATH:" == *":$prefix/bin:"* ]] || say "$prefix/bin is not in PATH: export PATH=$prefix/bin:\$PATH"
}

# --- uninstalling ---------------------------------------------------------------------------------------------------

remove_listed() { # what the manifest lists, the manifest, and the folders of ours that are then empty
    local path
    [[ -f $manifest ]] || return 0
    while read -r path; do
        [[ $path != *..* ]] || die 1 "$manifest lists '$path', which is not below the prefix; nothing more is removed."
        rm -f "$root/$path"
    done <"$manifest"
    rm -f "$manifest"
    find "$root/share/pxnbench" -mindepth 1 -depth -type d -empty -delete
    [[ ! -d $root/lib/pxnbench ]] || find "$root/lib/pxnbench" -depth -type d -empty -delete
    [[ ! -d $root/share/doc/pxnbench ]] || find "$root/share/doc/pxnbench" -depth -type d -empty -delete
}

uninstall() {
    [[ -f $manifest ]] || die 6 "nothing to remove: there is no $manifest."
    remove_listed
    rmdir "$root/share/pxnbench" 2>/dev/null || say "kept: $(echo "$root"/share/pxnbench/slurm/*)"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
case $action in
    install) install_all ;;
    uninstall) uninstall ;;
esac
