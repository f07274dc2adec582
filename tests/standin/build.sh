#!/usr/bin/env bash
# Builds stand-ins for libcuda, libnccl and NVML into FOLDER, so that the program's code for GPUs runs where there is none:
#
#   tests/standin/build.sh FOLDER
#   LD_LIBRARY_PATH=FOLDER pxnbench all_reduce -g 2          standin.h says what can be set
#
# FOLDER/2.18.5 and others have a libnccl of that version, FOLDER/cuda13 one that needs a driver for CUDA 13, FOLDER/nvml
# NVML, which nvml.cpp says how to script, and FOLDER/bin an nvidia-smi that names the two GPUs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
to=${1:?the folder to build into}
mkdir -p "$to/bin" "$to/nvml"

build() { # output sources and options...: as nvcc and the GPU do, no product and sum become one operation
    c++ -std=c++17 -O1 -Wall -Wno-unknown-pragmas -ffp-contract=off -fno-strict-aliasing -pthread -fPIC -shared \
        -I "$here" -I "$here/../../src/backend/nccl" -o "$@"
}

build "$to/libcuda.so.1" -Wl,-soname,libcuda.so.1 "$here/cuda.cpp"
ln -sf libcuda.so.1 "$to/libcuda.so"
nccl() { # folder version's code [CUDA that it is built for]
    mkdir -p "$1"
    build "$1/libnccl.so.2" "-DNCCL_VERSION=$2" "-DNCCL_CUDA=${3:-12}" "$here/nccl.cpp" "$to/libcuda.so.1"
}
build "$to/nvml/libnvidia-ml.so.1" -Wl,-soname,libnvidia-ml.so.1 "$here/nvml.cpp" &
nccl "$to" 22803 &
nccl "$to/2.18.5" 21805 &
nccl "$to/2.22.3" 22203 &
nccl "$to/2.30.7" 23007 &
nccl "$to/cuda13" 22803 13 &
for job in $(jobs -p); do wait "$job"; done

cat >"$to/bin/nvidia-smi" <<'END'
#!/bin/sh
echo "GPU 0: Stand-in GPU (UUID: GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d00)"
echo "GPU 1: Stand-in GPU (UUID: GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d01)"
END
chmod +x "$to/bin/nvidia-smi"
