//! Checks of the machine: kernel, processor, C library, places for files, and one real run.

use super::{Check, bad, good, limited};
use crate::{
    failure::{reason, shown},
    run,
};
use culvert_cache::pager::userfault;
use culvert_sys::{
    PAGE, fd,
    flags::Protection,
    memory::{Mapping, Of},
    process::{denied_protections, unshare},
    raw::general::{CLONE_NEWNS, CLONE_NEWUSER, MFD_CLOEXEC},
};
use std::{
    ffi::CStr,
    fs,
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

/// Less space than this for run directories is worth a word: shadows of mapped files and started
/// programs lie there.
const SPACE_WANTED: u64 = 256 << 20;

/// All checks, in the order in which they build on each other.
pub fn checks() -> Vec<Check> {
    vec![
        kernel(),
        gs_base(),
        c_library(),
        library(),
        code_changes(),
        memory_file(),
        run_directories(),
        cache(),
        user_namespaces(),
        user_faults(),
        seccomp(),
        yama(),
        trial(),
    ]
}

fn kernel() -> Check {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let machine = name.machine().to_string_lossy().into_owned();
    let found = format!("Linux {release}, {machine}");
    if machine != "x86_64" {
        return bad("kernel", found, "only x86-64 is supported");
    }
    let mut parts = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    match version >= (5, 9) {
        true => good("kernel", found),
        false => bad(
            "kernel",
            found,
            "5.9 or later is needed: programs may not set the GS base before",
        ),
    }
}

fn gs_base() -> Check {
    const HWCAP2_FSGSBASE: usize = 2;
    match rustix::param::linux_hwcap().1 & HWCAP2_FSGSBASE {
        0 => bad(
            "FSGSBASE",
            "not available",
            "nothing is intercepted: the state of a thread hangs on its GS base",
        ),
        _ => good("FSGSBASE", "available"),
    }
}

fn c_library() -> Check {
    unsafe extern "C" {
        safe fn gnu_get_libc_version() -> *const std::ffi::c_char;
    }
    // SAFETY: a constant string of the C library.
    let version = unsafe { CStr::from_ptr(gnu_get_libc_version()) }.to_string_lossy();
    good("C library", format!("glibc {version}"))
}

/// Starts `cat` with the library as its auditor and looks whether it is mapped.
fn library() -> Check {
    const NAME: &str = "LD_AUDIT";
    let library = match run::library() {
        Ok(library) => library,
        Err(failure) => {
            return bad(
                NAME,
                failure.to_string().replace("\n         ", "; "),
                "nothing can be run",
            );
        }
    };
    let output = Command::new("cat")
        .arg("/proc/self/maps")
        .env_remove("CULVERT_RUN")
        .env("LD_AUDIT", &library)
        .stderr(Stdio::null())
        .output();
    match output {
        Err(error) => limited(NAME, format!("not tried: cat: {}", reason(&error)), ""),
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("libculvert.so") => {
            good(NAME, format!("loads {}", shown(&library)))
        }
        Ok(_) => bad(
            NAME,
            format!("does not load {}", shown(&library)),
            "nothing is intercepted: the dynamic loader ignores LD_AUDIT, or may not open the \
            library",
        ),
    }
}

/// Whether code may be made writable and executable again, as patching does.
fn code_changes() -> Check {
    const NAME: &str = "changing code";
    // It fails where it is not known (Linux 6.3).
    let denied = denied_protections().unwrap_or(0);
    if denied & 1 != 0 {
        return limited(
            NAME,
            "memory-deny-write-execute is set",
            "patches go through /proc/self/mem",
        );
    }
    let code = Protection::READ | Protection::EXEC;
    let outcome = Mapping::near(0, Of::Nothing, PAGE, code)
        .and_then(|page| page.protect((code | Protection::WRITE).bits() as usize));
    match outcome {
        Ok(_) => good(NAME, "allowed"),
        Err(error) => limited(
            NAME,
            format!("mprotect: {error}"),
            "patches go through /proc/self/mem",
        ),
    }
}

fn memory_file() -> Check {
    const NAME: &str = "memfd";
    match fd::memfd_create(c"culvert", MFD_CLOEXEC) {
        Ok(_) => good(NAME, "available"),
        Err(error) => bad(
            NAME,
            error.to_string(),
            "files of mounts cannot be opened: a descriptor stands on a memfd",
        ),
    }
}

fn run_directories() -> Check {
    const NAME: &str = "run directory";
    let base = match crate::base::base() {
        Ok(base) => base,
        Err(failure) => {
            return bad(
                NAME,
                failure.to_string().replace("\n         ", "; "),
                "nothing can be run",
            );
        }
    };
    let Ok(system) = rustix::fs::statvfs(&base) else {
        return good(NAME, shown(&base));
    };
    let space = system.f_bavail.saturating_mul(system.f_frsize);
    let found = format!("{}, {} MiB free", shown(&base), space >> 20);
    if system
        .f_flag
        .contains(rustix::fs::StatVfsMountFlags::NOEXEC)
    {
        return limited(
            NAME,
            format!("{found}, noexec"),
            "programs on a mount cannot be started, libraries there not mapped",
        );
    }
    match space < SPACE_WANTED {
        true => limited(
            NAME,
            found,
            "mapping large files of a mount may end with ENOSPC: their bytes go there",
        ),
        false => good(NAME, found),
    }
}

fn cache() -> Check {
    const NAME: &str = "index cache";
    let Some(directory) = crate::prepare::cache_directory() else {
        return limited(
            NAME,
            "neither XDG_CACHE_HOME nor HOME is set",
            "indexes are made again in each run",
        );
    };
    let place = directory
        .ancestors()
        .find(|place| place.exists())
        .unwrap_or(Path::new("/"));
    match rustix::fs::access(place, rustix::fs::Access::WRITE_OK) {
        Ok(()) => good(NAME, shown(&directory)),
        Err(error) => limited(
            NAME,
            format!("{}: {}", shown(&directory), reason(&error.into())),
            "indexes are made again in each run",
        ),
    }
}

/// Starts a program in a user and mount namespace of its own.
fn user_namespaces() -> Check {
    const NAME: &str = "user namespaces";
    let mut command = Command::new("true");
    let enter = || {
        let entered = unshare(CLONE_NEWUSER | CLONE_NEWNS);
        entered.map_err(|error| std::io::Error::from_raw_os_error(error.raw()))
    };
    // SAFETY: between fork and exec only one system call is made.
    let outcome = unsafe { command.pre_exec(enter) }
        .stdin(Stdio::null())
        .status();
    match outcome {
        Ok(_) => good(NAME, "allowed"),
        Err(error) => limited(
            NAME,
            reason(&error),
            "culvert run --private does not work without root",
        ),
    }
}

/// Whether pages of mapped files can be filled when they are touched
/// (`culvert_cache::pager`).
fn user_faults() -> Check {
    const NAME: &str = "userfaultfd";
    const CONSEQUENCE: &str = "files whose bytes only a driver has are filled before they are \
        mapped, not on demand: mapping a large one reads all of it";
    const NEEDED: &str = "needs root or CAP_SYS_PTRACE, /dev/userfaultfd that may be opened, or \
        vm.unprivileged_userfaultfd=1";
    let limited = |found: String| limited(NAME, found, CONSEQUENCE);
    match (userfault::create(), userfault::open_full()) {
        (Ok((_, true)), _) => good(NAME, "available: large mapped files are filled on demand"),
        (
            _,
            Err(error @ (culvert::Errno::EPERM | culvert::Errno::EACCES | culvert::Errno::ENOENT)),
        ) => limited(format!("not permitted ({error}): {NEEDED}")),
        (_, Err(error)) => limited(format!("{error}")),
        (_, Ok(_)) => limited("the kernel has no UFFDIO_POISON, which came with Linux 6.6".into()),
    }
}

fn seccomp() -> Check {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .map_or("unknown", str::trim);
    match mode {
        "0" => good("seccomp", "no filter"),
        "2" => Check {
            consequence: "if a program ends with SIGSYS, the filter forbids a call that Culvert \
                needs"
                .into(),
            ..good("seccomp", "a filter is active (a container?)")
        },
        other => limited("seccomp", format!("mode {other}"), ""),
    }
}

fn yama() -> Check {
    match fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .as_deref()
        .map(str::trim)
    {
        Err(_) | Ok("0") => good("ptrace", "not restricted"),
        Ok(scope) => Check {
            consequence: "debuggers cannot attach to running programs; Culvert does not need it"
                .into(),
            ..good("ptrace", format!("yama scope {scope}"))
        },
    }
}

/// The whole of it: a small archive is made, mounted and read by `cat`.
fn trial() -> Check {
    const NAME: &str = "trial run";
    const TEXT: &[u8] = b"it works\n";
    let attempt = || -> Result<(), String> {
        let own = run::own_path().map_err(|failure| failure.to_string())?;
        let base = crate::base::base().map_err(|failure| failure.to_string())?;
        let place = base.join(format!("doctor-{}", std::process::id()));
        let in_place = |error: std::io::Error| format!("{}: {}", shown(&place), reason(&error));
        fs::create_dir(&place).map_err(in_place)?;
        let archive = place.join("trial.tar");
        let written =
            fs::File::create(&archive).and_then(|mut file| file.write_all(&tar(b"file", TEXT)));
        let target = place.join("mount");
        let output = written.and_then(|()| {
            let volume = format!(
                "type=archive,source={},target={},index=none",
                archive.display(),
                target.display()
            );
            Command::new(own)
                .args(["run", "--mount", &volume, "--", "cat"])
                .arg(target.join("file"))
                .stdin(Stdio::null())
                .output()
        });
        let _ = fs::remove_dir_all(&place);
        let output = output.map_err(in_place)?;
        match output.stdout == TEXT {
            true => Ok(()),
            false => Err(format!(
                "{}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    };
    match attempt() {
        Ok(()) => good(NAME, "cat has read a file of an archive"),
        Err(why) => bad(NAME, why, "the checks above may say why"),
    }
}

/// A tar archive with the one file `name` (POSIX.1 ustar).
fn tar(name: &[u8], content: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{:011o}\0", content.len()).as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend_from_slice(content);
    archive.resize(BLOCK + content.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}
