/*
 * NCCL tuner plugin interface, versions 1 to 6. NCCL looks for a symbol `ncclTunerPlugin_vN` of type `ncclTuner_vN_t`.
 * Written for this project from the published binary interface (NVIDIA/nccl: v1 in src/include/nccl_tuner.h of
 * v2.19.3-1; v2 to v6 in src/include/plugin/tuner/ of v2.30.7-1).
 */
#ifndef NCCLSWEEP_TUNER_H
#define NCCLSWEEP_TUNER_H

#include "common.h"

/* Version 1 (NCCL 2.19): one tuner per process, it names the choice. */

/** Version 1 of the tuner's table. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger);
  ncclResult_t (*getCollInfo)(ncclFunc_t collType, size_t nBytes, int collNetSupport, int nvlsSupport, int numPipeOps,
                              int *algorithm, int *protocol, int *nChannels);
  ncclResult_t (*destroy)(void);
} ncclTuner_v1_t;

/** Version 2 of the tuner's table (NCCL 2.21): a context per communicator. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger, void **context);
  ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int collNetSupport, int nvlsSupport,
                              int numPipeOps, int *algorithm, int *protocol, int *nChannels);
  ncclResult_t (*destroy)(void *context);
} ncclTuner_v2_t;

/** Version 3 of the tuner's table (NCCL 2.22): it edits a table of costs, `float[numAlgo][numProto]`. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger, void **context);
  ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps, float **collCostTable,
                              int numAlgo, int numProto, int *nChannels);
  ncclResult_t (*destroy)(void *context);
} ncclTuner_v3_t;

/** Version 4 of the tuner's table (NCCL 2.24): it learns whether the buffers may be registered. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger, void **context);
  ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps, float **collCostTable,
                              int numAlgo, int numProto, int regBuff, int *nChannels);
  ncclResult_t (*destroy)(void *context);
} ncclTuner_v4_t;

/* Version 5 (NCCL 2.28): it may also edit the constants of NCCL's cost model, at init. */

/** NVLink domains of a communicator. */
typedef struct {
  int nNvlDomains;
  int minRanksPerNvlDomain;
  int maxRanksPerNvlDomain;
} ncclNvlDomainInfo_v5_t;

/** Dimensions of the constants. */
enum ncclTunerDimension {
  NCCL_NUM_ALGORITHMS_V5 = 7,
  NCCL_NUM_PROTOCOLS_V5 = 3,
  NCCL_NUM_HW_LINKS_V5 = 3,
  NCCL_NUM_COMPCAPS_V5 = 4,
  NCCL_NUM_TUNING_SCALES_V5 = 3
};

/** Constants of NCCL's cost model: latencies in microseconds, bandwidths in GB/s. */
typedef struct {
  double baseLatencies[NCCL_NUM_ALGORITHMS_V5][NCCL_NUM_PROTOCOLS_V5];
  double hwLatencies[NCCL_NUM_HW_LINKS_V5][NCCL_NUM_ALGORITHMS_V5][NCCL_NUM_PROTOCOLS_V5];
  double llMaxBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
  double perChMaxRingLL128Bws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
  double perChMaxTreeLL128Bws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
  double perChMaxTreeBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
  double perChMaxNVLSTreeBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
} ncclTunerConstants_v5_t;

/** Version 5 of the tuner's table. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks, size_t nNodes, ncclDebugLogger_t logger,
                       ncclNvlDomainInfo_v5_t *nvlDomainInfo, ncclTunerConstants_v5_t *constants);
  ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps, float **collCostTable,
                              int numAlgo, int numProto, int regBuff, int *nChannels);
  ncclResult_t (*finalize)(void *context);
} ncclTuner_v5_t;

/** Version 6 of the tuner's table (NCCL 2.30): `getChunkSize` may be NULL. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks, size_t nNodes, ncclDebugLogger_t logger,
                       ncclNvlDomainInfo_v5_t *nvlDomainInfo, ncclTunerConstants_v5_t *constants);
  ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps, float **collCostTable,
                              int numAlgo, int numProto, int regBuff, int *nChannels);
  ncclResult_t (*finalize)(void *context);
  ncclResult_t (*getChunkSize)(void *context, ncclFunc_t collType, size_t nBytes, int algo, int proto, int nChannels,
                               size_t *chunkSize);
} ncclTuner_v6_t;

#endif
