//! The profiler plugin: loaded once, told of each collective through the newest of its APIs that this NCCL knows.

mod abi;

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use abi::{
    CallV5, CollectiveV1, CollectiveV2, CollectiveV3, CollectiveV4, CollectiveV5, Descriptor, DescriptorV5, GroupV5,
    InitV1, InitV4, InitV5, Table,
};

use super::comm::Comm;
use super::plan::Choice;
use super::{env, log};
use crate::engine::Dtype;
use crate::settings::{self, Version};

/// The events the plugin wants; it changes this at any time.
static MASK: AtomicI32 = AtomicI32::new(0);

const GROUP: i32 = 1;
const COLLECTIVE: i32 = 2;
const GROUP_API: i32 = 256;
const CALL_API: i32 = 512;
/// Group and collective events are also sent for the sake of those that hang below them.
const BELOW_COLLECTIVE: i32 = COLLECTIVE | 8 | 16 | 64 | 128;
const BELOW_GROUP: i32 = GROUP | 4 | BELOW_COLLECTIVE;

/// A loaded plugin.
#[derive(Clone, Copy)]
struct Plugin {
    table: &'static Table,
    api: u32,
}

// SAFETY: the table is immutable data of a library that is never unloaded; plugins must be callable from any thread.
unsafe impl Send for Plugin {}
// SAFETY: as for Send.
unsafe impl Sync for Plugin {}

/// A communicator's context in the plugin.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    plugin: Plugin,
    context: *mut c_void,
}

// SAFETY: the pointer is only handed back to the plugin, which NCCL calls from any thread.
unsafe impl Send for Context {}
// SAFETY: as for Send.
unsafe impl Sync for Context {}

fn plugin() -> Option<Plugin> {
    static PLUGIN: OnceLock<Option<Plugin>> = OnceLock::new();
    *PLUGIN.get_or_init(load)
}

/// The newest API that this version of NCCL knows.
fn newest_api() -> Option<u32> {
    let version = settings::get().nccl;
    [(28, 5), (27, 4), (26, 3), (24, 2), (23, 1)]
        .into_iter()
        .find(|(minor, _)| version.since(*minor))
        .map(|(_, api)| api)
}

fn load() -> Option<Plugin> {
    let newest = newest_api()?;
    let name = env::get("NCCL_PROFILER_PLUGIN");
    if let Some(name) = &name {
        log::info(log::ENV, &format!("NCCL_PROFILER_PLUGIN set by environment to {name}"));
        if name.eq_ignore_ascii_case("none") {
            return None;
        }
    }
    let library = open(name.as_deref().filter(|name| !name.is_empty()))?;
    for api in (1..=newest).rev() {
        let symbol = CString::new(format!("ncclProfiler_v{api}")).ok()?;
        // SAFETY: an open library and a terminated name.
        let table = unsafe { libc::dlsym(library, symbol.as_ptr()) };
        if !table.is_null() {
            // SAFETY: a plugin exports under this name a table of this layout, for as long as it is loaded (for ever).
            let table: &'static Table = unsafe { &*table.cast() };
            // SAFETY: the name is null or a terminated string of the plugin.
            let own = if table.name.is_null() { c"" } else { unsafe { CStr::from_ptr(table.name) } };
            tell_loaded(&own.to_string_lossy(), api, name.as_deref());
            return Some(Plugin { table, api });
        }
    }
    let name = name.unwrap_or_default();
    log::info(log::INIT, &format!("External profiler plugin {name} is unsupported"));
    None
}

fn tell_loaded(own: &str, api: u32, asked: Option<&str>) {
    if !settings::get().nccl.since(27) {
        log::info(log::INIT | log::ENV, &format!("PROFILER/Plugin: loaded {own}"));
        return;
    }
    log::info(log::INIT, &format!("PROFILER/Plugin: Loaded {own} (v{api})"));
    if let Some(asked) = asked {
        log::info(log::INIT, &format!("Successfully loaded external profiler plugin {asked}"));
    }
}

/// Opens the executable itself, a path, a library name, or `libnccl-profiler-NAME.so`.
fn open(name: Option<&str>) -> Option<*mut c_void> {
    // 2.27.3 makes a file's name of all that is none, of this word too; so does nothing since 2.27.5.
    let version = settings::get().nccl;
    let made_a_file = version.since(27) && version < Version::new(2, 27, 5);
    if name.is_some_and(|name| name.eq_ignore_ascii_case("STATIC_PLUGIN")) && !made_a_file {
        return dlopen(None);
    }
    let first = name.unwrap_or("libnccl-profiler.so");
    let mut tried = vec![first.to_owned()];
    let is_file = |name: &&str| name.contains('/') || (name.starts_with("lib") && name.ends_with(".so"));
    if let Some(name) = name.filter(|name| !is_file(name)) {
        tried.push(format!("libnccl-profiler-{name}.so"));
    }
    let library = tried.iter().find_map(|name| dlopen(Some(name)));
    if library.is_none() {
        log::info(log::INIT, &format!("PROFILER/Plugin: Could not find: {}", tried.join(" ")));
    }
    library
}

