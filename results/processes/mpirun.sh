#!/usr/bin/env bash
# Two GPUs of one machine as two hosts: `mpirun -np 2`, an agent with one GPU each, NCCL_HOSTID differing, so that NCCL takes
# its network path (NET/Socket) between them. Beside it the same two agents as one host, and one process with both GPUs.
#
#   results/processes/mpirun.sh OUT [BOX]
#
# OUT is the folder for the runs; BOX rehearses on an emulated box (2xh200-nvlink). Needs a built ncclsweep (NCCLSWEEP names
# it, default target/release/ncclsweep) and Open MPI (MPIRUN names it, default mpirun). Where there is no mpirun the agents
# are started with RANK and WORLD_SIZE instead, and the folder's `launcher` says so. NCCL_VERSION etc. are in each run.json.
set -euo pipefail
out=${1:?folder for the runs}
box=${2:-}
sweep=${NCCLSWEEP:-target/release/ncclsweep}
mpirun=${MPIRUN:-mpirun}
mkdir -p "$out"
NCCLSWEEP_TOKEN=$(head -c 32 /dev/urandom | base64)
export NCCLSWEEP_TOKEN

# NVLS is left out under every set: it needs rights that containers do not give (results/README.md).
common=(--sizes 7168x1..4 --modes graph,stream,sync --rounds 5 --communicators 3 --seed 1 --base NCCL_NVLS_ENABLE=0 --why
    --set ll:NCCL_PROTO=LL --set simple:NCCL_PROTO=Simple --set threads4:NCCL_SOCKET_NTHREADS=4,NCCL_NSOCKS_PERTHREAD=2)
[ -z "$box" ] || common+=(--emulate="$box")

# Two agents with these arguments.
agents() {
    if command -v "$mpirun" >/dev/null; then
        echo "mpirun" >"$out/launcher"
        "$mpirun" --allow-run-as-root --oversubscribe --bind-to none -np 2 -x NCCLSWEEP_TOKEN "$sweep" "$@"
        return
    fi
    echo "RANK and WORLD_SIZE: there was no mpirun" >"$out/launcher"
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400
    RANK=1 LOCAL_RANK=1 "$sweep" "$@" &
    local other=$! code=0
    RANK=0 LOCAL_RANK=0 "$sweep" "$@" || code=$?
    wait "$other" || true
    return "$code"
}

# 5 is undecided, 1 a gate: figures all the same.
passes() { "$@" || case $? in 1 | 5) ;; *) exit 1 ;; esac; }

# As two hosts.
passes agents "${common[@]}" --gpus 1 --apart --out "$out/two-hosts" >"$out/two-hosts.txt"
# The same agents, as the one host that they are: P2P between processes.
passes agents "${common[@]}" --gpus 1 --out "$out/one-host" >"$out/one-host.txt"
# One process.
passes "$sweep" "${common[@]}" --gpus 2 --out "$out/alone" >"$out/alone.txt"
grep -hoE 'via (NET|P2P|SHM)/[A-Za-z/ ]+' "$out"/*.txt | sort | uniq -c || true
