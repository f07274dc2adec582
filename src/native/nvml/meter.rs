//! Reading what changes on a GPU: clocks, power, temperature, traffic.

#![expect(
    unsafe_code,
    reason = "the wrapper cannot ask for the sum over all NVLinks, so the function is called as \
              nvml.h declares it"
)]

use nvml_wrapper::{
    Device, Nvml,
    bitmasks::device::ThrottleReasons,
    enum_wrappers::device::{Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor},
    error::{NvmlError, nvml_try},
    sys_exports::field_id,
};
use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

use super::{
    inventory::{Reading, bus_id},
    query::{LIBRARY, copy_error, describe_init_error, reading},
    readings::{GpuReadings, MeteredGpu, PcieQuery, PcieTraffic},
};

/// The scope of a field that stands for all NVLinks of a GPU together.
const ALL_LINKS: u32 = u32::MAX;

/// The scope of a field that has none.
const NO_SCOPE: u32 = 0;

/// The fields that a reading asks for in one call, each with its scope.
const FIELDS: [(u32, u32); 5] = [
    (field_id::NVML_FI_DEV_MEMORY_TEMP, NO_SCOPE),
    (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
    (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
    (field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NO_SCOPE),
    (field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NO_SCOPE),
];

/// Bytes in NVML's unit of NVLink traffic, KiB.
const KIB: u64 = 1024;

/// Bytes in NVML's unit of PCIe throughput, KB.
const KB: f64 = 1000.0;

/// A connection to NVML.
pub struct Meter {
    nvml: Nvml,
}

impl Meter {
    /// Connects to NVML.
    ///
    /// # Errors
    /// Returns one sentence if the library is missing or cannot start.
    pub fn open() -> Result<Meter, String> {
        let nvml = Nvml::builder()
            .lib_path(LIBRARY.as_ref())
            .init()
            .map_err(describe_init_error)?;
        Ok(Meter { nvml })
    }

    /// Returns the GPUs in NVML's order. One that does not answer has no names.
    ///
    /// # Errors
    /// Returns one sentence if NVML cannot count the GPUs.
    pub fn gpus(&self) -> Result<Vec<MeteredGpu>, String> {
        let count = self
            .nvml
            .device_count()
            .map_err(|error| format!("NVML cannot count the GPUs: {error}"))?;
        Ok((0..count).map(|index| self.gpu(index)).collect())
    }

    fn gpu(&self, index: u32) -> MeteredGpu {
        match self.nvml.device_by_index(index) {
            Ok(device) => MeteredGpu {
                index,
                uuid: reading(device.uuid()),
                bus_id: reading(device.pci_info().map(|pci| bus_id(&pci.bus_id))),
                name: reading(device.name()),
            },
            Err(error) => MeteredGpu {
                index,
                uuid: Reading::none(error.to_string()),
                bus_id: Reading::none(error.to_string()),
                name: Reading::none(error.to_string()),
            },
        }
    }

    /// Reads the GPU with NVML's index `index`.
    ///
    /// # Errors
    /// Returns why the GPU does not answer at all, such as one that has fallen off the bus.
    pub fn read(&self, index: u32, pcie: PcieQuery) -> Result<GpuReadings, String> {
        let device = self.nvml.device_by_index(index).map_err(lost)?;
        let throttle = device.current_throttle_reasons();
        if let Err(NvmlError::GpuLost) = throttle {
            return Err(lost(NvmlError::GpuLost));
        }
        Ok(self.readings(&device, throttle, pcie))
    }

    fn readings(
        &self,
        device: &Device,
        throttle: Result<ThrottleReasons, NvmlError>,
        pcie: PcieQuery,
    ) -> GpuReadings {
        let memory = device.memory_info();
        let memory = memory.as_ref();
        let use_of_time = device.utilization_rates();
        let use_of_time = use_of_time.as_ref();
        let [memory_temperature, sent, received, pcie_sent, pcie_received] = self.fields(device);
        let pcie_of = |counter: Reading<u64>, direction| match (wide_counter(counter), pcie) {
            (Reading { value: None, .. }, PcieQuery::MayBlock) => pcie_query(device, direction),
            (counter, _) => counter.and(|bytes| Ok(PcieTraffic::Bytes(bytes))),
        };
        GpuReadings {
            sm_clock: reading(device.clock_info(Clock::SM)),
            memory_clock: reading(device.clock_info(Clock::Memory)),
            throttle: reading(throttle.map(|mask| mask.bits())),
            temperature: reading(device.temperature(TemperatureSensor::Gpu)),
            memory_temperature: memory_temperature.and(celsius),
            power: reading(device.power_usage()),
            power_limit: reading(device.enforced_power_limit()),
            energy: reading(device.total_energy_consumption()),
            memory_used: reading(memory.map(|memory| memory.used).map_err(copy_error)),
            memory_total: reading(memory.map(|memory| memory.total).map_err(copy_error)),
            utilization: reading(use_of_time.map(|rates| rates.gpu).map_err(copy_error)),
            memory_utilization: reading(use_of_time.map(|rates| rates.memory).map_err(copy_error)),
            ecc_corrected: reading(
                device.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile),
            ),
            ecc_uncorrected: reading(
                device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile),
            ),
            nvlink_sent: sent.and(bytes_of_kib),
            nvlink_received: received.and(bytes_of_kib),
            pcie_sent: pcie_of(pcie_sent, PcieUtilCounter::Send),
            pcie_received: pcie_of(pcie_received, PcieUtilCounter::Receive),
        }
    }

    /// Returns the values of [`FIELDS`]. The wrapper's function has no scope.
    fn fields(&self, device: &Device) -> [Reading<u64>; FIELDS.len()] {
        let Ok(ask) = self.nvml.lib().nvmlDeviceGetFieldValues.as_ref() else {
            return FIELDS.map(|_| Reading::none("not known to this driver"));
        };
        let mut values = FIELDS.map(|(field, scope)| nvmlFieldValue_t {
            fieldId: field,
            scopeId: scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        });
        // SAFETY: the function is NVML's of that name, the handle is of a device that lives, and
        // `values` has as many elements as are announced, of the type that it fills.
        let code = unsafe { ask(device.handle(), FIELDS.len() as i32, values.as_mut_ptr()) };
        if let Err(error) = nvml_try(code) {
            let why = reading::<()>(Err(error)).why;
            return FIELDS.map(|_| Reading::none(why.clone()));
        }
        values.map(|value| field_value(&value))
    }
}

