//! What the ranks of a visit share: one block of words, on the heap where they are threads of this process, mapped from a
//! descriptor of the supervisor where each rank is a process.
//!
//! Every word is atomic, so that a rank that is gone in the middle of a write leaves nothing undefined to the others. Order
//! comes from the barrier: who reads what another has written met it in between.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::gpu::communicator::UniqueId;
use crate::plan::schedule::Measure;
use crate::record::visit::{Checks, Doing};
use crate::wire::Job;

/// Words of a cache line: what different ranks write at once does not share one.
const LINE: usize = 8;
/// The word of a rank that tells whether it has stored anything that other hosts do not have.
const STORED: usize = 1;
/// Words of a unique id.
const ID: usize = 16;
/// Words for the first wrong element of a rank, as text.
const ELEMENT: usize = 64;
/// Words of what a rank's checks found: outputs, wrong ones, length of the text, the text.
const CHECKS: usize = 3 + ELEMENT;

/// Words that the first rank's host tells the others at every barrier: where the team is, whether the warm-up has settled, the id.
pub(super) const HEAD: usize = 2 + ID;

/// The block.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    words: &'static [AtomicU64],
    ranks: usize,
    samples: usize,
}

/// Places of the parts, in words.
struct Layout;

impl Layout {
    const BARRIER: usize = 0;
    const AT: usize = LINE;
    const SETTLED: usize = 2 * LINE;
    const ID: usize = 3 * LINE;
    const RANKS: usize = Self::ID + ID;

    /// Words of one rank: what it is doing and whether it has stored anything, its checks, its samples, up to the next line.
    const fn of_rank(samples: usize) -> usize {
        (LINE + CHECKS + 1 + samples).next_multiple_of(LINE)
    }
}

impl Shared {
    /// On the heap, for ranks that are threads.
    pub(super) fn here(job: &Job) -> Self {
        let (ranks, samples) = size(job);
        let words = (0..total(ranks, samples)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        // It lives as long as the worker, which ends without destructors.
        Self { words: words.leak(), ranks, samples }
    }

    /// Mapped from `memory`, which the processes of all ranks have.
    pub(super) fn mapped(job: &Job, memory: OwnedFd) -> std::io::Result<Self> {
        let (ranks, samples) = size(job);
        let words = total(ranks, samples);
        let bytes = words * size_of::<AtomicU64>();
        // Every rank asks for the same length, and what is new is zero: it does not matter who is first.
        nix::unistd::ftruncate(&memory, bytes as i64)?;
        let length = std::num::NonZeroUsize::new(bytes).expect("there is a header");
        let access = nix::sys::mman::ProtFlags::PROT_READ | nix::sys::mman::ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice, of a file of at least this length.
        let start =
            unsafe { nix::sys::mman::mmap(None, length, access, nix::sys::mman::MapFlags::MAP_SHARED, &memory, 0) }?;
        // SAFETY: mapped readable and writable for `words` aligned words that are never unmapped; other processes touch them
        // through atomics only, as here.
        let words = unsafe { std::slice::from_raw_parts(start.as_ptr().cast::<AtomicU64>(), words) };
        Ok(Self { words, ranks, samples })
    }

    /// Parties that wait, and how often all have met.
    pub(super) fn barrier(&self) -> [&'static AtomicU64; 2] {
        [&self.words[Layout::BARRIER], &self.words[Layout::BARRIER + 1]]
    }

    /// Where the team is, packed by its owner.
    pub(super) fn at(&self) -> &'static AtomicU64 {
        &self.words[Layout::AT]
    }

