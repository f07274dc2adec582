// What both libraries know of the GPUs that the one GPU stands for. They are numbered from 0, and have made-up PCI addresses.
#pragma once
#include <stdio.h>
#include <stdlib.h>

#define FIRST_BUS 0x41
#define MOST_GPUS 8

// The functions that are passed on: forward.S has a jump for each through this table.
extern void *forward_table[];
extern const char *const forward_names[];
extern const int forward_count;

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
