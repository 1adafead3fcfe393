//! A server to be audited: a process of its own that loads CUDA and NCCL by their names, as PyTorch does, makes communicators
//! among its threads, and reduces. What it is to do stands in its environment as `key=value` words.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::time::Duration;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

/// Names the variable that makes a process a server.
pub const VARIABLE: &str = "NCCLSWEEP_TEST_SERVER";

type Handle = *mut c_void;

#[derive(Clone, Copy)]
#[repr(C)]
struct UniqueId([u64; 16]);

/// `ncclBfloat16`, `ncclSum`.
const BF16: u32 = 9;
const SUM: u32 = 0;

/// What a server does. Ranks are threads; every rank does the same.
#[derive(Clone, Debug)]
pub struct Work {
    pub ranks: usize,
    pub communicators: usize,
    /// Elements of each call; every communicator makes `calls` calls of every size.
    pub sizes: Vec<usize>,
    pub calls: usize,
    /// Of all sizes in one graph, which is replayed twice.
    pub captured: usize,
    /// `NAME=VALUE` that it sets in itself, between its first communicator and the others; with only one, before it.
    pub set: Option<(String, String)>,
    pub end: Ending,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Communicators are destroyed, then it exits.
    Orderly,
    /// It exits with its communicators alive.
    Exit,
    /// `_exit`, with its communicators alive.
    Bare,
    /// It says so and waits to be killed.
    Wait,
}

impl Work {
    /// Reads `ranks=2 sizes=7168,14336 calls=100 …`; what is left out is little.
    pub fn parse(text: &str) -> Self {
        let mut work = Self {
            ranks: 2,
            communicators: 1,
            sizes: vec![7168],
            calls: 10,
            captured: 0,
            set: None,
            end: Ending::Orderly,
        };
        for word in text.split_ascii_whitespace() {
            let (key, value) = word.split_once('=').expect("words are key=value");
            let number = || value.parse().expect("a number");
            match key {
                "ranks" => work.ranks = number(),
                "communicators" => work.communicators = number(),
                "sizes" => work.sizes = value.split(',').map(|size| size.parse().expect("a number")).collect(),
                "calls" => work.calls = number(),
                "captured" => work.captured = number(),
                "set" => work.set = value.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())),
                "end" => {
                    work.end = match value {
                        "orderly" => Ending::Orderly,
                        "exit" => Ending::Exit,
                        "bare" => Ending::Bare,
                        "wait" => Ending::Wait,
                        other => panic!("{other}"),
                    }
                }
                other => panic!("{other}"),
            }
        }
        work
    }
}

/// Becomes the server that the environment asks for, if it asks for one.
pub fn serve_if_asked() {
    if let Ok(text) = std::env::var(VARIABLE) {
        serve(&Work::parse(&text));
    }
}

/// Both libraries, never closed.
struct Gpu {
    cuda: Library,
    nccl: Library,
}

/// Calls a function of a library; anything but success ends the server.
macro_rules! call {
    ($library:expr, $name:literal($($argument:expr => $type:ty),*)) => {{
        // SAFETY: the library exports this function with this C type; the arguments are valid for it.
        let code = unsafe {
            let function: Symbol<unsafe extern "C" fn($($type),*) -> u32> =
                $library.get($name.as_bytes()).expect($name);
            function($($argument),*)
        };
        assert_eq!(code, 0, "{}", $name);
    }};
}

impl Gpu {
    fn load() -> Self {
        let open = |name| {
            // SAFETY: as any program that uses GPUs loads them.
            unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.expect(name)
        };
        let gpu = Self { cuda: open("libcuda.so.1"), nccl: open("libnccl.so.2") };
        call!(gpu.cuda, "cuInit"(0 => c_uint));
        gpu
    }

    fn id(&self) -> UniqueId {
        let mut id = UniqueId([0; 16]);
        call!(self.nccl, "ncclGetUniqueId"(&mut id => *mut UniqueId));
        id
    }

    /// Makes the rank's device current, and gives a stream and two buffers.
    fn device(&self, rank: usize, bytes: usize) -> (Handle, [u64; 2]) {
        let (mut context, mut stream) = (null_mut(), null_mut());
        call!(self.cuda, "cuDevicePrimaryCtxRetain"(&mut context => *mut Handle, rank as c_int => c_int));
        call!(self.cuda, "cuCtxSetCurrent"(context => Handle));
        call!(self.cuda, "cuStreamCreate"(&mut stream => *mut Handle, 1 => c_uint));
        let mut buffers = [0; 2];
        for buffer in &mut buffers {
            call!(self.cuda, "cuMemAlloc_v2"(buffer => *mut u64, bytes => usize));
        }
        (stream, buffers)
    }

