// Made by regenerate-bindings from include/profiler.h and include/tuner.h; do not edit.

#[doc = " What a plugin function returns; 0 is success."]
pub type ncclResult_t = ::core::ffi::c_int;
pub const ncclSuccess: ncclResult = 0;
pub const ncclInternalError: ncclResult = 3;
pub type ncclResult = ::core::ffi::c_uint;
#[doc = " Number of a collective, the index into NCCL's table of functions."]
pub type ncclFunc_t = ::core::ffi::c_int;
pub const ncclFuncBroadcast: ncclFunc = 0;
pub const ncclFuncReduce: ncclFunc = 1;
pub const ncclFuncAllGather: ncclFunc = 2;
pub const ncclFuncReduceScatter: ncclFunc = 3;
pub const ncclFuncAllReduce: ncclFunc = 4;
pub const ncclFuncSendRecv: ncclFunc = 5;
pub const ncclFuncSend: ncclFunc = 6;
pub const ncclFuncRecv: ncclFunc = 7;
pub type ncclFunc = ::core::ffi::c_uint;
pub const NCCL_ALGO_TREE: ncclAlgorithm = 0;
pub const NCCL_ALGO_RING: ncclAlgorithm = 1;
pub const NCCL_ALGO_COLLNET_DIRECT: ncclAlgorithm = 2;
pub const NCCL_ALGO_COLLNET_CHAIN: ncclAlgorithm = 3;
pub const NCCL_ALGO_NVLS: ncclAlgorithm = 4;
pub const NCCL_ALGO_NVLS_TREE: ncclAlgorithm = 5;
pub const NCCL_ALGO_PAT: ncclAlgorithm = 6;
#[doc = " Algorithm numbers, as profiler v1 and the tuner interfaces use them."]
pub type ncclAlgorithm = ::core::ffi::c_uint;
pub const NCCL_PROTO_LL: ncclProtocol = 0;
pub const NCCL_PROTO_LL128: ncclProtocol = 1;
pub const NCCL_PROTO_SIMPLE: ncclProtocol = 2;
#[doc = " Protocol numbers, as profiler v1 and the tuner interfaces use them."]
pub type ncclProtocol = ::core::ffi::c_uint;
pub const ncclInt8: ncclDataType = 0;
pub const ncclUint8: ncclDataType = 1;
pub const ncclInt32: ncclDataType = 2;
pub const ncclUint32: ncclDataType = 3;
pub const ncclInt64: ncclDataType = 4;
pub const ncclUint64: ncclDataType = 5;
pub const ncclFloat16: ncclDataType = 6;
pub const ncclFloat32: ncclDataType = 7;
pub const ncclFloat64: ncclDataType = 8;
pub const ncclBfloat16: ncclDataType = 9;
pub const ncclFloat8e4m3: ncclDataType = 10;
pub const ncclFloat8e5m2: ncclDataType = 11;
#[doc = " Data type numbers."]
pub type ncclDataType = ::core::ffi::c_uint;
#[doc = " NCCL's logger, printf-like: level, subsystem flags, file, line, format."]
pub type ncclDebugLogger_t = ::core::option::Option<
    unsafe extern "C" fn(
        level: ::core::ffi::c_int,
        flags: ::core::ffi::c_ulong,
        file: *const ::core::ffi::c_char,
        line: ::core::ffi::c_int,
        format: *const ::core::ffi::c_char,
        ...
    ),
