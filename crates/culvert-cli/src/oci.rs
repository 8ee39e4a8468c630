//! Image layouts (OCI image-spec, image-layout.md): a directory in which an index names manifests,
//! and each manifest the layers of an image, archives below `blobs`.

use crate::failure::{Failure, reason, shown};
use rustix::fs::OFlags;
use serde_json::Value;
use std::{
    fs,
    io::Read as _,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Larger indexes and manifests are refused: 4 MiB is what registries take.
const LARGEST: u64 = 4 << 20;
/// How many entries of indexes are looked at, which may lead to each other.
const MOST: usize = 256;
/// What names an image in an index.
const NAME: &str = "org.opencontainers.image.ref.name";

/// Whether `path` is an image layout.
pub fn is_layout(path: &Path) -> bool {
    path.join("oci-layout").is_file() && path.join("index.json").is_file()
}

/// The layers of the image in the layout `path`, the uppermost first; the one called `wanted` where
/// there are several. One that is there twice is what it is the uppermost time: all that the lower
/// one has is in that.
pub fn layers(path: &Path, wanted: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |why: String| Failure::new(format!("image {}: {why}", shown(path)));
    let index = read(&path.join("index.json")).map_err(wrong)?;
    let mut search = Search {
        path,
        left: MOST,
        found: Vec::new(),
    };
    search.manifests(&index, wanted).map_err(wrong)?;
    let found = search.found;
    let [(_, manifest)] = &found[..] else {
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        let what = match (found.is_empty(), wanted) {
            (true, Some(name)) => format!("none is called {name} and for this machine"),
            (true, None) => "none is for this machine".to_owned(),
            (false, _) => format!("there are several, {}", names.join(", ")),
        };
        return Err(wrong(what).advice("say image=NAME for one that the index names"));
    };
    let manifest = read(manifest).map_err(wrong)?;
    let list = manifest["layers"].as_array();
    let list = list.ok_or_else(|| wrong("its manifest has no layers".to_owned()))?;
    let mut layers = Vec::new();
    for layer in list.iter().rev() {
        let place = blob(path, layer).map_err(wrong)?;
        // A link could lead anywhere, and a directory is no layer of an image.
        let found = fs::symlink_metadata(&place);
        let found =
            found.map_err(|error| wrong(format!("{}: {}", shown(&place), reason(&error))))?;
        if !found.is_file() {
            return Err(wrong(format!("{}: it is no file", shown(&place))));
        }
        if !layers.contains(&place) {
            layers.push(place);
        }
    }
    Ok(layers)
}

/// What is found in a layout.
struct Search<'a> {
    path: &'a Path,
    /// How many more entries of indexes are looked at.
    left: usize,
    /// Manifests for this machine: their names, or digests, and where they are.
    found: Vec<(String, PathBuf)>,
}

impl Search<'_> {
    /// Finds those that `index` names, by the name that is `wanted`, and those of indexes in it.
    fn manifests(&mut self, index: &Value, wanted: Option<&str>) -> Result<(), String> {
        let list = index["manifests"].as_array();
        for one in list.ok_or("its index has no manifests")? {
            let name = one["annotations"][NAME].as_str();
            let is_other = wanted.is_some() && name.is_some() && name != wanted;
            if is_other || !is_for_here(&one["platform"]) {
                continue;
            }
            self.left = self.left.checked_sub(1).ok_or("its indexes have no end")?;
            let place = blob(self.path, one)?;
            let inner = read(&place)?;
            if inner["manifests"].is_array() {
                // What is in an index that has the name need not say it.
                self.manifests(&inner, wanted.filter(|_| name.is_none()))?;
            } else if wanted.is_none() || name.is_some() {
                let digest = one["digest"].as_str().unwrap_or_default();
                self.found.push((name.unwrap_or(digest).to_owned(), place));
            }
        }
        Ok(())
    }
}

/// Whether what is for `platform` runs here; what says nothing does.
fn is_for_here(platform: &Value) -> bool {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is = |name: &str, here: &str| platform[name].as_str().is_none_or(|value| value == here);
    is("os", "linux") && is("architecture", architecture)
}

