//! [`Look`]: what one look at a box found, the document of `ncclsweep topo`.

use serde::{Deserialize, Serialize};

use super::redact;
use crate::topology::{Graph, Topology};

/// A box as it was seen, or as a file tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Version of ncclsweep.
    pub version: String,
    /// UTC time.
    pub created: jiff::Timestamp,
    /// Where it comes from: a host's name, or a file's.
    pub source: Source,
    /// Name of the emulated box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<String>,
    /// Version of the GPU driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// CUDA version that the driver supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// `CUDA_VISIBLE_DEVICES` as it was inherited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_devices: Option<String>,
    /// Who could not be asked, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<String>,
    /// How the box is wired; empty where the source tells only graphs.
    pub topology: Topology,
    /// NCCL's graphs, where the source is a dump of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<Graph>,
}

/// Where a look comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// This host.
    Host(String),
    /// A file.
    File(String),
}

impl Look {
    /// Replaces what tells whose box it is: host name, path and UUIDs.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        self.source = match self.source {
            Source::Host(_) => Source::Host(redact::HOST.to_owned()),
            Source::File(path) => Source::File(path.rsplit('/').next().unwrap_or_default().to_owned()),
        };
        for (number, gpu) in self.topology.gpus.iter_mut().enumerate() {
            if let Some(uuid) = gpu.driver.as_mut().and_then(|facts| facts.uuid.as_mut()) {
                *uuid = format!("GPU-redacted-{number}");
            }
        }
        let by_uuid =
            |list: &String| list.to_ascii_lowercase().contains("gpu-") || list.to_ascii_lowercase().contains("mig-");
        if self.visible_devices.as_ref().is_some_and(by_uuid) {
            self.visible_devices = Some("GPU-redacted".to_owned());
        }
        self
    }
}
