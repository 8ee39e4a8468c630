//! AVFS's handlers by name.

use crate::archive::codec::Format;
use crate::archive::kind::Kind;
use crate::archive::package::Package;
use crate::archive::serial::Serial;

/// How a file is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// As whatever its content is.
    Content,
    /// As an archive of this kind.
    Archive(Kind),
    /// As a file that is compressed by itself; of xz, or as lzma.
    Alone(Format),
    /// There is one of that name in AVFS, not here.
    Missing(&'static str),
    /// What there is to know of all this: no file.
    Status,
}

use Handler::{Alone, Archive, Missing};

/// Those that look into a file, with what AVFS tells them by.
pub const ALL: &[(&str, Handler, &str)] = &[
    ("ugz", Alone(Format::Gzip), ".gz .tgz(.tar)"),
    (
        "ubz2",
        Alone(Format::Bzip2),
        ".bz2 .bz .tbz2(.tar) .tbz(.tar)",
    ),
    ("uxz", Alone(Format::Xz), ".xz .txz(.tar) .lzma"),
    ("uzstd", Alone(Format::Zstd), ".zst .tzst(.tar)"),
    ("ulzip", Alone(Format::Lzip), ".lz .tlz(.tar)"),
    (
        "uz",
        Alone(Format::Compress),
        ".Z .tpz(.tar) .tz(.tar) .taz(.tar)",
    ),
    ("ugzip", Alone(Format::Gzip), ""),
    ("ubzip2", Alone(Format::Bzip2), ""),
    ("uxze", Alone(Format::Xz), ""),
    ("uzstde", Alone(Format::Zstd), ""),
    ("utar", Archive(Kind::Serial(Serial::Tar, None)), ".tar"),
    ("ucpio", Archive(Kind::Serial(Serial::Cpio, None)), ".cpio"),
    ("uar", Archive(Kind::Serial(Serial::Ar, None)), ".a"),
    ("uzip", Archive(Kind::Zip), ".zip .jar .ear .war .apk"),
    ("iso9660", Archive(Kind::Iso), ".iso"),
    ("u7z", Archive(Kind::SevenZip), ".7z"),
    ("deb", Archive(Kind::Package(Package::Deb, None)), ".deb"),
    ("rpm", Archive(Kind::Package(Package::Rpm, None)), ".rpm"),
    ("gz", Missing("compressing"), ""),
    ("bz2", Missing("compressing"), ""),
    ("urar", Missing("RAR"), ""),
    ("uarj", Missing("ARJ"), ""),
    ("ucab", Missing("cabinets"), ""),
    ("ulha", Missing("LHA"), ""),
    ("uzoo", Missing("zoo"), ""),
    ("uace", Missing("ACE"), ""),
    ("uadf", Missing("disks of Amigas"), ""),
    ("udar", Missing("dar"), ""),
    ("patchfs", Missing("patches"), ""),
    ("mailfs", Missing("mailboxes"), ""),
];

/// The one called `name`, or by content.
pub fn find(name: &[u8]) -> Option<Handler> {
    match name {
        b"" => Some(Handler::Content),
        b"avfsstat" => Some(Handler::Status),
        name => {
            let found = ALL.iter().find(|(known, ..)| known.as_bytes() == name);
            found.map(|&(_, handler, _)| handler)
        }
    }
}

/// All that are here, a line each, as AVFS's `/#avfsstat/modules` has them.
pub fn list() -> alloc::string::String {
    let here = ALL.iter().filter(|(_, one, _)| !matches!(one, Missing(_)));
    let lines = here.map(|(name, _, endings)| alloc::format!("{name}:\t{endings}\n"));
    lines.collect()
}
