//! [`Tap`]: lines of a stream, looked at while another reader takes it.

use std::io::Read;

/// Longest line that is looked at whole.
const LONGEST: usize = 4096;

/// Passes a stream on and shows each of its lines, with its number, to `look`.
pub struct Tap<R, F> {
    inner: R,
    look: F,
    line: Vec<u8>,
    number: u64,
}

impl<R: Read, F: FnMut(u64, &str)> Tap<R, F> {
    /// A tap on `inner`.
    pub fn new(inner: R, look: F) -> Self {
        Self { inner, look, line: Vec::new(), number: 0 }
    }

    fn end_line(&mut self) {
        self.number += 1;
        (self.look)(self.number, &String::from_utf8_lossy(&self.line));
        self.line.clear();
    }
}

impl<R: Read, F: FnMut(u64, &str)> Read for Tap<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let mut rest = &buffer[..count];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.keep(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.keep(rest);
        if count == 0 && !self.line.is_empty() {
            self.end_line();
        }
        Ok(count)
    }
}

impl<R, F> Tap<R, F> {
    fn keep(&mut self, part: &[u8]) {
        let room = LONGEST.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_seen_once_however_the_stream_is_cut() {
        let text = format!("one\n\n{}\nlast", "x".repeat(5000));
        for size in [1, 7, 4096, 10_000] {
            let (mut seen, mut passed) = (Vec::new(), Vec::new());
            let mut tap = Tap::new(text.as_bytes(), |number, line: &str| seen.push((number, line.len())));
            let mut buffer = vec![0; size];
            while let Ok(count @ 1..) = tap.read(&mut buffer) {
                passed.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(seen, [(1, 3), (2, 0), (3, LONGEST), (4, 4)], "{size}");
            assert_eq!(passed, text.as_bytes());
        }
    }
}
