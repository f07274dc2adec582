#!/usr/bin/env bash
# Makes src/backend/nccl/ptx/*.ptx: one for each kind of elements from kernels.cu, and one from compute.cu. Needs python3 with
# venv and PyPI, and no GPU.
#
#   scripts/make-ptx.sh           write them
#   scripts/make-ptx.sh --check   compile again and fail if the committed files differ
#
# NVRTC 12.0 and no other: it emits PTX ISA 8.0, the newest that driver 525 reads.
# Set NVRTC to the path of a libnvrtc.so.12 of CUDA 12.0 to download nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

case ${1:-} in
    "" | --check) ;;
    -h | --help) print_help && exit 0 ;;
    *) die 6 "unknown option '$1' (--help lists them)." ;;
esac
kernels=$here/../src/backend/nccl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

if [[ -z ${NVRTC:-} ]]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps 'nvidia-cuda-nvrtc-cu12==12.0.*'
    NVRTC=$(find "$work/venv" -name 'libnvrtc.so.12')
fi

mkdir "$work/ptx"
python3 - "$NVRTC" "$kernels" "$work/ptx" <<'PYTHON'
import ctypes, re, sys

library, sources, folder = sys.argv[1:]
nvrtc = ctypes.CDLL(library)


def read(program, size, fetch):
    length = ctypes.c_size_t()
    getattr(nvrtc, size)(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    getattr(nvrtc, fetch)(program, buffer)
    return buffer.value.decode(errors="replace")


# FNV-1a of 64 bits; tests/kernels.rs computes the same.
def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def compiled(source, text, kind):
    options = [b"--gpu-architecture=compute_70", b"--std=c++14", b"--fmad=false"]
    if kind:
        options.append(b"-DKIND=" + kind.encode())
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None) != 0:
        sys.exit("nvrtcCreateProgram failed")
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) != 0
    log = read(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
    if failed or log.strip():
        sys.exit(f"{source} {kind} does not compile, or not without a warning\n{log}")
    return read(program, "nvrtcGetPTXSize", "nvrtcGetPTX")


def make(source, kind, name):
    text = open(f"{sources}/{source}", "rb").read()
    ptx = compiled(source, text, kind)
    version = re.search(r"^\.version (\d+)\.(\d+)$", ptx, re.M)
    if (int(version[1]), int(version[2])) > (8, 0):
        sys.exit(f"PTX ISA {version[1]}.{version[2]} is newer than 8.0, which driver 525 reads: use NVRTC 12.0")
    with open(f"{folder}/{name}.ptx", "w") as out:
        made = f"Made by scripts/make-ptx.sh from {source}, FNV-1a {fnv(text):016x}"
        out.write(f"// {made}; change that file, not this.\n{ptx.rstrip()}\n")


# The typedefs of kernels.cu, and the files that kernels.rs includes.
for kind in ["Bits8", "Bits16", "Bits32", "Bits64", "Half", "Bfloat16", "Float", "Double", "F8e4m3", "F8e5m2"]:
    make("kernels.cu", kind, kind.lower())
make("compute.cu", None, "compute")
PYTHON

if [[ ${1:-} == --check ]]; then
    diff -rq "$work/ptx" "$kernels/ptx"
    echo "ptx/ is what kernels.cu and compute.cu compile to"
else
    rm -rf "$kernels/ptx"
    cp -r "$work/ptx" "$kernels/ptx"
fi
