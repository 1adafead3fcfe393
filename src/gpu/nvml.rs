//! NVML: the driver's version, who else uses the GPUs, and their state before and after a visit.

use std::path::PathBuf;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};

use super::GpuError;

/// A process that has a GPU open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Process {
    /// UUID of the GPU.
    pub gpu: String,
    /// Its process id.
    pub pid: u32,
    /// Command name, when `/proc` tells.
    pub name: Option<String>,
    /// Device memory it holds, in MiB, when NVML tells.
    pub memory_mib: Option<u64>,
}

/// What NVML says of one GPU at one moment; `None` where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GpuState {
    /// Graphics (SM) clock in MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Memory clock in MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Board power in watts.
    pub power_w: Option<f64>,
    /// Reasons why clocks are below their maximum, as NVML names them; idle is left out.
    pub throttle: Vec<String>,
    /// PCIe replays since the driver was loaded.
    pub pcie_replays: Option<u32>,
    /// PCIe generation in use now.
    pub link_generation: Option<u32>,
    /// PCIe lanes in use now.
    pub link_width: Option<u32>,
}

/// The management library.
pub struct Management(Nvml);

impl Management {
    /// Loads `libnvidia-ml.so.1` by the loader's path.
    pub fn load() -> Result<Self, GpuError> {
        let library = PathBuf::from("libnvidia-ml.so.1");
        Nvml::builder().lib_path(library.as_os_str()).init().map(Self).map_err(missing)
    }

    /// The library itself.
    pub(super) fn library(&self) -> &Nvml {
        &self.0
    }

    /// Version of the kernel driver.
    pub fn driver_version(&self) -> Result<String, GpuError> {
        self.0.sys_driver_version().map_err(missing)
    }

    /// Processes other than `own` that compute on the GPU with this UUID.
    pub fn processes(&self, gpu: &str, own: u32) -> Result<Vec<Process>, GpuError> {
        let device = self.0.device_by_uuid(gpu).map_err(missing)?;
        let running = device.running_compute_processes().map_err(missing)?;
        let others = running.into_iter().filter(|process| process.pid != own);
        Ok(others
            .map(|process| Process {
                gpu: gpu.to_owned(),
                pid: process.pid,
                name: command_name(process.pid),
                memory_mib: match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes >> 20),
                    UsedGpuMemory::Unavailable => None,
                },
            })
            .collect())
    }

    /// How busy the GPU with this UUID is, in percent of the last moments.
    #[must_use]
    pub fn load_percent(&self, gpu: &str) -> Option<u32> {
        Some(self.0.device_by_uuid(gpu).ok()?.utilization_rates().ok()?.gpu)
    }

    /// State of the GPU with this UUID; what NVML refuses to tell stays `None`.
    #[must_use]
    pub fn state(&self, gpu: &str) -> GpuState {
        let Ok(device) = self.0.device_by_uuid(gpu) else { return GpuState::default() };
        let throttle = device.current_throttle_reasons().map(|reasons| {
            reasons.iter_names().map(|(name, _)| name.to_lowercase()).filter(|name| name != "gpu_idle").collect()
        });
        GpuState {
            sm_clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            throttle: throttle.unwrap_or_default(),
            pcie_replays: device.pcie_replay_counter().ok(),
            link_generation: device.current_pcie_link_gen().ok(),
            link_width: device.current_pcie_link_width().ok(),
        }
    }
}

fn missing(error: NvmlError) -> GpuError {
    let what = match &error {
        // The loader's own words say which file it did not find.
        NvmlError::LibloadingError(loader) => loader.to_string(),
        error => error.to_string(),
    };
    GpuError::Missing { library: "NVML (libnvidia-ml)".into(), what }
}

fn command_name(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim().to_owned())
}
