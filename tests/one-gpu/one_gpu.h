// What both libraries know of the GPUs that the one GPU stands for. They are numbered from 0, and have made-up PCI addresses.
#pragma once
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_BUS 0x41
#define MOST_GPUS 8

// The functions that are passed on: forward.S has a jump for each through this table.
extern void *forward_table[];
extern const char *const forward_names[];
extern const int forward_count;

// The real library, and a function of it.
static void *real;
#define REAL(name, ...) ((Result(*)(__VA_ARGS__))dlsym(real, #name))

// Loads the real library from the path in a variable, and fills the table of jumps.
static inline void load_real(const char *variable) {
  const char *path = getenv(variable);
  real = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!real) {
    fprintf(stderr, "one-gpu: %s: %s\n", variable, path ? dlerror() : "is not set");
    abort();
  }
  for (int i = 0; i < forward_count; i++) forward_table[i] = dlsym(real, forward_names[i]);
}

// The number of GPUs to show.
static inline int gpus(void) {
  const char *text = getenv("ONE_GPU_AS");
  int number = text ? atoi(text) : 2;
  return number < 1 ? 1 : number > MOST_GPUS ? MOST_GPUS : number;
}

// The number of the GPU that belongs to this process: its place among the ranks of its node.
static inline int own_gpu(void) {
  const char *rank = getenv("LOCAL_RANK");
  if (!rank) rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  return rank ? atoi(rank) % gpus() : 0;
}

// The number of the GPU with this PCI address, or -1.
static inline int gpu_at(const char *address) {
  unsigned domain, bus, device;
  if (sscanf(address, "%x:%x:%x", &domain, &bus, &device) != 3) return -1;
  int gpu = (int)bus - FIRST_BUS;
  return gpu >= 0 && gpu < gpus() ? gpu : -1;
}
