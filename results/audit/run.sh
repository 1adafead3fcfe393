#!/usr/bin/env bash
# Audits on one real GPU that two workers share: `bash results/audit/run.sh` in the root of the repository.
#
# TOOLS (default: .carry) holds `ncclsweep`, `libnccl_profiler_ncclsweep.so` beside it, and `libnccl-VERSION.so.xz`. Two ranks on
# one GPU need NCCL 2.30 or later, so torch gets 2.32.3 by LD_PRELOAD; older libraries make a communicator of one rank.
# What is found goes to $OUT/audit.tar. No step can hang: each has a limit.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=$(cd "${TOOLS:-.carry}" && pwd)
out=${OUT:-$PWD/audit-out}
work=$(mktemp -d)
mkdir -p "$work/results" "$out" "$work/home"
cp "$tools/ncclsweep" "$tools/libnccl_profiler_ncclsweep.so" "$work/"
for packed in "$tools"/libnccl-*.so.xz; do
    version=$(basename "$packed" .so.xz)
    mkdir -p "$work/${version#libnccl-}"
    xz -dc "$packed" > "$work/${version#libnccl-}/libnccl.so.2" &
done
wait
python=${PYTHON:-$(command -v python3)}
sweep=$work/ncclsweep
unset "${!NCCL_@}"
export HOME=$work/home COLUMNS=110 TORCH_NCCL_ENABLE_MONITORING=0 TORCH_NCCL_DUMP_ON_TIMEOUT=0 PYTHONUNBUFFERED=1
export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_P2P_DISABLE=1 NCCL_NVLS_ENABLE=0
new=$work/2.32.3/libnccl.so.2
log() { echo "$(date -u +%T) $*" | tee -a "$work/results/steps.txt"; }

# step NAME LIMIT COMMAND…: runs a command with a limit; its output and exit status are kept. None begins when the ten minutes
# that a run may take are nearly over.
step() {
    local name=$1 limit=$2 begun=$SECONDS
    local left=$((560 - begun))
    shift 2
    if [ "$left" -lt 20 ]; then
        log "$name: skipped, no time is left"
        return
    fi
    [ "$limit" -lt "$left" ] || limit=$left
    timeout --kill-after=5 "$limit" "$@" > "$work/results/$name.txt" 2>&1
    log "$name: exit status $?, $((SECONDS - begun)) s"
}

# audited NAME LIMIT ARGUMENTS -- COMMAND…: the same under `ncclsweep`, its folder kept, and shown again as a document.
audited() {
    local name=$1 limit=$2
    shift 2
    step "$name" "$limit" "$sweep" "$@"
    timeout 20 "$sweep" audit --watch "$work/results/$name" --format json > "$work/results/$name.json" 2>&1
}
workers() { echo env "LD_PRELOAD=$new" "$python" "$here/workers.py" "$@"; }

{ nvidia-smi; "$python" -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'; df -h /dev/shm; ls -la "$work"/2.*; } \
    > "$work/results/box.txt" 2>&1

# Do two processes on one GPU work at all here? The first of these that does is the base of all cases.
for base in "" NCCL_CUMEM_HOST_ENABLE=0 NCCL_CUMEM_ENABLE=0; do
    step "preflight-${base:-plain}" 90 env ${base:+"$base"} NCCL_DEBUG=INFO $(workers environment)
    if grep -q "rank 1.*done" "$work/results/preflight-${base:-plain}.txt"; then
        [ -z "$base" ] || export "${base?}"
        log "base: ${base:-plain}"
        break
    fi
done

r=$work/results
# (a) In the environment: every worker applies them.
audited a-environment 90 exec --set pcie-ll --audit --out "$r/a-environment" -- $(workers environment)
audited a-graph 120 exec --set pcie-ll --audit --out "$r/a-graph" -- $(workers environment graph)
audited a-none 90 audit --expect pcie-ll --out "$r/a-none" -- $(workers environment)
# (b) By os.environ: in a parent that is rank 0 and whose NCCL has begun, and in one worker only. LL128_NTHREADS is kept from the
# first communicator on, and harmless when ranks differ in it; PROTO is read by every communicator.
export TEST_SETTING="NCCL_PROTO=LL NCCL_LL128_NTHREADS=256"
audited b-parent 90 audit --expect b:NCCL_PROTO=LL,NCCL_LL128_NTHREADS=256 --out "$r/b-parent" -- $(workers parent)
export TEST_SETTING="NCCL_LL128_NTHREADS=256"
audited b-one-harmless 90 audit --expect b:NCCL_LL128_NTHREADS=256 --out "$r/b-one-harmless" -- $(workers one)
export TEST_SETTING="NCCL_PROTO=LL"
audited b-one 60 audit --expect b:NCCL_PROTO=LL --out "$r/b-one" -- $(workers one)
unset TEST_SETTING
# (c) By a file of NCCL's: the one that NCCL_CONF_FILE names, and the one in the home.
printf '# tuned\nNCCL_PROTO=LL\nNCCL_ALGO=Ring\n' > "$work/nccl.conf"
c=c:NCCL_PROTO=LL,NCCL_ALGO=Ring
audited c-named 90 audit --expect $c --out "$r/c-named" -- env NCCL_CONF_FILE="$work/nccl.conf" $(workers environment)
cp "$work/nccl.conf" "$HOME/.nccl.conf"
audited c-home 90 audit --expect $c --out "$r/c-home" -- $(workers environment)
rm "$HOME/.nccl.conf"
# The plugin in other releases: a communicator of one rank, with torch's own library too.
own=$("$python" -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2> /dev/null)
mkdir -p "$work/torch" && cp "$own/lib/libnccl.so.2" "$work/torch/" 2> /dev/null
for version in 2.23.4 2.27.7 torch 2.32.3; do
    library=$work/$version/libnccl.so.2
    [ -e "$library" ] || continue
    audited "one-rank-$version" 60 audit --out "$r/one-rank-$version" -- \
        env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV "$python" "$here/one_rank.py" "$library"
done
# A plugin that somebody else asked for is respected.
NCCL_PROFILER_PLUGIN=none audited other-plugin 60 audit --out "$r/other-plugin" -- "$python" "$here/one_rank.py" "$new"
log done
tar -C "$work" -cf "$out/audit.tar" results
cat "$work/results/steps.txt"
