//! Whose a file is in the source with `derivegid`: by its path and the kind of its content, so that
//! quotas of the file system below tell apps and kinds of media apart (`fixup_lower_ownership` of
//! the kernel's sdcardfs, which Android's daemon set up with `-G`).

use super::{
    core::Core,
    derive::{Derived, Kind, USER, of_user},
};
use culvert::{FileKind, Node};

/// `AID_MEDIA_RW`, `AID_MEDIA_AUDIO`, `AID_MEDIA_VIDEO`, `AID_MEDIA_IMAGE`, `AID_MEDIA_OBB`.
const MEDIA: u32 = 1023;
const AUDIO: u32 = 1055;
const VIDEO: u32 = 1056;
const IMAGE: u32 = 1057;
const OBB: u32 = 1059;

/// The first app (`AID_APP_START`), and the groups of apps' files and caches
/// (`AID_EXT_GID_START`, `AID_EXT_CACHE_GID_START`), as many as apps.
const APP: u32 = 10_000;
const FILES: u32 = 30_000;
const CACHES: u32 = 40_000;
const APPS: u32 = 10_000;

/// Endings of names by kind of content, those that the media types of Android have.
const KINDS: [(u32, &str); 3] = [
    (
        AUDIO,
        "aac ac3 amr awb flac imy m4a mid midi mka mp3 mpga oga ogg opus ota rtttl rtx smf wav wma \
        xmf",
    ),
    (
        VIDEO,
        "3g2 3gp 3gpp 3gpp2 asf avi m4v mkv mov mp4 mpeg mpg ogv ts webm wmv",
    ),
    (
        IMAGE,
        "arw bmp cr2 dng gif heic heif jpeg jpg nef nrw orf pef png raf rw2 srw wbmp webp",
    ),
];

/// The group of files called `name`.
fn by_name(name: &[u8]) -> u32 {
    let dot = name.iter().rposition(|&byte| byte == b'.');
    let ending = dot.map_or(&b""[..], |dot| &name[dot + 1..]);
    let is = |one: &str| ending.eq_ignore_ascii_case(one.as_bytes());
    let found = KINDS.iter().find(|(_, endings)| endings.split(' ').any(is));
    found.map_or(MEDIA, |(group, _)| *group)
}

/// Of what the quota is.
enum Place {
    /// Not of a user's.
    Above,
    /// Media.
    Media,
    /// Files of the app with this user id, or without one; its cache.
    Package(u32, bool),
    Obb,
}

impl Core {
    /// The owner and the group in the source of `node`, which is of `kind`.
    pub fn stored(&self, node: Node, kind: FileKind) -> (u32, u32) {
        let path = self.inner.path_of(node).unwrap_or_default();
        self.stored_at(&path, kind == FileKind::Directory)
    }

    fn stored_at(&self, path: &[u8], is_directory: bool) -> (u32, u32) {
        let settings = &self.settings;
        let packages = self.packages.now();
        let (mut here, mut place) = (Derived::root(settings), Place::Above);
        let (mut last, mut in_data, mut below_package) = (&b""[..], false, 0);
        for name in path
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            let above = here.kind;
            here = here.child(name, |name| packages.app(name));
            last = name;
            place = match (above, here.kind) {
                (Kind::PreRoot, _) | (_, Kind::Android | Kind::Data | Kind::Media) => Place::Media,
                (Kind::Root, _) => Place::Media,
                (_, Kind::Obb) => Place::Obb,
                (Kind::Data | Kind::Media, _) => {
                    in_data = above == Kind::Data;
                    Place::Package(here.uid, false)
                }
                _ => place,
            };
            if let Place::Package(uid, _) = place {
                below_package += 1;
                if below_package == 2 && in_data && name.eq_ignore_ascii_case(b"cache") {
                    place = Place::Package(uid, true);
                }
            }
        }
        let low = settings.low_uid();
        let owner = of_user(here.user, low);
        match place {
            Place::Above => (low, settings.low_gid()),
            Place::Obb => (OBB, OBB),
            Place::Media if is_directory => (owner, of_user(here.user, MEDIA)),
            Place::Media => (owner, of_user(here.user, by_name(last))),
            Place::Package(uid, cache) => {
                let app = (uid % USER).wrapping_sub(APP);
                let first = if cache { CACHES } else { FILES };
                let group = match app < APPS {
                    true => first + app,
                    false => MEDIA,
                };
                (owner, of_user(here.user, group))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{options::Settings, packages::PackageList};
    use super::*;
    use culvert::testing::Memory;
    use std::boxed::Box;

    /// Rows: path, whether a directory; owner and group below. User 10's storage, served by 1023.
    #[test]
    fn owners_and_groups_in_the_source_are_as_those_of_sdcardfs() {
        let list = std::format!("/dev/shm/culvert-stored-{}", std::process::id());
        std::fs::write(
            &list,
            "com.one 10077 0 / default none\nandroid 1000 0 / d none\n",
        )
        .unwrap();
        let settings = Settings {
            multiuser: true,
            uid: Some(1023),
            lower_gid: Some(1023),
            ..Settings::default()
        };
        let core = Core {
            inner: Box::new(Memory::new()),
            packages: PackageList::new(list.clone().into_bytes()),
            settings,
        };
        for (path, is_directory, want) in [
            ("", true, (1023, 1023)),
            ("10", true, (1_001_023, 1_001_023)),
            ("10/Music", true, (1_001_023, 1_001_023)),
            ("10/Music/a.MP3", false, (1_001_023, 1_001_055)),
            ("0/Movies/x/b.mkv", false, (1023, 1056)),
            ("0/DCIM/c.jpeg", false, (1023, 1057)),
            ("0/d.tar.gz", false, (1023, 1023)),
            ("0/png", false, (1023, 1023)),
            ("0/Music/a.mp3", true, (1023, 1023)),
            ("10/Android/a.png", false, (1_001_023, 1_001_057)),
            ("10/Android/data", true, (1_001_023, 1_001_023)),
            ("10/Android/data/com.one", true, (1_001_023, 1_030_077)),
            (
                "10/Android/DATA/com.one/files/a.mp3",
                false,
                (1_001_023, 1_030_077),
            ),
            (
                "10/Android/data/com.one/Cache",
                true,
                (1_001_023, 1_040_077),
            ),
            ("0/Android/data/com.one/cache/x/y", false, (1023, 40_077)),
            ("0/Android/data/com.one/x/cache", false, (1023, 30_077)),
            ("0/Android/media/com.one/cache", false, (1023, 30_077)),
            ("0/Android/data/com.none/a.mp3", false, (1023, 1023)),
            ("0/Android/data/android/a", false, (1023, 1023)),
            ("10/Android/obb", true, (1059, 1059)),
            ("10/Android/obb/com.one/main.obb", false, (1059, 1059)),
        ] {
            let got = core.stored_at(path.as_bytes(), is_directory);
            assert_eq!(got, want, "{path}");
        }
        std::fs::remove_file(list).unwrap();
    }
}
