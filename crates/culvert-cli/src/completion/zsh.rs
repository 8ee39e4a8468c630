//! For zsh, by its `_arguments`.

use super::{MOUNTED, names};
use crate::words::{Value, WORDS, choices};
use std::fmt::Write;

/// No variable is called `commands`: that is zsh's own, by which it finds programs
/// (zshparameters(1)).
const HEAD: &str = "#compdef culvert
# Completion of culvert for zsh, made by `culvert completion zsh`.
_culvert_mounted() {
  local -a targets; targets=(${(f)\"$(MOUNTED)\"}); compadd -a targets
}
_culvert_fields() { compadd -S '' -- type= source= target=; _files }
_culvert_volume() { compset -P '*:'; compadd -S '' -- memory:; _files }
_culvert() {
  local curcontext=$curcontext context state line
  typeset -A opt_args
  local -a known
  known=(
";

/// The script.
pub fn script() -> String {
    let mut text = HEAD.replace("MOUNTED", MOUNTED);
    for word in WORDS {
        let _ = writeln!(text, "    '{}:{}'", word.name, word.about);
    }
    text += "  )
  _arguments -C -S '(- *)'{-h,--help}'[say how it is used]' '(- *)'{-V,--version}'[say which \
  version]' '1: :->command' '*:: :->words' && return
  if [[ $state == command ]]; then
    _describe -t commands command known
    return
  fi
  curcontext=\"${curcontext%:*}-$words[1]:\"
  case $words[1] in
";
    for word in WORDS {
        let _ = write!(
            text,
            "    {}) _arguments -S '(- *)'{{-h,--help}}'[say how it is used]'",
            word.name
        );
        for flag in word.flags {
            let again = matches!(
                flag.value,
                Value::Volume | Value::Fields | Value::With | Value::Without
            );
            let all = names(flag);
            let value = match (flag.value, flag.long) {
                (Value::None, _) => String::new(),
                (value, long) => format!(":{}:{}", long.unwrap_or("value"), action(value)),
            };
            for name in &all {
                let alone = match again {
                    true => "*".to_owned(),
                    false => format!("({})", all.join(" ")),
                };
                let joined = match (flag.value, name.starts_with("--")) {
                    (Value::None, _) => "",
                    (_, true) => "=",
                    (_, false) => "+",
                };
                let _ = write!(text, " '{alone}{name}{joined}[{}]{value}'", flag.about);
            }
        }
        let rest = match word.rest {
            Value::None => "",
            Value::Program => " '(-)1:program:_command_names -e' '*::words:_normal'",
            Value::File => " '*:file:_files'",
            Value::Mounted => " '*:target:_culvert_mounted'",
            _ => "",
        };
        text += rest;
        if rest.is_empty() && word.rest != Value::None {
            let _ = write!(text, " '1:{}:{}'", word.name, action(word.rest));
        }
        text += " ;;\n";
    }
    text += "  esac\n}\nif [[ $funcstack[1] == _culvert ]]; then _culvert \"$@\"; else compdef \
        _culvert culvert; fi\n";
    text
}

/// What completes `value`.
fn action(value: Value) -> String {
    match value {
        Value::None | Value::Text => " ".into(),
        Value::File | Value::Log => "_files".into(),
        Value::Volume => "_culvert_volume".into(),
        Value::Fields => "_culvert_fields".into(),
        Value::Mounted => "_culvert_mounted".into(),
        Value::Program => "_command_names -e".into(),
        _ => format!("({})", choices(value).join(" ")),
    }
}