>;
pub const ncclProfileGroup: ncclProfilerEventType = 1;
pub const ncclProfileColl: ncclProfilerEventType = 2;
pub const ncclProfileP2p: ncclProfilerEventType = 4;
pub const ncclProfileProxyOp: ncclProfilerEventType = 8;
pub const ncclProfileProxyStep: ncclProfilerEventType = 16;
pub const ncclProfileProxyCtrl: ncclProfilerEventType = 32;
pub const ncclProfileKernelCh: ncclProfilerEventType = 64;
pub const ncclProfileNetPlugin: ncclProfilerEventType = 128;
pub const ncclProfileGroupApi: ncclProfilerEventType = 256;
pub const ncclProfileCollApi: ncclProfilerEventType = 512;
pub const ncclProfileP2pApi: ncclProfilerEventType = 1024;
pub const ncclProfileKernelLaunch: ncclProfilerEventType = 2048;
#[doc = " Event types: bits of the activation mask, and the value of a descriptor's `type`."]
pub type ncclProfilerEventType = ::core::ffi::c_uint;
#[doc = " A state an event moved to (`recordEventState`)."]
pub type ncclProfilerEventState_t = ::core::ffi::c_int;
#[doc = " An operation of the proxy thread."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerProxyOp_t {
    pub pid: ::core::ffi::c_int,
    pub channelId: u8,
    pub peer: ::core::ffi::c_int,
    pub nSteps: ::core::ffi::c_int,
    pub chunkSize: ::core::ffi::c_int,
    pub isSend: ::core::ffi::c_int,
}
#[doc = " A step of a proxy operation."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerProxyStep_t {
    pub step: ::core::ffi::c_int,
}
#[doc = " An event of a network plugin."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerNetPlugin_t {
    pub id: i64,
    pub data: *mut ::core::ffi::c_void,
}
#[doc = " Arguments of a state change, versions 1 to 3."]
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventStateArgs_v1_t {
    pub proxyOp: ncclProfilerEventStateArgs_v1_t__bindgen_ty_1,
    pub proxyCtrl: ncclProfilerEventStateArgs_v1_t__bindgen_ty_2,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerEventStateArgs_v1_t__bindgen_ty_1 {
    pub transSize: usize,
    pub steps: ::core::ffi::c_int,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerEventStateArgs_v1_t__bindgen_ty_2 {
    pub appendedProxyOps: ::core::ffi::c_int,
}
#[doc = " A collective, as version 1 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerColl_v1_t {
    #[doc = " communicator's name, may be NULL"]
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub seqNumber: u64,
    pub func: u8,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: u8,
    pub op: u32,
    pub trafficBytes: usize,
    #[doc = " upper bound of the channels"]
    pub nMaxChannels: u8,
    pub nWarps: u8,
    pub algo: u8,
    pub proto: u8,
    pub isCollnet: ::core::ffi::c_int,
    pub isNvls: ::core::ffi::c_int,
}
#[doc = " A point-to-point call, as version 1 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerP2p_v1_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub func: u8,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: u8,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
}
#[doc = " Event descriptor of version 1."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v1_t {
    pub type_: u8,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub event: ncclProfilerEventDescr_v1_t_ncclProfilerEvent_v1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v1_t_ncclProfilerEvent_v1 {
    pub coll: ncclProfilerColl_v1_t,
    pub p2p: ncclProfilerP2p_v1_t,
    pub proxyOp: ncclProfilerProxyOp_t,
    pub proxyStep: ncclProfilerProxyStep_t,
}
#[doc = " Version 1 of the plugin's table."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfiler_v1_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            eActivationMask: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v1_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t>,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v1_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " A collective, as version 2 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerColl_v2_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    pub trafficBytes: usize,
    #[doc = " upper bound of the channels"]
    pub nMaxChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
}
#[doc = " A point-to-point call, as versions 2 and 3 tell it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerP2p_v2_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub func: *const ::core::ffi::c_char,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: *const ::core::ffi::c_char,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
}
#[doc = " Event descriptor of version 2."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v2_t {
    pub type_: u8,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub event: ncclProfilerEventDescr_v2_t_ncclProfilerEvent_v2,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v2_t_ncclProfilerEvent_v2 {
    pub coll: ncclProfilerColl_v2_t,
    pub p2p: ncclProfilerP2p_v2_t,
    pub proxyOp: ncclProfilerProxyOp_t,
    pub proxyStep: ncclProfilerProxyStep_t,
}
#[doc = " Version 2 of the plugin's table."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfiler_v2_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            eActivationMask: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v2_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t>,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v1_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " A collective, as version 3 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerColl_v3_t {
    pub name: *const ::core::ffi::c_char,
    pub commHash: u64,
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    #[doc = " upper bound of the channels"]
    pub nMaxChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
}
#[doc = " A channel of a kernel, as version 3 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerKernelCh_v3_t {
    pub channelId: u8,
}
#[doc = " Event descriptor of version 3."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v3_t {
    pub type_: u8,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub event: ncclProfilerEventDescr_v3_t_ncclProfilerEvent_v3,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v3_t_ncclProfilerEvent_v3 {
    pub coll: ncclProfilerColl_v3_t,
    pub p2p: ncclProfilerP2p_v2_t,
    pub proxyOp: ncclProfilerProxyOp_t,
    pub proxyStep: ncclProfilerProxyStep_t,
    pub kernelCh: ncclProfilerKernelCh_v3_t,
    pub netPlugin: ncclProfilerNetPlugin_t,
}
#[doc = " Version 3 of the plugin's table."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfiler_v3_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            eActivationMask: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v3_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t>,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v1_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " A collective, as version 4 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerColl_v4_t {
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    #[doc = " channels used; 0 where NCCL does not count them (CollNet)"]
    pub nChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
}
#[doc = " A point-to-point call, as version 4 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerP2p_v4_t {
    pub func: *const ::core::ffi::c_char,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: *const ::core::ffi::c_char,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
    pub nChannels: u8,
}
#[doc = " A channel of a kernel, as version 4 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerKernelCh_v4_t {
    pub channelId: u8,
    #[doc = " start, by the GPU's global timer"]
    pub pTimer: u64,
}
#[doc = " Event descriptor of version 4."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v4_t {
    pub type_: u8,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub event: ncclProfilerEventDescr_v4_t_ncclProfilerEvent_v4,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v4_t_ncclProfilerEvent_v4 {
    pub coll: ncclProfilerColl_v4_t,
    pub p2p: ncclProfilerP2p_v4_t,
    pub proxyOp: ncclProfilerProxyOp_t,
    pub proxyStep: ncclProfilerProxyStep_t,
    pub kernelCh: ncclProfilerKernelCh_v4_t,
    pub netPlugin: ncclProfilerNetPlugin_t,
}
#[doc = " Arguments of a state change, version 4."]
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventStateArgs_v4_t {
    pub proxyStep: ncclProfilerEventStateArgs_v4_t__bindgen_ty_1,
    pub proxyCtrl: ncclProfilerEventStateArgs_v4_t__bindgen_ty_2,
    pub netPlugin: ncclProfilerEventStateArgs_v4_t__bindgen_ty_3,
    pub kernelCh: ncclProfilerEventStateArgs_v4_t__bindgen_ty_4,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerEventStateArgs_v4_t__bindgen_ty_1 {
    pub transSize: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerEventStateArgs_v4_t__bindgen_ty_2 {
    pub appendedProxyOps: ::core::ffi::c_int,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerEventStateArgs_v4_t__bindgen_ty_3 {
    pub data: *mut ::core::ffi::c_void,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerEventStateArgs_v4_t__bindgen_ty_4 {
    pub pTimer: u64,
}
#[doc = " Version 4 of the plugin's table."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfiler_v4_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            eActivationMask: *mut ::core::ffi::c_int,
            commName: *const ::core::ffi::c_char,
            commHash: u64,
            nNodes: ::core::ffi::c_int,
            nRanks: ::core::ffi::c_int,
            rank: ::core::ffi::c_int,
            logger: ncclDebugLogger_t,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v4_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t>,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v4_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " A group of calls, as version 5 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerGroupApi_v5_t {
    pub graphCaptured: u8,
    pub groupDepth: ::core::ffi::c_int,
}
#[doc = " A call of a collective, as version 5 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerCollApi_v5_t {
    pub func: *const ::core::ffi::c_char,
    pub count: usize,
    pub datatype: *const ::core::ffi::c_char,
    pub root: ::core::ffi::c_int,
    pub stream: *mut ::core::ffi::c_void,
    pub graphCaptured: u8,
}
#[doc = " A point-to-point call of the API, as version 5 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerP2pApi_v5_t {
    pub func: *const ::core::ffi::c_char,
    pub count: usize,
    pub datatype: *const ::core::ffi::c_char,
    pub stream: *mut ::core::ffi::c_void,
    pub graphCaptured: u8,
}
#[doc = " The launch of a kernel, as version 5 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerKernelLaunch_v5_t {
    pub stream: *mut ::core::ffi::c_void,
}
#[doc = " A collective, as version 5 tells it; its parent is the call of the API."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerColl_v5_t {
    pub seqNumber: u64,
    pub func: *const ::core::ffi::c_char,
    pub sendBuff: *const ::core::ffi::c_void,
    pub recvBuff: *mut ::core::ffi::c_void,
    pub count: usize,
    pub root: ::core::ffi::c_int,
    pub datatype: *const ::core::ffi::c_char,
    #[doc = " channels used; 0 where NCCL does not count them (CollNet)"]
    pub nChannels: u8,
    pub nWarps: u8,
    pub algo: *const ::core::ffi::c_char,
    pub proto: *const ::core::ffi::c_char,
    pub parentGroup: *mut ::core::ffi::c_void,
}
#[doc = " A point-to-point operation, as version 5 tells it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfilerP2p_v5_t {
    pub func: *const ::core::ffi::c_char,
    pub buff: *mut ::core::ffi::c_void,
    pub datatype: *const ::core::ffi::c_char,
    pub count: usize,
    pub peer: ::core::ffi::c_int,
    pub nChannels: u8,
    pub parentGroup: *mut ::core::ffi::c_void,
}
#[doc = " Event descriptor of version 5."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ncclProfilerEventDescr_v5_t {
    pub type_: u64,
    pub parentObj: *mut ::core::ffi::c_void,
    pub rank: ::core::ffi::c_int,
    pub event: ncclProfilerEventDescr_v5_t_ncclProfilerEvent_v5,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ncclProfilerEventDescr_v5_t_ncclProfilerEvent_v5 {
    pub groupApi: ncclProfilerGroupApi_v5_t,
    pub collApi: ncclProfilerCollApi_v5_t,
    pub p2pApi: ncclProfilerP2pApi_v5_t,
    pub kernelLaunch: ncclProfilerKernelLaunch_v5_t,
    pub coll: ncclProfilerColl_v5_t,
    pub p2p: ncclProfilerP2p_v5_t,
    pub proxyOp: ncclProfilerProxyOp_t,
    pub proxyStep: ncclProfilerProxyStep_t,
    pub kernelCh: ncclProfilerKernelCh_v4_t,
    pub netPlugin: ncclProfilerNetPlugin_t,
}
#[doc = " Version 5 of the plugin's table."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclProfiler_v5_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            commId: u64,
            eActivationMask: *mut ::core::ffi::c_int,
            commName: *const ::core::ffi::c_char,
            nNodes: ::core::ffi::c_int,
            nRanks: ::core::ffi::c_int,
            rank: ::core::ffi::c_int,
            logger: ncclDebugLogger_t,
        ) -> ncclResult_t,
    >,
    pub startEvent: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            eHandle: *mut *mut ::core::ffi::c_void,
            eDescr: *mut ncclProfilerEventDescr_v5_t,
        ) -> ncclResult_t,
    >,
    pub stopEvent: ::core::option::Option<unsafe extern "C" fn(eHandle: *mut ::core::ffi::c_void) -> ncclResult_t>,
    pub recordEventState: ::core::option::Option<
        unsafe extern "C" fn(
            eHandle: *mut ::core::ffi::c_void,
            eState: ncclProfilerEventState_t,
            eStateArgs: *mut ncclProfilerEventStateArgs_v4_t,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " Version 1 of the tuner's table."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclTuner_v1_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(nRanks: usize, nNodes: usize, logger: ncclDebugLogger_t) -> ncclResult_t,
    >,
    pub getCollInfo: ::core::option::Option<
        unsafe extern "C" fn(
            collType: ncclFunc_t,
            nBytes: usize,
            collNetSupport: ::core::ffi::c_int,
            nvlsSupport: ::core::ffi::c_int,
            numPipeOps: ::core::ffi::c_int,
            algorithm: *mut ::core::ffi::c_int,
            protocol: *mut ::core::ffi::c_int,
            nChannels: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub destroy: ::core::option::Option<unsafe extern "C" fn() -> ncclResult_t>,
}
#[doc = " Version 2 of the tuner's table (NCCL 2.21): a context per communicator."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclTuner_v2_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            nRanks: usize,
            nNodes: usize,
            logger: ncclDebugLogger_t,
            context: *mut *mut ::core::ffi::c_void,
        ) -> ncclResult_t,
    >,
    pub getCollInfo: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            collType: ncclFunc_t,
            nBytes: usize,
            collNetSupport: ::core::ffi::c_int,
            nvlsSupport: ::core::ffi::c_int,
            numPipeOps: ::core::ffi::c_int,
            algorithm: *mut ::core::ffi::c_int,
            protocol: *mut ::core::ffi::c_int,
            nChannels: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub destroy: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " Version 3 of the tuner's table (NCCL 2.22): it edits a table of costs, `float[numAlgo][numProto]`."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclTuner_v3_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            nRanks: usize,
            nNodes: usize,
            logger: ncclDebugLogger_t,
            context: *mut *mut ::core::ffi::c_void,
        ) -> ncclResult_t,
    >,
    pub getCollInfo: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            collType: ncclFunc_t,
            nBytes: usize,
            numPipeOps: ::core::ffi::c_int,
            collCostTable: *mut *mut f32,
            numAlgo: ::core::ffi::c_int,
            numProto: ::core::ffi::c_int,
            nChannels: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub destroy: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " Version 4 of the tuner's table (NCCL 2.24): it learns whether the buffers may be registered."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclTuner_v4_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            nRanks: usize,
            nNodes: usize,
            logger: ncclDebugLogger_t,
            context: *mut *mut ::core::ffi::c_void,
        ) -> ncclResult_t,
    >,
    pub getCollInfo: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            collType: ncclFunc_t,
            nBytes: usize,
            numPipeOps: ::core::ffi::c_int,
            collCostTable: *mut *mut f32,
            numAlgo: ::core::ffi::c_int,
            numProto: ::core::ffi::c_int,
            regBuff: ::core::ffi::c_int,
            nChannels: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub destroy: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " NVLink domains of a communicator."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclNvlDomainInfo_v5_t {
    pub nNvlDomains: ::core::ffi::c_int,
    pub minRanksPerNvlDomain: ::core::ffi::c_int,
    pub maxRanksPerNvlDomain: ::core::ffi::c_int,
}
pub const NCCL_NUM_ALGORITHMS_V5: ncclTunerDimension = 7;
pub const NCCL_NUM_PROTOCOLS_V5: ncclTunerDimension = 3;
pub const NCCL_NUM_HW_LINKS_V5: ncclTunerDimension = 3;
pub const NCCL_NUM_COMPCAPS_V5: ncclTunerDimension = 4;
pub const NCCL_NUM_TUNING_SCALES_V5: ncclTunerDimension = 3;
#[doc = " Dimensions of the constants."]
pub type ncclTunerDimension = ::core::ffi::c_uint;
#[doc = " Constants of NCCL's cost model: latencies in microseconds, bandwidths in GB/s."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclTunerConstants_v5_t {
    pub baseLatencies: [[f64; 3usize]; 7usize],
    pub hwLatencies: [[[f64; 3usize]; 7usize]; 3usize],
    pub llMaxBws: [[f64; 3usize]; 4usize],
    pub perChMaxRingLL128Bws: [[f64; 3usize]; 4usize],
    pub perChMaxTreeLL128Bws: [[f64; 3usize]; 4usize],
    pub perChMaxTreeBws: [[f64; 3usize]; 4usize],
    pub perChMaxNVLSTreeBws: [[f64; 3usize]; 4usize],
}
#[doc = " Version 5 of the tuner's table."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclTuner_v5_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            commId: u64,
            nRanks: usize,
            nNodes: usize,
            logger: ncclDebugLogger_t,
            nvlDomainInfo: *mut ncclNvlDomainInfo_v5_t,
            constants: *mut ncclTunerConstants_v5_t,
        ) -> ncclResult_t,
    >,
    pub getCollInfo: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            collType: ncclFunc_t,
            nBytes: usize,
            numPipeOps: ::core::ffi::c_int,
            collCostTable: *mut *mut f32,
            numAlgo: ::core::ffi::c_int,
            numProto: ::core::ffi::c_int,
            regBuff: ::core::ffi::c_int,
            nChannels: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
}
#[doc = " Version 6 of the tuner's table (NCCL 2.30): `getChunkSize` may be NULL."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclTuner_v6_t {
    pub name: *const ::core::ffi::c_char,
    pub init: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut *mut ::core::ffi::c_void,
            commId: u64,
            nRanks: usize,
            nNodes: usize,
            logger: ncclDebugLogger_t,
            nvlDomainInfo: *mut ncclNvlDomainInfo_v5_t,
            constants: *mut ncclTunerConstants_v5_t,
        ) -> ncclResult_t,
    >,
    pub getCollInfo: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            collType: ncclFunc_t,
            nBytes: usize,
            numPipeOps: ::core::ffi::c_int,
            collCostTable: *mut *mut f32,
            numAlgo: ::core::ffi::c_int,
            numProto: ::core::ffi::c_int,
            regBuff: ::core::ffi::c_int,
            nChannels: *mut ::core::ffi::c_int,
        ) -> ncclResult_t,
    >,
    pub finalize: ::core::option::Option<unsafe extern "C" fn(context: *mut ::core::ffi::c_void) -> ncclResult_t>,
    pub getChunkSize: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ::core::ffi::c_void,
            collType: ncclFunc_t,
            nBytes: usize,
            algo: ::core::ffi::c_int,
            proto: ::core::ffi::c_int,
            nChannels: ::core::ffi::c_int,
            chunkSize: *mut usize,
        ) -> ncclResult_t,
    >,
}
