"""A stand-in for a server: loads NCCL, then starts two workers that load it too, the second without NCCL_PROTO.

usage: NCCL_PROTO=LL NCCL_ALGO=Ring python server.py      with the wheel nvidia-nccl-cu12 installed; needs no GPU
"""

import ctypes
import os
import subprocess
import sys
import time

import nvidia.nccl

LIBRARY = os.path.join(list(nvidia.nccl.__path__)[0], "lib", "libnccl.so.2")


def serve():
    ctypes.CDLL(LIBRARY)
    print(f"{' '.join(sys.argv[1:]) or 'server'} ready, pid {os.getpid()}", flush=True)
    time.sleep(float(os.environ.get("SECONDS_UP", "60")))


if len(sys.argv) == 1:
    without = {name: value for name, value in os.environ.items() if name != "NCCL_PROTO"}
    for number, environment in enumerate((dict(os.environ), without)):
        subprocess.Popen([sys.executable, sys.argv[0], "worker", str(number)], env=environment)
serve()
