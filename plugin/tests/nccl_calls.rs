//! Calls the plugin as each generation of NCCL does: by the function pointers of its tables, from the threads of the ranks.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use nccl_profiler_ncclsweep::abi;
use nccl_profiler_ncclsweep::exports::{ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4};
use nccl_profiler_ncclsweep::recorder::{self, Api, Channels, Collective};

const COLLECTIVE: c_int = abi::ncclProfileColl.cast_signed();

/// The recorder is one per process, so the tests take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    recorder::set_mask(false);
    let _ = recorder::take();
    turn
}

/// What a rank of some NCCL keeps of the plugin.
struct Rank {
    version: u8,
    context: *mut c_void,
    rank: c_int,
}

/// NCCL's mask is one variable of the process; each init is given its address.
static MASK: AtomicI32 = AtomicI32::new(0);

impl Rank {
    fn init(version: u8, rank: c_int) -> Self {
        let mut context = null_mut();
        let mask = MASK.as_ptr();
        // SAFETY: the calls NCCL makes, with places that live during the call and a mask that lives forever.
        let result = unsafe {
            match version {
                1 => ncclProfiler_v1.0.init.unwrap()(&mut context, mask),
                2 => ncclProfiler_v2.0.init.unwrap()(&mut context, mask),
                3 => ncclProfiler_v3.0.init.unwrap()(&mut context, mask),
                _ => ncclProfiler_v4.0.init.unwrap()(&mut context, mask, c"tp".as_ptr(), 0xabcd, 1, 8, rank, None),
            }
        };
        assert_eq!(result, 0);
        assert!(!context.is_null(), "later versions skip finalize for a NULL context");
        Self { version, context, rank }
    }

    /// An all-reduce of 7168 bf16 as NCCL announces it: nothing while the mask is off, and nothing without a group handle.
    fn all_reduce(&self) {
        if MASK.load(Ordering::Relaxed) & COLLECTIVE == 0 {
            return;
        }
        let group = self.start(abi::ncclProfileGroup);
        assert!(!group.is_null(), "up to NCCL 2.27 a group without handle has no collectives");
        let collective = self.start(abi::ncclProfileColl);
        for handle in [collective, null_mut(), group] {
            self.stop(handle);
        }
    }

    fn start(&self, kind: u32) -> *mut c_void {
        let mut handle = null_mut();
        let kind = u8::try_from(kind).unwrap();
        let (context, rank) = (self.context, self.rank);
        /// Fills the descriptor of one version and hands it over.
        macro_rules! start {
            ($table:ident, $descriptor:ident, { $($field:ident: $value:expr),* }) => {{
                // SAFETY: all zeros is a descriptor with NULL strings.
                let mut descriptor: abi::$descriptor = unsafe { zeroed() };
                descriptor.type_ = kind;
                if u32::from(kind) == abi::ncclProfileColl {
                    descriptor.rank = rank;
                    // SAFETY: as above.
                    descriptor.event.coll = unsafe { zeroed() };
                    // SAFETY: the union holds a collective, since the line before.
                    let coll = unsafe { &mut descriptor.event.coll };
                    coll.count = 7168;
                    coll.nWarps = 16;
                    $(coll.$field = $value;)*
                }
                // SAFETY: the call NCCL makes.
                unsafe { $table.0.startEvent.unwrap()(context, &mut handle, &mut descriptor) }
            }};
        }
        let result = match self.version {
            1 => start!(ncclProfiler_v1, ncclProfilerEventDescr_v1_t, {
                name: c"tp".as_ptr(), commHash: 0xabcd, seqNumber: 3, func: 4, datatype: 9, algo: 1, proto: 0, nMaxChannels: 8
            }),
            2 => start!(ncclProfiler_v2, ncclProfilerEventDescr_v2_t, {
                name: c"tp".as_ptr(), commHash: 0xabcd, seqNumber: 3, func: c"AllReduce".as_ptr(),
                datatype: c"ncclBfloat16".as_ptr(), algo: c"RING".as_ptr(), proto: c"LL".as_ptr(), nMaxChannels: 8
            }),
            3 => start!(ncclProfiler_v3, ncclProfilerEventDescr_v3_t, {
                name: c"tp".as_ptr(), commHash: 0xabcd, seqNumber: 3, func: c"AllReduce".as_ptr(),
                datatype: c"ncclBfloat16".as_ptr(), algo: c"RING".as_ptr(), proto: c"LL".as_ptr(), nMaxChannels: 8
            }),
            _ => start!(ncclProfiler_v4, ncclProfilerEventDescr_v4_t, {
                seqNumber: 3, func: c"AllReduce".as_ptr(), datatype: c"ncclBfloat16".as_ptr(), algo: c"RING".as_ptr(),
                proto: c"LL".as_ptr(), nChannels: 1
            }),
        };
        assert_eq!(result, 0);
        handle
    }

