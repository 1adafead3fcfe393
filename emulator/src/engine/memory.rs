//! Device memory: allocations at made-up addresses, each a list of shared immutable pieces.

use std::collections::BTreeMap;

use super::data::{Piece, View};

/// All device memory of the process.
#[derive(Default)]
pub(crate) struct Memory {
    allocations: BTreeMap<u64, Allocation>,
    next: u64,
}

struct Allocation {
    device: usize,
    len: usize,
    /// It came from NCCL's allocator, so that peers can map it.
    shared: bool,
    /// Pieces with their start, ascending and without gaps.
    pieces: Vec<(usize, Piece)>,
}

/// Where device addresses start; nothing of the host lies there.
const START: u64 = 0x0007_0000_0000_0000;
const ALIGNMENT: u64 = 512;

impl Memory {
    pub(crate) fn allocate(&mut self, device: usize, len: usize) -> u64 {
        let address = START + self.next;
        // A gap behind each allocation keeps an overrun from landing in the next one.
        self.next += (len as u64).next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let garbage = View::fill([0xA5, 0, 0, 0], 1, len).0.pop().expect("a fill is one piece");
        self.allocations.insert(address, Allocation { device, len, shared: false, pieces: vec![(0, garbage)] });
        address
    }

    /// Makes an allocation one that peers can map.
    pub(crate) fn share(&mut self, address: u64) {
        if let Some(allocation) = self.allocations.get_mut(&address) {
            allocation.shared = true;
        }
    }

    /// Whether peers can map what is at an address.
    pub(crate) fn is_shared(&self, address: u64) -> bool {
        self.find(address, 0).is_some_and(|(start, _)| self.allocations[&start].shared)
    }

    /// Frees an allocation by its start; tells its device and size.
    pub(crate) fn free(&mut self, address: u64) -> Option<(usize, usize)> {
        self.allocations.remove(&address).map(|allocation| (allocation.device, allocation.len))
    }

    fn find(&self, address: u64, len: usize) -> Option<(u64, usize)> {
        let (&start, allocation) = self.allocations.range(..=address).next_back()?;
        let offset = (address - start) as usize;
        (offset.checked_add(len)? <= allocation.len).then_some((start, offset))
    }

    /// Whether the range lies within one allocation.
    pub(crate) fn holds(&self, address: u64, len: usize) -> bool {
        self.find(address, len).is_some()
    }

    /// What is in a range now.
    pub(crate) fn read(&self, address: u64, len: usize) -> Option<View> {
        let (start, offset) = self.find(address, len)?;
        let pieces = &self.allocations[&start].pieces;
        let mut view = View::default();
        let first = pieces.partition_point(|(at, piece)| at + piece.len <= offset);
        for (at, piece) in &pieces[first..] {
            if *at >= offset + len {
                break;
            }
            let from = offset.max(*at);
            let to = (offset + len).min(at + piece.len);
            view.0.push(Piece { data: piece.data.clone(), offset: piece.offset + from - at, len: to - from });
        }
        Some(view)
    }

    /// Puts a view into a range; false when the range is not allocated.
    pub(crate) fn write(&mut self, address: u64, view: &View) -> bool {
        let len = view.len();
        let Some((start, offset)) = self.find(address, len) else { return false };
        if len == 0 {
            return true;
        }
        let pieces = &mut self.allocations.get_mut(&start).expect("just found").pieces;
        let first = pieces.partition_point(|(at, piece)| at + piece.len <= offset);
        let end = pieces.partition_point(|(at, _)| *at < offset + len);
        let (head_at, head) = pieces[first].clone();
        let (tail_at, tail) = pieces[end - 1].clone();
        let mut new = Vec::with_capacity(view.0.len() + 2);
        if head_at < offset {
            new.push((head_at, Piece { len: offset - head_at, ..head }));
        }
        let mut at = offset;
        for piece in &view.0 {
            new.push((at, piece.clone()));
            at += piece.len;
        }
        if tail_at + tail.len > at {
            let cut = at - tail_at;
            new.push((at, Piece { data: tail.data, offset: tail.offset + cut, len: tail.len - cut }));
        }
        pieces.splice(first..end, new);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_writes_leave_what_they_do_not_cover() {
        let mut memory = Memory::default();
        let at = memory.allocate(0, 8);
        assert!(memory.write(at, &View::of(&[0, 1, 2, 3, 4, 5, 6, 7])));
        assert!(memory.write(at + 2, &View::of(&[9, 9])));
        assert!(memory.write(at + 3, &View::of(&[8, 8, 8])));
        assert_eq!(memory.read(at, 8).unwrap().bytes(), [0, 1, 9, 8, 8, 8, 6, 7]);
        assert_eq!(memory.read(at + 2, 3).unwrap().bytes(), [9, 8, 8]);
        assert!(memory.write(at, &View::of(&[7; 8])));
        assert_eq!(memory.allocations[&at].pieces.len(), 1);
    }

    #[test]
    fn ranges_outside_an_allocation_are_refused() {
        let mut memory = Memory::default();
        let at = memory.allocate(0, 8);
        let next = memory.allocate(0, 8);
        assert!(!memory.holds(at, 9));
        assert!(!memory.holds(at - 1, 1));
        assert!(!memory.write(at + 4, &View::of(&[0; 8])));
        assert!(memory.holds(next, 8));
        assert_eq!(memory.free(at), Some((0, 8)));
        assert!(!memory.holds(at, 1));
        assert_eq!(memory.free(at), None);
    }

    #[test]
    fn a_copy_shares_its_source_and_survives_its_change() {
        let mut memory = Memory::default();
        let (a, b) = (memory.allocate(0, 4), memory.allocate(1, 4));
        memory.write(a, &View::of(&[1, 2, 3, 4]));
        let copy = memory.read(a, 4).unwrap();
        memory.write(b, &copy);
        memory.write(a, &View::of(&[0; 4]));
        assert!(memory.read(b, 4).unwrap().same(&copy));
        assert_eq!(memory.read(b, 4).unwrap().bytes(), [1, 2, 3, 4]);
    }
}
