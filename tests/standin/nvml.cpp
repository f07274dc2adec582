// NVML's stand-in: GPUs whose readings follow a script.
//
// STANDIN_GPUS       how many GPUs there are (2)
// STANDIN_NVML_INIT  the code that NVML's start returns (0)
// STANDIN_NVML       what differs from an idle GPU, words with commas between: GPU.KEY=VALUE/VALUE/...
//                      GPU    its number, or * for all
//                      KEY    one of `defaults` below
//                      VALUE  what each call in turn answers; the last one stays. !CODE is an error, such as !3 (not
//                             supported) or !15 (the GPU is lost)

#include "standin.h"

#include <cstring>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };
enum { SM_CLOCK = 1, MEMORY_CLOCK = 2 };
enum { FIELD_MEMORY_TEMP = 82, FIELD_NVLINK_TX = 138, FIELD_NVLINK_RX = 139, FIELD_PCIE_TX = 197, FIELD_PCIE_RX = 198 };
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };
enum { ALL_LINKS = 0xffffffff };

namespace {

typedef std::map<std::string, std::string> Script;

const Script& defaults() {
    static const Script script = {
        {"handle", "0"},           {"name", "Stand-in GPU"},
        {"sm", "1980"},            {"mem", "2619"},         // MHz
        {"throttle", "0"},         {"temp", "41"},          // a mask; degrees
        {"memtemp", "52"},                                  // degrees
        {"power", "120000"},       {"limit", "700000"},     // mW
        {"energy", "1000000"},                              // mJ
        {"used", "1073741824"},    {"total", "8589934592"}, // bytes
        {"util", "0"},             {"memutil", "0"},        // percent
        {"corrected", "0"},        {"uncorrected", "0"},
        {"nvlink_tx", "1000"},     {"nvlink_rx", "1000"},   // KiB
        {"pcie_tx", "5000000000"}, {"pcie_rx", "5000000000"},
        {"pcie_tx_rate", "7000"},  {"pcie_rx_rate", "8000"}, // KB/s
    };
    return script;
}

const Script& scripted() {
    static const Script script = [] {
        Script script;
        std::istringstream words(setting("STANDIN_NVML", ""));
        for (std::string word; std::getline(words, word, ',');) {
            const size_t at = word.find('='), dot = word.find('.');
            if (at == std::string::npos || dot > at || !defaults().count(word.substr(dot + 1, at - dot - 1)))
                mistake("STANDIN_NVML is not GPU.KEY=VALUE");
            script[word.substr(0, at)] = word.substr(at + 1);
        }
        return script;
    }();
    return script;
}

unsigned gpus() { return (unsigned)atoi(setting("STANDIN_GPUS", "2").c_str()); }

// What this call answers for that key.
std::string answer(unsigned gpu, const std::string& key) {
    static std::mutex lock;
    static std::map<std::string, size_t> calls;
    const std::string own = std::to_string(gpu) + "." + key;
    std::string values = defaults().at(key);
    if (scripted().count("*." + key)) values = scripted().at("*." + key);
    if (scripted().count(own)) values = scripted().at(own);
    const std::lock_guard<std::mutex> held(lock);
    size_t turn = calls[own]++;
    std::istringstream in(values);
    std::string value;
    for (std::string next; std::getline(in, next, '/');) {
        value = next;
        if (turn-- == 0) break;
    }
    return value;
}

// A handle is a GPU's number, from 1 on.
unsigned gpu_of(void* device) { return (unsigned)(uintptr_t)device - 1; }

template <class Number> int number(void* device, const std::string& key, Number* out) {
    const std::string value = answer(gpu_of(device), key);
    if (value[0] == '!') return atoi(value.c_str() + 1);
    *out = (Number)strtoull(value.c_str(), nullptr, 10);
    return OK;
}

int text(const std::string& value, char* out, unsigned length) {
    if (value.size() + 1 > length) return INVALID_ARGUMENT;
    memcpy(out, value.c_str(), value.size() + 1);
    return OK;
}

}  // namespace

