/*
 * NCCL profiler plugin interface, versions 1 to 5. NCCL looks for a symbol `ncclProfiler_vN` of type `ncclProfiler_vN_t`.
 * Written for this project from the published binary interface (NVIDIA/nccl: v1 in src/include/nccl_profiler.h of
 * v2.23.4-1; v2 to v4 in src/include/plugin/profiler/ of v2.27.3-1; v5 in that of v2.28.9-1).
 *
 * NCCL's unions of an event descriptor have no name; `event` names them here and changes no offset.
 */
#ifndef NCCLSWEEP_PROFILER_H
#define NCCLSWEEP_PROFILER_H

#include "common.h"

/** Event types: bits of the activation mask, and the value of a descriptor's `type`. */
enum ncclProfilerEventType {
  ncclProfileGroup = 1 << 0,
  ncclProfileColl = 1 << 1,
  ncclProfileP2p = 1 << 2,
  ncclProfileProxyOp = 1 << 3,
  ncclProfileProxyStep = 1 << 4,
  ncclProfileProxyCtrl = 1 << 5,
  ncclProfileKernelCh = 1 << 6,
  ncclProfileNetPlugin = 1 << 7,
  ncclProfileGroupApi = 1 << 8,
  ncclProfileCollApi = 1 << 9,
  ncclProfileP2pApi = 1 << 10,
  ncclProfileKernelLaunch = 1 << 11
};

/** A state an event moved to (`recordEventState`). */
typedef int ncclProfilerEventState_t;

/* Parts that did not change between the versions. */

/** An operation of the proxy thread. */
typedef struct {
  int pid;
  uint8_t channelId;
  int peer;
  int nSteps;
  int chunkSize;
  int isSend;
} ncclProfilerProxyOp_t;

/** A step of a proxy operation. */
typedef struct {
  int step;
} ncclProfilerProxyStep_t;

/** An event of a network plugin. */
typedef struct {
  int64_t id;
  void *data;
} ncclProfilerNetPlugin_t;

/** Arguments of a state change, versions 1 to 3. */
typedef union {
  struct {
    size_t transSize;
    int steps;
  } proxyOp;
  struct {
    int appendedProxyOps;
  } proxyCtrl;
} ncclProfilerEventStateArgs_v1_t;

/* Version 1: numeric names, a limit of channels. */

/** A collective, as version 1 tells it. */
typedef struct {
  /** communicator's name, may be NULL */
  const char *name;
  uint64_t commHash;
  uint64_t seqNumber;
  uint8_t func;
  const void *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t trafficBytes;
  /** upper bound of the channels */
  uint8_t nMaxChannels;
  uint8_t nWarps;
  uint8_t algo;
  uint8_t proto;
  int isCollnet;
  int isNvls;
} ncclProfilerColl_v1_t;

/** A point-to-point call, as version 1 tells it. */
typedef struct {
  const char *name;
  uint64_t commHash;
  uint8_t func;
  void *buff;
  uint8_t datatype;
  size_t count;
  int peer;
} ncclProfilerP2p_v1_t;

/** Event descriptor of version 1. */
typedef struct {
  uint8_t type;
  void *parentObj;
  int rank;
  union ncclProfilerEvent_v1 {
    ncclProfilerColl_v1_t coll;
    ncclProfilerP2p_v1_t p2p;
    ncclProfilerProxyOp_t proxyOp;
    ncclProfilerProxyStep_t proxyStep;
  } event;
} ncclProfilerEventDescr_v1_t;

/** Version 1 of the plugin's table. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, int *eActivationMask);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v1_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v1_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v1_t;

/* Version 2: names are strings. */

/** A collective, as version 2 tells it. */
typedef struct {
  const char *name;
  uint64_t commHash;
  uint64_t seqNumber;
  const char *func;
  const void *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  size_t trafficBytes;
  /** upper bound of the channels */
  uint8_t nMaxChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
} ncclProfilerColl_v2_t;

/** A point-to-point call, as versions 2 and 3 tell it. */
typedef struct {
  const char *name;
  uint64_t commHash;
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
} ncclProfilerP2p_v2_t;

/** Event descriptor of version 2. */
typedef struct {
  uint8_t type;
  void *parentObj;
  int rank;
  union ncclProfilerEvent_v2 {
    ncclProfilerColl_v2_t coll;
    ncclProfilerP2p_v2_t p2p;
    ncclProfilerProxyOp_t proxyOp;
    ncclProfilerProxyStep_t proxyStep;
  } event;
} ncclProfilerEventDescr_v2_t;

/** Version 2 of the plugin's table. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, int *eActivationMask);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v2_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v1_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v2_t;

/* Version 3: no traffic size; kernel channels and network plugins have events. */

/** A collective, as version 3 tells it. */
typedef struct {
  const char *name;
  uint64_t commHash;
  uint64_t seqNumber;
  const char *func;
  const void *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  /** upper bound of the channels */
  uint8_t nMaxChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
} ncclProfilerColl_v3_t;

/** A channel of a kernel, as version 3 tells it. */
typedef struct {
  uint8_t channelId;
} ncclProfilerKernelCh_v3_t;

