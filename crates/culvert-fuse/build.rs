//! The name by which programs that were linked to the library look for it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libculvert_fuse.so");
    println!("cargo::rerun-if-changed=build.rs");
}
