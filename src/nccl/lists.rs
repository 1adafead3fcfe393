//! `NCCL_ALGO` and `NCCL_PROTO` as NCCL parses them: [`algorithms`], [`protocols`], and what both leave: [`Allowed`].
//!
//! Since 2.24: `LIST[;FUNCTION:LIST]…`, only the first entry may stand without a function, `^` before a list takes all others,
//! nothing is trimmed, and an unknown word fails the initialisation. Up to 2.23 one plain list, unknown words are dropped in
//! silence; when nothing is left, other rules apply (`src/graph/tuning.cc`, tags 2.8 to 2.30).

use std::fmt;

use super::version::NcclVersion;
use super::words::{Algorithm, Function, Protocol};

/// What a list leaves on, per collective in the order of [`Function::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T> {
    on: [Vec<T>; 5],
    /// What is wrong with the value.
    pub faults: Vec<Fault>,
    /// The initialisation of the communicator fails for it (2.24 and later).
    pub refused: bool,
}

/// Something wrong with a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A word that names nothing in this version.
    Unknown {
        /// The word.
        word: String,
        /// The version that has it, when a later one does.
        since: Option<NcclVersion>,
    },
    /// A function that NCCL does not tune.
    UnknownFunction(String),
    /// An entry after the first names no function.
    NoFunction(String),
    /// Entries with functions, which up to 2.23 are words that name nothing.
    TooEarly(String),
    /// A name of the symmetric kernels of 2.32, which this build cannot check.
    Unchecked(String),
}

impl<T: Clone + PartialEq> List<T> {
    /// What stays on for `function`; nothing when the value is refused.
    #[must_use]
    pub fn on(&self, function: &Function) -> &[T] {
        function.id().map_or(&[], |id| &self.on[id])
    }
}

/// A kind of word that lists consist of.
trait Item: Clone + PartialEq + Sized {
    /// All that `version` has.
    fn all(version: Option<NcclVersion>) -> Vec<Self>;
    /// The word that `token` is in `version`.
    fn parse(token: &str, version: Option<NcclVersion>) -> Result<Self, Fault>;
}

/// The version that brought each algorithm.
const ALGORITHMS: [(Algorithm, NcclVersion); 7] = [
    (Algorithm::Tree, NcclVersion::minor(2, 4)),
    (Algorithm::Ring, NcclVersion::minor(2, 0)),
    (Algorithm::CollNetDirect, NcclVersion::minor(2, 6)),
    (Algorithm::CollNetChain, NcclVersion::minor(2, 14)),
    (Algorithm::Nvls, NcclVersion::minor(2, 17)),
    (Algorithm::NvlsTree, NcclVersion::minor(2, 18)),
    (Algorithm::Pat, NcclVersion::minor(2, 23)),
];

/// Names of symmetric kernels begin like this; 2.32 takes them for algorithms.
const SYMMETRIC: [&str; 3] = ["AllReduce_", "AllGather_", "ReduceScatter_"];

impl Item for Algorithm {
    fn all(version: Option<NcclVersion>) -> Vec<Self> {
        let has = |since: &NcclVersion| version.is_none_or(|version| version >= *since);
        ALGORITHMS.iter().filter(|(_, since)| has(since)).map(|(algorithm, _)| algorithm.clone()).collect()
    }

    fn parse(token: &str, version: Option<NcclVersion>) -> Result<Self, Fault> {
        let at_least = |minor| version.is_none_or(|version| version.at_least(2, minor));
        let named = |(algorithm, since): &(Algorithm, NcclVersion)| {
            // One name up to 2.13, two after; never the spelling of the log, `COLLNET_DIRECT`.
            let name = match algorithm {
                Algorithm::CollNetDirect if !at_least(14) => "CollNet".to_owned(),
                algorithm => algorithm.to_string(),
            };
            name.eq_ignore_ascii_case(token).then(|| (algorithm.clone(), *since))
        };
        match ALGORITHMS.iter().find_map(named) {
            Some((algorithm, since)) if version.is_none_or(|version| version >= since) => Ok(algorithm),
            Some((_, since)) => Err(Fault::Unknown { word: token.to_owned(), since: Some(since) }),
            None if at_least(31) && SYMMETRIC.iter().any(|start| token.starts_with(start)) => {
                Err(Fault::Unchecked(token.to_owned()))
            }
            None => Err(Fault::Unknown { word: token.to_owned(), since: None }),
        }
    }
}

impl Item for Protocol {
    fn all(_: Option<NcclVersion>) -> Vec<Self> {
        Self::ALL.to_vec()
    }

    fn parse(token: &str, _: Option<NcclVersion>) -> Result<Self, Fault> {
        Self::known(token).ok_or_else(|| Fault::Unknown { word: token.to_owned(), since: None })
    }
}

