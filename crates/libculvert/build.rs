//! Links libculvert.so without libc, start files or anything else of the system.

fn main() {
    for arg in [
        "-nostdlib",
        "-nostartfiles",
        "-Wl,-z,now",
        "-Wl,-z,relro",
        "-Wl,-Bsymbolic",
        "-Wl,--no-undefined",
        // Where segments may share pages the linker leaves a page between two of them now and then,
        // by their sizes, and ld.so takes it away by an mprotect in each program.
        "-Wl,-z,separate-loadable-segments",
        "-Wl,-soname,libculvert.so",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
}