fn dlopen(name: Option<&str>) -> Option<*mut c_void> {
    let name = name.map(CString::new).transpose().ok()?;
    let pointer = name.as_ref().map_or(null(), |name| name.as_ptr());
    // SAFETY: null (the executable) or a terminated name; loading runs the library's own constructors, as NCCL does.
    let library = unsafe { libc::dlopen(pointer, libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!library.is_null()).then_some(library)
}

/// What v4 plugins log with. The C type takes arguments after the format, which no function in Rust can: the format alone
/// is written.
extern "C" fn log_for_plugin(level: c_int, flags: c_ulong, file: *const c_char, line: c_int, format: *const c_char) {
    let message = crate::abi::text(format).unwrap_or_default();
    let place = format!("{}:{line}", crate::abi::text(file).unwrap_or_default());
    if level <= 2 { log::warn(&place, &message) } else { log::info(flags as u32, &message) }
}

/// Tells the plugin, if there is one, of a communicator.
pub(crate) fn attach(hash: u64, ranks: usize, rank: usize) -> Option<Context> {
    let plugin = plugin()?;
    let mut context = null_mut();
    let mask = MASK.as_ptr();
    let failed = if plugin.api >= 5 {
        // SAFETY: in v5 `init` has this type.
        let init: InitV5 = unsafe { std::mem::transmute(plugin.table.init) };
        // SAFETY: all pointers are valid; the mask lives for ever.
        unsafe { init(&raw mut context, hash, mask, null(), 1, ranks as c_int, rank as c_int, log_for_plugin) }
    } else if plugin.api >= 4 {
        // SAFETY: in v4 `init` has this type.
        let init: InitV4 = unsafe { std::mem::transmute(plugin.table.init) };
        // SAFETY: all pointers are valid; the mask lives for ever.
        unsafe { init(&raw mut context, mask, null(), hash, 1, ranks as c_int, rank as c_int, log_for_plugin) }
    } else {
        // SAFETY: up to v3 `init` has this type.
        let init: InitV1 = unsafe { std::mem::transmute(plugin.table.init) };
        // SAFETY: both pointers are valid; the mask lives for ever.
        unsafe { init(&raw mut context, mask) }
    };
    if failed != 0 {
        log::info(log::INIT, &format!("Profiler init failed with error '{failed}'. Continue without profiler."));
        return None;
    }
    Some(Context { plugin, context })
}

impl Context {
    pub(crate) fn finalize(&self) {
        // SAFETY: the context came from this plugin's `init` and is not used afterwards.
        unsafe { (self.plugin.table.finalize)(self.context) };
    }
}

/// A collective as the plugin is told of it.
#[derive(Clone, Copy)]
pub(crate) struct Described {
    pub choice: Choice,
    pub dtype: Dtype,
    pub send: u64,
    pub receive: u64,
    pub count: usize,
    pub operation: u32,
    pub number: u64,
    pub captured: bool,
}

const ALGORITHMS: [&CStr; 2] = [c"TREE", c"RING"];
const PROTOCOLS: [&CStr; 3] = [c"LL", c"LL128", c"SIMPLE"];
const ALL_REDUCE: &CStr = c"AllReduce";

/// A call whose collective is still to be told, of which the API's own events have been; as far as the mask asked for them then.
pub(crate) struct Announced {
    context: Context,
    rank: usize,
    hash: u64,
    told: Described,
    mask: i32,
    group_api: Handle,
    call: Handle,
}

/// What a plugin gave for an event.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

// SAFETY: it is only handed back to the plugin, which NCCL calls from any thread.
unsafe impl Send for Handle {}
// SAFETY: as for Send.
unsafe impl Sync for Handle {}

/// Tells of a call as it is made: what the mask asks for now counts for all of it.
pub(crate) fn announce(comm: &Comm, told: Described) -> Option<Announced> {
    let context = comm.profiler?;
    let mask = MASK.load(Ordering::Relaxed);
    if mask & BELOW_GROUP == 0 {
        return None;
    }
    let none = Handle(null_mut());
    let mut announced =
        Announced { context, rank: comm.rank, hash: comm.hash, told, mask, group_api: none, call: none };
    if context.plugin.api >= 5 {
        announced.start_calls();
    }
    Some(announced)
}

impl Announced {
    /// Begins and ends the group event and the collective's event.
    pub(crate) fn tell(&self) {
        let api = self.context.plugin.api;
        let group = self.start_event(api, GROUP, null_mut());
        // Up to 2.27 the collectives of a group without a handle are not told.
        if self.mask & BELOW_COLLECTIVE != 0 && (!group.is_null() || settings::get().nccl.since(28)) {
            self.stop(self.start_event(api, COLLECTIVE, group));
        }
        self.stop(group);
    }

    /// Ends the API's events, as the call returns.
    pub(crate) fn returned(&self) {
        self.stop(self.call.0);
        self.stop(self.group_api.0);
    }

    fn stop(&self, handle: *mut c_void) {
        if !handle.is_null() {
            // SAFETY: the handle came from this plugin's `startEvent`.
            unsafe { (self.context.plugin.table.stop)(handle) };
        }
    }

    fn send(&self, descriptor: *mut c_void) -> *mut c_void {
        let mut handle = null_mut();
        // SAFETY: the descriptor has the layout of the plugin's API and outlives the call.
        let failed = unsafe { (self.context.plugin.table.start)(self.context.context, &raw mut handle, descriptor) };
        if failed == 0 { handle } else { null_mut() }
    }

    /// The events of the API: the group, which every call opens when none is open, and the call.
    fn start_calls(&mut self) {
        let told = &self.told;
        let captured = told.captured;
        let group = GroupV5 { captured, depth: 1, rest: [0; 10] };
        let mut group = DescriptorV5 { kind: GROUP_API as u64, parent: null_mut(), rank: 0, body: group };
        let parent = self.send((&raw mut group).cast());
        let call = CallV5 {
            function: ALL_REDUCE.as_ptr(),
            count: told.count,
            dtype: told.dtype.name().as_ptr(),
            root: 0,
            stream: null_mut(),
            captured,
            rest: [0; 5],
        };
        let mut call = DescriptorV5 { kind: CALL_API as u64, parent, rank: self.rank as c_int, body: call };
        self.group_api = Handle(parent);
        self.call = Handle(self.send((&raw mut call).cast()));
    }

    fn start_event(&self, api: u32, kind: i32, parent_group: *mut c_void) -> *mut c_void {
        let (parent, told, choice) = (parent_group, &self.told, self.told.choice);
        // Since 2.28 the older APIs are served from the newest one, which lacks these.
        let served = settings::get().nccl.since(28);
        let (name, hash) = if served { (null(), 0) } else { (c"".as_ptr(), self.hash) };
        let (sent, received) = (told.send as *const c_void, told.receive as *mut c_void);
        let max_channels = if served { choice.channels } else { choice.max_channels } as u8;
        let traffic = told.count * told.dtype.size() * 2;
        let (algorithm, protocol) = (ALGORITHMS[choice.algorithm].as_ptr(), PROTOCOLS[choice.protocol].as_ptr());
        let (function, dtype, warps) = (ALL_REDUCE.as_ptr(), told.dtype.name().as_ptr(), choice.warps as u8);
        let (number, count, root) = (told.number, told.count, 0);
        macro_rules! send {
            ($collective:expr) => {{
                let rank = if kind == GROUP { 0 } else { self.rank as c_int };
                let mut descriptor = Descriptor { kind: kind as u8, parent, rank, collective: $collective };
                self.send((&raw mut descriptor).cast())
            }};
        }
        match api {
            1 => send!(CollectiveV1 {
                name,
                hash,
                number,
                function: 4,
                send: sent,
                receive: received,
                count,
                root,
                dtype: told.dtype as u8,
                operation: told.operation,
                traffic,
                max_channels,
                warps,
                algorithm: choice.algorithm as u8,
                protocol: choice.protocol as u8,
                collnet: 0,
                nvls: 0,
            }),
            2 => send!(CollectiveV2 {
                name,
                hash,
                number,
                function,
                send: sent,
                receive: received,
                count,
                root,
                dtype,
                traffic,
                max_channels,
                warps,
                algorithm,
                protocol,
            }),
            3 => send!(CollectiveV3 {
                name,
                hash,
                number,
                function,
                send: sent,
                receive: received,
                count,
                root,
                dtype,
                max_channels,
                warps,
                algorithm,
                protocol,
            }),
            4 => send!(CollectiveV4 {
                number,
                function,
                send: sent,
                receive: received,
                count,
                root,
                dtype,
                channels: choice.channels as u8,
                warps,
                algorithm,
                protocol,
            }),
            _ => {
                let collective = CollectiveV4 {
                    number,
                    function,
                    send: sent,
                    receive: received,
                    count,
                    root,
                    dtype,
                    channels: choice.channels as u8,
                    warps,
                    algorithm,
                    protocol,
                };
                let (parent, rank) = if kind == GROUP { (null_mut(), 0) } else { (self.call.0, self.rank as c_int) };
                let body = CollectiveV5 { collective, parent_group };
                let mut descriptor = DescriptorV5 { kind: kind as u64, parent, rank, body };
                self.send((&raw mut descriptor).cast())
            }
        }
    }
}
