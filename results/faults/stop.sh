#!/bin/sh
# Plants a hang: the worker of the set with NCCL_PROTO=LL is stopped four seconds after its start.
if [ "$NCCL_PROTO" = LL ]; then ( sleep 4; kill -STOP $$ ) & fi
exec "$@"
