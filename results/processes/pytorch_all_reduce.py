#!/usr/bin/env python3
"""Latency of torch.distributed's all_reduce with a spawned worker per GPU: which of threads and processes does a server see?

Modes as ncclsweep's: `stream` (calls back to back between two CUDA events, divided by their number), `graph` (a replay of a
CUDA graph of chained calls between two events, divided by their number), `sync` (one call, then a stream synchronise, on the
host's clock). A sample is the maximum over the ranks. PyTorch reduces in place, so it is held against `--in-place=true`.
Prints CSV: mode, size_bytes, communicator, samples, median_us, min_us.
"""

import argparse
import contextlib
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def settle(call, stream):
    """Calls until the median of five batches lies within 2% of the five before, 600 calls at most."""
    looks = []
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(60):
        start.record(stream)
        for _ in range(10):
            call()
        end.record(stream)
        stream.synchronize()
        looks.append(start.elapsed_time(end))
        settled = len(looks) >= 10 and abs(
            statistics.median(looks[-5:]) / statistics.median(looks[-10:-5]) - 1
        ) < 0.02
        # Rank 0 decides, or one rank would wait for calls that another no longer makes.
        flag = torch.tensor([int(settled)], device=start_device())
        dist.broadcast(flag, 0)
        if flag.item():
            return


def start_device():
    return torch.device("cuda", torch.cuda.current_device())


def between(marks, calls):
    return [a.elapsed_time(b) * 1e3 / calls for a, b in zip(marks, marks[1:])]


def stream_samples(call, stream, args):
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(args.samples // 2 + 1)]
    for mark in marks:
        for _ in range(args.chain):
            call()
        mark.record(stream)
    stream.synchronize()
    return between(marks, args.chain)


def graph_samples(call, stream, args):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(args.chain):
            call()
    dist.barrier()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(args.samples + 1)]
    with torch.cuda.stream(stream):
        for mark in marks:
            graph.replay()
            mark.record(stream)
    stream.synchronize()
    samples = between(marks, args.chain)
    del graph
    return samples


def sync_samples(call, stream, args):
    micros = []
    for _ in range(args.samples * 10):
        # A barrier of NCCL between lone calls: PyTorch has no other that is as quick. Its skew is inside the samples.
        dist.barrier()
        torch.cuda.synchronize()
        begun = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        call()
        stream.synchronize()
        micros.append((time.clock_gettime(time.CLOCK_MONOTONIC_RAW) - begun) * 1e6)
    return micros


MODES = {"stream": stream_samples, "graph": graph_samples, "sync": sync_samples}


def worker(rank, args, ports):
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE=str(args.ranks))
    device = torch.device("cuda", rank % args.gpus)
    torch.cuda.set_device(device)
    for communicator, port in enumerate(ports):
        # A store of its own for each: a rank that is ahead would find the old one, which is about to close.
        os.environ["MASTER_PORT"] = str(port)
        dist.init_process_group("nccl", rank=rank, world_size=args.ranks, device_id=device)
        stream = torch.cuda.Stream()
        for tokens in args.tokens:
            # Zeros stay zeros however often they are summed in place.
            tensor = torch.zeros(args.hidden * tokens, dtype=torch.bfloat16, device="cuda")
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):

                def call():
                    dist.all_reduce(tensor)

                call()
                stream.synchronize()
                settle(call, stream)
                for mode in args.modes:
                    dist.barrier()
                    torch.cuda.synchronize()
                    report(rank, args, mode, tensor.nbytes, communicator, MODES[mode](call, stream, args))
        dist.destroy_process_group()


def report(rank, args, mode, size, communicator, samples):
    gathered = [None] * args.ranks
    dist.all_gather_object(gathered, samples)
    if rank == 0:
        slowest = [max(of_all) for of_all in zip(*gathered)]
        row = (mode, size, communicator, len(slowest), f"{statistics.median(slowest):.3f}", f"{min(slowest):.3f}")
        print(*row, sep=",", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--ranks", type=int, help="more than GPUs: rank r runs on GPU r mod GPUs")
    parser.add_argument("--hidden", type=int, default=7168)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--communicators", type=int, default=6)
    parser.add_argument("--chain", type=int, default=50)
    parser.add_argument("--samples", type=int, default=20)
    args = parser.parse_args()
    args.ranks = args.ranks or args.gpus
    version = ".".join(map(str, torch.cuda.nccl.version()))
    print(f"# PyTorch {torch.__version__}, NCCL {version}, {torch.cuda.get_device_name(0)}", file=sys.stderr)
    print("mode,size_bytes,communicator,samples,median_us,min_us", flush=True)
    mp.spawn(worker, args=(args, free_ports(args.communicators)), nprocs=args.ranks)


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


if __name__ == "__main__":
    main()
