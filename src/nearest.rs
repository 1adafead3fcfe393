//! The known word a mistyped one was meant to be, for the help of an error.

/// Below this likeness (Jaro–Winkler, 1 is equal) a guess would puzzle more than help.
const ALIKE: f64 = 0.8;

/// The word of `known` most like `word`, if one is alike enough to be worth saying.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let alike = |candidate: &str| strsim::jaro_winkler(&word, &candidate.to_lowercase());
    let scored = known.into_iter().map(|candidate| (alike(candidate), candidate));
    let best = scored.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_an_unrelated_word_finds_none() {
        let known = ["sizes", "rounds", "tolerance"];
        assert_eq!(nearest("size", known), Some("sizes"));
        assert_eq!(nearest("Tolerence", known), Some("tolerance"));
        assert_eq!(nearest("channels", known), None);
        assert_eq!(nearest("sizes", []), None);
    }
}