/// What `NCCL_ALGO=value` leaves on in `version` (the latest, when it is not known).
#[must_use]
pub fn algorithms(value: &str, version: Option<NcclVersion>) -> List<Algorithm> {
    parse(value, version)
}

/// What `NCCL_PROTO=value` leaves on in `version`.
#[must_use]
pub fn protocols(value: &str, version: Option<NcclVersion>) -> List<Protocol> {
    parse(value, version)
}

fn parse<T: Item>(value: &str, version: Option<NcclVersion>) -> List<T> {
    let mut list = List { on: std::array::from_fn(|_| T::all(version)), faults: Vec::new(), refused: false };
    if version.is_some_and(|version| !version.at_least(2, 24)) {
        let functions = value.split([';', ',']).any(|entry| entry.contains(':')) || value.contains(';');
        if functions {
            list.faults.push(Fault::TooEarly(value.to_owned()));
        }
        let (on, faults) = elements(value, version);
        list.faults.extend(if functions { Vec::new() } else { faults });
        list.on = std::array::from_fn(|_| on.clone());
        return list;
    }
    let mut at = 0;
    for entry in value.split(';') {
        let first = at == 0;
        at += entry.len() + 1;
        // As `strtok` does: nothing between two separators is no entry.
        let mut parts = entry.split(':').filter(|part| !part.is_empty());
        let Some(head) = parts.next() else { continue };
        let (function, words) = match parts.next() {
            Some(words) => (Some(head), words),
            None if first => (None, head),
            None => {
                list.faults.push(Fault::NoFunction(entry.to_owned()));
                continue;
            }
        };
        let known = function.map(|function| (function, Function::known(function)));
        if let Some((function, None)) = known {
            list.faults.push(Fault::UnknownFunction(function.to_owned()));
            continue;
        }
        let (on, faults) = elements(words, version);
        list.faults.extend(faults);
        match known.and_then(|(_, function)| function).and_then(|function| function.id()) {
            Some(id) => list.on[id] = on,
            None => list.on = std::array::from_fn(|_| on.clone()),
        }
    }
    list.refused = list.faults.iter().any(|fault| !matches!(fault, Fault::Unchecked(_)));
    if list.refused {
        list.on = std::array::from_fn(|_| Vec::new());
    }
    list
}

/// One comma-separated list, with `^` first all others.
fn elements<T: Item>(words: &str, version: Option<NcclVersion>) -> (Vec<T>, Vec<Fault>) {
    let (inverted, words) = words.strip_prefix('^').map_or((false, words), |rest| (true, rest));
    let mut faults = Vec::new();
    let mut named = Vec::new();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        match T::parse(word, version) {
            Ok(item) => named.push(item),
            Err(fault) => faults.push(fault),
        }
    }
    let on = T::all(version).into_iter().filter(|item| named.contains(item) != inverted).collect();
    (on, faults)
}

/// What both variables leave NCCL to choose from, for one collective on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Pairs that can be chosen.
    pub pairs: Vec<(Algorithm, Protocol)>,
    /// LL128 is on even where NCCL does not hold it safe.
    pub ll128_forced: bool,
    /// The version ignores what was asked for, since nothing of it can be used.
    pub ignored: bool,
}

impl Allowed {
    /// What is left for `function` with these values, unset where `None`. `collnet` says whether `NCCL_COLLNET_ENABLE=1`.
    #[must_use]
    pub fn resolve(
        algo: Option<&str>,
        proto: Option<&str>,
        function: &Function,
        version: Option<NcclVersion>,
        collnet: bool,
    ) -> Self {
        let old = version.filter(|version| !version.at_least(2, 24));
        let mut algorithms = match algo {
            Some(value) => algorithms(value, version).on(function).to_vec(),
            None => Algorithm::all(version),
        };
        let is_collnet =
            |algorithm: &Algorithm| matches!(algorithm, Algorithm::CollNetDirect | Algorithm::CollNetChain);
        algorithms.retain(|algorithm| *algorithm != Algorithm::NvlsTree && (collnet || !is_collnet(algorithm)));
        let mut ignored = false;
        // Up to 2.23, when neither ring nor tree (since 2.18: nor NVLS) is left, ring and tree are on again.
        if let Some(version) = old.filter(|_| !collnet) {
            let counts = |algorithm: &Algorithm| match algorithm {
                Algorithm::Ring | Algorithm::Tree => true,
                Algorithm::Nvls => version.at_least(2, 18),
                _ => false,
            };
            if !algorithms.iter().any(counts) {
                ignored = algorithms.is_empty() || algorithms == [Algorithm::Pat];
                algorithms.extend([Algorithm::Tree, Algorithm::Ring]);
            }
        }
        let mut protocols = match proto {
            Some(value) => protocols(value, version).on(function).to_vec(),
            None => Protocol::ALL.to_vec(),
        };
        let mut ll128_forced = proto.is_some_and(|value| !value.is_empty()) && protocols.contains(&Protocol::Ll128);
        // From 2.24 on a list for other collectives only leaves this one as it was.
        if let Some(value) = proto.filter(|_| old.is_none()) {
            ll128_forced &= names(value, function);
        }
        let pairs = algorithms.iter().flat_map(|algorithm| protocols.iter().map(move |protocol| (algorithm, protocol)));
        let possible = pairs.filter(|(algorithm, protocol)| algorithm.can(function, protocol));
        let mut pairs: Vec<_> = possible.map(|(algorithm, protocol)| (algorithm.clone(), protocol.clone())).collect();
        if let Some(version) = old.filter(|version| pairs.is_empty() && version.at_least(2, 19)) {
            // 2.19 to 2.23, when nothing is left, take ring: up to 2.21 with every protocol, LL128 too, whatever the links.
            if !version.at_least(2, 22) {
                (protocols, ll128_forced) = (Protocol::ALL.to_vec(), true);
            }
            pairs.extend(protocols.iter().map(|protocol| (Algorithm::Ring, protocol.clone())));
            ignored = !pairs.is_empty();
        }
        Self { pairs, ll128_forced, ignored }
    }