fn lost(error: NvmlError) -> String {
    match error {
        NvmlError::GpuLost => "the GPU has fallen off the bus".into(),
        error => error.to_string(),
    }
}

/// Reads a field. Its type says which member of the union holds it.
fn field_value(field: &nvmlFieldValue_t) -> Reading<u64> {
    if let Err(error) = nvml_try(field.nvmlReturn) {
        return reading(Err(error));
    }
    // SAFETY: NVML has filled the union with a number of the type that it names, and any bits are a
    // number of each type.
    let number = unsafe {
        match field.valueType {
            1 => Some(u64::from(field.value.uiVal)),
            2 | 3 => Some(field.value.ullVal),
            4 => u64::try_from(field.value.sllVal).ok(),
            5 => u64::try_from(field.value.siVal).ok(),
            6 => Some(u64::from(field.value.usVal)),
            _ => None,
        }
    };
    match number {
        Some(number) => Reading::of(number),
        None => Reading::none("the driver gives it in an unknown form"),
    }
}

/// Refuses a counter that has not yet passed 32 bits: on some drivers it wraps there, several times
/// a second.
fn wide_counter(counter: Reading<u64>) -> Reading<u64> {
    counter.and(|bytes| {
        if bytes > u64::from(u32::MAX) {
            Ok(bytes)
        } else {
            Err("the counter may wrap at 32 bits".into())
        }
    })
}

/// Asks for the throughput of the last 20 ms, and waits for them.
fn pcie_query(device: &Device, direction: PcieUtilCounter) -> Reading<PcieTraffic> {
    let rate = device.pcie_throughput(direction);
    reading(rate.map(|rate| PcieTraffic::BytesPerSecond(f64::from(rate) * KB)))
}

/// Takes a temperature; a GPU without the sensor may answer 0.
fn celsius(degrees: u64) -> Result<u32, String> {
    match u32::try_from(degrees) {
        Ok(degrees @ 1..) => Ok(degrees),
        _ => Err("no such sensor".into()),
    }
}

fn bytes_of_kib(kib: u64) -> Result<u64, String> {
    kib.checked_mul(KIB)
        .ok_or_else(|| "the counter is out of range".into())
}
