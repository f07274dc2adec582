#!/usr/bin/env bash
# Runs a command on a machine with one GPU as if it had several, each with 18 NVLinks to switches:
#
#   tests/one-gpu/run.sh [--gpus N] COMMAND...        N is 2, and at most 8
#
# CUDA and NCCL are the real ones. All ranks use the one GPU by turns, so times mean nothing. It is for rehearsals, which show
# decisions and bytes; what needs several GPUs in one process (-g, -t) does not work.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")

die() { # exit-code sentence
    echo "run.sh: $2" >&2
    exit "$1"
}

export ONE_GPU_AS=2
if [[ ${1:-} == --gpus ]]; then
    [[ ${2:-} =~ ^[1-8]$ ]] || die 6 "--gpus '${2:-}' is not a number from 1 to 8."
    ONE_GPU_AS=$2
    shift 2
fi
(($#)) || die 6 "which command? run.sh [--gpus N] COMMAND..."
for tool in gcc nm awk nvidia-smi; do
    command -v "$tool" >/dev/null || die 8 "needs $tool, which is not in PATH."
done

# The real libraries: those that the loader would take.
library() { # name
    local folder path
    IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}:/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu:/usr/lib64"
    for folder in "${folders[@]}"; do
        path=$folder/$1
        [[ -z $folder || ! -e $path ]] || { readlink -f "$path" && return; }
    done
    die 5 "there is no $1: is there a GPU, and its driver?"
}
ONE_GPU_CUDA=$(library libcuda.so.1)
ONE_GPU_NVML=$(library libnvidia-ml.so.1)
export ONE_GPU_CUDA ONE_GPU_NVML

# Writes a jump for each function of a library that a source does not define itself. Handles of NVML lose the number in their
# lowest bits.
jumps() { # library prefix source
    local own
    own=$(grep -oE "^(Result |ALSO\()$2[A-Za-z0-9_]+" "$3" | grep -oE "$2[A-Za-z0-9_]+" | tr '\n' ' ')
    nm -D --defined-only "$1" | awk -v own="$own" -v prefix="$2" '
        BEGIN { count = 0; n = split(own, owned, " "); for (i = 1; i <= n; i++) is_own[owned[i]] = 1; print ".text" }
        { sub(/@.*/, "", $3) }
        $2 !~ /^[TWi]$/ || index($3, prefix) != 1 || $3 in is_own { next }
        { is_own[$3] = 1; names[count] = $3 }
        {
            printf ".globl %s\n.type %s,@function\n%s:\n  endbr64\n", $3, $3, $3
            if ($3 ~ /^nvmlDevice/) print "  andq $-8,%rdi"
            printf "  movq forward_table@GOTPCREL(%%rip),%%r11\n  jmp *%d(%%r11)\n", 8 * count++
        }
        END {
            printf ".data\n.balign 8\n.globl forward_table\nforward_table: .skip %d\n", 8 * count
            print ".section .data.rel.ro,\"aw\"\n.balign 8\n.globl forward_names\nforward_names:"
            for (i = 0; i < count; i++) printf "  .quad .Lname%d\n", i
            print ".section .rodata\n.balign 4\n.globl forward_count\nforward_count: .long " count
            for (i = 0; i < count; i++) printf ".Lname%d: .asciz \"%s\"\n", i, names[i]
            print ".section .note.GNU-stack,\"\",@progbits"
        }'
}

# Unloaded, a library would leave the real one behind, which has the same name.
build() { # library prefix source name
    jumps "$1" "$2" "$here/$3" >"$folder/$2.S"
    echo "{ global: $2*; local: *; };" >"$folder/$2.map"
    gcc -shared -fPIC -O1 -Wall -Wl,-z,nodelete,-Bsymbolic "-Wl,-soname,$4,--version-script=$folder/$2.map" \
        -o "$folder/$4" "$here/$3" "$folder/$2.S" -ldl
    ln -s "$4" "$folder/${4%.1}"
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build "$ONE_GPU_CUDA" cu cuda.c libcuda.so.1
build "$ONE_GPU_NVML" nvml nvml.c libnvidia-ml.so.1
gcc -shared -fPIC -O1 -Wall -fno-builtin -o "$folder/address.so" "$here/address.c" -ldl

# 00000000:00:06.0 is 000000060 for NCCL.
ONE_GPU_ADDRESS=$(nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader | head -n 1 | tr -d ':.' | tr '[:upper:]' '[:lower:]')
export ONE_GPU_ADDRESS=${ONE_GPU_ADDRESS#0000}
export LD_PRELOAD=$folder/address.so${LD_PRELOAD:+:$LD_PRELOAD}
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
"$@"
