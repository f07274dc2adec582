//! Compiles the few lines of C that make macros of `mpi.h` available, which rsmpi does not do.

fn main() {
    #[cfg(feature = "mpi")]
    mpi_macros();
}

#[cfg(feature = "mpi")]
fn mpi_macros() {
    let source = "src/world/mpi_macros.c";
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rerun-if-env-changed=MPICC");
    let library = build_probe_mpi::probe().unwrap_or_else(|errors| {
        panic!(
            "no MPI to build with: {errors:?}; run scripts/setup.sh, or build with \
             --no-default-features"
        );
    });
    let mut build = cc::Build::new();
    match library.mpicc {
        Some(mpicc) => build.compiler(mpicc),
        None => build.includes(library.include_paths),
    };
    build.file(source).compile("pxnbench_mpi");
}
