//! NCCL finds the profiler plugin in the executable: the tables are dynamic symbols of it, and the tables are the recorder's.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use libloading::os::unix::Library;
use nccl_profiler_ncclsweep::abi;
use nccl_profiler_ncclsweep::recorder::{self, Api};
use object::{Object, ObjectSymbol, SymbolKind};

const TABLES: [&str; 4] = ["ncclProfiler_v1", "ncclProfiler_v2", "ncclProfiler_v3", "ncclProfiler_v4"];

#[test]
fn the_executable_exports_each_table_as_data() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_ncclsweep")).unwrap();
    let program = object::File::parse(&*program).unwrap();
    for table in TABLES {
        let symbol = program.dynamic_symbols().find(|symbol| symbol.name() == Ok(table));
        let symbol = symbol.unwrap_or_else(|| panic!("{table} is no dynamic symbol of the executable"));
        assert!(symbol.is_definition() && symbol.is_global(), "{table} is not defined in the executable");
        assert_eq!((symbol.kind(), symbol.size()), (SymbolKind::Data, size_of::<abi::ncclProfiler_v4_t>() as u64));
    }
}

#[test]
fn tables_found_the_way_nccl_looks_lead_to_the_linked_recorder() {
    // This test is linked by the same arguments as the executable, so it may look in itself.
    let this = Library::this();
    for table in TABLES {
        // SAFETY: the symbol is only looked up.
        assert!(unsafe { this.get::<*const c_void>(table.as_bytes()) }.is_ok(), "dlsym finds no {table}");
    }
    // SAFETY: the crate defines the symbol with this type.
    let table: *const abi::ncclProfiler_v4_t = unsafe { *this.get(TABLES[3].as_bytes()).unwrap() };
    let (mut context, mut mask): (*mut c_void, c_int) = (null_mut(), -1);
    // SAFETY: the table is a static of this program; the calls are NCCL's, the mask lives until after finalize.
    unsafe {
        assert_eq!((*table).init.unwrap()(&mut context, &mut mask, null_mut(), 7, 1, 2, 0, None), 0);
        assert_eq!((recorder::attached(), recorder::api(), mask), (1, Some(Api::V4), 0));
        recorder::set_mask(true);
        let mut collective: abi::ncclProfilerEventDescr_v4_t = std::mem::zeroed();
        collective.type_ = abi::ncclProfileColl as u8;
        collective.event.coll.algo = c"TREE".as_ptr();
        assert_eq!((*table).startEvent.unwrap()(context, &mut null_mut(), &mut collective), 0);
        recorder::set_mask(false);
        assert_eq!((*table).finalize.unwrap()(context), 0);
    }
    let seen = recorder::take().collectives;
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].algorithm.as_str(), seen[0].communicator.hash), ("TREE", 7));
}
