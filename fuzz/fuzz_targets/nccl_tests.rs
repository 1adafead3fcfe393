#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ncclsweep_fuzz::check("nccl_tests", input));
