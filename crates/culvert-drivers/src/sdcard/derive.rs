//! Whose a file is, and who may do what, by its path alone (`derive_permissions_locked` and
//! `attr_from_stat` of the original).

use super::options::Settings;

/// User ids of one Android user (`AID_USER_OFFSET`).
pub const USER: u32 = 100_000;

/// What a directory makes of the names in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Inherit,
    /// Directories of users, by number.
    PreRoot,
    /// The storage of one user.
    Root,
    /// `Android`.
    Android,
    /// `Android/data`: directories of packages.
    Data,
    /// `Android/obb`, likewise.
    Obb,
    /// `Android/media`, likewise.
    Media,
}

/// What is derived of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    /// What it makes of names below it.
    pub kind: Kind,
    /// The Android user.
    pub user: u32,
    /// The owner.
    pub uid: u32,
    /// It is `Android`, or lies below.
    pub under_android: bool,
}

/// User `user`'s id for what has the number `id` (`multiuser_get_uid`).
pub const fn of_user(user: u32, id: u32) -> u32 {
    user.wrapping_mul(USER).wrapping_add(id % USER)
}

/// The number that a name begins with, as strtoul(3) reads it, cut to 32 bits.
fn number(name: &[u8]) -> u32 {
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let name = &name[name.iter().take_while(blank).count()..];
    let (negative, digits) = match name {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let all = digits.fold(0_u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    match negative && all != u64::MAX {
        true => all.wrapping_neg() as u32,
        false => all as u32,
    }
}

impl Derived {
    /// Of the root.
    pub const fn root(settings: &Settings) -> Self {
        Self {
            kind: match settings.multiuser {
                true => Kind::PreRoot,
                false => Kind::Root,
            },
            user: settings.userid,
            uid: 0,
            under_android: false,
        }
    }

    /// Of `name` in a directory of which this is derived. `app` says which app a package has.
    pub fn child(self, name: &[u8], app: impl Fn(&[u8]) -> Option<u32>) -> Self {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let inherited = Self {
            kind: Kind::Inherit,
            ..self
        };
        match self.kind {
            Kind::Inherit => inherited,
            Kind::PreRoot => Self {
                kind: Kind::Root,
                user: number(name),
                ..inherited
            },
            Kind::Root if is("Android") => Self {
                kind: Kind::Android,
                under_android: true,
                ..inherited
            },
            Kind::Root => inherited,
            Kind::Android => Self {
                kind: match () {
                    () if is("data") => Kind::Data,
                    () if is("obb") => Kind::Obb,
                    () if is("media") => Kind::Media,
                    () => Kind::Inherit,
                },
                ..inherited
            },
            Kind::Data | Kind::Obb | Kind::Media => match app(name) {
                Some(app) => Self {
                    uid: of_user(self.user, app),
                    ..inherited
                },
                None => inherited,
            },
        }
    }

    /// Of `path` below the root.
    pub fn of(settings: &Settings, app: impl Fn(&[u8]) -> Option<u32>, path: &[u8]) -> Self {
        let names = path.split(|&byte| byte == b'/');
        let mut names = names.filter(|name| !name.is_empty());
        names
            .try_fold(Self::root(settings), |above, name| match above.kind {
                Kind::Inherit => Err(above),
                _ => Ok(above.child(name, &app)),
            })
            .unwrap_or_else(|inherited| inherited)
    }

    /// The group.
    pub const fn gid(self, settings: &Settings) -> u32 {
        // Who has it works for all users.
        match settings.is_default() && !settings.normal {
            true => settings.gid(),
            false => of_user(self.user, settings.gid()),
        }
    }

    /// Permission bits of what has the bits `below` in the source.
    pub const fn mode(self, settings: &Settings, below: u32) -> u32 {
        let visible = 0o775 & !settings.mask();
        let visible = match () {
            // Other users go through.
            () if matches!(self.kind, Kind::PreRoot) => 0o711,
            // Of apps of one user; in the default view others go through.
            () if self.under_android && settings.is_default() => visible & !0o006,
            () if self.under_android => visible & !0o007,
            () => visible,
        };
        let owner = below & 0o700;
        visible & (owner | owner >> 3 | owner >> 6)
    }

    /// Whether `name` is refused in a directory of which this is derived
    /// (`check_caller_access_to_name`).
    pub fn refuses(self, name: &[u8]) -> bool {
        const REFUSED: [&str; 3] = ["autorun.inf", ".android_secure", "android_secure"];
        let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
        self.kind == Kind::Root && REFUSED.iter().any(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdcard::{options::View, packages::Packages};

    const PACKAGES: &[u8] =
        b"com.android.email 10012 0 /data/data/com.android.email default none\n\
        # no line\n\
        com.Example.Game 10077 1 /data/data/g default:y 3003,1028\n\
        android 1000 0 /data/system default none\n\
        short\n";

    fn settings(view: View, multiuser: bool, fullwrite: bool) -> Settings {
        Settings {
            view,
            multiuser,
            fullwrite,
            ..Settings::default()
        }
    }

    /// Rows: what it is, view, -m, -w, path, mode in the source; then kind, user, owner, group,
    /// mode.
    #[test]
    #[rustfmt::skip]
    fn owners_and_modes_are_as_the_originals() {
        use Kind::*;
        use View::{Default as D, Read as R, Write as W};
        let (email, game) = ("Android/data/com.android.email", "Android/media/COM.example.game");
        let packages = Packages::parse(PACKAGES);
        for (what, view, multi, full, path, below, want) in [
            ("root, default view", D, false, false, "", 0o770, (Root, 0, 0, 1015, 0o771)),
            ("root, read view", R, false, false, "", 0o770, (Root, 0, 0, 9997, 0o755)),
            ("root, write view", W, false, false, "", 0o770, (Root, 0, 0, 9997, 0o755)),
            ("root, read view, -w", R, false, true, "", 0o770, (Root, 0, 0, 9997, 0o750)),
            ("root, write view, -w", W, false, true, "", 0o770, (Root, 0, 0, 9997, 0o770)),
            ("root, -m", D, true, false, "", 0o770, (PreRoot, 0, 0, 1015, 0o711)),
            ("root, -m, write view", W, true, true, "", 0o770, (PreRoot, 0, 0, 9997, 0o711)),
            ("user 10", D, true, false, "10", 0o770, (Root, 10, 0, 1015, 0o771)),
            ("user 10, read", R, true, false, "10", 0o770, (Root, 10, 0, 1009997, 0o750)),
            ("user 10, write", W, true, false, "10", 0o770, (Root, 10, 0, 1009997, 0o750)),
            ("user 10, write, -w", W, true, true, "10", 0o770, (Root, 10, 0, 1009997, 0o770)),
            ("what is no number is user 0", R, true, false, "obb", 0o770, (Root, 0, 0, 9997, 0o750)),
            ("a file", D, false, false, "a.txt", 0o664, (Inherit, 0, 0, 1015, 0o660)),
            ("a file, read", R, false, false, "a.txt", 0o664, (Inherit, 0, 0, 9997, 0o644)),
            ("a file of -m, write, -w", W, true, true, "0/a", 0o600, (Inherit, 0, 0, 9997, 0o660)),
            ("only to be read", D, false, false, "a", 0o444, (Inherit, 0, 0, 1015, 0o440)),
            ("a script", D, false, false, "a", 0o755, (Inherit, 0, 0, 1015, 0o771)),
            ("its owner may nothing", D, false, false, "a", 0o077, (Inherit, 0, 0, 1015, 0)),
            ("pictures", W, false, true, "Pictures/x", 0o770, (Inherit, 0, 0, 9997, 0o770)),
            ("Android", D, false, false, "Android", 0o770, (Android, 0, 0, 1015, 0o771)),
            ("aNDROID, read", R, false, false, "aNDROID", 0o770, (Android, 0, 0, 9997, 0o750)),
            ("Android, write, -w", W, false, true, "Android", 0o770, (Android, 0, 0, 9997, 0o770)),
            ("data", R, false, false, "Android/Data", 0o770, (Data, 0, 0, 9997, 0o750)),
            ("obb", R, false, false, "Android/obb", 0o770, (Obb, 0, 0, 9997, 0o750)),
            ("media", R, false, false, "Android/media", 0o770, (Media, 0, 0, 9997, 0o750)),
            ("others there", R, false, false, "Android/x", 0o770, (Inherit, 0, 0, 9997, 0o750)),
            ("no data elsewhere", R, false, false, "data", 0o770, (Inherit, 0, 0, 9997, 0o755)),
            ("no Android deeper", R, false, false, "x/Android", 0o770, (Inherit, 0, 0, 9997, 0o755)),
            ("a package", D, false, false, email, 0o770, (Inherit, 0, 10012, 1015, 0o771)),
            ("a package, read", R, false, false, email, 0o770, (Inherit, 0, 10012, 9997, 0o750)),
            ("a package in any case", D, false, false, game, 0o770, (Inherit, 0, 10077, 1015, 0o771)),
            ("files of one", D, false, false, "Android/obb/com.example.game/a/b", 0o600,
                (Inherit, 0, 10077, 1015, 0o660)),
            ("no package", D, false, false, "Android/data/com.none", 0o770,
                (Inherit, 0, 0, 1015, 0o771)),
            ("user 11's package", W, true, false, "11/Android/data/com.android.email", 0o770,
                (Inherit, 11, 1110012, 1109997, 0o750)),
            ("a system app", D, false, false, "Android/data/android", 0o770,
                (Inherit, 0, 1000, 1015, 0o771)),
        ] {
            let settings = settings(view, multi, full);
            let found = Derived::of(&settings, |name| packages.app(name), path.as_bytes());
            let (gid, mode) = (found.gid(&settings), found.mode(&settings, below));
            let got = (found.kind, found.user, found.uid, gid, mode);
            assert_eq!(got, want, "{what}");
        }
    }

    #[test]
    fn with_normal_the_default_view_has_a_group_for_each_user() {
        let packages = Packages::parse(b"");
        for (normal, want) in [(false, 1015), (true, 1001015)] {
            let settings = Settings {
                normal,
                ..settings(View::Default, true, false)
            };
            let found = Derived::of(&settings, |name| packages.app(name), b"10/a");
            assert_eq!(found.gid(&settings), want);
        }
        let settings = Settings {
            userid: 12,
            ..settings(View::Read, false, false)
        };
        let found = Derived::of(&settings, |name| packages.app(name), b"Android");
        assert_eq!((found.user, found.gid(&settings)), (12, 1209997));
    }

    #[test]
    fn names_are_refused_at_the_root_of_a_user_only() {
        let packages = Packages::parse(b"");
        for (multi, dir, name, want) in [
            (false, "", "autorun.inf", true),
            (false, "", "AutoRun.INF", true),
            (false, "", ".android_secure", true),
            (false, "", "android_secure", true),
            (false, "", "android_secure.txt", false),
            (false, "Android", "autorun.inf", false),
            (false, "x", "autorun.inf", false),
            (true, "", "autorun.inf", false),
            (true, "10", "autorun.inf", true),
        ] {
            let settings = settings(View::Default, multi, false);
            let found = Derived::of(&settings, |name| packages.app(name), dir.as_bytes());
            assert_eq!(found.refuses(name.as_bytes()), want, "{multi} {dir} {name}");
        }
    }

    #[test]
    fn users_are_numbers_as_strtoul_reads_them() {
        for (name, want) in [
            ("10", 10),
            ("0x10", 0),
            ("12ab", 12),
            ("  +7", 7),
            ("-1", u32::MAX),
            ("abc", 0),
            ("4294967297", 1),
            ("99999999999999999999999", u32::MAX),
        ] {
            assert_eq!(number(name.as_bytes()), want, "{name}");
        }
    }
}
