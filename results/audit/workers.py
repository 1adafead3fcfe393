"""Two workers of torch.distributed, spawned as a server spawns them, each all-reducing on GPU 0.

Cases: `environment` (settings come with the environment, or from a file of NCCL's), `parent` (the parent is rank 0 and sets
variables in os.environ after its NCCL has begun), `one` (one worker sets a variable in its own os.environ).
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

SIZES = [7168, 14336, 28672]
CALLS = 20
CAPTURED = 5
SETTING = os.environ.get("TEST_SETTING", "NCCL_PROTO=LL")


def set_in_process(settings):
    for setting in settings.split():
        name, value = setting.split("=", 1)
        os.environ[name] = value


def reduce(rank, graph):
    """Every call's result is checked: rank 0 gives 1, rank 1 gives 2."""
    device = torch.device("cuda", 0)
    for size in SIZES:
        for _ in range(CALLS):
            data = torch.full((size,), rank + 1.0, dtype=torch.bfloat16, device=device)
            dist.all_reduce(data)
            torch.cuda.synchronize()
            assert torch.all(data == 3).item(), f"rank {rank}: wrong data"
    if graph:
        data = torch.full((SIZES[0],), 1.0, dtype=torch.bfloat16, device=device)
        dist.barrier()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, capture_error_mode="thread_local"):
            for _ in range(CAPTURED):
                dist.all_reduce(data)
        dist.barrier()
        data.fill_(1.0)
        torch.cuda.synchronize()
        dist.barrier()
        captured.replay()
        torch.cuda.synchronize()
        assert torch.all(data == 2.0**CAPTURED).item(), f"rank {rank}: wrong data of the graph"
        dist.barrier()
        # Another replay: the plugin must not see it.
        captured.replay()
        torch.cuda.synchronize()
        dist.barrier()
        del captured


def join(rank, store, graph):
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=2)
    reduce(rank, graph)
    print(f"rank {rank}: pid {os.getpid()}, NCCL {torch.cuda.nccl.version()}, done", flush=True)
    dist.destroy_process_group()


def worker(rank, store, graph, setting):
    if setting:
        set_in_process(setting)
    join(rank, store, graph)


def main(case, graph):
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        if case == "parent":
            # A communicator of one rank: from here on NCCL has read most of its variables in this process.
            torch.cuda.set_device(0)
            dist.init_process_group("nccl", init_method=f"file://{folder}/first", rank=0, world_size=1)
            dist.all_reduce(torch.ones(8, device="cuda:0"))
            torch.cuda.synchronize()
            dist.destroy_process_group()
            set_in_process(SETTING)
            other = spawn.Process(target=worker, args=(1, store, graph, None))
            other.start()
            join(0, store, graph)
            processes = [other]
        else:
            own = [None, SETTING if case == "one" else None]
            processes = [spawn.Process(target=worker, args=(rank, store, graph, own[rank])) for rank in range(2)]
            for process in processes:
                process.start()
        for process in processes:
            process.join()
        codes = [process.exitcode for process in processes]
        if any(codes):
            sys.exit(f"workers ended with {codes}")


if __name__ == "__main__":
    main(sys.argv[1], "graph" in sys.argv[2:])
