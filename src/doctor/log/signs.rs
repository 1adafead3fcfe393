//! Lines whose meaning is known.

use super::{Known, Meaning, Sign};
use crate::nccl::log::Line;

/// Kinds of signs that are kept.
const KEPT: usize = 32;
/// Characters of a line that are shown.
const SHOWN: usize = 200;

/// Notes what `line` means, the first time that such a line is seen.
pub fn note(signs: &mut Vec<Sign>, number: u64, line: &str, known: Known) {
    // What a program says of itself can be anything: lines of NCCL, CUDA and the driver count.
    let lower = line.to_lowercase();
    if !["nccl", "cuda", "nvrm"].iter().any(|who| lower.contains(who)) {
        return;
    }
    let Some(Meaning { sign, meaning, next, mild }) = known(line) else { return };
    if signs.len() < KEPT && !signs.iter().any(|known| known.sign == sign) {
        let message = Line::parse(line).map_or(line.trim(), |line| line.message);
        let text = message.chars().take(SHOWN).collect();
        signs.push(Sign { sign, meaning, next, line: number, text, mild });
    }
}
