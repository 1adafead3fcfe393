//! Rules: what of the uses, connections and channels of a visit satisfies a variable. One function per variable that
//! people set; [`general`] serves the rest from the catalogue.

mod buffers;
mod channels;
mod choice;
mod general;
mod look;
mod paths;
mod process;
mod threads;

pub(super) use look::Look;
pub(super) use threads::table as threads_by_table;

use super::ranks::Outcome;

/// The state by what was used.
pub(super) fn rule(look: &Look) -> Outcome {
    match look.asked.name.as_str() {
        "NCCL_ALGO" => choice::algorithms(look),
        "NCCL_PROTO" => choice::protocols(look),
        "NCCL_NVLS_ENABLE" => choice::nvls(look),
        "NCCL_COLLNET_ENABLE" => choice::collnet(look),
        "NCCL_PAT_ENABLE" => choice::pat(look),
        "NCCL_LL128_C2C" => choice::ll128(look),
        "NCCL_TUNER_PLUGIN" => choice::tuner(look),
        "NCCL_MAX_NCHANNELS" | "NCCL_MAX_NRINGS" | "NCCL_MAX_CTAS" => channels::most(look),
        "NCCL_MIN_NCHANNELS" | "NCCL_MIN_NRINGS" | "NCCL_MIN_CTAS" => channels::least(look),
        "NCCL_NVLS_NCHANNELS" => channels::nvls(look),
        "NCCL_NTHREADS" => threads::nthreads(look),
        "NCCL_LL128_NTHREADS" => threads::ll128_nthreads(look),
        "NCCL_BUFFSIZE" => buffers::size(look),
        "NCCL_CUMEM_HOST_ENABLE" => buffers::cumem(look),
        "NCCL_P2P_LEVEL" => paths::level(look),
        "NCCL_P2P_DISABLE" => paths::no_peer_access(look),
        "NCCL_P2P_DIRECT_DISABLE" => paths::no_direct_pointer(look),
        "NCCL_P2P_READ_ENABLE" => paths::peer_read(look),
        "NCCL_P2P_USE_CUDA_MEMCPY" => paths::peer_copy(look),
        "NCCL_SHM_DISABLE" => paths::no_shared_memory(look),
        "NCCL_SHM_USE_CUDA_MEMCPY" => paths::shared_copy(look),
        "NCCL_CUMEM_ENABLE" => paths::cumem(look),
        "NCCL_IGNORE_DISABLED_P2P" => general::traceless(look),
        "NCCL_GRAPH_REGISTER" => process::graph_register(look),
        "NCCL_GRAPH_STREAM_ORDERING" => process::only_captured(look),
        "NCCL_LAUNCH_MODE" => process::launch_mode(look),
        "NCCL_MULTI_RANK_GPU_ENABLE" => process::shared_gpus(look),
        _ => general::rule(look),
    }
}
