//! What is in device memory, by value: immutable pieces that copies share and reductions name without computing.
//!
//! A benchmark writes the same output thousands of times and reads it once. So an all-reduce only notes its inputs; the
//! numbers are computed when a copy to the host asks for them, once for all ranks that hold the piece.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::reduce::{self, Dtype, Operation};

/// A run of bytes that never changes.
pub(crate) enum Data {
    Bytes(Box<[u8]>),
    /// A pattern of 1, 2 or 4 bytes, as memset leaves it.
    Fill {
        unit: [u8; 4],
        width: usize,
    },
    Reduced(Reduced),
}

/// The result of an all-reduce, perhaps not computed yet.
pub(crate) struct Reduced {
    dtype: Dtype,
    operation: Operation,
    /// How many uncomputed reductions stand below this one.
    depth: u32,
    inputs: Mutex<Vec<View>>,
    result: OnceLock<Box<[u8]>>,
}

/// A part of a `Data`.
#[derive(Clone)]
pub(crate) struct Piece {
    pub data: Arc<Data>,
    pub offset: usize,
    pub len: usize,
}

/// Consecutive pieces.
#[derive(Clone, Default)]
pub(crate) struct View(pub Vec<Piece>);

/// Chains of in-place reductions that nobody reads are cut here, so that they do not grow for ever.
const DEPTH_LIMIT: u32 = 1 << 16;

impl View {
    pub(crate) fn of(bytes: &[u8]) -> View {
        View(vec![Piece { data: Arc::new(Data::Bytes(bytes.into())), offset: 0, len: bytes.len() }])
    }

    pub(crate) fn fill(unit: [u8; 4], width: usize, len: usize) -> View {
        View(vec![Piece { data: Arc::new(Data::Fill { unit, width }), offset: 0, len }])
    }

    /// The reduction of the ranks' inputs.
    pub(crate) fn reduced(dtype: Dtype, operation: Operation, inputs: Vec<View>) -> View {
        let len = inputs.first().map_or(0, View::len);
        let depth = inputs.iter().flat_map(|view| &view.0).map(|piece| piece.data.depth()).max().unwrap_or(0) + 1;
        let data = Arc::new(Data::Reduced(Reduced {
            dtype,
            operation,
            depth,
            inputs: Mutex::new(inputs),
            result: OnceLock::new(),
        }));
        if depth > DEPTH_LIMIT {
            force(&data);
        }
        View(vec![Piece { data, offset: 0, len }])
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.len).sum()
    }

    /// Whether both are the very same pieces (equal bytes in different places do not count).
    pub(crate) fn same(&self, other: &View) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(a, b)| Arc::ptr_eq(&a.data, &b.data) && a.offset == b.offset && a.len == b.len)
    }

    /// Hands out the bytes piece by piece with their offset within the view, computing what has to be.
    pub(crate) fn for_each_run(&self, mut sink: impl FnMut(usize, &[u8])) {
        let mut at = 0;
        for piece in &self.0 {
            match &*piece.data {
                Data::Bytes(bytes) => sink(at, &bytes[piece.offset..piece.offset + piece.len]),
                Data::Fill { unit, width } => {
                    let bytes: Vec<u8> = (0..piece.len).map(|i| unit[(piece.offset + i) % width]).collect();
                    sink(at, &bytes);
                }
                Data::Reduced(_) => sink(at, &force(&piece.data)[piece.offset..piece.offset + piece.len]),
            }
            at += piece.len;
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut all = vec![0; self.len()];
        self.for_each_run(|at, run| all[at..at + run.len()].copy_from_slice(run));
        all
    }
}

impl Data {
    fn depth(&self) -> u32 {
        match self {
            Data::Reduced(reduced) if reduced.result.get().is_none() => reduced.depth,
            _ => 0,
        }
    }
}

