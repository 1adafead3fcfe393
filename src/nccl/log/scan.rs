//! [`Scan`]: a cursor over one message, for formats that were written by `printf`.

use std::str::FromStr;

/// What is left of a message. Every step either consumes what it asks for or leaves the cursor and returns `None`.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a>(pub &'a str);

impl<'a> Scan<'a> {
    /// Consumes exactly `text`, after any blanks.
    pub fn literal(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(text)?;
        Some(())
    }

    /// Consumes up to and with the next `text`; what lies before it.
    pub fn until(&mut self, text: &str) -> Option<&'a str> {
        let (before, after) = self.0.split_once(text)?;
        self.0 = after;
        Some(before)
    }

    /// Consumes blanks, then all characters that `keep`; `None` when there is none.
    pub fn run(&mut self, keep: impl Fn(char) -> bool) -> Option<&'a str> {
        let text = self.0.trim_start();
        let end = text.find(|c| !keep(c)).unwrap_or(text.len());
        let (run, rest) = text.split_at(end);
        if run.is_empty() {
            return None;
        }
        self.0 = rest;
        Some(run)
    }

    /// Consumes up to the next blank.
    pub fn word(&mut self) -> Option<&'a str> {
        self.run(|c| !c.is_whitespace())
    }

    /// Consumes a decimal number, with sign and fraction where `T` takes them.
    pub fn number<T: FromStr>(&mut self) -> Option<T> {
        let before = self.0;
        let number = self.run(|c| c.is_ascii_digit() || matches!(c, '-' | '.'));
        // Sentences end in a full stop, ranges are written `0..3`.
        let (number, rest) = match number?.split_once("..") {
            Some((number, _)) => (number, &before.trim_start()[number.len()..]),
            None => (number?.trim_end_matches('.'), self.0),
        };
        let parsed = number.parse().ok();
        self.0 = if parsed.is_some() { rest } else { before };
        parsed
    }

    /// Consumes `name`, then the number after it.
    pub fn named<T: FromStr>(&mut self, name: &str) -> Option<T> {
        let before = self.0;
        let found = self.literal(name).and_then(|()| self.number());
        if found.is_none() {
            self.0 = before;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_consume_or_leave() {
        let mut scan = Scan("rank 3 nranks -1 bw 20.5/x {0..12} end");
        assert_eq!(scan.named::<u32>("rank"), Some(3));
        assert_eq!(scan.named::<u32>("nranks"), None, "unsigned");
        assert_eq!(scan.named::<i32>("nranks"), Some(-1));
        assert_eq!((scan.named::<f64>("bw"), scan.literal("/x {")), (Some(20.5), Some(())));
        assert_eq!((scan.number::<u32>(), scan.literal(".."), scan.number::<u32>()), (Some(0), Some(()), Some(12)));
        assert_eq!((scan.until("} "), scan.word(), scan.word()), (Some(""), Some("end"), None));
        assert_eq!(Scan("16.").number::<u32>(), Some(16));
        assert_eq!(Scan("").number::<u32>(), None);
    }
}
