//! Graphs: instantiated, launched and destroyed; they hold on to the communicators whose collectives they contain.

use std::ffi::{c_ulonglong, c_void};
use std::sync::Arc;

use super::{CAPTURE_UNSUPPORTED, Cu, Handle, INVALID_HANDLE, INVALID_VALUE, code, give, healthy, stream};
use crate::clock;
use crate::engine::{Engine, Graph, lock};

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, _flags: c_ulonglong) -> u32 {
    give(exec, instantiate(graph))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithParams(exec: *mut Handle, graph: Handle, parameters: *mut c_void) -> u32 {
    if parameters.is_null() { INVALID_VALUE.0 } else { give(exec, instantiate(graph)) }
}

fn instantiate(graph: Handle) -> Cu<Handle> {
    let mut engine = lock();
    healthy(&engine)?;
    let graph = engine.graphs.index(graph as u64).ok_or(INVALID_HANDLE)?;
    let copy = engine.graphs[graph].clone();
    for &group in &copy.groups {
        if let Some(group) = engine.groups.get_mut(group) {
            group.graphs += 1;
        }
    }
    let exec = engine.execs.insert(copy);
    Ok(engine.execs.handle(exec) as Handle)
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(exec: Handle, on: Handle) -> u32 {
    let upload = || {
        let mut engine = lock();
        stream(&mut engine, on)?;
        engine.execs.index(exec as u64).ok_or(INVALID_HANDLE).map(|_| ())
    };
    code(upload())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(exec: Handle, on: Handle) -> u32 {
    let launch = || {
        let mut engine = lock();
        let exec = engine.execs.index(exec as u64).ok_or(INVALID_HANDLE)?;
        let index = stream(&mut engine, on)?;
        if engine.streams[index].capture.is_some() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let steps = Arc::clone(&engine.execs[exec].steps);
        let host_calls = Arc::clone(&engine.execs[exec].host_calls);
        if !host_calls.is_empty() {
            drop(engine);
            host_calls.iter().for_each(|call| call());
            engine = lock();
        }
        clock::spend((engine.settings.machine.host.graph_launch * 1e3) as u64);
        engine.launch(index, &steps, clock::now());
        Ok(())
    };
    code(launch())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(exec: Handle) -> u32 {
    let mut engine = lock();
    let found = engine.execs.index(exec as u64).ok_or(INVALID_HANDLE);
    code(found.map(|exec| {
        let graph = engine.execs.remove(exec);
        let_go(&mut engine, graph);
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> u32 {
    let mut engine = lock();
    let found = engine.graphs.index(graph as u64).ok_or(INVALID_HANDLE);
    code(found.map(|graph| {
        let graph = engine.graphs.remove(graph);
        let_go(&mut engine, graph);
    }))
}

/// A graph is gone: communicators that wait for it may end.
fn let_go(engine: &mut Engine, graph: Option<Graph>) {
    for group in graph.into_iter().flat_map(|graph| graph.groups) {
        if let Some(group) = engine.groups.get_mut(group) {
            group.graphs -= 1;
        }
    }
    crate::nccl::graphs_changed();
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphGetNodes(graph: Handle, _nodes: *mut Handle, count: *mut usize) -> u32 {
    let engine = lock();
    let nodes = engine
        .graphs
        .index(graph as u64)
        .ok_or(INVALID_HANDLE)
        .map(|graph| engine.graphs[graph].steps.iter().map(|step| step.times as usize).sum());
    give(count, nodes)
}