/// The file of the blob that `descriptor` names.
fn blob(path: &Path, descriptor: &Value) -> Result<PathBuf, String> {
    let digest = descriptor["digest"].as_str().unwrap_or_default();
    let plain =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match digest.split_once(':') {
        Some((kind, sum)) if plain(kind) && plain(sum) => {
            Ok(path.join("blobs").join(kind).join(sum))
        }
        _ => Err(format!("{digest:?} is no digest")),
    }
}

/// The JSON in the file `path`, which is no link: it could lead out of the layout.
fn read(path: &Path) -> Result<Value, String> {
    let said = |why: String| format!("{}: {why}", shown(path));
    let failed = |error| said(reason(&error));
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = fs::File::options();
    let options = options.read(true).custom_flags(flags.bits() as i32);
    let file = options.open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(said("it is no file".to_owned()));
    }
    let mut text = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut text);
    if read.map_err(failed)? as u64 > LARGEST {
        return Err(said("it is too large".to_owned()));
    }
    serde_json::from_slice(&text).map_err(|error| said(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let base = format!("culvert-oci-{name}-{}", std::process::id());
        let base = std::env::temp_dir().join(base);
        fs::create_dir_all(base.join("blobs/sha256")).expect("a directory of ours");
        fs::write(base.join("oci-layout"), "{}").expect("ours");
        for (name, text) in files {
            fs::write(base.join(name), text).expect("ours");
        }
        base
    }

    #[test]
    fn an_images_layers_are_those_of_its_manifest_the_uppermost_first() {
        let base = layout(
            "plain",
            &[
                (
                    "index.json",
                    r#"{"manifests":[
                        {"digest":"sha256:aa","annotations":{"org.opencontainers.image.ref.name":"one"}},
                        {"digest":"sha256:bb","annotations":{"org.opencontainers.image.ref.name":"two"}},
                        {"digest":"sha256:cc","platform":{"os":"plan9"}}]}"#,
                ),
                (
                    "blobs/sha256/aa",
                    r#"{"layers":[{"digest":"sha256:1"},{"digest":"sha256:2"},{"digest":"sha256:1"},
                        {"digest":"sha256:3"}]}"#,
                ),
                ("blobs/sha256/1", ""),
                ("blobs/sha256/2", ""),
                ("blobs/sha256/3", ""),
                (
                    "blobs/sha256/bb",
                    r#"{"layers":[{"digest":"sha256:../../x"}]}"#,
                ),
            ],
        );
        assert!(is_layout(&base));
        let blobs = base.join("blobs/sha256");
        let found = layers(&base, Some("one")).map_err(|failure| failure.message().to_owned());
        assert_eq!(found.unwrap(), ["3", "1", "2"].map(|name| blobs.join(name)));
        fs::remove_file(blobs.join("2")).expect("ours");
        std::os::unix::fs::symlink("1", blobs.join("2")).expect("ours");
        let said = layers(&base, Some("one")).unwrap_err().message().to_owned();
        assert!(said.contains("it is no file"), "{said}");
        for (wanted, why) in [
            (None, "several, one, two"),
            (Some("three"), "none is called three"),
            (Some("two"), "no digest"),
        ] {
            let said = layers(&base, wanted).unwrap_err().message().to_owned();
            assert!(said.contains(why), "{said}");
        }
        fs::remove_dir_all(base).expect("ours");
    }

    #[test]
    fn an_index_that_leads_to_itself_ends() {
        let base = layout(
            "loop",
            &[
                ("index.json", r#"{"manifests":[{"digest":"sha256:aa"}]}"#),
                (
                    "blobs/sha256/aa",
                    r#"{"manifests":[{"digest":"sha256:aa"}]}"#,
                ),
            ],
        );
        let said = layers(&base, None).unwrap_err().message().to_owned();
        assert!(said.contains("have no end"), "{said}");
        fs::remove_dir_all(base).expect("ours");
    }
}
