//! Rules for permission bits: those of chmod(1), and what bindfs(1) adds to them.
//!
//! ```text
//! RULES = RULE[,RULE]...            also with colons
//! RULE  = OCTAL | [ugoafd...]OPERATOR[rwxXDstugo...][OPERATOR...]...
//! ```
//!
//! `d` and `f` on the left: for directories only, for others only. `D` on the right: `x` for
//! directories; `X`: for these and for what somebody may execute. `X`, `D`, `u`, `g` and `o` look
//! at the bits as they were before the first rule. `s` and `t` mean nothing: these bits stay.

use alloc::{format, string::String, vec::Vec};
use culvert::FileKind;

/// Read, write and execute of all three classes.
const BITS: u32 = 0o777;

/// Rules, applied one after the other. None: bits stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    files: bool,
    directories: bool,
    /// The classes that it is about.
    classes: u32,
    operator: Operator,
    /// What stands on the right: letters, or octal digits' value.
    operand: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Set,
    Add,
    Remove,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Letters(Vec<u8>),
    Octal(u32),
}

impl Permissions {
    /// The rules in `text`, or what is wrong with them.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = text.strip_suffix(b",").unwrap_or(text);
        let text = text.strip_suffix(b":").unwrap_or(text);
        let mut rules = Vec::new();
        for one in text.split(|byte| matches!(byte, b',' | b':')) {
            match one.first() {
                None => return Err("an empty rule".into()),
                Some(b'0'..=b'9') => rules.push(octal(one)?),
                Some(_) => symbolic(one, &mut rules)?,
            }
        }
        Ok(Self(rules))
    }

    /// Whether they change nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What they make of the permission bits `mode` of something of this `kind`.
    pub fn apply(&self, kind: FileKind, mode: u32) -> u32 {
        let is_directory = kind == FileKind::Directory;
        let applies = |rule: &&Rule| match is_directory {
            true => rule.directories,
            false => rule.files,
        };
        self.0.iter().filter(applies).fold(mode, |now, rule| {
            let bits = rule.classes & rule.operand.bits(is_directory, mode);
            match rule.operator {
                Operator::Set => now & !rule.classes | bits,
                Operator::Add => now | bits,
                Operator::Remove => now & !bits,
            }
        })
    }
}

impl Operand {
    /// The bits that it means, in all classes, where `original` were there before all rules.
    fn bits(&self, is_directory: bool, original: u32) -> u32 {
        let letters = match self {
            Self::Octal(bits) => return *bits,
            Self::Letters(letters) => letters,
        };
        let all = |class: u32| (class & 0o7) * 0o111;
        let bits = |letter: &u8| match letter {
            b'r' => 0o444,
            b'w' => 0o222,
            b'x' => 0o111,
            b'X' if is_directory || original & 0o111 != 0 => 0o111,
            b'D' if is_directory => 0o111,
            b'u' => all(original >> 6),
            b'g' => all(original >> 3),
            b'o' => all(original),
            _ => 0,
        };
        letters.iter().map(bits).fold(0, |sum, more| sum | more)
    }
}

fn octal(text: &[u8]) -> Result<Rule, String> {
    let shown = || String::from_utf8_lossy(text).into_owned();
    let digits = core::str::from_utf8(text).ok();
    let bits = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
    match bits {
        Some(bits) if bits <= BITS => Ok(Rule {
            files: true,
            directories: true,
            classes: BITS,
            operator: Operator::Set,
            operand: Operand::Octal(bits),
        }),
        Some(_) => Err(format!("{} is more than 0777", shown())),
        None => Err(format!("{} is no octal number", shown())),
    }
}