    /// Whether the warm-up has settled.
    pub(super) fn settled(&self) -> &'static AtomicU64 {
        &self.words[Layout::SETTLED]
    }

    fn rank(&self, rank: u32) -> &'static [AtomicU64] {
        let words = Layout::of_rank(self.samples);
        &self.words[Layout::RANKS + rank as usize * words..][..words]
    }

    pub(super) fn note(&self, rank: u32, doing: Doing) {
        self.rank(rank)[0].store(doing as u64, Ordering::Relaxed);
    }

    /// What all ranks are doing; one that has not started is starting.
    pub(super) fn doing(&self) -> impl Iterator<Item = Doing> + '_ {
        (0..self.ranks as u32).map(|rank| {
            let number = self.rank(rank)[0].load(Ordering::Relaxed) as usize;
            Doing::ALL.get(number).copied().unwrap_or(Doing::Start)
        })
    }

    pub(super) fn store_id(&self, id: UniqueId) {
        put_bytes(&self.words[Layout::ID..][..ID], &Vec::from(id));
    }

    pub(super) fn id(&self) -> UniqueId {
        let bytes = bytes(&self.words[Layout::ID..][..ID], ID * size_of::<u64>());
        UniqueId::try_from(bytes).expect("an id has as many bytes as are kept")
    }

    /// What the host of rank 0 tells the others.
    pub(super) fn head(&self) -> [u64; HEAD] {
        let mut head = [0; HEAD];
        let words = [self.at(), self.settled()].into_iter().chain(&self.words[Layout::ID..][..ID]);
        head.iter_mut().zip(words).for_each(|(word, from)| *word = from.load(Ordering::Relaxed));
        head
    }

    /// Takes what the host of rank 0 told.
    pub(super) fn set_head(&self, head: &[u64; HEAD]) {
        let words = [self.at(), self.settled()].into_iter().chain(&self.words[Layout::ID..][..ID]);
        words.zip(head).for_each(|(word, told)| word.store(*told, Ordering::Relaxed));
    }

    /// What these ranks have stored since it was last taken: the number of a rank, its checks and samples, the next rank's.
    pub(super) fn take_stored(&self, ranks: Range<u32>) -> Vec<u64> {
        let stored = ranks.filter(|rank| self.rank(*rank)[STORED].swap(0, Ordering::Relaxed) != 0);
        let parts = stored.flat_map(|rank| {
            let words = self.rank(rank)[LINE..].iter().map(|word| word.load(Ordering::Relaxed));
            std::iter::once(u64::from(rank)).chain(words)
        });
        parts.collect()
    }

    /// Takes what ranks of another host have stored; false when it is not that.
    pub(super) fn put_stored(&self, told: &[u64], here: &Range<u32>) -> bool {
        let part = 1 + Layout::of_rank(self.samples) - LINE;
        let ranks = told.chunks(part).map(|part| u32::try_from(part[0]).unwrap_or(u32::MAX));
        if !told.len().is_multiple_of(part) || !ranks.clone().all(|r| (r as usize) < self.ranks && !here.contains(&r)) {
            return false;
        }
        for (rank, part) in ranks.zip(told.chunks(part)) {
            let words = self.rank(rank)[LINE..].iter().zip(&part[1..]);
            words.for_each(|(word, told)| word.store(*told, Ordering::Relaxed));
        }
        true
    }

    /// The most words that [`take_stored`](Self::take_stored) gives for all ranks.
    pub(super) fn most_stored(&self) -> usize {
        self.ranks * (1 + Layout::of_rank(self.samples) - LINE)
    }

    /// Stores the samples of a region.
    pub(super) fn store_samples(&self, rank: u32, samples: &[f64]) {
        self.rank(rank)[STORED].store(1, Ordering::Relaxed);
        let words = &self.rank(rank)[LINE + CHECKS..];
        words[0].store(samples.len() as u64, Ordering::Relaxed);
        for (word, sample) in words[1..].iter().zip(samples) {
            word.store(sample.to_bits(), Ordering::Relaxed);
        }
    }

    /// The samples of a region, each the maximum over the ranks.
    pub(super) fn slowest(&self) -> Vec<f64> {
        let of_rank = |rank: u32| {
            let words = &self.rank(rank)[LINE + CHECKS..];
            let length = (words[0].load(Ordering::Relaxed) as usize).min(self.samples);
            words[1..][..length].iter().map(|word| f64::from_bits(word.load(Ordering::Relaxed)))
        };
        let mut slowest: Vec<f64> = of_rank(0).collect();
        for rank in 1..self.ranks as u32 {
            slowest.iter_mut().zip(of_rank(rank)).for_each(|(most, sample)| *most = most.max(sample));
        }
        slowest
    }

    /// Stores what a rank's checks found.
    pub(super) fn store_checks(&self, rank: u32, checks: &Checks) {
        self.rank(rank)[STORED].store(1, Ordering::Relaxed);
        let words = &self.rank(rank)[LINE..][..CHECKS];
        words[0].store(checks.outputs, Ordering::Relaxed);
        words[1].store(checks.wrong, Ordering::Relaxed);
        let text = checks.first_wrong.as_ref().and_then(|wrong| serde_json::to_vec(wrong).ok()).unwrap_or_default();
        words[2].store(text.len() as u64, Ordering::Relaxed);
        put_bytes(&words[3..], &text);
    }

    /// The sum of what all ranks' checks found.
    pub(super) fn all_checks(&self) -> Checks {
        let mut all = Checks::default();
        for rank in 0..self.ranks as u32 {
            let words = &self.rank(rank)[LINE..][..CHECKS];
            let text = bytes(&words[3..], words[2].load(Ordering::Relaxed) as usize);
            let (outputs, wrong) = (words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed));
            all.add(Checks { outputs, wrong, first_wrong: serde_json::from_slice(&text).ok() });
        }
        all
    }
}

