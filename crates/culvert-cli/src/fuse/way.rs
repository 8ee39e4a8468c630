//! The way between a server and the slots: in its own process, where it is intercepted, or by an
//! adapter beside it. Option `way` of FUSE servers.

use crate::{
    failure::Failure,
    verdict::{self, Kind, Refusal},
};
use culvert::mount::Mount;
use culvert_preload::exec::Why;
use std::path::Path;

/// The option's name.
pub const WAY: &str = "way";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// That it is intercepted.
    Slots,
    /// An adapter.
    Adapter,
}

impl Asked {
    /// What `mount` asks for, if anything.
    pub fn of(mount: &Mount) -> Result<Option<Self>, Failure> {
        match mount.option(WAY) {
            None => Ok(None),
            Some(b"slots") => Ok(Some(Self::Slots)),
            Some(b"adapter") => Ok(Some(Self::Adapter)),
            Some(other) => {
                let other = String::from_utf8_lossy(other).escape_debug().to_string();
                Err(Failure::new(format!("option way={other}: no such way"))
                    .advice("give slots or adapter, or leave it out"))
            }
        }
    }
}

/// How a server comes to its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is intercepted.
    Slots,
    /// It is intercepted, and gets no rights from its set-user-ID bit or its file capabilities,
    /// which would keep it from that. What it wanted them for is the mount.
    WithoutRights,
    /// By an adapter.
    Adapter,
}

/// The words of a guardian's command line.
const WORDS: [(&str, Way); 3] = [
    ("slots", Way::Slots),
    ("without-rights", Way::WithoutRights),
    ("adapter", Way::Adapter),
];

impl Way {
    /// Its word.
    pub fn word(self) -> &'static str {
        let found = WORDS.iter().find(|(_, way)| *way == self);
        found.map_or("", |(word, _)| word)
    }

    /// That of a word.
    pub fn parse(word: &str) -> Option<Self> {
        let found = WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, way)| *way)
    }

    /// The way of the server `program`: how it is intercepted besides, if it is.
    pub fn of(program: &Path, asked: Option<Asked>) -> Result<(Self, Kind), Refusal> {
        if asked == Some(Asked::Adapter) {
            return Ok((Self::Adapter, Kind::Glibc));
        }
        let refusal = match verdict::of_program(program) {
            Ok((_, kind)) => return Ok((Self::Slots, kind)),
            Err(refusal) => refusal,
        };
        let privileged = refusal.why.is_some_and(Why::is_privileged);
        let refusal = match privileged.then(|| verdict::without_rights(program)) {
            Some(Ok((_, kind))) => return Ok((Self::WithoutRights, kind)),
            Some(Err(refusal)) => refusal,
            None => refusal,
        };
        let runs = matches!(
            refusal.why,
            Some(Why::Static | Why::StaticGo | Why::Bits32 | Why::OtherLoader)
        );
        match runs && asked.is_none() {
            true => Ok((Self::Adapter, Kind::Glibc)),
            false => Err(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown},
        path::PathBuf,
    };

    /// A program of this name whose header is changed.
    fn program(place: &Path, name: &str, change: impl Fn(&mut Vec<u8>)) -> PathBuf {
        let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        change(&mut bytes);
        let path = place.join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_server_goes_by_what_its_file_is() {
        let place = std::env::temp_dir().join(format!("culvert-way-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let way = |path: &Path, asked| {
            let way = Way::of(path, asked).map(|(way, _)| way);
            way.map_err(|refusal| refusal.reason)
        };
        let whole = program(&place, "whole", |_| {});
        assert_eq!(way(&whole, None), Ok(Way::Slots));
        assert_eq!(way(&whole, Some(Asked::Adapter)), Ok(Way::Adapter));
        // No program headers: nobody loads it.
        let alone = program(&place, "alone", |bytes| {
            bytes.truncate(64);
            bytes[56..58].fill(0);
        });
        assert_eq!(way(&alone, None), Ok(Way::Adapter));
        assert!(
            way(&alone, Some(Asked::Slots))
                .unwrap_err()
                .contains("statically")
        );
        let small = program(&place, "small", |bytes| {
            (bytes[4], bytes[18]) = (1, 3);
        });
        assert_eq!(way(&small, None), Ok(Way::Adapter));
        let foreign = program(&place, "foreign", |bytes| bytes[18] = 183);
        assert!(way(&foreign, None).unwrap_err().contains("x86-64"));
        // Another user's, for who may make such a file.
        if chown(&whole, Some(65534), None).is_ok() {
            fs::set_permissions(&whole, Permissions::from_mode(0o4755)).unwrap();
            assert_eq!(way(&whole, None), Ok(Way::WithoutRights));
        }
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn words_of_ways_come_back() {
        for (word, way) in WORDS {
            assert_eq!((way.word(), Way::parse(word)), (word, Some(way)));
        }
        assert_eq!(Way::parse("moon"), None);
    }
}
