/* MPI_IN_PLACE is a macro whose value differs between MPIs; this gives it an address that Rust can read. */
#include <mpi.h>

void *const pxnbench_mpi_in_place = MPI_IN_PLACE;