    fn stop(&self, handle: *mut c_void) {
        let stop = match self.version {
            1 => ncclProfiler_v1.0.stopEvent,
            2 => ncclProfiler_v2.0.stopEvent,
            3 => ncclProfiler_v3.0.stopEvent,
            _ => ncclProfiler_v4.0.stopEvent,
        };
        // SAFETY: a handle of the plugin's, or NULL as NCCL 2.23 may pass.
        assert_eq!(unsafe { stop.unwrap()(handle) }, 0);
    }

    fn finalize(self) {
        // SAFETY: the context of this rank, once.
        assert_eq!(unsafe { ncclProfiler_v4.0.finalize.unwrap()(self.context) }, 0);
    }
}

/// One all-reduce on each of two ranks, with the mask on.
fn recorded(version: u8) -> Vec<Collective> {
    let ranks = [Rank::init(version, 0), Rank::init(version, 1)];
    recorder::set_mask(true);
    ranks.iter().for_each(Rank::all_reduce);
    recorder::set_mask(false);
    ranks.iter().for_each(Rank::all_reduce);
    ranks.into_iter().for_each(Rank::finalize);
    let recording = recorder::take();
    assert_eq!(recording.dropped, 0);
    recording.collectives
}

#[test]
fn each_version_tells_the_same_collective() {
    let _alone = alone();
    for (version, api) in [(1, Api::V1), (2, Api::V2), (3, Api::V3), (4, Api::V4)] {
        let collectives = recorded(version);
        assert_eq!(collectives.len(), 2, "version {version}");
        for (rank, collective) in (0..).zip(&collectives) {
            assert_eq!((collective.api, collective.rank, collective.sequence), (api, rank, 3));
            assert_eq!(collective.function, "AllReduce");
            assert_eq!((collective.algorithm.as_str(), collective.protocol.as_str()), ("RING", "LL"));
            assert_eq!((collective.count, collective.bytes), (7168, Some(14_336)));
            assert_eq!((collective.warps, collective.threads()), (16, 512));
            assert_eq!((collective.communicator.hash, collective.communicator.name.as_str()), (0xabcd, "tp"));
        }
        assert_ne!(collectives[0].communicator.id, collectives[1].communicator.id);
    }
}

#[test]
fn only_version_4_tells_the_channels_used() {
    let _alone = alone();
    assert_eq!(recorded(3)[0].channels, Some(Channels::AtMost(8)));
    assert_eq!(recorded(4)[0].channels, Some(Channels::Used(1)));
    assert_eq!(recorded(4)[0].communicator.ranks, Some(8));
}

