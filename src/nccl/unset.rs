//! Values that stand for no setting: NCCL does as if the variable were not there.

use super::number::strtoll;
use super::version::NcclVersion;

/// What some variables hold when nothing is set.
pub const UNSET: i64 = -2;

/// Variables of which NCCL takes [`UNSET`] as not set (`NCCL_PARAM` of `src/`, the same in tags 2.21.5 and 2.28.3).
const VARIABLES: [&str; 18] = [
    "NCCL_BUFFSIZE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL128_NTHREADS",
    "NCCL_LL_BUFFSIZE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_NRINGS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_OVERHEAD",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NTHREADS",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE",
    "NCCL_P2P_READ_ENABLE",
    "NCCL_SOCKET_NTHREADS",
];

/// Why a value stands for none in this release, when it does. Of a release that is not known no more is said than of the last.
#[must_use]
pub fn why(name: &str, value: &str, version: Option<NcclVersion>) -> Option<&'static str> {
    // Up to 2.23 an empty list of algorithms or protocols names none.
    let lists = matches!(name, "NCCL_ALGO" | "NCCL_PROTO");
    let names_none = lists && version.is_some_and(|version| !version.at_least(2, 24));
    if value.is_empty() && !names_none {
        return Some("NCCL takes an empty value as not set");
    }
    (VARIABLES.contains(&name) && strtoll(value).value == UNSET).then_some("NCCL takes -2 as not set")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_none_but_for_lists_of_old_releases() {
        let old = Some(NcclVersion::new(2, 23, 4));
        assert!(why("NCCL_PROTO", "", old).is_none() && why("NCCL_NTHREADS", "", old).is_some());
        assert!(
            why("NCCL_PROTO", "", Some(NcclVersion::new(2, 24, 3))).is_some() && why("NCCL_PROTO", "", None).is_some()
        );
    }

    #[test]
    fn minus_two_is_none_where_it_stands_for_what_is_not_set() {
        for (name, value, none) in [
            ("NCCL_NTHREADS", "-2", true),
            ("NCCL_NTHREADS", "-2 threads", true),
            ("NCCL_NTHREADS", "-1", false),
            ("NCCL_NTHREADS", "256", false),
            ("NCCL_P2P_DISABLE", "-2", false),
        ] {
            assert_eq!(why(name, value, None).is_some(), none, "{name}={value}");
        }
    }
}
