/* What mpi.h has as macros, which Rust cannot see and which differ between MPIs. */
#include <mpi.h>

#define TEXT(x) #x
#define VERSION(major, minor, release) TEXT(major) "." TEXT(minor) "." TEXT(release)

void *const pxnbench_mpi_in_place = MPI_IN_PLACE;

const char *const pxnbench_mpi_built_with =
#if defined(OMPI_MAJOR_VERSION)
    "Open MPI " VERSION(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined(I_MPI_VERSION)
    "Intel MPI " I_MPI_VERSION;
#elif defined(MVAPICH2_VERSION)
    "MVAPICH2 " MVAPICH2_VERSION;
#elif defined(MPICH_VERSION)
    "MPICH " MPICH_VERSION;
#else
    "";
#endif
