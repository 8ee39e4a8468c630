//! Links libculvert.so without libc, start files or anything else of the system, what is used often
//! side by side (docs/design/starting-a-program.md).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for arg in [
        "-nostdlib",
        "-nostartfiles",
        "-Wl,-z,now",
        "-Wl,-z,relro",
        // What is only read lies in one segment with the code: a mapping less for each program.
        "-Wl,--no-rosegment",
        "-Wl,-Bsymbolic",
        "-Wl,--no-undefined",
        // Where segments may share pages the linker leaves a page between two of them now and then,
        // by their sizes, and ld.so takes it away by an mprotect in each program.
        "-Wl,-z,separate-loadable-segments",
        // Addresses in tables take 8 bytes for 63 of them, in place of 24 for each:
        // `relocation.rs`.
        "-Wl,--pack-dyn-relocs=relr",
        "-Wl,-init=culvert_relocate",
        "-Wl,-soname,libculvert.so",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
    for arg in ["-nostdlib", "-nostartfiles", "-static", "-no-pie"] {
        println!("cargo::rustc-link-arg-bin=culvert={arg}");
    }
    // Quick builds say what a panic was and where: `defect.rs`.
    println!("cargo::rustc-check-cfg=cfg(panics_are_told)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level != "3") {
        println!("cargo::rustc-cfg=panics_are_told");
    }
    for script in ["order.ld", "data.ld"] {
        println!("cargo::rerun-if-changed={script}");
        let directory = env!("CARGO_MANIFEST_DIR");
        println!("cargo::rustc-cdylib-link-arg=-T{directory}/{script}");
    }
}
