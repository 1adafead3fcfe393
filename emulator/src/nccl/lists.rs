//! The grammars of NCCL_ALGO and NCCL_PROTO.

use crate::settings::Version;

pub(crate) const FUNCTIONS: [&str; 5] = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"];
pub(crate) const ALGORITHMS: [&str; 7] = ["Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"];
pub(crate) const PROTOCOLS: [&str; 3] = ["LL", "LL128", "Simple"];
/// The place of AllReduce among the functions.
pub(crate) const ALL_REDUCE: usize = 4;

/// Where NCCL's parser complains: line of `graph/tuning.cc` and the message.
#[derive(Debug, PartialEq)]
pub(crate) struct Complaint {
    pub place: &'static str,
    pub message: String,
}

/// Applies a list to the table (a row per function). Since 2.24 the list may name functions and bad words are errors; before,
/// it holds for all functions and bad words count for nothing.
pub(crate) fn apply<const N: usize>(
    text: &str,
    elements: &[&str; N],
    version: Version,
    table: &mut [[u8; N]; 5],
) -> Result<(), Complaint> {
    if !version.since(24) {
        let (rest, set) = text.strip_prefix('^').map_or((text, 1), |rest| (rest, 0));
        let mut row = [1 - set; N];
        for word in rest.split(',') {
            if let Some(at) = elements.iter().position(|element| element.eq_ignore_ascii_case(word)) {
                row[at] = set;
            }
        }
        *table = [row; 5];
        return Ok(());
    }
    for (position, entry) in text.split(';').filter(|entry| !entry.is_empty()).enumerate() {
        apply_entry(text, entry, position == 0, elements, table)?;
    }
    Ok(())
}

fn apply_entry<const N: usize>(
    text: &str,
    entry: &str,
    first: bool,
    elements: &[&str; N],
    table: &mut [[u8; N]; 5],
) -> Result<(), Complaint> {
    let mut parts = entry.split(':').filter(|part| !part.is_empty());
    let (prefix, list) = match (parts.next(), parts.next()) {
        (Some(prefix), Some(list)) => (Some(prefix), list),
        (Some(list), None) if first => (None, list),
        _ => {
            let message = format!("All entries except the first must have a prefix: \"{text}\"");
            return Err(Complaint { place: "graph/tuning.cc:71", message });
        }
    };
    let (list, set) = list.strip_prefix('^').map_or((list, 1), |rest| (rest, 0));
    let mut found = false;
    for (row, function) in table.iter_mut().zip(FUNCTIONS) {
        if prefix.is_some_and(|prefix| !prefix.eq_ignore_ascii_case(function)) {
            continue;
        }
        found = true;
        *row = [1 - set; N];
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let at = elements.iter().position(|element| element.eq_ignore_ascii_case(word));
            row[at.ok_or_else(|| unknown_element(word, text))?] = set;
        }
    }
    if found {
        return Ok(());
    }
    let message = format!("Unrecognized prefix token \"{}\" when parsing \"{text}\"", prefix.unwrap_or_default());
    Err(Complaint { place: "graph/tuning.cc:113", message })
}

fn unknown_element(word: &str, text: &str) -> Complaint {
    let message = format!("Unrecognized element token \"{word}\" when parsing \"{text}\"");
    Complaint { place: "graph/tuning.cc:104", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Version = Version::new(2, 28, 3);
    const OLD: Version = Version::new(2, 21, 5);

    fn protocols(text: &str, version: Version) -> Result<[u8; 3], Complaint> {
        let mut table = [[1, 2, 1]; 5];
        apply(text, &PROTOCOLS, version, &mut table).map(|()| table[ALL_REDUCE])
    }

    #[test]
    fn a_list_switches_on_what_it_names() {
        assert_eq!(protocols("LL", NEW), Ok([1, 0, 0]));
        assert_eq!(protocols("ll,SIMPLE", NEW), Ok([1, 0, 1]));
        assert_eq!(protocols("^LL128", NEW), Ok([1, 0, 1]));
        assert_eq!(protocols("^LL", NEW), Ok([0, 1, 1]), "a negation forces LL128 on");
    }

    #[test]
    fn functions_have_lists_of_their_own_since_2_24() {
        assert_eq!(protocols("LL;allreduce:Simple", NEW), Ok([0, 0, 1]));
        assert_eq!(protocols("AllReduce:LL128", NEW), Ok([0, 1, 0]));
        assert_eq!(protocols("broadcast:LL", NEW), Ok([1, 2, 1]));
    }

    #[test]
    fn bad_words_are_errors_since_2_24_and_nothing_before() {
        let foo = protocols("foo", NEW).unwrap_err();
        assert_eq!(foo.message, "Unrecognized element token \"foo\" when parsing \"foo\"");
        assert!(protocols("LL;Simple", NEW).unwrap_err().message.starts_with("All entries except the first"));
        assert!(protocols("allgather2:LL", NEW).unwrap_err().message.starts_with("Unrecognized prefix token"));
        assert!(protocols("LL, Simple", NEW).is_err(), "blanks are not trimmed");
        assert_eq!(protocols("foo", OLD), Ok([0, 0, 0]), "none is named");
        assert_eq!(protocols("foo,LL", OLD), Ok([1, 0, 0]));
        assert_eq!(protocols("allreduce:ring", OLD), Ok([0, 0, 0]));
    }
}
