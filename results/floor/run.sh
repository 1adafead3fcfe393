#!/bin/sh
# What an all-reduce costs at least on two GPUs: about 25 s. PROGRAM names the executable, NCCL a libnccl.so.2 of 2.30 or later (ranks share
# GPUs); results go to $1.
set -eu
program=${PROGRAM:-target/release/ncclsweep}
out=${1:-results/floor}
sweep() {
    name=$1
    shift
    timeout 60 "$program" --gpus 2 --nccl "${NCCL:?path of libnccl.so.2}" --sizes 7168x1..4 --seed 1 --rounds 1 --deadline 15s \
        --floor --timings --quiet --redact --out "$out/$name" "$@" | tee "$out/$name.txt" || echo "$name: status $?"
}
mkdir -p "$out"
# Over NVLink (default) and through host memory, in the three ways of timing.
sweep 2xh200 --base NCCL_NVLS_ENABLE=0 --set host-memory:NCCL_P2P_DISABLE=1 --modes graph,stream,sync --communicators 2
# Four ranks on each GPU: flags within a GPU, too.
sweep 2xh200-8ranks --base NCCL_NVLS_ENABLE=0,NCCL_P2P_DISABLE=1 --ranks 8 --sets default --communicators 1
