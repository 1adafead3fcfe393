#!/bin/sh
# What `topo` and `pairs` say of this machine, beside what nvidia-smi and NCCL say of it. Needs two GPUs; takes about a minute.
#   sh results/topo/two-gpus.sh [FOLDER] [LIBNCCL]
set -u
out=${1:-results/topo/two-gpus}
nccl=${2:+--nccl $2}
sweep=${NCCLSWEEP:-target/release/ncclsweep}
mkdir -p "$out"
{ uname -sr; nvidia-smi -L | sed 's/(UUID.*//'; nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1; } > "$out/machine.txt"

# The same box by four who know it.
nvidia-smi topo -m > "$out/nvidia-smi-topo-m.txt"
nvidia-smi topo -p2p r > "$out/nvidia-smi-topo-p2p-r.txt"
nvidia-smi topo -p2p w > "$out/nvidia-smi-topo-p2p-w.txt"
nvidia-smi topo -p2p a > "$out/nvidia-smi-topo-p2p-a.txt"
"$sweep" topo --redact > "$out/topo.txt"
"$sweep" topo --load --redact > "$out/topo-load.txt"
"$sweep" topo --load --redact --format json > "$out/topo.json"
"$sweep" topo --redact --format svg > "$out/topo.svg"
"$sweep" topo --from "$out/nvidia-smi-topo-m.txt" > "$out/topo-from-nvidia-smi.txt"
# shellcheck disable=SC2086
NCCL_TOPO_DUMP_FILE="$PWD/$out/nccl-topology.xml" NCCL_GRAPH_DUMP_FILE="$PWD/$out/nccl-graphs.xml" \
    "$sweep" $nccl --gpus 2 --sizes 7168x1 --sets default --rounds 1 --communicators 1 --quiet --redact --out "$(mktemp -d)/run" > "$out/sweep.txt"
"$sweep" topo --from "$out/nccl-topology.xml" > "$out/topo-from-nccl.txt"
"$sweep" topo --from "$out/nccl-graphs.xml" > "$out/graphs-from-nccl.txt"

# Every two GPUs: here one pair, on both ways.
# shellcheck disable=SC2086
"$sweep" pairs $nccl --redact --seed 1 --out "$out/pairs.json" > "$out/pairs.txt"
echo "pairs: exit status $?" >> "$out/pairs.txt"
# Ranks near their GPUs, and in another order.
# shellcheck disable=SC2086
"$sweep" $nccl --devices 1,0 --cpu-affinity near --sizes 7168x1 --modes sync --sets default --rounds 1 --communicators 1 --quiet --redact \
    --out "$(mktemp -d)/run" > "$out/near.txt"
