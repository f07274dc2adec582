// NCCL takes the address of a GPU from the CUDA runtime, as text, and makes a number of its digits with strtol. The real address
// becomes the made-up one of the GPU of this process, so that NCCL does not see two ranks on one GPU.
//
// Without headers: they give strtol another name.
#define NEXT ((void *)-1L)
#define FIRST_BUS 0x41L

extern char *getenv(const char *name);
extern int strcmp(const char *one, const char *other);
extern void *dlsym(void *library, const char *name);

typedef long Strtol(const char *text, char **end, int base);

static long decimal(const char *text, long otherwise) {
  if (!text) return otherwise;
  long value = 0;
  for (; *text >= '0' && *text <= '9'; text++) value = value * 10 + *text - '0';
  return value;
}

static long replaced(const char *text, int base, long value) {
  const char *real = getenv("ONE_GPU_ADDRESS");
  if (base != 16 || !real || strcmp(text, real) != 0) return value;
  const char *rank = getenv("LOCAL_RANK");
  if (!rank) rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  long gpus = decimal(getenv("ONE_GPU_AS"), 2);
  return (FIRST_BUS + decimal(rank, 0) % (gpus ? gpus : 1)) << 12;
}

long strtol(const char *text, char **end, int base) {
  static Strtol *next;
  if (!next) next = dlsym(NEXT, "strtol");
  return replaced(text, base, next(text, end, base));
}

// The name since glibc 2.38.
long __isoc23_strtol(const char *text, char **end, int base) {
  static Strtol *next;
  if (!next) next = dlsym(NEXT, "__isoc23_strtol");
  if (!next) next = dlsym(NEXT, "strtol");
  return replaced(text, base, next(text, end, base));
}
