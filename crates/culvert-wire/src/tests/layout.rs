//! The structures are the kernel's: compared with the installed header by a C program, and with the
//! running kernel's own type information.

use super::Layout;
use crate::structures;
use std::{
    collections::HashMap, env, format, fs, process, process::Command, string::String, vec::Vec,
};

/// Fields that are younger than their structure: what older headers have in their place has another
/// name.
const YOUNGER: &[(&str, &str, u32)] = &[
    ("fuse_open_out", "backing_id", 40),
    ("fuse_init_out", "max_stack_depth", 40),
    ("fuse_init_out", "request_timeout", 43),
    ("fuse_init_out", "unused", 43),
    ("fuse_in_header", "total_extlen", 38),
    ("fuse_notify_inval_entry_out", "flags", 38),
];

fn all() -> impl Iterator<Item = Layout> {
    structures::LAYOUTS.into_iter().flatten().copied()
}

/// A field's name as C has it.
fn c_name(field: &str) -> &str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Whether a header or kernel of version `minor` has this field.
fn has(structure: &str, field: &str, minor: u32) -> bool {
    !YOUNGER
        .iter()
        .any(|&(s, f, since)| (s, f) == (structure, field) && since > minor)
}

/// Compiles and runs `source`; what it prints.
fn run_c(name: &str, source: &str) -> String {
    let base = env::temp_dir().join(format!("culvert-wire-{}-{name}", process::id()));
    let (file, program) = (base.with_extension("c"), base.with_extension("out"));
    fs::write(&file, source).expect("temporary directory");
    let compiled = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(&file)
        .output();
    let compiled = compiled.expect("a C compiler");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let output = Command::new(&program)
        .output()
        .expect("just compiled")
        .stdout;
    for made in [file, program] {
        fs::remove_file(made).expect("just made");
    }
    String::from_utf8(output).expect("text")
}

const HEAD: &str =
    "#include <stdio.h>\n#include <stddef.h>\n#include <linux/fuse.h>\nint main(void) {\n";

#[test]
fn structures_are_the_headers() {
    let minor = run_c(
        "minor",
        &format!("{HEAD}printf(\"%d\", FUSE_KERNEL_MINOR_VERSION);}}"),
    );
    let minor: u32 = minor.parse().expect("a number");
    assert!(minor >= 31, "linux/fuse.h is of version 7.{minor}");
    let (mut source, mut wanted) = (String::from(HEAD), String::new());
    let mut ask = |expression: String, want: usize| {
        source += &format!("printf(\"{expression} %zu\\n\", {expression});\n");
        wanted += &format!("{expression} {want}\n");
    };
    for (name, since, size, fields) in all() {
        if since > minor {
            continue;
        }
        ask(format!("sizeof(struct {name})"), size);
        for &(field, offset, size) in fields {
            if has(name, field, minor) {
                let field = c_name(field);
                ask(format!("offsetof(struct {name}, {field})"), offset);
                ask(format!("sizeof(((struct {name} *)0)->{field})"), size);
            }
        }
    }
    source += "}\n";
    assert_eq!(run_c("layout", &source), wanted);
}

/// A structure of the kernel: its size, and the offsets of its fields.
type KernelStructure = (usize, HashMap<String, usize>);

/// The structures in type information (`Documentation/bpf/btf.rst` of the kernel).
fn btf(bytes: &[u8]) -> HashMap<String, KernelStructure> {
    let word = |at: usize| {
        let bytes = bytes[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes) as usize
    };
    let header = word(4);
    let (types, types_length) = (header + word(8), word(12));
    let strings = header + word(16);
    let string = |offset: usize| {
        let text = &bytes[strings + offset..];
        let end = text.iter().position(|&byte| byte == 0).expect("ended");
        String::from_utf8_lossy(&text[..end]).into_owned()
    };
    let mut found = HashMap::new();
    let mut at = types;
    while at < types + types_length {
        let (name, info, size) = (word(at), word(at + 4), word(at + 8));
        let (count, kind, bit_fields) = (info & 0xffff, info >> 24 & 0x1f, info >> 31 == 1);
        at += 12;
        if kind == 4 && string(name).starts_with("fuse_") {
            let members = (0..count).map(|i| {
                let member = at + 12 * i;
                let offset = match bit_fields {
                    true => word(member + 8) & 0xff_ffff,
                    false => word(member + 8),
                };
                (string(word(member)), offset / 8)
            });
            found.insert(string(name), (size, members.collect()));
        }
        at += match kind {
            1 | 14 | 17 => 4,
            3 => 12,
            4 | 5 | 15 | 19 => 12 * count,
            6 | 13 => 8 * count,
            _ => 0,
        };
    }
    found
}

/// The only check of what is younger than the installed header. Where the kernel has no type
/// information, or FUSE is a module, there is nothing to compare.
#[test]
fn structures_are_the_running_kernels() {
    let Ok(bytes) = fs::read("/sys/kernel/btf/vmlinux") else {
        return;
    };
    let kernel = btf(&bytes);
    let mut compared = Vec::new();
    for (name, _, size, fields) in all() {
        let Some((kernel_size, members)) = kernel.get(name) else {
            continue;
        };
        assert_eq!(size, *kernel_size, "{name}");
        for &(field, offset, _) in fields {
            // A kernel that is older than a field has it under another name.
            if let Some(kernel_offset) = members.get(c_name(field)) {
                let unused = (name, field) == ("fuse_init_out", "unused");
                assert!(offset == *kernel_offset || unused, "{name}.{field}");
            }
        }
        compared.push(name);
    }
    std::println!("compared: {compared:?}");
    assert!(kernel.is_empty() || compared.len() > 20, "{compared:?}");
}