/** Event descriptor of version 3. */
typedef struct {
  uint8_t type;
  void *parentObj;
  int rank;
  union ncclProfilerEvent_v3 {
    ncclProfilerColl_v3_t coll;
    ncclProfilerP2p_v2_t p2p;
    ncclProfilerProxyOp_t proxyOp;
    ncclProfilerProxyStep_t proxyStep;
    ncclProfilerKernelCh_v3_t kernelCh;
    ncclProfilerNetPlugin_t netPlugin;
  } event;
} ncclProfilerEventDescr_v3_t;

/** Version 3 of the plugin's table. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, int *eActivationMask);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v3_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v1_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v3_t;

/* Version 4: the communicator is told once, at init; the channels of a collective are those used. */

/** A collective, as version 4 tells it. */
typedef struct {
  uint64_t seqNumber;
  const char *func;
  const void *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  /** channels used; 0 where NCCL does not count them (CollNet) */
  uint8_t nChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
} ncclProfilerColl_v4_t;

/** A point-to-point call, as version 4 tells it. */
typedef struct {
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
} ncclProfilerP2p_v4_t;

/** A channel of a kernel, as version 4 tells it. */
typedef struct {
  uint8_t channelId;
  /** start, by the GPU's global timer */
  uint64_t pTimer;
} ncclProfilerKernelCh_v4_t;

/** Event descriptor of version 4. */
typedef struct {
  uint8_t type;
  void *parentObj;
  int rank;
  union ncclProfilerEvent_v4 {
    ncclProfilerColl_v4_t coll;
    ncclProfilerP2p_v4_t p2p;
    ncclProfilerProxyOp_t proxyOp;
    ncclProfilerProxyStep_t proxyStep;
    ncclProfilerKernelCh_v4_t kernelCh;
    ncclProfilerNetPlugin_t netPlugin;
  } event;
} ncclProfilerEventDescr_v4_t;

/** Arguments of a state change, version 4. */
typedef union {
  struct {
    size_t transSize;
  } proxyStep;
  struct {
    int appendedProxyOps;
  } proxyCtrl;
  struct {
    void *data;
  } netPlugin;
  struct {
    uint64_t pTimer;
  } kernelCh;
} ncclProfilerEventStateArgs_v4_t;

/** Version 4 of the plugin's table. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, int *eActivationMask, const char *commName, uint64_t commHash, int nNodes,
                       int nRanks, int rank, ncclDebugLogger_t logger);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v4_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v4_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v4_t;

/* Version 5: calls of the API have events of their own, which tell whether their stream is being captured. */

/** A group of calls, as version 5 tells it. */
typedef struct {
  uint8_t graphCaptured;
  int groupDepth;
} ncclProfilerGroupApi_v5_t;

/** A call of a collective, as version 5 tells it. */
typedef struct {
  const char *func;
  size_t count;
  const char *datatype;
  int root;
  void *stream;
  uint8_t graphCaptured;
} ncclProfilerCollApi_v5_t;

/** A point-to-point call of the API, as version 5 tells it. */
typedef struct {
  const char *func;
  size_t count;
  const char *datatype;
  void *stream;
  uint8_t graphCaptured;
} ncclProfilerP2pApi_v5_t;

/** The launch of a kernel, as version 5 tells it. */
typedef struct {
  void *stream;
} ncclProfilerKernelLaunch_v5_t;

/** A collective, as version 5 tells it; its parent is the call of the API. */
typedef struct {
  uint64_t seqNumber;
  const char *func;
  const void *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  /** channels used; 0 where NCCL does not count them (CollNet) */
  uint8_t nChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
  void *parentGroup;
} ncclProfilerColl_v5_t;

/** A point-to-point operation, as version 5 tells it. */
typedef struct {
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void *parentGroup;
} ncclProfilerP2p_v5_t;

/** Event descriptor of version 5. */
typedef struct {
  uint64_t type;
  void *parentObj;
  int rank;
  union ncclProfilerEvent_v5 {
    ncclProfilerGroupApi_v5_t groupApi;
    ncclProfilerCollApi_v5_t collApi;
    ncclProfilerP2pApi_v5_t p2pApi;
    ncclProfilerKernelLaunch_v5_t kernelLaunch;
    ncclProfilerColl_v5_t coll;
    ncclProfilerP2p_v5_t p2p;
    ncclProfilerProxyOp_t proxyOp;
    ncclProfilerProxyStep_t proxyStep;
    ncclProfilerKernelCh_v4_t kernelCh;
    ncclProfilerNetPlugin_t netPlugin;
  } event;
} ncclProfilerEventDescr_v5_t;

/** Version 5 of the plugin's table. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, uint64_t commId, int *eActivationMask, const char *commName, int nNodes,
                       int nRanks, int rank, ncclDebugLogger_t logger);
  ncclResult_t (*startEvent)(void *context, void **eHandle, ncclProfilerEventDescr_v5_t *eDescr);
  ncclResult_t (*stopEvent)(void *eHandle);
  ncclResult_t (*recordEventState)(void *eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v4_t *eStateArgs);
  ncclResult_t (*finalize)(void *context);
} ncclProfiler_v5_t;

#endif
