// An MPI that changes what it may not, or keeps what it should give back, for tests: to be preloaded.
//
// MPI_FAULT       what goes wrong in each operation of the benchmark. Changed is one element, `before` or `after` what this
//                 rank receives, or the last one of what it sends (`send`). Kept (`leak`) are 2 MiB of memory and 4 file descriptors
//                 a second, and a thread every second
//                 In an all_reduce that is started and not waited for, changed is the last element of what it sends, before it
//                 does (`input`)
// MPI_FAULT_RANK  the rank in which it does
//
// Operations of the benchmark are told from those by which its processes agree by their type: float or 32-bit integers.

#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_faulty(const char* what, MPI_Datatype type) {
    const char *fault = getenv("MPI_FAULT"), *of = getenv("MPI_FAULT_RANK");
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return (type == MPI_FLOAT || type == MPI_UINT32_T) && fault && of && !strcmp(fault, what) && atoi(of) == rank;
}

static void invert(void* at, MPI_Datatype type, long element) {
    int size;
    PMPI_Type_size(type, &size);
    unsigned char* byte = (unsigned char*)at + element * size;
    while (size-- > 0) *byte++ ^= 0xff;
}

static void* wait_for_ever(void* nothing) {
    for (;;) pause();
    return nothing;
}

// Keeps what is due by now, however many operations there are in a second.
static void leak(void) {
    static double began;
    static long quarters;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    const double now = time.tv_sec + time.tv_nsec / 1e9;
    if (!began) began = now;
    for (; quarters < 4 * (now - began); quarters++) {
        char* kept = malloc(1 << 19);
        if (kept) memset(kept, 1, 1 << 19);
        if (dup(0) < 0) return;
        pthread_t thread;
        if (quarters % 4 == 0) pthread_create(&thread, NULL, wait_for_ever, NULL);
    }
}

// After an operation that sent `sent` elements from `send` and received `received` into `recv`; a buffer that the rank does not
// use has none.
static int after(int code, const void* send, long sent, void* recv, long received, MPI_Datatype type) {
    if (recv != MPI_IN_PLACE && received && is_faulty("before", type)) invert(recv, type, -1);
    if (recv != MPI_IN_PLACE && received && is_faulty("after", type)) invert(recv, type, received);
    if (send != MPI_IN_PLACE && sent && is_faulty("send", type)) invert((void*)send, type, sent - 1);
    if (is_faulty("leak", type)) leak();
    return code;
}

static int ranks_of(MPI_Comm comm) {
    int ranks;
    PMPI_Comm_size(comm, &ranks);
    return ranks;
}

static int is_root(int root, MPI_Comm comm) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank == root;
}

static long end_of(const int* counts, const int* offsets, MPI_Comm comm) {
    long end = 0;
    for (int rank = 0; rank < ranks_of(comm); rank++)
        if (counts[rank] && offsets[rank] + counts[rank] > end) end = offsets[rank] + counts[rank];
    return end;
}

int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return after(PMPI_Allreduce(send, recv, count, type, op, comm), send, count, recv, count, type);
}

int MPI_Iallreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
    if (send != MPI_IN_PLACE && count && is_faulty("input", type)) invert((void*)send, type, count - 1);
    return PMPI_Iallreduce(send, recv, count, type, op, comm, request);
}

int MPI_Allgather(const void* send, int sent, MPI_Datatype type, void* recv, int received, MPI_Datatype to, MPI_Comm comm) {
    return after(PMPI_Allgather(send, sent, type, recv, received, to, comm), send, sent, recv, (long)received * ranks_of(comm), type);
}

int MPI_Reduce_scatter_block(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    const int code = PMPI_Reduce_scatter_block(send, recv, count, type, op, comm);
    return after(code, send, (long)count * ranks_of(comm), recv, count, type);
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    return after(PMPI_Bcast(buffer, count, type, root, comm), buffer, is_root(root, comm) ? count : 0, buffer, count, type);
}

int MPI_Reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    const int code = PMPI_Reduce(send, recv, count, type, op, root, comm);
    return after(code, send, count, recv, is_root(root, comm) ? count : 0, type);
}

int MPI_Alltoall(const void* send, int sent, MPI_Datatype type, void* recv, int received, MPI_Datatype to, MPI_Comm comm) {
    const int code = PMPI_Alltoall(send, sent, type, recv, received, to, comm);
    return after(code, send, (long)sent * ranks_of(comm), recv, (long)received * ranks_of(comm), type);
}

int MPI_Alltoallv(const void* send, const int* sent, const int* from, MPI_Datatype type, void* recv, const int* received,
                  const int* to, MPI_Datatype other, MPI_Comm comm) {
    const int code = PMPI_Alltoallv(send, sent, from, type, recv, received, to, other, comm);
    return after(code, send, end_of(sent, from, comm), recv, end_of(received, to, comm), type);
}

int MPI_Gather(const void* send, int sent, MPI_Datatype type, void* recv, int received, MPI_Datatype to, int root, MPI_Comm comm) {
    const int code = PMPI_Gather(send, sent, type, recv, received, to, root, comm);
    return after(code, send, sent, recv, is_root(root, comm) ? (long)received * ranks_of(comm) : 0, type);
}

int MPI_Scatter(const void* send, int sent, MPI_Datatype type, void* recv, int received, MPI_Datatype to, int root, MPI_Comm comm) {
    const int code = PMPI_Scatter(send, sent, type, recv, received, to, root, comm);
    return after(code, send, is_root(root, comm) ? (long)sent * ranks_of(comm) : 0, recv, received, type);
}

int MPI_Sendrecv(const void* send, int sent, MPI_Datatype type, int peer, int tag, void* recv, int received, MPI_Datatype to,
                 int source, int its_tag, MPI_Comm comm, MPI_Status* status) {
    const int code = PMPI_Sendrecv(send, sent, type, peer, tag, recv, received, to, source, its_tag, comm, status);
    return after(code, send, sent, recv, received, type);
}

int MPI_Sendrecv_replace(void* buffer, int count, MPI_Datatype type, int peer, int tag, int source, int its_tag, MPI_Comm comm,
                         MPI_Status* status) {
    const int code = PMPI_Sendrecv_replace(buffer, count, type, peer, tag, source, its_tag, comm, status);
    return after(code, buffer, 0, buffer, count, type);
}
