#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rowlock_fuzz::redis::run(data));
