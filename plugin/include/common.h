/*
 * What NCCL's plugin interfaces share. Written for this project from the published binary interface (NVIDIA/nccl:
 * src/include/nccl_common.h and src/nccl.h.in, tags v2.19.3-1 to v2.30.7-1); C enumerations are plain integers here, so
 * that a value this header does not know stays harmless.
 */
#ifndef NCCLSWEEP_COMMON_H
#define NCCLSWEEP_COMMON_H

#include <stddef.h>
#include <stdint.h>

/** What a plugin function returns; 0 is success. */
typedef int ncclResult_t;
enum ncclResult { ncclSuccess = 0, ncclInternalError = 3 };

/** Number of a collective, the index into NCCL's table of functions. */
typedef int ncclFunc_t;
enum ncclFunc {
  ncclFuncBroadcast = 0,
  ncclFuncReduce = 1,
  ncclFuncAllGather = 2,
  ncclFuncReduceScatter = 3,
  ncclFuncAllReduce = 4,
  ncclFuncSendRecv = 5,
  ncclFuncSend = 6,
  ncclFuncRecv = 7
};

/** Algorithm numbers, as profiler v1 and the tuner interfaces use them. */
enum ncclAlgorithm {
  NCCL_ALGO_TREE = 0,
  NCCL_ALGO_RING = 1,
  NCCL_ALGO_COLLNET_DIRECT = 2,
  NCCL_ALGO_COLLNET_CHAIN = 3,
  NCCL_ALGO_NVLS = 4,
  NCCL_ALGO_NVLS_TREE = 5,
  NCCL_ALGO_PAT = 6
};

/** Protocol numbers, as profiler v1 and the tuner interfaces use them. */
enum ncclProtocol { NCCL_PROTO_LL = 0, NCCL_PROTO_LL128 = 1, NCCL_PROTO_SIMPLE = 2 };

/** Data type numbers. */
enum ncclDataType {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11
};

/** NCCL's logger, printf-like: level, subsystem flags, file, line, format. */
typedef void (*ncclDebugLogger_t)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

#endif
