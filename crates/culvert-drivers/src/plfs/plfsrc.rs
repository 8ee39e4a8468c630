//! `plfsrc`, the configuration of PLFS 2.5: as much of YAML as it uses.
//!
//! ```text
//! - global_params:
//!   num_hostdirs: 32
//! - mount_point: /mnt/plfs
//!   workload: shared_file
//!   backends:
//!   - location: /panfs/vol1
//!     type: canonical
//!   - location: /panfs/vol2
//! - include: /etc/plfsrc.more
//! ```

use alloc::{format, string::String, vec::Vec};
use culvert::{Errno, Error, Result};

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plfsrc {
    /// `global_params`, name and value.
    pub global: Vec<(String, String)>,
    /// The mount points.
    pub mounts: Vec<MountPoint>,
    /// Files to read as well.
    pub includes: Vec<String>,
}

/// One mount point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountPoint {
    /// Its path.
    pub path: String,
    /// Its other settings.
    pub settings: Vec<(String, String)>,
    /// Locations and types (empty: both) of its back ends.
    pub backends: Vec<(String, String)>,
}

impl MountPoint {
    /// The value of a setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        value(&self.settings, name)
    }
}

impl Plfsrc {
    /// The value of a global parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        value(&self.global, name)
    }

    /// Adds what `text` says; `EINVAL` with the line.
    pub fn read(&mut self, text: &str) -> Result<()> {
        enum In {
            Nothing,
            Global,
            Mount,
            Include,
        }
        // The indentation of the sequence of a mount point's back ends.
        let (mut within, mut backends) = (In::Nothing, None);
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| {
                Error::because(
                    Errno::EINVAL,
                    format!("plfsrc, line {}: {what}", number + 1),
                )
            };
            let line = without_comment(line).trim_end();
            let content = line.trim_start_matches(' ');
            if content.is_empty() || content == "---" || content == "..." {
                continue;
            }
            if content.starts_with('\t') {
                return Err(wrong("a tab where spaces are needed"));
            }
            let indentation = line.len() - content.len();
            let (item, content) = match content.strip_prefix("- ") {
                Some(rest) => (true, rest.trim_start()),
                None => (false, content),
            };
            let (name, text) = content
                .split_once(':')
                .ok_or_else(|| wrong("no \"name: value\""))?;
            let (name, text) = (name.trim(), unquoted(text.trim()));
            if let Some(depth) = backends {
                let deeper = indentation > depth || item && indentation == depth && depth > 0;
                let deeper = deeper || item && name == "location";
                if deeper {
                    let mount = self
                        .mounts
                        .last_mut()
                        .ok_or_else(|| wrong("no mount point"))?;
                    match (name, item) {
                        ("location", true) => mount.backends.push((text.into(), String::new())),
                        ("type", false) => {
                            let last = mount.backends.last_mut();
                            last.ok_or_else(|| wrong("a type of nothing"))?.1 = text.into();
                        }
                        _ => return Err(wrong("location or type is needed")),
                    }
                    continue;
                }
                backends = None;
            }
            match name {
                "global_params" if item => within = In::Global,
                "mount_point" if item => {
                    within = In::Mount;
                    self.mounts.push(MountPoint {
                        path: text.into(),
                        ..MountPoint::default()
                    });
                }
                "include" if item => {
                    within = In::Include;
                    self.includes.push(text.into());
                }
                "backends" => backends = Some(indentation),
                _ => match (&within, self.mounts.last_mut()) {
                    (In::Global, _) => self.global.push((name.into(), text.into())),
                    (In::Mount, Some(mount)) => mount.settings.push((name.into(), text.into())),
                    _ => return Err(wrong("it belongs to nothing")),
                },
            }
        }
        Ok(())
    }
}

fn value<'a>(all: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = all.iter().rev().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

/// The line up to a `#` that begins it or follows a space, outside of quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, b' ');
    for (at, byte) in line.bytes().enumerate() {
        match (quote, byte) {
            (None, b'#') if before == b' ' => return &line[..at],
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
        before = byte;
    }
    line
}

fn unquoted(text: &str) -> &str {
    let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn all_settings_are_read() {
        let mut read = Plfsrc::default();
        read.read(
            "# a comment\n- global_params:\n  num_hostdirs: 16\n  mlog_defmask: \"WARN\" # here \
            too\n\
             - mount_point: /mnt/a b\n  workload: file_per_proc\n  backends:\n  - location: \
             /b/1\n    \
             type: canonical\n  - location: \"/b/2\"\n\n  statfs: /b/1\n- include: /etc/more\n\
             - mount_point: /mnt/2\n  backends:\n    - location: /c\n      type: shadow\n  \
             max_writers: 4\n",
        )
        .unwrap();
        assert_eq!(read.parameter("num_hostdirs"), Some("16"));
        assert_eq!(read.parameter("mlog_defmask"), Some("WARN"));
        let [first, second] = &read.mounts[..] else {
            panic!()
        };
        assert_eq!(
            (first.path.as_str(), first.setting("workload")),
            ("/mnt/a b", Some("file_per_proc"))
        );
        assert_eq!(first.setting("statfs"), Some("/b/1"));
        let backends = [
            ("/b/1".into(), "canonical".into()),
            ("/b/2".into(), String::new()),
        ];
        assert_eq!(first.backends, backends);
        assert_eq!(second.backends, [("/c".into(), "shadow".into())]);
        assert_eq!(second.setting("max_writers"), Some("4"));
        assert_eq!(read.includes, ["/etc/more"]);
    }

    #[test]
    fn what_is_wrong_names_the_line() {
        for (text, want) in [
            ("num_hostdirs: 3", "line 1: it belongs to nothing"),
            (
                "- mount_point: /m\n  workload",
                "line 2: no \"name: value\"",
            ),
            (
                "- mount_point: /m\n  backends:\n  - place: /x",
                "line 3: location or type",
            ),
            ("- global_params:\n\tx: 1", "line 2: a tab"),
        ] {
            let error = Plfsrc::default().read(text).unwrap_err();
            assert!(error.to_string().contains(want), "{text:?}: {error}");
        }
    }
}