fn symbolic(text: &[u8], rules: &mut Vec<Rule>) -> Result<(), String> {
    let shown = || String::from_utf8_lossy(text).into_owned();
    let operator = |byte: &u8| match byte {
        b'=' => Some(Operator::Set),
        b'+' => Some(Operator::Add),
        b'-' => Some(Operator::Remove),
        _ => None,
    };
    let first = text.iter().position(|byte| operator(byte).is_some());
    let first = first.ok_or_else(|| format!("{} has no =, + or -", shown()))?;
    let (mut files, mut directories, mut classes) = (false, false, 0);
    for who in &text[..first] {
        match who {
            b'u' => classes |= 0o700,
            b'g' => classes |= 0o070,
            b'o' => classes |= 0o007,
            b'a' => classes |= BITS,
            b'f' => files = true,
            b'd' => directories = true,
            _ => {
                return Err(format!(
                    "{}: on the left there are u, g, o, a, d and f",
                    shown()
                ));
            }
        }
    }
    if classes == 0 {
        classes = BITS;
    }
    if !files && !directories {
        (files, directories) = (true, true);
    }
    let mut rest = &text[first..];
    while let Some(operator) = rest.first().and_then(operator) {
        let letters = &rest[1..];
        let known = |byte: &u8| b"rwxXDstugo".contains(byte);
        let end = letters.iter().position(|byte| !known(byte));
        let (letters, after) = letters.split_at(end.unwrap_or(letters.len()));
        rules.push(Rule {
            files,
            directories,
            classes,
            operator,
            operand: Operand::Letters(letters.to_vec()),
        });
        rest = after;
    }
    match rest {
        [] => Ok(()),
        _ => Err(format!(
            "{}: on the right there are r, w, x, X, D, s, t, u, g and o",
            shown()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileKind::{Directory, Regular};
    use std::process::Command;

    fn applied(rules: &str, kind: FileKind, mode: u32) -> u32 {
        Permissions::parse(rules.as_bytes())
            .unwrap()
            .apply(kind, mode)
    }

    #[test]
    fn the_manuals_examples_do_what_it_says() {
        for (rules, kind, mode, want) in [
            // Removes all permission bits from others.
            ("o-rwx", Regular, 0o777, 0o770),
            // Group may read all files and enter all directories, but nothing else.
            ("g=rD", Regular, 0o770, 0o740),
            ("g=rD", Directory, 0o700, 0o750),
            // 0644, and execute for everyone on all directories and executables.
            ("0644,a+X", Regular, 0o700, 0o755),
            ("0644,a+X", Regular, 0o600, 0o644),
            ("0644:a+X", Directory, 0o000, 0o755),
            ("og-x:og+rD:u=rwX:g+rw", Regular, 0o711, 0o764),
            ("og-x:og+rD:u=rwX:g+rw", Directory, 0o711, 0o775),
            ("0000,u=rD", Regular, 0o777, 0o400),
            ("0000,u=rD", Directory, 0o777, 0o500),
            ("0600,u+X", Regular, 0o711, 0o700),
            ("gd-w", Regular, 0o777, 0o777),
            ("gd-w", Directory, 0o777, 0o757),
            ("gf-w", Regular, 0o777, 0o757),
            ("gf-w", Directory, 0o777, 0o777),
            ("g=u", Regular, 0o750, 0o770),
            ("ug+o", Regular, 0o005, 0o555),
            // Of the bits before the first rule.
            ("a=,g=u", Regular, 0o750, 0o070),
            ("a-x,a+X", Regular, 0o711, 0o711),
        ] {
            assert_eq!(applied(rules, kind, mode), want, "{rules} {mode:o}");
        }
    }

    #[test]
    fn set_user_id_and_its_kin_stay() {
        for rules in ["0644", "a=", "a=s", "u-s,o-t", "+st"] {
            assert_eq!(applied(rules, Regular, 0o7644) & 0o7000, 0o7000, "{rules}");
        }
    }

    #[test]
    fn nothing_on_the_left_is_everybody_and_operators_may_follow_each_other() {
        assert_eq!(applied("+x", Regular, 0o644), 0o755);
        assert_eq!(applied("d+x", Directory, 0o644), 0o755);
        assert_eq!(applied("u+x-w", Regular, 0o644), 0o544);
        assert_eq!(applied("a+r,", Regular, 0o200), 0o644);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (rules, want) in [
            ("", "an empty rule"),
            ("a+r,,a+w", "an empty rule"),
            ("1000", "1000 is more than 0777"),
            ("789", "789 is no octal number"),
            ("u", "u has no =, + or -"),
            ("z+r", "z+r: on the left there are u, g, o, a, d and f"),
            (
                "u+z",
                "u+z: on the right there are r, w, x, X, D, s, t, u, g and o",
            ),
        ] {
            assert_eq!(Permissions::parse(rules.as_bytes()).unwrap_err(), want);
        }
    }

    /// One rule of those that chmod(1) has, too, gives what chmod gives.
    #[test]
    fn chmod_agrees() {
        let directory =
            std::env::temp_dir().join(std::format!("culvert-rules-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("d")).unwrap();
        std::fs::write(directory.join("f"), "").unwrap();
        let mut compared = 0;
        for who in ["u", "g", "o", "a", "ug", "go"] {
            for operation in ["=", "+", "-"] {
                for what in ["", "r", "w", "x", "X", "rw", "rwx", "u", "g", "o"] {
                    let rule = std::format!("{who}{operation}{what}");
                    for (name, kind) in [("d", Directory), ("f", Regular)] {
                        for mode in [0o000, 0o641, 0o710, 0o777] {
                            compared += usize::from(agrees(&directory, &rule, (name, kind), mode));
                        }
                    }
                }
            }
        }
        std::fs::remove_dir_all(directory).unwrap();
        assert_eq!(compared, 6 * 3 * 10 * 2 * 4);
    }

    fn agrees(
        directory: &std::path::Path,
        rule: &str,
        (name, kind): (&str, FileKind),
        mode: u32,
    ) -> bool {
        use std::os::unix::fs::PermissionsExt;
        let path = directory.join(name);
        let bits = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, bits).unwrap();
        // Without a shell and its umask: each of these rules names its classes.
        let done = Command::new("chmod").arg(rule).arg(&path).status().unwrap();
        assert!(done.success(), "{rule}");
        let want = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(applied(rule, kind, mode), want, "{rule} of {name} {mode:o}");
        true
    }
}
