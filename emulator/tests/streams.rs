//! Streams, captures, copies and point-to-point calls by the C API.

mod support;

use std::ptr::null_mut;

use support::*;

const CAPTURE_UNSUPPORTED: u32 = 900;
const CAPTURE_INVALIDATED: u32 = 901;
const INVALID_HANDLE: u32 = 400;

fn code(call: impl FnOnce() -> u32) -> u32 {
    call()
}

#[test]
fn a_check_graph_restores_inputs_and_fills_many_outputs() {
    let right = with_comm(4, 4096, |rank, barrier| {
        let (mut pristine, mut outputs) = (0, 0);
        ok!(cuMemAlloc_v2(&raw mut pristine, rank.len));
        ok!(cuMemAlloc_v2(&raw mut outputs, rank.len * 5));
        ok!(cuMemcpyHtoD_v2(pristine, input(rank.rank, rank.len).as_ptr().cast(), rank.len));
        ok!(cuMemsetD8Async(rank.send, 0xFF, rank.len, rank.stream));
        let (mut graph, mut exec) = (null_mut(), null_mut());
        ok!(cuStreamBeginCapture_v2(rank.stream, 1));
        for k in 0..5 {
            ok!(cuMemcpyDtoDAsync_v2(rank.send, pristine, rank.len, rank.stream));
            let to = outputs + (k * rank.len) as u64;
            ok!(ncclAllReduce(rank.send, to, rank.len / 2, BF16, SUM, rank.comm, rank.stream));
        }
        ok!(cuStreamEndCapture(rank.stream, &raw mut graph));
        ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
        barrier.wait();
        ok!(cuGraphLaunch(exec, rank.stream));
        let mut back = vec![0_u8; rank.len * 5];
        ok!(cuMemcpyDtoHAsync_v2(back.as_mut_ptr().cast(), outputs, back.len(), rank.stream));
        rank.wait();
        rank.destroy_graph((graph, exec));
        back == sum(4).repeat(back.len() / 2)
    });
    assert_eq!(right, [true; 4]);
}

#[test]
fn in_place_reductions_add_up_replay_after_replay() {
    let values = with_comm(2, 512, |rank, barrier| {
        let (mut graph, mut exec) = (null_mut(), null_mut());
        ok!(cuStreamBeginCapture_v2(rank.stream, 1));
        for _ in 0..3 {
            ok!(ncclAllReduce(rank.send, rank.send, rank.len / 2, BF16, SUM, rank.comm, rank.stream));
        }
        ok!(cuStreamEndCapture(rank.stream, &raw mut graph));
        ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
        barrier.wait();
        ok!(cuGraphLaunch(exec, rank.stream));
        ok!(cuGraphLaunch(exec, rank.stream));
        rank.wait();
        let value =
            f32::from_bits(u32::from(u16::from_le_bytes([rank.read(rank.send)[0], rank.read(rank.send)[1]])) << 16);
        rank.destroy_graph((graph, exec));
        value
    });
    // 1 + 2 = 3, then doubled five times.
    assert_eq!(values, [96.0; 2]);
}

#[test]
fn waiting_for_a_capturing_stream_is_refused_and_spoils_the_capture() {
    bind(0);
    let (mut stream, mut graph) = (null_mut(), null_mut());
    ok!(cuStreamCreate(&raw mut stream, 1));
    ok!(cuStreamBeginCapture_v2(stream, 1));
    // SAFETY: a valid stream and a pointer to a local.
    unsafe {
        assert_eq!(code(|| cuStreamSynchronize(stream)), CAPTURE_UNSUPPORTED);
        assert_eq!(code(|| cuStreamEndCapture(stream, &raw mut graph)), CAPTURE_INVALIDATED);
    }
    let mut address = 0;
    ok!(cuStreamBeginCapture_v2(stream, 1));
    // SAFETY: a pointer to a local.
    assert_eq!(unsafe { cuMemAlloc_v2(&raw mut address, 64) }, CAPTURE_UNSUPPORTED);
    // SAFETY: a valid stream and a pointer to a local.
    assert_eq!(unsafe { cuStreamEndCapture(stream, &raw mut graph) }, CAPTURE_INVALIDATED);
}