extern "C" {

struct Utilization { unsigned gpu, memory; };
struct Memory { unsigned version; unsigned long long total, reserved, free, used; };
struct Pci { char legacy[16]; unsigned domain, bus, device, pci_id, subsystem; char bus_id[32]; };
struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, code;
    union { double d; unsigned ui; unsigned long long ull; } value;
};

int nvmlInit_v2() { return atoi(setting("STANDIN_NVML_INIT", "0").c_str()); }
int nvmlShutdown() { return OK; }
int nvmlSystemGetDriverVersion(char* out, unsigned length) { return text("570.86.15", out, length); }

int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = gpus();
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    if (index >= gpus()) return INVALID_ARGUMENT;
    *device = (void*)(uintptr_t)(index + 1);
    unsigned code = 0;
    return number(*device, "handle", &code);
}

int nvmlDeviceGetUUID(void* device, char* out, unsigned length) {
    char uuid[64];
    snprintf(uuid, sizeof uuid, "GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d%02x", gpu_of(device));
    return text(uuid, out, length);
}

int nvmlDeviceGetName(void* device, char* out, unsigned length) { return text(answer(gpu_of(device), "name"), out, length); }

int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + gpu_of(device);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return OK;
}

int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
    if (clock != SM_CLOCK && clock != MEMORY_CLOCK) return INVALID_ARGUMENT;
    return number(device, clock == SM_CLOCK ? "sm" : "mem", mhz);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* mask) { return number(device, "throttle", mask); }
int nvmlDeviceGetTemperature(void* device, int, unsigned* degrees) { return number(device, "temp", degrees); }
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) { return number(device, "power", milliwatts); }
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) { return number(device, "limit", milliwatts); }
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* mj) { return number(device, "energy", mj); }

int nvmlDeviceGetUtilizationRates(void* device, Utilization* rates) {
    const int code = number(device, "util", &rates->gpu);
    return code ? code : number(device, "memutil", &rates->memory);
}

int nvmlDeviceGetMemoryInfo_v2(void* device, Memory* memory) {
    if (memory->version != (sizeof(Memory) | (2u << 24))) return INVALID_ARGUMENT;
    const int code = number(device, "used", &memory->used);
    return code ? code : number(device, "total", &memory->total);
}

int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* errors) {
    if (counter != 0) return INVALID_ARGUMENT;
    return number(device, kind == 0 ? "corrected" : "uncorrected", errors);
}

int nvmlDeviceGetPcieThroughput(void* device, int direction, unsigned* kb) {
    usleep(20000);
    return number(device, direction == 0 ? "pcie_tx_rate" : "pcie_rx_rate", kb);
}

int nvmlDeviceGetFieldValues(void* device, int count, Field* fields) {
    for (Field* field = fields; field < fields + count; field++) {
        const bool is_of_links = field->id == FIELD_NVLINK_TX || field->id == FIELD_NVLINK_RX;
        if (is_of_links != (field->scope == ALL_LINKS)) {
            field->code = INVALID_ARGUMENT;
            continue;
        }
        field->type = UNSIGNED_LONG_LONG;
        field->value.ull = 0;
        switch (field->id) {
            case FIELD_MEMORY_TEMP:
                field->type = UNSIGNED_INT;
                field->code = number(device, "memtemp", &field->value.ui);
                break;
            case FIELD_NVLINK_TX: field->code = number(device, "nvlink_tx", &field->value.ull); break;
            case FIELD_NVLINK_RX: field->code = number(device, "nvlink_rx", &field->value.ull); break;
            case FIELD_PCIE_TX: field->code = number(device, "pcie_tx", &field->value.ull); break;
            case FIELD_PCIE_RX: field->code = number(device, "pcie_rx", &field->value.ull); break;
            default: field->code = NOT_SUPPORTED;
        }
    }
    return OK;
}
}
