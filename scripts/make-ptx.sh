#!/bin/sh
# Makes src/backend/nccl/kernels.ptx from kernels.cu. Needs python3 with venv and PyPI, and no GPU.
#
#   scripts/make-ptx.sh           write kernels.ptx
#   scripts/make-ptx.sh --check   compile again and fail if the committed kernels.ptx differs
#
# NVRTC 12.0 and no other: it emits PTX ISA 8.0, the newest that driver 525 reads.
# Set NVRTC to the path of a libnvrtc.so.12 of CUDA 12.0 to download nothing.
set -eu

kernels=$(cd "$(dirname "$0")/../src/backend/nccl" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

if [ -z "${NVRTC:-}" ]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps 'nvidia-cuda-nvrtc-cu12==12.0.*'
    NVRTC=$(find "$work/venv" -name 'libnvrtc.so.12')
fi

python3 - "$NVRTC" "$kernels/kernels.cu" "$work/kernels.ptx" <<'PYTHON'
import ctypes, re, sys

library, source, target = sys.argv[1:]
nvrtc = ctypes.CDLL(library)
text = open(source, "rb").read()


def call(name, *args):
    if getattr(nvrtc, name)(*args) != 0:
        sys.exit(f"{name} failed\n{log().decode(errors='replace')}")


def read(size, fetch):
    length = ctypes.c_size_t()
    getattr(nvrtc, size)(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    getattr(nvrtc, fetch)(program, buffer)
    return buffer.value


def log():
    return read("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")


# FNV-1a of 64 bits; tests/kernels.rs computes the same.
def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


options = [b"--gpu-architecture=compute_70", b"--std=c++14", b"--fmad=false"]
program = ctypes.c_void_p()
call("nvrtcCreateProgram", ctypes.byref(program), text, b"kernels.cu", 0, None, None)
call("nvrtcCompileProgram", program, len(options), (ctypes.c_char_p * len(options))(*options))
if log().strip():
    sys.exit(log().decode(errors="replace"))
ptx = read("nvrtcGetPTXSize", "nvrtcGetPTX").decode()
version = re.search(r"^\.version (\d+)\.(\d+)$", ptx, re.M)
if (int(version[1]), int(version[2])) > (8, 0):
    sys.exit(f"PTX ISA {version[1]}.{version[2]} is newer than 8.0, which driver 525 reads: use NVRTC 12.0")
with open(target, "w") as out:
    out.write(f"// Made by scripts/make-ptx.sh from kernels.cu, FNV-1a {fnv(text):016x}; change that file, not this.\n")
    out.write(ptx.rstrip() + "\n")
PYTHON

if [ "${1:-}" = --check ]; then
    cmp "$work/kernels.ptx" "$kernels/kernels.ptx"
    echo "kernels.ptx is what kernels.cu compiles to"
else
    cp "$work/kernels.ptx" "$kernels/kernels.ptx"
fi
