//! Device memory of one rank, and which of it each call uses.

use super::data::CaseData;
use super::team::Team;
use crate::gpu::GpuError;
use crate::gpu::cuda::{DeviceBuffer, Stream};
use crate::gpu::register;

type Result<T> = std::result::Result<T, GpuError>;

/// Device memory for the outputs of checks: at most this much per rank, but always one output.
const CHECKED_BYTES: usize = 64 << 20;
/// With rotated buffers: what sends and receives cover together where calls are large enough for it, twice the largest cache.
const ROTATED_BYTES: usize = 256 << 20;
/// Where the buffers of rotated calls begin.
const ALIGNMENT: usize = 512;

/// All of it.
pub(super) struct Buffers {
    /// What this rank sends, by index into [`Team::data`]. Uploaded once: nothing ever writes to it.
    pub(super) inputs: Vec<DeviceBuffer>,
    pub(super) recv: DeviceBuffer,
    /// Outputs of a chain of checked all-reduces, side by side.
    pub(super) outputs: DeviceBuffer,
    /// What rotated calls send and receive.
    rotated: Option<[DeviceBuffer; 2]>,
}

impl Buffers {
    /// Allocates and uploads the inputs.
    pub(super) fn alloc(team: &Team, rank: u32, stream: Stream) -> Result<Self> {
        let alloc = |bytes: usize| register::alloc(team.job.register, bytes);
        let largest = team.data.iter().map(CaseData::bytes).max().unwrap_or(0);
        let most_outputs = team.data.iter().map(|data| data.bytes() * chain(team, data)).max().unwrap_or(0);
        let recv = alloc(largest)?;
        let outputs = alloc(most_outputs)?;
        let inputs = team.data.iter().map(|data| alloc(data.bytes())).collect::<Result<Vec<_>>>()?;
        for (input, data) in inputs.iter().zip(&team.data) {
            input.upload(&data.input(rank), stream)?;
        }
        let most_rotated = team.data.iter().map(|data| apart(data) * turns(team, data)).max().unwrap_or(0);
        let rotated = team.job.measure.rotate.then(|| Ok([alloc(most_rotated)?, alloc(most_rotated)?])).transpose()?;
        Ok(Self { inputs, recv, outputs, rotated })
    }

    /// All that NCCL gets to see.
    pub(super) fn all(&self) -> Vec<DeviceBuffer> {
        let single = [self.recv, self.outputs];
        self.inputs.iter().copied().chain(single).chain(self.rotated.into_iter().flatten()).collect()
    }

    /// What calls of one case send and receive, turn by turn: one pair, or as many as a chain of rotated calls has.
    pub(super) fn turns(&self, team: &Team, data: usize, stream: Stream) -> Result<Vec<[DeviceBuffer; 2]>> {
        let of = &team.data[data];
        let Some([sends, receives]) = self.rotated else {
            return Ok(vec![[self.inputs[data], self.recv.part(0, of.bytes())]]);
        };
        let pair = |turn: usize| {
            let [send, receive] = [sends, receives].map(|pool| pool.part(turn * apart(of), of.bytes()));
            send.copy_from(self.inputs[data], stream).map(|()| [send, receive])
        };
        let pairs = (0..turns(team, of)).map(pair).collect();
        stream.synchronize()?;
        pairs
    }
}

/// All-reduces of one checked chain: as many as a timed graph has, as far as their outputs fit.
pub(super) fn chain(team: &Team, data: &CaseData) -> usize {
    (CHECKED_BYTES / data.bytes().max(1)).clamp(1, team.job.measure.graph_length.max(1) as usize)
}

/// From the beginning of one rotated buffer to the next.
fn apart(data: &CaseData) -> usize {
    data.bytes().next_multiple_of(ALIGNMENT)
}

/// Pairs of rotated buffers: no more than a chain has calls.
fn turns(team: &Team, data: &CaseData) -> usize {
    let cover = ROTATED_BYTES.div_ceil(2 * apart(data).max(1));
    cover.clamp(1, team.job.measure.graph_length.max(team.job.measure.launches).max(1) as usize)
}
