//! Branches by pattern: `/mnt/disk*` is every directory of that kind.

use culvert_drivers::fault::matches;
use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Component, Path, PathBuf},
};

/// What `source` names: itself, or, where there is nothing of that name and it is a pattern
/// (glob(7)), what fits it, in the order of names. A pattern that nothing fits is itself.
pub fn expanded(source: &[u8]) -> Vec<Vec<u8>> {
    let typed = Path::new(std::ffi::OsStr::from_bytes(source));
    if !is_pattern(source) || typed.symlink_metadata().is_ok() {
        return vec![source.to_vec()];
    }
    let mut found = vec![PathBuf::new()];
    for component in typed.components() {
        found = found.iter().flat_map(|dir| below(dir, component)).collect();
    }
    match found.is_empty() {
        true => vec![source.to_vec()],
        false => found
            .into_iter()
            .map(|path| path.into_os_string().into_vec())
            .collect(),
    }
}

fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| b"*?[".contains(byte))
}

/// What of `dir` fits `component`.
fn below(dir: &Path, component: Component<'_>) -> Vec<PathBuf> {
    let plain = dir.join(component);
    let pattern = match component {
        Component::Normal(name) if is_pattern(name.as_bytes()) => name.as_bytes(),
        _ if plain.symlink_metadata().is_ok() => return vec![plain],
        _ => return Vec::new(),
    };
    let listed = match dir.as_os_str().is_empty() {
        true => Path::new("."),
        false => dir,
    };
    let names = fs::read_dir(listed).into_iter().flatten().flatten();
    let mut names: Vec<OsString> = names.map(|entry| entry.file_name()).collect();
    // As in a shell, only a dot fits the dot that a name begins with.
    names.retain(|name| {
        let hidden = name.as_bytes().starts_with(b".") && !pattern.starts_with(b".");
        !hidden && matches(pattern, name.as_bytes())
    });
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_what_fits_them_in_the_order_of_names() {
        let place = std::env::temp_dir().join(format!("culvert-branches-{}", std::process::id()));
        for name in ["disk2/a", "disk1/a", "disk3", ".disk4/a", "disk*5/a"] {
            fs::create_dir_all(place.join(name)).unwrap();
        }
        let ask = |pattern: &str| -> Vec<String> {
            let full = place.join(pattern).into_os_string().into_vec();
            let relative = |path: Vec<u8>| {
                let path = PathBuf::from(OsString::from_vec(path));
                path.strip_prefix(&place)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            };
            expanded(&full).into_iter().map(relative).collect()
        };
        assert_eq!(ask("disk[12]"), ["disk1", "disk2"]);
        assert_eq!(ask("disk?/a"), ["disk1/a", "disk2/a"]);
        assert_eq!(ask(".d*"), [".disk4"]);
        assert_eq!(ask("disk*5"), ["disk*5"]);
        assert_eq!(ask("disk1"), ["disk1"]);
        assert_eq!(ask("none*"), ["none*"]);
        assert_eq!(ask("none/*"), ["none/*"]);
        fs::remove_dir_all(place).unwrap();
    }
}
