//! Handles that C callers hold: numbers that tell their kind and are never used twice.

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream = 1,
    Event,
    Graph,
    Exec,
    Communicator,
}

/// Values by handle.
pub(crate) struct Slab<T> {
    kind: Kind,
    values: Vec<Option<T>>,
}

const TAG: u32 = 44;
const UNIT: u32 = 4;

impl<T> Slab<T> {
    pub(crate) fn new(kind: Kind) -> Slab<T> {
        Slab { kind, values: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        self.values.push(Some(value));
        self.values.len() - 1
    }

    /// An index for a value that comes later; until then its handle names nothing.
    pub(crate) fn reserve(&mut self) -> usize {
        self.values.push(None);
        self.values.len() - 1
    }

    /// Puts the value at a reserved index.
    pub(crate) fn fill(&mut self, index: usize, value: T) {
        self.values[index] = Some(value);
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.values.get(index)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.values.get_mut(index)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        self.values.get_mut(index)?.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.values.iter().enumerate().filter_map(|(index, value)| Some((index, value.as_ref()?)))
    }

    /// The handle of an index.
    pub(crate) fn handle(&self, index: usize) -> u64 {
        ((self.kind as u64) << TAG) | ((index as u64 + 1) << UNIT)
    }

    /// The index of a handle whose value is still there.
    pub(crate) fn index(&self, handle: u64) -> Option<usize> {
        let number = (handle ^ ((self.kind as u64) << TAG)) >> UNIT;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.get(index).map(|_| index)
    }
}

impl<T> std::ops::Index<usize> for Slab<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.get(index).expect("the value is still there")
    }
}

impl<T> std::ops::IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.get_mut(index).expect("the value is still there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_another_kind_and_of_removed_values_are_refused() {
        let mut events = Slab::new(Kind::Event);
        let index = events.insert('a');
        let handle = events.handle(index);
        assert_eq!(events.index(handle), Some(index));
        let mut streams = Slab::new(Kind::Stream);
        streams.insert('b');
        assert_eq!(streams.index(handle), None);
        assert_eq!(events.index(0), None);
        events.remove(index);
        assert_eq!(events.index(handle), None);
        assert_ne!(events.insert('c'), index);
    }
}
