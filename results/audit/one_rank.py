"""A communicator of one rank with the NCCL library that is named: how far it gets, and that it loads the plugin."""

import ctypes
import os
import sys

cuda = ctypes.CDLL("libcuda.so.1")
nccl = ctypes.CDLL(sys.argv[1])


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def ok(code, what):
    if code != 0:
        sys.exit(f"{what}: error {code}")


context, communicator = ctypes.c_void_p(), ctypes.c_void_p()
ok(cuda.cuInit(0), "cuInit")
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
ok(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
version, unique = ctypes.c_int(), UniqueId()
ok(nccl.ncclGetVersion(ctypes.byref(version)), "ncclGetVersion")
ok(nccl.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
ok(nccl.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0), "ncclCommInitRank")
print(f"pid {os.getpid()}: NCCL {version.value} made a communicator of one rank", flush=True)
ok(nccl.ncclCommDestroy(communicator), "ncclCommDestroy")
