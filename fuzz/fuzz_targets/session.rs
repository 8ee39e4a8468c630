//! Any bytes as what a kernel that is not to be trusted asks a server: all is answered, nothing
//! stays open, and the file system is whole.
#![no_main]

#[path = "../../crates/culvert-server/tests/hostile/kernel/mod.rs"]
mod kernel;
#[path = "../../crates/culvert-server/tests/hostile/trial.rs"]
mod trial;

use libfuzzer_sys::fuzz_target;

/// The next number: small ones are a byte, `0xf8` to `0xff` say how many bytes of a larger one
/// follow.
fn number(data: &mut std::vec::IntoIter<u8>) -> Option<u64> {
    let first = data.next()?;
    let Some(more) = first.checked_sub(0xf8) else {
        return Some(first.into());
    };
    let bytes = data.by_ref().take(usize::from(more) + 1);
    Some(bytes.fold(0, |number, byte| number << 8 | u64::from(byte)))
}

fuzz_target!(|data: &[u8]| {
    let mut data = data.to_vec().into_iter();
    trial::answered(move || number(&mut data));
});
