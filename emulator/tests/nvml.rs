//! What a look at the box through NVML shows.

mod support;

use std::ffi::c_uint;
use std::ptr::null_mut;

use support::*;

unsafe extern "C" {
    safe fn nvmlInit_v2() -> u32;
    fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> u32;
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Handle) -> u32;
    fn nvmlDeviceGetComputeRunningProcesses_v3(device: Handle, count: *mut c_uint, infos: *mut [u64; 3]) -> u32;
    fn nvmlDeviceGetUtilizationRates(device: Handle, rates: *mut [c_uint; 2]) -> u32;
    fn nvmlDeviceGetTopologyCommonAncestor(a: Handle, b: Handle, level: *mut c_uint) -> u32;
    fn nvmlDeviceGetPowerUsage(device: Handle, milliwatts: *mut c_uint) -> u32;
}

const INSUFFICIENT_SIZE: u32 = 7;
const GPU_IS_LOST: u32 = 15;

fn device(index: u32) -> Result<Handle, u32> {
    let mut device = null_mut();
    // SAFETY: a pointer to a local.
    let code = unsafe { nvmlDeviceGetHandleByIndex_v2(index, &raw mut device) };
    if code == 0 { Ok(device) } else { Err(code) }
}

fn pids(index: u32) -> Vec<u64> {
    let device = device(index).expect("the GPU is there");
    let mut count = 0;
    // SAFETY: pointers to locals; no room is given, so nothing is written but the count.
    let code = unsafe { nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, null_mut()) };
    assert_eq!(code, if count > 0 { INSUFFICIENT_SIZE } else { 0 });
    let mut infos = vec![[0_u64; 3]; count as usize];
    ok!(nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, infos.as_mut_ptr()));
    infos.iter().map(|info| info[0] & 0xFFFF_FFFF).collect()
}

fn load(index: u32) -> (u32, u32) {
    let device = device(index).expect("the GPU is there");
    let (mut rates, mut power) = ([0; 2], 0);
    ok!(nvmlDeviceGetUtilizationRates(device, &raw mut rates));
    ok!(nvmlDeviceGetPowerUsage(device, &raw mut power));
    (rates[0], power / 1000)
}

#[test]
fn scenarios() {
    let Some(scenario) = scenario() else { return };
    assert_eq!(nvmlInit_v2(), 0);
    match scenario.as_str() {
        "busy" => say(&format!("{:?} {:?} {:?}", pids(0), pids(1), load(1))),
        "lost" => {
            with_comm(4, 512, |rank, barrier| {
                rank.all_reduce();
                barrier.wait();
                // SAFETY: the rank's stream; its GPU may be lost.
                let code = unsafe { cuStreamSynchronize(rank.stream) };
                barrier.wait();
                if rank.rank == 0 {
                    say(&format!("{code} {:?} {:?}", device(2).map(|_| ()), device(1).map(|_| ())));
                    // The lost rank cannot clean up.
                    std::process::exit(0);
                }
                barrier.wait();
            });
        }
        "wedged" => {
            bind(0);
            say(&format!("{:?} {:?}", pids(0), load(0)));
        }
        other => panic!("no scenario {other}"),
    }
}

#[test]
fn busy_pids_are_shown_on_their_gpu() {
    let output = in_process("busy", &[("NCCLSWEEP_EMULATE_BUSY", "4711,1:42,1:43")]);
    assert_eq!(said(&output), ["[4711] [42, 43] (100, 120)"]);
}

#[test]
fn a_lost_gpu_is_lost_to_nvml_too() {
    let output = in_process("lost", &[("NCCLSWEEP_EMULATE_FAULT", "gpu-lost@first,rank=2")]);
    assert_eq!(said(&output), [format!("0 Err({GPU_IS_LOST}) Ok(())")]);
}

#[test]
fn a_wedged_box_is_at_full_load_without_a_process() {
    let output = in_process("wedged", &[("NCCLSWEEP_EMULATE_FAULT", "busy@load")]);
    assert_eq!(said(&output), ["[] (100, 120)"]);
}

#[test]
fn the_default_box_has_eight_gpus_two_a_switch() {
    assert_eq!(nvmlInit_v2(), 0);
    let mut count = 0;
    ok!(nvmlDeviceGetCount_v2(&raw mut count));
    assert_eq!(count, 8);
    assert!(device(8).is_err());
    let level = |a, b| {
        let mut level = 99;
        let [a, b] = [a, b].map(|index| device(index).expect("the GPU is there"));
        ok!(nvmlDeviceGetTopologyCommonAncestor(a, b, &raw mut level));
        level
    };
    assert_eq!([level(0, 1), level(1, 2), level(3, 4)], [10, 40, 50]);
}
