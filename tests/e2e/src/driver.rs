//! The drivers that can be written.

use std::path::Path;

/// What serves a directory that programs write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// `passthrough` with nothing mounted in the kernel: what any user gets.
    Passthrough,
    /// `passthrough`, bound over its target in a mount namespace of the run: what root gets.
    Bound,
    /// `passthrough,driven`: every operation is a call of the driver.
    Driven,
    /// `memory`.
    Memory,
    /// `passthrough,driven` that shows nobody its files' descriptors: a stand-in for drivers that have none.
    NoDescriptor,
    /// `passthrough` below a layer, which shows no descriptors either: `fault` with a rule that never strikes.
    Layered,
}

impl Driver {
    /// Those that every program is tried on. The last two differ from `driven` in mappings only.
    pub const ALL: [Self; 4] = [Self::Passthrough, Self::Bound, Self::Driven, Self::Memory];

    /// The words for `culvert run` that mount it at `target`; `source` is the directory behind it, if it has one.
    pub fn words(self, source: &Path, target: &Path) -> Vec<String> {
        let (source, target) = (source.display(), target.display());
        let pure = "--no-private".to_owned();
        let volume = "-v".to_owned();
        match self {
            Self::Passthrough => vec![pure, volume, format!("{source}:{target}")],
            Self::Bound => vec![volume, format!("{source}:{target}")],
            Self::Driven => vec![pure, volume, format!("{source}:{target}:driven")],
            Self::Memory => vec![
                pure,
                "--mount".to_owned(),
                format!("type=memory,target={target}"),
            ],
            Self::NoDescriptor => vec![
                pure,
                volume,
                format!("{source}:{target}:driven,descriptor=no"),
            ],
            Self::Layered => vec![
                pure,
                volume,
                format!("{source}:{target}:layer=fault,fault.rule=read+after=1000000000+errno=EIO"),
            ],
        }
    }

    /// Its name in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Bound => "bound",
            Self::Driven => "driven",
            Self::Memory => "memory",
            Self::NoDescriptor => "no-descriptor",
            Self::Layered => "layered",
        }
    }
}
