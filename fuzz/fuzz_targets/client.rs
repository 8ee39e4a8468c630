//! Any numbers as what a server that is not to be trusted answers, and as what is asked of its
//! client: an error, or something well-formed.
#![no_main]

#[path = "../../crates/culvert-client/tests/fuse/channel.rs"]
mod channel;
#[path = "../../crates/culvert-client/tests/fuse/hostile/server.rs"]
mod server;
#[path = "../../crates/culvert-client/tests/fuse/hostile/trial.rs"]
mod trial;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut data = data.to_vec().into_iter();
    trial::play(move || Some(u64::from(data.next()?)));
});
