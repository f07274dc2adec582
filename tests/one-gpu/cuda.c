// A libcuda.so.1 that shows several GPUs where there is one, and passes all calls on to the real library.
//
// Each process works on one GPU: the one with the number of its local rank. That one has the handle of the real GPU, so that
// every call works. The others have handles of their own, which answer questions and do nothing else. So a process with two GPUs
// (-g 2, -t 2) cannot run on them.
//
// The CUDA runtime in libnccl compares at its start what it sees with what the driver knows, and stops if they differ. It asks
// for its functions by cuGetProcAddress, and gets the real ones: for it there is one GPU, with the real address. Programs that
// look functions up by name see all of them.
#define _GNU_SOURCE
#include <string.h>

#include "one_gpu.h"

typedef int Result;
typedef int Device;
enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101 };
enum { PCI_BUS = 33, PCI_DEVICE = 34, PCI_DOMAIN = 50 };       // CUdevice_attribute
enum { POINTER_DEVICE = 9 };                                   // CUpointer_attribute
enum { FIRST_HANDLE = 100 };                                   // of GPUs of other processes

__attribute__((constructor)) static void load(void) { load_real("ONE_GPU_CUDA"); }

static int number(Device device) { return device >= FIRST_HANDLE ? device - FIRST_HANDLE : own_gpu(); }
static Device real_device(Device device) { return device >= FIRST_HANDLE ? 0 : device; }
static Device handle(int gpu) { return gpu == own_gpu() ? 0 : FIRST_HANDLE + gpu; }

// The driver looks CUDA_VISIBLE_DEVICES up here, and there is one GPU.
Result cuInit(unsigned flags) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  char *kept = visible && *visible ? strdup(visible) : NULL;
  if (kept) setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  Result result = REAL(cuInit, unsigned)(flags);
  if (kept) setenv("CUDA_VISIBLE_DEVICES", kept, 1);
  free(kept);
  return result;
}

Result cuDeviceGetCount(int *count) {
  Result result = REAL(cuDeviceGetCount, int *)(count);
  if (result == SUCCESS && *count > 0) *count = gpus();
  return result;
}

Result cuDeviceGet(Device *device, int ordinal) {
  if (ordinal < 0 || ordinal >= gpus()) return INVALID_DEVICE;
  Result result = REAL(cuDeviceGet, Device *, int)(device, 0);
  if (result == SUCCESS) *device = handle(ordinal);
  return result;
}

Result cuDeviceGetAttribute(int *value, int attribute, Device device) {
  Result result = REAL(cuDeviceGetAttribute, int *, int, Device)(value, attribute, real_device(device));
  if (result == SUCCESS && attribute == PCI_BUS) *value = FIRST_BUS + number(device);
  if (result == SUCCESS && (attribute == PCI_DEVICE || attribute == PCI_DOMAIN)) *value = 0;
  return result;
}

Result cuDeviceGetPCIBusId(char *address, int length, Device device) {
  snprintf(address, length, "0000:%02x:00.0", FIRST_BUS + number(device));
  return SUCCESS;
}

Result cuDeviceGetByPCIBusId(Device *device, const char *address) {
  int gpu = gpu_at(address);
  if (gpu < 0) return INVALID_DEVICE;
  *device = handle(gpu);
  return SUCCESS;
}

// The last digit of the UUID tells GPUs apart, as in nvml.c.
Result cuDeviceGetUuid_v2(unsigned char *uuid, Device device) {
  Result result = REAL(cuDeviceGetUuid_v2, unsigned char *, Device)(uuid, real_device(device));
  if (result == SUCCESS) uuid[15] ^= number(device);
  return result;
}

Result cuDeviceGetUuid(unsigned char *uuid, Device device) { return cuDeviceGetUuid_v2(uuid, device); }

Result cuDeviceTotalMem_v2(size_t *bytes, Device device) {
  return REAL(cuDeviceTotalMem_v2, size_t *, Device)(bytes, real_device(device));
}

Result cuDeviceGetName(char *name, int length, Device device) {
  return REAL(cuDeviceGetName, char *, int, Device)(name, length, real_device(device));
}

Result cuDevicePrimaryCtxGetState(Device device, unsigned *flags, int *active) {
  if (device < FIRST_HANDLE) return REAL(cuDevicePrimaryCtxGetState, Device, unsigned *, int *)(device, flags, active);
  *flags = 0;
  *active = 0;
  return SUCCESS;
}

// Ranks on one GPU reach each other's memory.
Result cuDeviceCanAccessPeer(int *can, Device one, Device other) {
  *can = number(one) != number(other);
  return SUCCESS;
}

Result cuDeviceGetP2PAttribute(int *value, int attribute, Device one, Device other) {
  *value = attribute == 1 ? 0 : 1; // 1: the rank of the link's speed
  return SUCCESS;
}

Result cuCtxEnablePeerAccess(void *context, unsigned flags) { return SUCCESS; }
Result cuCtxDisablePeerAccess(void *context) { return SUCCESS; }

Result cuPointerGetAttribute(void *value, int attribute, unsigned long long pointer) {
  Result result = REAL(cuPointerGetAttribute, void *, int, unsigned long long)(value, attribute, pointer);
  if (result == SUCCESS && attribute == POINTER_DEVICE) *(int *)value = own_gpu();
  return result;
}
