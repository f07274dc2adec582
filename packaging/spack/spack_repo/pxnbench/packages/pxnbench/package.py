"""The recipe for Spack 1.0 or newer. In a checkout, or in an unpacked source archive:

    spack repo add packaging/spack/spack_repo/pxnbench
    spack dev-build pxnbench@0.1.0
"""

import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Pxnbench(Package):
    """Is NCCL on this cluster correct, fast, and really using PXN?

    An MPI-launched, Slurm-aware benchmark that sweeps NCCL's collectives by the conventions of nccl-tests, and checks every
    element of their results. CUDA and NCCL are loaded when it runs, so that neither is needed to build it.
    """

    # The source archive of scripts/release.sh, in the current folder: no server has it. SHA256SUMS beside it has its
    # checksum, so: sha256sum --check SHA256SUMS && spack install --no-checksum pxnbench
    manual_download = True

    license("Apache-2.0")

    version("0.1.0")

    variant("mpi", default=True, description="Ranks over MPI, and the backend for host memory")
    variant("nccl", default=True, description="The backend for GPUs")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    depends_on("mpi", when="+mpi")
    # bindgen translates mpi.h with libclang.
    depends_on("llvm+clang", type="build", when="+mpi")

    def url_for_version(self, version):
        return f"file://{os.getcwd()}/pxnbench-{version}-src.tar.gz"

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        if self.spec.satisfies("+mpi"):
            env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)
            env.set("MPICC", self.spec["mpi"].mpicc)

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.set("PXNBENCH_HOME", self.prefix.share.pxnbench)

    def install(self, spec, prefix):
        features = [name for name in ("mpi", "nccl") if spec.satisfies(f"+{name}")]
        cargo = which("cargo", required=True)
        cargo("build", "--release", "--locked", "--no-default-features", "--features", ",".join(features))
        install = Executable("scripts/install.sh")
        install("--prefix", prefix, "--binary", "target/release/pxnbench")

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        program = Executable(self.prefix.bin.pxnbench)
        program("all_reduce", "--backend", "model", "--ranks", "4", "-b", "8", "-e", "1M", "-f", "4")