/// Ranks, and the samples of the region with most of them.
fn size(job: &Job) -> (usize, usize) {
    let Measure { replays, batches, calls, .. } = job.measure;
    (job.devices.len(), replays.max(batches).max(calls) as usize)
}

fn total(ranks: usize, samples: usize) -> usize {
    Layout::RANKS + ranks * Layout::of_rank(samples)
}

/// What does not fit is left out.
fn put_bytes(words: &[AtomicU64], bytes: &[u8]) {
    for (word, part) in words.iter().zip(bytes.chunks(size_of::<u64>())) {
        let mut whole = [0; size_of::<u64>()];
        whole[..part.len()].copy_from_slice(part);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}

fn bytes(words: &[AtomicU64], length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::record::visit::{Among, WrongElement};
    use crate::wire;

    fn job(ranks: usize) -> Job {
        let measure = Measure { calls: 3, ..Measure::default() };
        let (version, cases, devices) = (wire::VERSION, Vec::new(), (0..ranks as u32).collect());
        Job {
            version,
            cases,
            devices,
            cpus: Vec::new(),
            ranks: 0..1,
            host: 0..ranks as u32,
            links: Vec::new(),
            memory: None,
            communicators: 1,
            in_turn: 1,
            register: Default::default(),
            measure,
            salt: 0,
        }
    }

    fn memory() -> OwnedFd {
        nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap()
    }

    /// As two processes see it: two mappings of one file.
    fn twice(ranks: usize) -> [Shared; 2] {
        let memory = memory();
        [memory.as_fd().try_clone_to_owned().unwrap(), memory].map(|fd| Shared::mapped(&job(ranks), fd).unwrap())
    }

    #[test]
    fn what_one_mapping_stores_the_other_reads() {
        let [one, other] = twice(3);
        one.note(2, Doing::Synchronize);
        assert_eq!(other.doing().collect::<Vec<_>>(), [Doing::Start, Doing::Start, Doing::Synchronize]);
        let id = UniqueId::try_from((0..128).collect::<Vec<u8>>()).unwrap();
        one.store_id(id);
        assert_eq!(Vec::from(other.id()), Vec::from(id));
        one.barrier()[1].store(7, Ordering::Relaxed);
        assert_eq!(other.barrier()[1].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn samples_are_the_maximum_over_the_ranks_one_by_one() {
        for shared in [Shared::here(&job(3)), twice(3)[0]] {
            for (rank, samples) in [(0, [1.0, 9.0, 3.0]), (1, [2.0, 1.0, 3.5]), (2, [0.5, 1.0, 1.0])] {
                shared.store_samples(rank, &samples);
            }
            assert_eq!(shared.slowest(), [2.0, 9.0, 3.5]);
        }
    }

    #[test]
    fn checks_are_summed_and_the_first_wrong_element_is_kept_whole() {
        let [one, other] = twice(2);
        let (found, expected) = ("NaN".to_owned(), "-1.7976931348623157e308".to_owned());
        let (among, call, element) = (Among::Timed, u32::MAX, u64::MAX);
        let wrong = Box::new(WrongElement { rank: 1, among, call, element, found, expected });
        one.store_checks(0, &Checks { outputs: 51, wrong: 0, first_wrong: None });
        one.store_checks(1, &Checks { outputs: 51, wrong: 2, first_wrong: Some(wrong.clone()) });
        assert_eq!(other.all_checks(), Checks { outputs: 102, wrong: 2, first_wrong: Some(wrong) });
        one.store_checks(1, &Checks { outputs: 51, wrong: 0, first_wrong: None });
        assert_eq!(other.all_checks(), Checks { outputs: 102, wrong: 0, first_wrong: None });
    }
}
