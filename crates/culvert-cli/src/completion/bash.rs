//! For bash, with or without bash-completion.

use super::{MOUNTED, names};
use crate::words::{Value, WORDS, choices};
use std::fmt::Write;

/// Readline splits words at colons and equals signs (COMP_WORDBREAKS), so that a value may be many
/// of them.
const HEAD: &str = r##"# Completion of culvert for bash, made by `culvert completion bash`.
_culvert_files() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen "$@" -- "$cur"); }
_culvert_sources() { [[ ${COMP_WORDS[COMP_CWORD - 1]}${COMP_WORDS[COMP_CWORD]} == *:* ]] && _culvert_files -f || _culvert_files -f -W "$1"; }
_culvert_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_culvert() {
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} i=2 first=0 value= word
    COMPREPLY=()
    case $cur in : | =) cur= ;; esac
    if ((COMP_CWORD == 1)); then
        _culvert_words "$_culvert_commands --help --version"
        return
    fi
    while ((i < COMP_CWORD)); do
        word=${COMP_WORDS[i]}
        i=$((i + 1))
        value=
        if [[ $word == -- ]]; then
            first=$i
            break
        elif [[ " $_culvert_valued " == *" $command$word "* ]]; then
            value=$word
            [[ ${COMP_WORDS[i]} != "=" || $i -ge $COMP_CWORD ]] || i=$((i + 1))
            ((i < COMP_CWORD)) || break
            i=$((i + 1))
            while ((i < COMP_CWORD)) && [[ ${COMP_WORDS[i]} == [:=]* ]]; do i=$((i + 2)); done
            if ((i > COMP_CWORD)) || [[ ${COMP_WORDS[COMP_CWORD]} == [:=]* ]]; then break; fi
            value=
        elif [[ $word != -* ]]; then
            first=$((i - 1))
            break
        fi
    done
    if ((first)) && [[ " $_culvert_starters " == *" $command "* ]]; then
        if ((first < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
            _command_offset "$first"
        elif ((first == COMP_CWORD)); then
            _culvert_files -c
        else
            _culvert_files -f
        fi
        return
    fi
    case $command$value in
"##;

/// The script.
pub fn script() -> String {
    let mut text = String::from(HEAD);
    let (mut valued, mut starters) = (String::new(), String::new());
    for word in WORDS {
        let mut flags = String::from("--help");
        for flag in word.flags {
            for name in names(flag) {
                let _ = write!(flags, " {name}");
                if flag.value != Value::None {
                    let _ = write!(valued, " {}{name}", word.name);
                    let _ = writeln!(text, "    {}{name}) {} ;;", word.name, action(flag.value));
                }
            }
        }
        if word.rest == Value::Program {
            let _ = write!(starters, " {}", word.name);
        }
        let (name, rest) = (word.name, action(word.rest));
        let _ = writeln!(
            text,
            "    {name}) if [[ $cur == -* ]]; then _culvert_words '{flags}'; else {rest}; fi ;;"
        );
    }
    let commands = choices(Value::Command).join(" ");
    let _ = write!(
        text,
        "    esac\n}}\n_culvert_commands='{commands}'\n_culvert_valued='{}'\n_culvert_starters='{}'\ncomplete -F _culvert culvert\n",
        valued.trim(),
        starters.trim()
    );
    text
}

/// What completes `value`.
fn action(value: Value) -> String {
    let words = choices(value).join(" ");
    match value {
        Value::None | Value::Text => ":".into(),
        Value::File => "_culvert_files -f".into(),
        Value::Volume | Value::Fields | Value::Log => format!("_culvert_sources '{words}'"),
        Value::Mounted => format!("_culvert_words \"$({MOUNTED})\""),
        // Before its options are over it may be either.
        Value::Program => "_culvert_files -c".into(),
        _ => format!("_culvert_words '{words}'"),
    }
}
