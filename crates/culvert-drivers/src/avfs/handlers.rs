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

/// The one called `name`, or by content.
pub fn find(name: &[u8]) -> Option<Handler> {
    Some(match name {
        b"" => Handler::Content,
        b"avfsstat" => Handler::Status,
        b"ugz" | b"ugzip" => Alone(Format::Gzip),
        b"ubz2" | b"ubzip2" => Alone(Format::Bzip2),
        b"uxz" | b"uxze" => Alone(Format::Xz),
        b"uzstd" | b"uzstde" => Alone(Format::Zstd),
        b"ulzip" => Alone(Format::Lzip),
        b"uz" => Alone(Format::Compress),
        b"utar" => Archive(Kind::Serial(Serial::Tar, None)),
        b"ucpio" => Archive(Kind::Serial(Serial::Cpio, None)),
        b"uar" => Archive(Kind::Serial(Serial::Ar, None)),
        b"uzip" => Archive(Kind::Zip),
        b"iso9660" => Archive(Kind::Iso),
        b"u7z" => Archive(Kind::SevenZip),
        b"deb" => Archive(Kind::Package(Package::Deb, None)),
        b"rpm" => Archive(Kind::Package(Package::Rpm, None)),
        b"gz" | b"bz2" => Missing("compressing"),
        b"urar" => Missing("RAR"),
        b"uarj" => Missing("ARJ"),
        b"ucab" => Missing("cabinets"),
        b"ulha" => Missing("LHA"),
        b"uzoo" => Missing("zoo"),
        b"uace" => Missing("ACE"),
        b"uadf" => Missing("disks of Amigas"),
        b"udar" => Missing("dar"),
        b"patchfs" => Missing("patches"),
        b"mailfs" => Missing("mailboxes"),
        _ => return None,
    })
}

/// All that are here and look into a file, a line each, with what AVFS tells them by, as its
/// `/#avfsstat/modules` has them.
pub const MODULES: &str = "\
ugz:\t.gz .tgz(.tar)
ubz2:\t.bz2 .bz .tbz2(.tar) .tbz(.tar)
uxz:\t.xz .txz(.tar) .lzma
uzstd:\t.zst .tzst(.tar)
ulzip:\t.lz .tlz(.tar)
uz:\t.Z .tpz(.tar) .tz(.tar) .taz(.tar)
ugzip:\t
ubzip2:\t
uxze:\t
uzstde:\t
utar:\t.tar
ucpio:\t.cpio
uar:\t.a
uzip:\t.zip .jar .ear .war .apk
iso9660:\t.iso
u7z:\t.7z
deb:\t.deb
rpm:\t.rpm
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_is_found() {
        for line in MODULES.lines() {
            let (name, _) = line.split_once(":\t").unwrap();
            let found = find(name.as_bytes());
            assert!(matches!(found, Some(Alone(_) | Archive(_))), "{name}");
        }
        assert_eq!(find(b"nothing"), None);
    }
}