impl Reduced {
    fn take_inputs(&self) -> Vec<View> {
        std::mem::take(&mut *self.inputs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn inputs(&self) -> Vec<View> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn compute(&self) -> &[u8] {
        let result = self.result.get_or_init(|| {
            let views = self.inputs();
            let copies: Vec<Option<Vec<u8>>> =
                views.iter().map(|view| view.single().is_none().then(|| view.bytes())).collect();
            let inputs: Vec<&[u8]> = views
                .iter()
                .zip(&copies)
                .map(|(view, copy)| copy.as_deref().or_else(|| view.single()).unwrap_or_default())
                .collect();
            reduce::reduce(self.dtype, self.operation, &inputs)
        });
        release(self.take_inputs());
        result
    }
}

impl View {
    /// The bytes where they lie, when the view is one computed piece.
    fn single(&self) -> Option<&[u8]> {
        let [piece] = &self.0[..] else { return None };
        let all: &[u8] = match &*piece.data {
            Data::Bytes(bytes) => bytes,
            Data::Reduced(reduced) => reduced.result.get()?,
            Data::Fill { .. } => return None,
        };
        all.get(piece.offset..piece.offset + piece.len)
    }
}

/// Computes a reduction, its inputs first, without recursion: chains may be long.
fn force(data: &Arc<Data>) -> &[u8] {
    let Data::Reduced(wanted) = &**data else { return &[] };
    if let Some(done) = wanted.result.get() {
        return done;
    }
    let mut stack = vec![Arc::clone(data)];
    while let Some(top) = stack.last().cloned() {
        let Data::Reduced(reduced) = &*top else { unreachable!("only reductions are stacked") };
        let mut pending: Vec<Arc<Data>> = Vec::new();
        for piece in reduced.inputs().iter().flat_map(|view| &view.0) {
            if piece.data.depth() > 0 && !pending.iter().any(|known| Arc::ptr_eq(known, &piece.data)) {
                pending.push(Arc::clone(&piece.data));
            }
        }
        if pending.is_empty() {
            reduced.compute();
            stack.pop();
        } else {
            stack.append(&mut pending);
        }
    }
    wanted.compute()
}

/// Drops views without recursing into the inputs of inputs.
fn release(views: Vec<View>) {
    let mut waiting: Vec<Piece> = views.into_iter().flat_map(|view| view.0).collect();
    while let Some(piece) = waiting.pop() {
        if let Some(Data::Reduced(reduced)) = Arc::into_inner(piece.data) {
            waiting.extend(reduced.take_inputs().into_iter().flat_map(|view| view.0));
        }
    }
}

impl Drop for Reduced {
    fn drop(&mut self) {
        release(self.take_inputs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(inputs: Vec<View>) -> View {
        View::reduced(Dtype::U8, Operation::Sum, inputs)
    }

    #[test]
    fn a_reduction_of_mixed_pieces_is_computed_on_reading() {
        let halves = View(vec![View::of(&[1, 2]).0[0].clone(), View::fill([9, 0, 0, 0], 1, 2).0[0].clone()]);
        assert_eq!(sum(vec![halves, View::of(&[1, 1, 1, 1])]).bytes(), [2, 3, 10, 10]);
    }

    #[test]
    fn long_unread_chains_neither_overflow_the_stack_nor_lose_a_step() {
        let mut view = View::of(&[1]);
        for _ in 0..100_000 {
            view = sum(vec![view, View::of(&[1])]);
        }
        let kept = view.clone();
        drop(view);
        assert_eq!(kept.bytes(), [((100_000_u32 + 1) % 256) as u8]);
        let mut dropped = View::of(&[1]);
        for _ in 0..50_000 {
            dropped = sum(vec![dropped.clone(), dropped]);
        }
    }

    #[test]
    fn sixteen_bit_patterns_keep_their_phase_in_a_part() {
        let fill = View::fill([1, 2, 0, 0], 2, 6);
        let part = View(vec![Piece { offset: 1, len: 3, ..fill.0[0].clone() }]);
        assert_eq!(part.bytes(), [2, 1, 2]);
    }
}
