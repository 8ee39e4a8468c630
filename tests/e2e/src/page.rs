//! What pages of the documentation name.

/// Whether `page` names `option` as code: itself (with `-` or `_`, with or without a value), or as
/// one of several, as in `chown-*`. A `*` by itself, as in a pattern, names none.
pub fn stands_in(page: &str, option: &str) -> bool {
    let same = |text: &str| text.trim_start_matches('-').replace('_', "-");
    let option = same(option.trim_start_matches("user.mergerfs."));
    page.split('`').skip(1).step_by(2).any(|word| {
        let word = same(word.split('=').next().unwrap_or(word));
        match word.strip_suffix('*') {
            Some(start) => !start.is_empty() && option.starts_with(start),
            None => word.trim_start_matches("user.mergerfs.") == option,
        }
    })
}

#[test]
fn options_are_found_by_their_names() {
    let page = "| `chown-*`, `view=default`, `--help` | `*`, `statfs-ignore` and cache.open";
    for (option, want) in [
        ("chown-deny", true),
        ("view", true),
        ("help", true),
        ("statfs_ignore", true),
        ("cache.open", false),
        ("chgrp-deny", false),
        ("no-such-option-at-all", false),
    ] {
        assert_eq!(stands_in(page, option), want, "{option}");
    }
}
