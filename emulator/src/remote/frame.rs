//! Messages on the sockets: a length, a kind, numbers and bytes in the order both ends know.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// A message being written.
pub(super) struct Writer(Vec<u8>);

const HEAD: usize = 8;

impl Writer {
    pub(super) fn new(kind: u8) -> Writer {
        let mut bytes = vec![0; HEAD];
        bytes.push(kind);
        Writer(bytes)
    }

    pub(super) fn number(&mut self, value: u64) -> &mut Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn real(&mut self, value: f64) -> &mut Writer {
        self.number(value.to_bits())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn send(&mut self, mut to: &UnixStream) -> std::io::Result<()> {
        let length = (self.0.len() - HEAD) as u64;
        self.0[..HEAD].copy_from_slice(&length.to_le_bytes());
        to.write_all(&self.0)
    }
}

/// A message being read; what it lacks is `None`.
pub(super) struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    /// The next message of a socket.
    pub(super) fn receive(mut from: &UnixStream) -> std::io::Result<Reader> {
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let mut bytes = Vec::new();
        let length = u64::from_le_bytes(head);
        if from.take(length).read_to_end(&mut bytes)? as u64 == length {
            return Ok(Reader { bytes, at: 0 });
        }
        Err(std::io::ErrorKind::UnexpectedEof.into())
    }

    fn part(&mut self, length: usize) -> Option<&[u8]> {
        let part = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(part)
    }

    pub(super) fn kind(&mut self) -> Option<u8> {
        self.part(1).map(|part| part[0])
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.part(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    pub(super) fn real(&mut self) -> Option<f64> {
        self.number().map(f64::from_bits)
    }

    pub(super) fn bytes(&mut self) -> Option<&[u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.part(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_in_its_parts_and_no_further() {
        let (one, other) = UnixStream::pair().unwrap();
        let sender = std::thread::spawn(move || {
            Writer::new(7).number(1 << 40).real(-2.5).bytes(&[9; 300_000]).send(&one).unwrap();
        });
        let mut message = Reader::receive(&other).unwrap();
        assert_eq!((message.kind(), message.number(), message.real()), (Some(7), Some(1 << 40), Some(-2.5)));
        assert_eq!(message.bytes().map(<[u8]>::len), Some(300_000));
        assert_eq!(message.number(), None);
        sender.join().unwrap();
        assert!(Reader::receive(&other).is_err(), "the other end is gone");
    }
}
