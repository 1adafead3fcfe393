//! Figures of other programs.

use ncclsweep::import::{Table, parse};

use super::{refused, text};

/// Output of nccl-tests. Cut between two rows it is a shorter table, as of a program that was stopped; cut within one it is refused.
pub fn nccl_tests(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let whole = match parse("all_reduce.txt", text) {
        Ok(tables) => tables,
        Err(error) => return refused(&error, text),
    };
    whole.iter().for_each(holds);
    for part in 1..8 {
        let part = &text[..text.floor_char_boundary(text.len() * part / 8)];
        let Ok(read) = parse("all_reduce.txt", part) else { continue };
        assert!(read.len() <= whole.len(), "{} tables of {}", read.len(), whole.len());
        for (read, whole) in read.iter().zip(&whole) {
            assert!(whole.rows.starts_with(&read.rows), "cut after {} of {} bytes", part.len(), text.len());
        }
    }
}

fn holds(table: &Table) {
    assert!(!table.rows.is_empty());
    for half in table.rows.iter().flat_map(|row| row.halves.iter().flatten()) {
        assert!(half.time_us.is_finite() && half.time_us > 0.0, "{}", half.time_us);
        assert!(half.calls_us.iter().all(|time| time.is_finite() && *time >= 0.0));
    }
}
