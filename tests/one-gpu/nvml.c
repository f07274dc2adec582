// A libnvidia-ml.so.1 that shows several GPUs where there is one, each with 18 NVLinks to switches, and passes all other calls on to
// the real library. The handle of a GPU is that of the real one with its number in the lowest bits, which forward.S takes out.
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

#include "one_gpu.h"

typedef int Result;
typedef uintptr_t Handle;
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };
enum { LINKS = 18, LINK_STATE_FIELD = 165, SWITCH = 2, VALUE_UNSIGNED = 1, COMMON_ANCESTOR_NODE = 40 };

// What NVML says of a link to a switch that a virtual machine does not see.
#define HIDDEN_SWITCH "fffffff:ffff:ff"

typedef struct {
  char legacy_address[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char address[32];
} PciInfo;

typedef struct {
  unsigned field, scope;
  long long time, latency;
  int value_type, result;
  unsigned long long value;
} Field;

// A function that has another name, too: that of its first version, which NCCL uses.
#define ALSO(first, last) __typeof__(last) first __attribute__((alias(#last)));

__attribute__((constructor)) static void load(void) { load_real("ONE_GPU_NVML"); }

static int number(Handle handle) { return handle & (MOST_GPUS - 1); }
static Handle real_handle(Handle handle) { return handle & ~(Handle)(MOST_GPUS - 1); }

Result nvmlDeviceGetCount_v2(unsigned *count) {
  *count = gpus();
  return SUCCESS;
}
ALSO(nvmlDeviceGetCount, nvmlDeviceGetCount_v2)

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *handle) {
  if (index >= (unsigned)gpus()) return INVALID_ARGUMENT;
  Result result = REAL(nvmlDeviceGetHandleByIndex_v2, unsigned, Handle *)(0, handle);
  if (result != SUCCESS) return result;
  if (number(*handle) != 0) {
    fprintf(stderr, "one-gpu: the lowest bits of a handle of NVML are in use\n");
    abort();
  }
  *handle |= index;
  return SUCCESS;
}
ALSO(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2)

// NCCL asks for the address that the CUDA runtime has, which is the real one: that is the GPU of this process.
Result nvmlDeviceGetHandleByPciBusId_v2(const char *address, Handle *handle) {
  int gpu = gpu_at(address);
  return nvmlDeviceGetHandleByIndex_v2(gpu < 0 ? own_gpu() : gpu, handle);
}
ALSO(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2)

Result nvmlDeviceGetIndex(Handle handle, unsigned *index) {
  *index = number(handle);
  return SUCCESS;
}

Result nvmlDeviceGetMinorNumber(Handle handle, unsigned *minor) { return nvmlDeviceGetIndex(handle, minor); }

Result nvmlDeviceGetUUID(Handle handle, char *uuid, unsigned length) {
  Result result = REAL(nvmlDeviceGetUUID, Handle, char *, unsigned)(real_handle(handle), uuid, length);
  if (result != SUCCESS || !*uuid) return result;
  char *last = uuid + strlen(uuid) - 1;
  *last = "0123456789abcdef"[(strtol(last, NULL, 16) ^ number(handle)) & 15];
  return SUCCESS;
}

Result nvmlDeviceGetPciInfo_v3(Handle handle, PciInfo *info) {
  Result result = REAL(nvmlDeviceGetPciInfo_v3, Handle, PciInfo *)(real_handle(handle), info);
  if (result != SUCCESS) return result;
  info->domain = 0;
  info->bus = FIRST_BUS + number(handle);
  info->device = 0;
  snprintf(info->legacy_address, sizeof info->legacy_address, "0000:%02X:00.0", info->bus);
  snprintf(info->address, sizeof info->address, "00000000:%02X:00.0", info->bus);
  return SUCCESS;
}

Result nvmlDeviceGetNvLinkState(Handle handle, unsigned link, int *is_active) {
  if (link >= LINKS) return INVALID_ARGUMENT;
  *is_active = 1;
  return SUCCESS;
}

Result nvmlDeviceGetNvLinkCapability(Handle handle, unsigned link, int capability, unsigned *has_it) {
  if (link >= LINKS) return INVALID_ARGUMENT;
  *has_it = 1;
  return SUCCESS;
}

Result nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle handle, unsigned link, PciInfo *info) {
  if (link >= LINKS) return INVALID_ARGUMENT;
  memset(info, 0, sizeof *info);
  strcpy(info->legacy_address, HIDDEN_SWITCH);
  strcpy(info->address, HIDDEN_SWITCH);
  return SUCCESS;
}
ALSO(nvmlDeviceGetNvLinkRemotePciInfo, nvmlDeviceGetNvLinkRemotePciInfo_v2)

Result nvmlDeviceGetNvLinkRemoteDeviceType(Handle handle, unsigned link, int *type) {
  if (link >= LINKS) return INVALID_ARGUMENT;
  *type = SWITCH;
  return SUCCESS;
}

// On GPUs of compute capability 9.0 and newer, NCCL reads the state of links so.
Result nvmlDeviceGetFieldValues(Handle handle, int count, Field *fields) {
  Result result = REAL(nvmlDeviceGetFieldValues, Handle, int, Field *)(real_handle(handle), count, fields);
  for (int i = 0; i < count; i++) {
    if (fields[i].field != LINK_STATE_FIELD) continue;
    fields[i].result = fields[i].scope < LINKS ? SUCCESS : NOT_SUPPORTED;
    fields[i].value_type = VALUE_UNSIGNED;
    fields[i].value = 1;
    result = SUCCESS;
  }
  return result;
}

Result nvmlDeviceGetP2PStatus(Handle one, Handle other, int of, int *status) {
  *status = 0;
  return SUCCESS;
}

Result nvmlDeviceGetTopologyCommonAncestor(Handle one, Handle other, int *level) {
  *level = COMMON_ANCESTOR_NODE;
  return SUCCESS;
}