#[test]
fn the_mask_is_off_until_it_is_switched_and_holds_for_communicators_to_come() {
    let _alone = alone();
    MASK.store(-1, Ordering::Relaxed);
    let early = Rank::init(4, 0);
    assert_eq!(MASK.load(Ordering::Relaxed), 0);
    recorder::set_mask(true);
    assert_eq!(MASK.load(Ordering::Relaxed) & COLLECTIVE, COLLECTIVE);
    MASK.store(0, Ordering::Relaxed);
    let late = Rank::init(4, 1);
    assert_eq!(MASK.load(Ordering::Relaxed) & COLLECTIVE, COLLECTIVE);
    recorder::set_mask(false);
    assert_eq!(MASK.load(Ordering::Relaxed), 0);
    early.finalize();
    late.finalize();
}

#[test]
fn a_collective_under_way_while_the_mask_goes_off_is_not_kept() {
    let _alone = alone();
    let rank = Rank::init(4, 0);
    rank.start(abi::ncclProfileColl);
    assert_eq!(recorder::take().collectives, []);
    rank.finalize();
}

#[test]
fn ranks_of_many_threads_and_communicators_lose_nothing() {
    const RANKS: c_int = 8;
    const COMMUNICATORS: usize = 6;
    let _alone = alone();
    recorder::set_mask(true);
    let barrier = Barrier::new(RANKS as usize);
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let barrier = &barrier;
            scope.spawn(move || {
                for _ in 0..COMMUNICATORS {
                    let me = Rank::init(4, rank);
                    barrier.wait();
                    (0..10).for_each(|_| me.all_reduce());
                    barrier.wait();
                    me.finalize();
                }
            });
        }
    });
    recorder::set_mask(false);
    let recording = recorder::take();
    assert_eq!((recording.collectives.len(), recording.dropped), (RANKS as usize * COMMUNICATORS * 10, 0));
    for rank in 0..RANKS {
        assert_eq!(recording.collectives.iter().filter(|c| c.rank == rank).count(), COMMUNICATORS * 10);
    }
    assert_eq!(recorder::attached(), 0);
}

#[test]
fn what_does_not_fit_is_counted() {
    let _alone = alone();
    let rank = Rank::init(4, 0);
    recorder::set_mask(true);
    (0..recorder::CAPACITY + 5).for_each(|_| rank.all_reduce());
    recorder::set_mask(false);
    rank.finalize();
    let recording = recorder::take();
    assert_eq!((recording.collectives.len(), recording.dropped), (recorder::CAPACITY, 5));
}

#[test]
fn attached_ranks_and_their_interface_are_known_while_they_live() {
    let _alone = alone();
    assert_eq!((recorder::attached(), recorder::api()), (0, None));
    let ranks = [Rank::init(2, 0), Rank::init(2, 1)];
    assert_eq!((recorder::attached(), recorder::api()), (2, Some(Api::V2)));
    ranks.into_iter().for_each(Rank::finalize);
    assert_eq!((recorder::attached(), recorder::api()), (0, None));
}

#[test]
fn events_of_other_types_and_missing_arguments_are_accepted() {
    let _alone = alone();
    let rank = Rank::init(3, 0);
    recorder::set_mask(true);
    for kind in [abi::ncclProfileP2p, abi::ncclProfileProxyCtrl, abi::ncclProfileNetPlugin, 0, 255] {
        assert!(rank.start(kind).is_null());
    }
    let table = &ncclProfiler_v3.0;
    // SAFETY: what a later NCCL could pass: no descriptor, no place for a handle, a context that is none.
    unsafe {
        assert_eq!(table.startEvent.unwrap()(rank.context, null_mut(), null_mut()), 0);
        assert_eq!(table.recordEventState.unwrap()(null_mut(), 99, null_mut()), 0);
        assert_eq!(table.init.unwrap()(null_mut(), null_mut()), 0);
        assert_eq!(table.finalize.unwrap()(null_mut()), 0);
        assert_eq!(table.finalize.unwrap()(null::<c_void>().wrapping_byte_add(1 << 40).cast_mut()), 0);
    }
    recorder::set_mask(false);
    assert_eq!(recorder::take().collectives, []);
    assert_eq!(recorder::attached(), 1);
    rank.finalize();
}