    fn communicator(&self, work: &Work, id: UniqueId, rank: usize) -> Handle {
        let mut communicator = null_mut();
        call!(self.nccl, "ncclCommInitRank"(
            &mut communicator => *mut Handle, work.ranks as c_int => c_int, id => UniqueId, rank as c_int => c_int
        ));
        communicator
    }

    fn all_reduce(&self, [send, receive]: [u64; 2], count: usize, communicator: Handle, stream: Handle) {
        call!(self.nccl, "ncclAllReduce"(
            send => u64, receive => u64, count => usize, BF16 => u32, SUM => u32, communicator => Handle, stream => Handle
        ));
    }
}

fn serve(work: &Work) -> ! {
    let gpu = Gpu::load();
    let first = gpu.id();
    // Nothing but the first communicator is made before a change.
    let others: Vec<UniqueId> = (1..work.communicators).map(|_| gpu.id()).collect();
    if let (Some(set), 1) = (&work.set, work.communicators) {
        change(set);
    }
    let barrier = std::sync::Barrier::new(work.ranks);
    std::thread::scope(|scope| {
        for rank in 0..work.ranks {
            let (gpu, others, barrier) = (&gpu, &others, &barrier);
            scope.spawn(move || {
                let bytes = 2 * work.sizes.iter().copied().max().unwrap_or(1);
                let (stream, buffers) = gpu.device(rank, bytes);
                let mut communicators = vec![gpu.communicator(work, first, rank)];
                if let (Some(set), true) = (&work.set, work.communicators > 1)
                    && barrier.wait().is_leader()
                {
                    change(set);
                }
                barrier.wait();
                communicators.extend(others.iter().map(|id| gpu.communicator(work, *id, rank)));
                reduce(gpu, work, &communicators, buffers, stream);
                if work.end == Ending::Orderly {
                    barrier.wait();
                    for communicator in communicators {
                        call!(gpu.nccl, "ncclCommDestroy"(communicator => Handle));
                    }
                }
            });
        }
    });
    match work.end {
        Ending::Orderly | Ending::Exit => std::process::exit(0),
        // SAFETY: nothing is left to be done.
        Ending::Bare => unsafe { nix::libc::_exit(0) },
        Ending::Wait => {
            println!("ready");
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
}

fn change((name, value): &(String, String)) {
    // SAFETY: one thread does it while the others wait or are not yet there.
    unsafe { std::env::set_var(name, value) };
}

fn reduce(gpu: &Gpu, work: &Work, communicators: &[Handle], buffers: [u64; 2], stream: Handle) {
    for call in 0..work.calls {
        for communicator in communicators {
            for count in &work.sizes {
                gpu.all_reduce(buffers, *count, *communicator, stream);
            }
        }
        // A stream holds so many calls at a time.
        if call % 64 == 63 {
            call!(gpu.cuda, "cuStreamSynchronize"(stream => Handle));
        }
    }
    call!(gpu.cuda, "cuStreamSynchronize"(stream => Handle));
    if work.captured > 0 {
        let (mut graph, mut exec) = (null_mut(), null_mut());
        call!(gpu.cuda, "cuStreamBeginCapture_v2"(stream => Handle, 1 => c_uint));
        for communicator in communicators {
            for _ in 0..work.captured {
                for count in &work.sizes {
                    gpu.all_reduce(buffers, *count, *communicator, stream);
                }
            }
        }
        call!(gpu.cuda, "cuStreamEndCapture"(stream => Handle, &mut graph => *mut Handle));
        call!(gpu.cuda, "cuGraphInstantiateWithFlags"(&mut exec => *mut Handle, graph => Handle, 0 => u64));
        for _ in 0..2 {
            call!(gpu.cuda, "cuGraphLaunch"(exec => Handle, stream => Handle));
            call!(gpu.cuda, "cuStreamSynchronize"(stream => Handle));
        }
        call!(gpu.cuda, "cuGraphExecDestroy"(exec => Handle));
        call!(gpu.cuda, "cuGraphDestroy"(graph => Handle));
    }
}