    /// The protocols among the pairs.
    #[must_use]
    pub fn protocols(&self) -> Vec<&Protocol> {
        Protocol::ALL.iter().filter(|protocol| self.pairs.iter().any(|(_, on)| on == *protocol)).collect()
    }

    /// The algorithms among the pairs.
    #[must_use]
    pub fn algorithms(&self) -> Vec<&Algorithm> {
        Algorithm::ALL.iter().filter(|algorithm| self.pairs.iter().any(|(on, _)| on == *algorithm)).collect()
    }
}

/// Whether an entry of `value` (form of 2.24) is for `function`.
fn names(value: &str, function: &Function) -> bool {
    value.split(';').any(|entry| {
        let mut parts = entry.split(':').filter(|part| !part.is_empty());
        match (parts.next(), parts.next()) {
            (Some(head), Some(_)) => Function::known(head).as_ref() == Some(function),
            (Some(_), None) => true,
            _ => false,
        }
    })
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { word, since: Some(since) } => write!(f, "has `{word}`, which exists since {since}"),
            Self::Unknown { word, .. } if word.trim() != word => write!(f, "has `{word}` with a blank, which counts"),
            Self::Unknown { word, .. } => write!(f, "has `{word}`, which is no name"),
            Self::UnknownFunction(name) => write!(f, "has `{name}`, which is no collective"),
            Self::NoFunction(entry) => write!(f, "has `{entry}` without a collective, as only the first entry may"),
            Self::TooEarly(_) => write!(f, "names a collective, which it can since 2.24"),
            Self::Unchecked(name) => write!(f, "has `{name}`, which is not known here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: Option<NcclVersion> = Some(NcclVersion::new(2, 21, 5));
    const NEW: Option<NcclVersion> = Some(NcclVersion::new(2, 28, 3));

    fn proto(value: &str, version: Option<NcclVersion>) -> String {
        let list = protocols(value, version);
        let shown: Vec<_> = list.on(&Function::AllReduce).iter().map(ToString::to_string).collect();
        format!("{}{}", shown.join(","), if list.refused { "refused" } else { "" })
    }

    fn pairs(algo: Option<&str>, proto: Option<&str>, version: Option<NcclVersion>) -> Allowed {
        Allowed::resolve(algo, proto, &Function::AllReduce, version, false)
    }

    #[test]
    fn the_grammar_of_2_24_is_followed_to_the_letter() {
        for (value, on) in [
            ("LL", "LL"),
            ("ll,simple", "LL,Simple"),
            ("^LL128", "LL,Simple"),
            ("^LL", "LL128,Simple"),
            ("^", "LL,LL128,Simple"),
            ("", "LL,LL128,Simple"),
            ("LL,,Simple,", "LL,Simple"),
            ("LL,Simple;allreduce:^LL", "LL128,Simple"),
            ("^LL128;AllReduce:LL128", "LL128"),
            ("broadcast:LL", "LL,LL128,Simple"),
            ("allreduce:LL:Simple", "LL"),
            (":LL", "LL"),
            ("LL;;allreduce:Simple", "Simple"),
        ] {
            assert_eq!(proto(value, NEW), on, "{value}");
        }
        for value in [
            "LL256",
            " LL",
            "LL, Simple",
            "LL;Simple",
            ";LL",
            "allreduce:",
            "all_reduce:LL",
            "^allreduce:LL",
            "LL;allreduce:",
        ] {
            assert_eq!(proto(value, NEW), "refused", "{value}");
        }
    }

    #[test]
    fn up_to_2_23_unknown_words_vanish() {
        for (value, on) in [
            ("LL", "LL"),
            ("^ll", "LL128,Simple"),
            ("LL,foo", "LL"),
            ("foo", ""),
            ("allreduce:LL", ""),
            ("LL;Simple", ""),
        ] {
            assert_eq!(proto(value, OLD), on, "{value}");
        }
        assert_eq!(algorithms("ring;tree", OLD).faults, [Fault::TooEarly("ring;tree".into())]);
        assert!(!algorithms("foo", OLD).refused && algorithms("foo", NEW).refused);
    }

    #[test]
    fn algorithms_have_their_versions() {
        let on = |value, version: &str| algorithms(value, version.parse().ok()).on(&Function::AllReduce).to_vec();
        assert_eq!(on("CollNet", "2.12.7"), [Algorithm::CollNetDirect]);
        assert_eq!(on("CollNet", "2.19.3"), []);
        assert_eq!(on("^Ring", "2.8.4"), [Algorithm::Tree, Algorithm::CollNetDirect]);
        let fault = &algorithms("PAT", "2.21.5".parse().ok()).faults[0];
        assert_eq!(fault.to_string(), "has `PAT`, which exists since 2.23.0");
        assert!(algorithms("COLLNET_DIRECT", NEW).refused, "the log's spelling");
        assert!(!algorithms("AllReduce_AGxLL_R", "2.32.3".parse().ok()).refused);
        assert!(algorithms("AllReduce_AGxLL_R", NEW).refused);
    }

    #[test]
    fn what_both_leave_is_resolved_for_one_node() {
        let allowed = pairs(Some("Ring"), Some("LL"), NEW);
        assert_eq!((allowed.pairs, allowed.ignored), (vec![(Algorithm::Ring, Protocol::Ll)], false));
        let default = pairs(None, None, NEW);
        assert_eq!(default.algorithms(), [&Algorithm::Tree, &Algorithm::Ring, &Algorithm::Nvls]);
        assert!(!default.ll128_forced);
        assert_eq!(pairs(Some("NVLS"), Some("LL"), NEW).pairs, [], "no such pair");
        assert_eq!(pairs(Some("PAT"), None, NEW).pairs, []);
        assert_eq!(pairs(Some("CollNetDirect"), None, NEW).pairs, []);
        assert_eq!(Allowed::resolve(Some("CollNetDirect"), None, &Function::AllReduce, NEW, true).pairs.len(), 1);
    }

    #[test]
    fn ll128_is_forced_by_name_and_by_exclusion_of_others() {
        for value in ["LL128", "LL,LL128", "^LL", "^Simple", "allreduce:^LL", "LL;allreduce:LL128"] {
            assert!(pairs(None, Some(value), NEW).ll128_forced, "{value}");
        }
        for value in ["LL", "^LL128", "^LL,LL128", "", "broadcast:LL128", "LL128;allreduce:LL"] {
            assert!(!pairs(None, Some(value), NEW).ll128_forced, "{value}");
        }
    }

    #[test]
    fn old_versions_fall_back_when_nothing_is_left() {
        let foo = pairs(Some("foo"), None, OLD);
        assert!(foo.ignored && foo.algorithms() == [&Algorithm::Tree, &Algorithm::Ring]);
        let ll256 = pairs(None, Some("LL256"), OLD);
        assert!(ll256.ignored && ll256.ll128_forced && ll256.algorithms() == [&Algorithm::Ring]);
        let pair = pairs(Some("NVLS"), Some("LL"), OLD);
        assert!(pair.ignored && pair.ll128_forced && pair.pairs.len() == 3, "ring with every protocol: {pair:?}");
        let pair = pairs(Some("NVLS"), Some("LL"), "2.23.4".parse().ok());
        assert_eq!((pair.pairs, pair.ignored), (vec![(Algorithm::Ring, Protocol::Ll)], true));
        let none = pairs(None, Some("LL256"), "2.23.4".parse().ok());
        assert_eq!((none.pairs, none.ignored), (Vec::new(), false), "the first all-reduce fails");
        assert_eq!(pairs(None, Some("LL256"), "2.12.7".parse().ok()).pairs, []);
    }

    proptest! {
        #[test]
        fn any_value_is_parsed(value in "([A-Za-z0-9 ]{0,4}|[;:,^]|LL|Ring|allreduce){0,12}", minor in 0u16..40) {
            for version in [None, Some(NcclVersion::minor(2, minor))] {
                let list = protocols(&value, version);
                prop_assert!(!list.refused || list.on(&Function::AllReduce).is_empty());
                let _ = Allowed::resolve(Some(&value), Some(&value), &Function::AllReduce, version, false);
            }
        }
    }
}
