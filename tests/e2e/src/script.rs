//! Scripts of tests: files below `tests/e2e/scripts`, one command on a line.

/// Puts `words` in the places of a script: each `@name@` becomes the value with that name.
///
/// # Panics
///
/// If the script has no place of that name, or one that no word fills.
pub fn filled(script: &str, words: &[(&str, String)]) -> String {
    let mut text = script.to_owned();
    for (name, _) in words {
        let place = format!("@{name}@");
        assert!(text.contains(&place), "no {place} in:\n{script}");
    }
    // All at once: a value may itself hold what looks like a place.
    let mut filled = String::with_capacity(text.len());
    while let Some((at, name, value)) = words
        .iter()
        .filter_map(|(name, value)| Some((text.find(&format!("@{name}@"))?, name, value)))
        .min_by_key(|(at, ..)| *at)
    {
        filled.push_str(&text[..at]);
        filled.push_str(value);
        text.drain(..at + name.len() + 2);
    }
    filled.push_str(&text);
    filled
}

/// The text of the script `scripts/NAME`, without its last line's end: a `&'static str`. With words
/// (`script!("a/b.sh", target, mode = 0o644)`) a `String`, in which each `@target@` and `@mode@` is
/// replaced by the value in its `Display` form. `script!(part "a/b.sh")` keeps the last line's end:
/// another script follows it.
#[macro_export]
macro_rules! script {
    (part $name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $name))
    };
    ($name:literal) => {
        $crate::script!(part $name).trim_ascii_end()
    };
    (part $name:literal $(, $word:ident $(= $value:expr)?)+ $(,)?) => {
        $crate::filled(
            $crate::script!(part $name),
            &[$((stringify!($word), $crate::script!(@value $word $(= $value)?))),+],
        )
    };
    ($name:literal $(, $word:ident $(= $value:expr)?)+ $(,)?) => {
        $crate::filled(
            $crate::script!($name),
            &[$((stringify!($word), $crate::script!(@value $word $(= $value)?))),+],
        )
    };
    (@value $word:ident) => { $word.to_string() };
    (@value $word:ident = $value:expr) => { $value.to_string() };
}
