//! Paths as typed, where they are plain.

use alloc::vec::Vec;
use culvert_sys::fs;

/// `typed` from the root, without `.` and repeated slashes. None: it has a `..`, which a link
/// before it would lead elsewhere, or where this process is cannot be told.
pub fn plain(typed: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    if !typed.starts_with(b"/") {
        let mut here = [0; 4096];
        let length = fs::getcwd(&mut here).ok()?;
        let here = here.get(..length.checked_sub(1)?)?;
        // "(unreachable)/..." is below another root.
        path.extend_from_slice(here.starts_with(b"/").then_some(here)?);
        if path == b"/" {
            path.clear();
        }
    }
    for name in typed.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return None,
            name => {
                path.push(b'/');
                path.extend_from_slice(name);
            }
        }
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Some(path)
}

/// Whether `path` is `outer` or lies below it; both from the root, in their plainest form.
pub fn is_within(path: &[u8], outer: &[u8]) -> bool {
    let rest = path.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || outer == b"/")
}

/// The directory that `path` lies in.
pub fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    if end == 0 { b"/" } else { &path[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_and_slashes_go() {
        let here = std::env::current_dir().unwrap();
        let here = here.to_str().unwrap();
        for (typed, want) in [
            ("/a/b", "/a/b"),
            ("//a/./b//", "/a/b"),
            ("/", "/"),
            (".", here),
            ("./x", &std::format!("{here}/x")),
            ("x/", &std::format!("{here}/x")),
        ] {
            assert_eq!(
                plain(typed.as_bytes()).as_deref(),
                Some(want.as_bytes()),
                "{typed}"
            );
        }
        assert_eq!(plain(b"/a/../b"), None);
        assert_eq!(plain(b".."), None);
    }

    #[test]
    fn within_is_by_components() {
        for (path, outer, want) in [
            ("/a", "/a", true),
            ("/a/b", "/a", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
        ] {
            assert_eq!(
                is_within(path.as_bytes(), outer.as_bytes()),
                want,
                "{path} {outer}"
            );
        }
        assert_eq!(parent(b"/a/b"), b"/a");
        assert_eq!(parent(b"/a"), b"/");
    }
}
