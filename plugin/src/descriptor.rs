//! Event descriptors of all versions, read into one [`Event`].

use crate::abi;
use crate::handle;
use crate::name::Name;
use crate::recorder::{Api, Channels, Event};

/// An event descriptor of some version.
pub(crate) trait Descriptor {
    const API: Api;

    /// The event's type.
    fn kind(&self) -> u32;

    /// Whether this is a call of the API whose stream is being captured; false for all other events.
    fn is_captured_call(&self) -> bool {
        false
    }

    /// # Safety
    ///
    /// The event is a collective and its strings are NULL or NUL-terminated.
    unsafe fn collective(&self) -> Event;
}

impl Descriptor for abi::ncclProfilerEventDescr_v1_t {
    const API: Api = Api::V1;

    fn kind(&self) -> u32 {
        self.type_.into()
    }

    unsafe fn collective(&self) -> Event {
        // SAFETY: the caller says that the union holds a collective.
        let event = unsafe { &self.event.coll };
        Event {
            rank: self.rank,
            // SAFETY: NULL or NCCL's string.
            communicator: Some((event.commHash, unsafe { Name::from_c(event.name) })),
            sequence: event.seqNumber,
            function: Name::of_function(event.func),
            datatype: Name::of_datatype(event.datatype),
            count: event.count,
            algorithm: Name::of_algorithm(event.algo),
            protocol: Name::of_protocol(event.proto),
            channels: (event.nMaxChannels > 0).then_some(Channels::AtMost(event.nMaxChannels)),
            warps: event.nWarps,
            captured: None,
        }
    }
}

/// Versions 2 and 3 differ in one field that is not read here.
macro_rules! named_descriptor {
    ($descriptor:ident, $api:ident) => {
        impl Descriptor for abi::$descriptor {
            const API: Api = Api::$api;

            fn kind(&self) -> u32 {
                self.type_.into()
            }

            unsafe fn collective(&self) -> Event {
                // SAFETY: the caller says that the union holds a collective.
                let event = unsafe { &self.event.coll };
                // SAFETY: NULL or NCCL's strings.
                let name = |text| unsafe { Name::from_c(text) };
                Event {
                    rank: self.rank,
                    communicator: Some((event.commHash, name(event.name))),
                    sequence: event.seqNumber,
                    function: name(event.func),
                    datatype: name(event.datatype),
                    count: event.count,
                    algorithm: name(event.algo),
                    protocol: name(event.proto),
                    channels: (event.nMaxChannels > 0).then_some(Channels::AtMost(event.nMaxChannels)),
                    warps: event.nWarps,
                    captured: None,
                }
            }
        }
    };
}

named_descriptor!(ncclProfilerEventDescr_v2_t, V2);
named_descriptor!(ncclProfilerEventDescr_v3_t, V3);

impl Descriptor for abi::ncclProfilerEventDescr_v4_t {
    const API: Api = Api::V4;

    fn kind(&self) -> u32 {
        self.type_.into()
    }

    unsafe fn collective(&self) -> Event {
        // SAFETY: the caller says that the union holds a collective.
        let event = unsafe { &self.event.coll };
        // SAFETY: NULL or NCCL's strings.
        let name = |text| unsafe { Name::from_c(text) };
        Event {
            rank: self.rank,
            communicator: None,
            sequence: event.seqNumber,
            function: name(event.func),
            datatype: name(event.datatype),
            count: event.count,
            algorithm: name(event.algo),
            protocol: name(event.proto),
            channels: (event.nChannels > 0).then_some(Channels::Used(event.nChannels)),
            warps: event.nWarps,
            captured: None,
        }
    }
}

impl Descriptor for abi::ncclProfilerEventDescr_v5_t {
    const API: Api = Api::V5;

    fn kind(&self) -> u32 {
        // No type that is known here needs more bits; what does is none of them.
        u32::try_from(self.type_).unwrap_or(u32::MAX)
    }

    fn is_captured_call(&self) -> bool {
        // SAFETY: the type says that the union holds a call of a collective.
        self.kind() == abi::ncclProfileCollApi && unsafe { self.event.collApi.graphCaptured } != 0
    }

    unsafe fn collective(&self) -> Event {
        // SAFETY: the caller says that the union holds a collective.
        let event = unsafe { &self.event.coll };
        // SAFETY: NULL or NCCL's strings.
        let name = |text| unsafe { Name::from_c(text) };
        Event {
            rank: self.rank,
            communicator: None,
            sequence: event.seqNumber,
            function: name(event.func),
            datatype: name(event.datatype),
            count: event.count,
            algorithm: name(event.algo),
            protocol: name(event.proto),
            channels: (event.nChannels > 0).then_some(Channels::Used(event.nChannels)),
            warps: event.nWarps,
            captured: handle::captured(self.parentObj),
        }
    }
}
