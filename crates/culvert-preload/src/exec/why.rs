//! Why a program is not intercepted, in words for users, and what they can do about it.

use crate::notice;

/// Why a program does not see the mounts of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has no dynamic loader, which would load the library.
    Static,
    /// Likewise, and Go's linker made it.
    StaticGo,
    /// An ELF file of 32 bits.
    Bits32,
    /// An ELF file for another processor.
    OtherProcessor,
    /// Its PT_INTERP is neither glibc's nor musl's.
    OtherLoader,
    /// Set-user-ID: AT_SECURE makes ld.so ignore LD_AUDIT and LD_PRELOAD (ld.so(8)).
    SetUser,
    /// Set-group-ID, likewise.
    SetGroup,
    /// File capabilities, likewise.
    Capabilities,
    /// It may be executed, but not read.
    Unreadable,
    /// The file that its `#!` line names is missing.
    NoInterpreter,
    /// Neither ELF nor script: the kernel says ENOEXEC, or binfmt_misc knows it.
    UnknownFormat,
    /// libculvert.so cannot be read where, or as whom, it is started.
    NoLibrary,
    /// Valgrind makes its system calls.
    Valgrind,
}

/// What helps whatever the program is.
const MOUNT: &str = "`culvert mount` shows the same files to every program";
/// What helps a program that has the library, but not the run directory: most often a sandbox with
/// a /dev of its own.
pub const NO_RUN: &str = "let it have the run directory (of bwrap: --bind /dev/shm /dev/shm), or: \
    `culvert mount` shows the same files to every program";
/// What helps where the program runs as another user.
const MOUNT_FOR_OTHERS: &str = "`culvert mount --allow-other` shows the same files to it";

impl Why {
    /// Tells the user, and the log, that `program` does not see the mounts.
    pub fn tell(self, program: &[u8]) {
        if self.is_told() {
            notice::mounts_are_lost(program, self.reason(), self.remedy());
        }
    }

    /// The reason: a sentence about "it", the program, without a full stop.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Static => "it is statically linked",
            Self::StaticGo => "it is a statically linked Go program",
            Self::Bits32 => "it is a 32-bit program",
            Self::OtherProcessor => "it is not an x86-64 program",
            Self::OtherLoader => "its dynamic loader is neither glibc's nor musl's",
            Self::SetUser => {
                "it changes its user (set-user-ID), so that the dynamic loader loads no library \
                of ours"
            }
            Self::SetGroup => {
                "it changes its group (set-group-ID), so that the dynamic loader loads no library \
                of ours"
            }
            Self::Capabilities => {
                "it has file capabilities, so that the dynamic loader loads no library of ours"
            }
            Self::Unreadable => "it may not be read, so nobody can tell how it is loaded",
            Self::NoInterpreter => "its interpreter is missing",
            Self::UnknownFormat => "its format is unknown",
            Self::NoLibrary => {
                "libculvert.so cannot be read where it runs (another root directory, a sandbox, \
                another user)"
            }
            Self::Valgrind => "Valgrind runs it, and makes its system calls itself",
        }
    }

    /// What the user can do, without a full stop.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::StaticGo => {
                "build it with `go build -buildmode=pie`, or: `culvert mount` shows the same \
                files to every program"
            }
            Self::SetUser | Self::SetGroup | Self::Capabilities => MOUNT_FOR_OTHERS,
            Self::Unreadable => "make it readable (chmod a+r)",
            Self::NoInterpreter => "install the interpreter that the first line names",
            Self::NoLibrary => {
                "let it have that file and the run directory, or: `culvert mount` shows the same \
                files to every program"
            }
            _ => MOUNT,
        }
    }

    /// Why the ELF file with these first bytes is none for this library, if it is one for another
    /// processor.
    pub fn foreign(head: &[u8]) -> Option<Self> {
        const ELFCLASS32: u8 = 1;
        const EM_386: [u8; 2] = [3, 0];
        const EM_X86_64: [u8; 2] = [62, 0];
        if head.get(..4)? != b"\x7fELF" {
            return None;
        }
        let (class, machine) = (*head.get(4)?, head.get(18..20)?);
        match machine == EM_X86_64 {
            true if class != ELFCLASS32 => None,
            // x32: the processor's own, with pointers of 32 bits.
            true => Some(Self::Bits32),
            false if machine == EM_386 => Some(Self::Bits32),
            false => Some(Self::OtherProcessor),
        }
    }

    /// Whether the program gets rights that its caller lacks: then neither it nor what it starts is
    /// told of a run, which they could not trust.
    pub const fn is_privileged(self) -> bool {
        matches!(self, Self::SetUser | Self::SetGroup | Self::Capabilities)
    }

    /// Whether a program of which this is said runs all the same: then its user is told.
    ///
    /// The others fail by themselves (ENOENT, ENOEXEC), or a shell reads them (execvp(3)).
    pub const fn is_told(self) -> bool {
        !matches!(self, Self::NoInterpreter | Self::UnknownFormat)
    }
}
