//! Variables that change nothing of a collective once it runs.

/// Logging, files written at initialisation, how ranks meet, and the service that answers questions.
const BYSTANDERS: [&str; 16] = [
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_LEVELS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_WARN_ENABLE_DEBUG_INFO",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_PARAM_DUMP_ALL",
    "NCCL_REPORT_CONNECT_PROGRESS",
    "NCCL_SET_THREAD_NAME",
    "NCCL_COMM_ID",
    "NCCL_RAS_ADDR",
];

/// Whether the variable changes nothing of a collective.
#[must_use]
pub fn is_bystander(name: &str) -> bool {
    BYSTANDERS.contains(&name) || name.starts_with("NCCL_UID_STAGGER_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::catalogue::{self, ReadAt};

    #[test]
    fn all_that_shapes_the_log_stands_beside_the_collectives() {
        let of_log = catalogue::all().iter().filter(|variable| variable.read == ReadAt::Log);
        let names: Vec<&str> = of_log.map(|variable| variable.name.as_str()).collect();
        assert!(names.contains(&"NCCL_DEBUG") && names.iter().all(|name| is_bystander(name)), "{names:?}");
        assert!(!is_bystander("NCCL_ALGO") && !is_bystander("NCCL_CONF_FILE"));
    }
}
