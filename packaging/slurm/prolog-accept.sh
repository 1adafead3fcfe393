#!/bin/sh
# Slurm Prolog: holds the node against a plan before a job gets it. A Prolog that fails drains the node and requeues the job.
#
#   slurm.conf:  Prolog=/etc/slurm/prolog-accept.sh
#                PrologFlags=Alloc
#                PrologEpilogTimeout=300
#
# PLAN: requirements (docs/accept.md); keep it short, it stands before every job: one size, graph mode, rounds = 3.
# STAMP: the node is measured at most once in HOURS, and after every boot.
PLAN=${NCCLSWEEP_PLAN:-/etc/ncclsweep/plan.toml}
STAMP=${NCCLSWEEP_STAMP:-/run/ncclsweep-accepted}
KEEP=${NCCLSWEEP_KEEP:-/var/log/ncclsweep}
HOURS=${NCCLSWEEP_HOURS:-24}

if [ -n "$(find "$STAMP" -mmin "-$((HOURS * 60))" 2>/dev/null)" ]; then
    exit 0
fi
mkdir -p "$KEEP"
run="$KEEP/$(date -u +%Y%m%dT%H%M%SZ)"
ncclsweep accept "$PLAN" --quiet --out "$run" > "$run.txt" 2>&1
case $? in
    0) touch "$STAMP"; exit 0 ;;
    # Another job of this node uses GPUs, or nothing was decided: no reason to take the node away.
    3 | 5) exit 0 ;;
    *)
        echo "ncclsweep: $(hostname) does not hold $PLAN, see $run.txt"
        exit 1
        ;;
esac