#[test]
fn destroyed_handles_are_refused() {
    bind(0);
    let (mut stream, mut event) = (null_mut(), null_mut());
    ok!(cuStreamCreate(&raw mut stream, 1));
    ok!(cuEventCreate(&raw mut event, 0));
    ok!(cuStreamDestroy_v2(stream));
    // SAFETY: handles of destroyed objects are what the calls have to refuse.
    unsafe {
        assert_eq!(code(|| cuStreamSynchronize(stream)), INVALID_HANDLE);
        assert_eq!(code(|| cuGraphLaunch(event, null_handle())), INVALID_HANDLE);
        assert_eq!(code(|| cuEventRecord(event, stream)), INVALID_HANDLE);
    }
}

#[test]
fn a_communicator_ends_only_after_its_graphs() {
    assert_eq!(cuInit(0), 0);
    let id = unique_id();
    on_ranks(2, |rank, barrier| {
        let rank = Rank::new(id, rank, 2, 256);
        rank.all_reduce();
        rank.wait();
        barrier.wait();
        let graph = rank.graph(2);
        barrier.wait();
        let started = std::time::Instant::now();
        let comm = rank.comm as usize;
        let ending = std::thread::spawn(move || {
            ok!(ncclCommDestroy(comm as Handle));
            std::time::Instant::now()
        });
        std::thread::sleep(std::time::Duration::from_millis(60));
        let freed = std::time::Instant::now();
        rank.destroy_graph(graph);
        let ended = ending.join().expect("the destruction ends");
        assert!(ended >= freed && freed > started);
    });
}

#[test]
fn sends_and_receives_of_a_group_swap_buffers() {
    let right = with_comm(2, 1024, |rank, _| {
        let peer = 1 - rank.rank as i32;
        assert_eq!(ncclGroupStart(), 0);
        ok!(ncclSend(rank.send, rank.len / 2, BF16, peer, rank.comm, rank.stream));
        ok!(ncclRecv(rank.receive, rank.len / 2, BF16, peer, rank.comm, rank.stream));
        assert_eq!(ncclGroupEnd(), 0);
        rank.wait();
        rank.read(rank.receive) == input(peer as usize, rank.len)
    });
    assert_eq!(right, [true; 2]);
}

#[test]
fn a_one_way_send_of_a_pair_leaves_the_other_ranks_alone() {
    let right = with_comm(4, 1024, |rank, _| {
        match rank.rank {
            1 => ok!(ncclSend(rank.send, rank.len / 2, BF16, 3, rank.comm, rank.stream)),
            3 => ok!(ncclRecv(rank.receive, rank.len / 2, BF16, 1, rank.comm, rank.stream)),
            _ => (),
        }
        rank.wait();
        rank.rank != 3 || rank.read(rank.receive) == input(1, rank.len)
    });
    assert_eq!(right, [true; 4]);
}

#[test]
fn one_thread_makes_all_ranks_within_a_group() {
    assert_eq!(cuInit(0), 0);
    let id = unique_id();
    let mut comms = [null_mut(); 3];
    assert_eq!(ncclGroupStart(), 0);
    for (rank, comm) in comms.iter_mut().enumerate() {
        bind(rank);
        ok!(ncclCommInitRank(comm, 3, id, rank as i32));
    }
    assert_eq!(ncclGroupEnd(), 0);
    for comm in comms {
        assert!(!comm.is_null());
        ok!(ncclCommDestroy(comm));
    }
}

#[test]
fn aborting_frees_a_rank_that_waits_for_one_that_never_comes() {
    assert_eq!(cuInit(0), 0);
    let id = unique_id();
    let ranks: Vec<Rank> = on_ranks(2, |rank, _| {
        let rank = Rank::new(id, rank, 2, 256);
        if rank.rank == 0 {
            rank.all_reduce();
        }
        [rank.comm as usize, rank.stream as usize, rank.rank]
    })
    .into_iter()
    .map(|[comm, stream, rank]| Rank {
        rank,
        ranks: 2,
        comm: comm as Handle,
        stream: stream as Handle,
        send: 0,
        receive: 0,
        len: 0,
    })
    .collect();
    bind(0);
    // SAFETY: a valid stream.
    assert_eq!(unsafe { cuStreamQuery(ranks[0].stream) }, 600, "not ready");
    ok!(ncclCommAbort(ranks[0].comm));
    ranks[0].wait();
    ok!(ncclCommAbort(ranks[1].comm));
}
