//! Links libculvert.so without libc, start files or anything else of the system.

fn main() {
    for arg in [
        "-nostdlib",
        "-nostartfiles",
        "-Wl,-z,now",
        "-Wl,-z,relro",
        "-Wl,-Bsymbolic",
        "-Wl,--no-undefined",
        "-Wl,-soname,libculvert.so",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
}
