//! For fish.

use super::{MOUNTED, names};
use crate::words::{Value, WORDS, choices};
use std::fmt::Write;

const HEAD: &str = "# Completion of culvert for fish, made by `culvert completion fish`.
function __culvert_volume
    set -l word (commandline -ct | string replace -r -- '^(-v|--volume=)' '')
    set -l before (string match -r -- '^.*:' $word)
    test -n \"$before\"; or echo memory:
    for path in (__fish_complete_path (string replace -r -- '^.*:' '' $word))
        echo $before$path
    end
end
function __culvert_is
    set -l words (commandline -opc)
    test \"$words[2]\" = \"$argv\"
end
complete -c culvert -f
complete -c culvert -n '__culvert_is' -s h -l help -d 'say how it is used'
complete -c culvert -n '__culvert_is' -s V -l version -d 'say which version this is'
";

/// The script.
pub fn script() -> String {
    let mut text = String::from(HEAD);
    for word in WORDS {
        let (name, about) = (word.name, word.about);
        let here = format!("complete -c culvert -n '__culvert_is {name}'");
        let _ = writeln!(
            text,
            "complete -c culvert -n '__culvert_is' -a {name} -d '{about}'"
        );
        let _ = writeln!(text, "{here} -s h -l help -d 'say how it is used'");
        for flag in word.flags {
            let short = flag.short.map(|letter| format!(" -s {letter}"));
            let long = flag.long.map(|long| format!(" -l {long}"));
            let value = match flag.value {
                Value::None | Value::Program => String::new(),
                value => format!(" -r{}", action(value)),
            };
            let _ = writeln!(
                text,
                "{here}{}{}{value} -d '{}'",
                short.unwrap_or_default(),
                long.unwrap_or_default(),
                flag.about
            );
        }
        match word.rest {
            Value::None => {}
            Value::Program => {
                let valued = word.flags.iter().filter(|flag| flag.value != Value::None);
                let valued: Vec<String> = valued.flat_map(names).collect();
                let _ = writeln!(
                    text,
                    "{here} -fa '(__fish_complete_subcommand --fcs-skip=2 {})'",
                    valued.join(" ")
                );
            }
            value => {
                let _ = writeln!(text, "{here}{}", action(value));
            }
        }
    }
    text
}

/// What completes `value`.
fn action(value: Value) -> String {
    let words = choices(value).join(" ");
    match value {
        Value::None | Value::Program => String::new(),
        Value::Text => " -f".into(),
        Value::File => " -F".into(),
        Value::Volume => " -fa '(__culvert_volume)'".into(),
        Value::Fields | Value::Log => format!(" -Fa '{words}'"),
        Value::Mounted => {
            let list = MOUNTED.replace('\'', "\\'");
            format!(" -fa '({list})'")
        }
        _ => format!(" -fa '{words}'"),
    }
}
