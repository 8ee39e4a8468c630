//! Types that are languages. `java`: a library of `culvert/driver.h` that starts a virtual machine,
//! whose methods are its functions. `python`: a program that serves by `libculvert_fuse.so`.

use crate::{config, failure::Failure};
use culvert::mount::{Options, Request};
use std::{fs, os::unix::ffi::OsStrExt, path::Path};

const ADVICE: &str = "install it by scripts/bindings";

/// What becomes of `request` where its type is a language; a program stays in the `foreground`.
pub fn resolved(mut request: Request, foreground: bool) -> Result<Request, Failure> {
    match request.driver.as_deref() {
        Some("java") => {
            make_absolute(&mut request.options, &["classpath", "config", "jdk"]);
            let library = config::beside("libculvert_java.so", ADVICE)?;
            let library = library.into_os_string().into_string();
            let failed = |_| Failure::new("type java: the path of its library is not UTF-8");
            request.driver = Some(library.map_err(failed)?);
            Ok(request)
        }
        Some("python") => {
            let program = config::beside("culvert_python.py", ADVICE)?;
            make_absolute(&mut request.options, &["class", "path", "python"]);
            let mut command = command(program.as_os_str().as_bytes(), &mut request.options)?;
            if foreground {
                command.extend_from_slice(b" -f");
            }
            if let Ok(source) = fs::canonicalize(Path::new(crate::failure::path(&request.source))) {
                request.source = source.into_os_string().into_encoded_bytes();
            }
            request.options.push(("command".into(), command));
            request.driver = Some(culvert_drivers::fuse::NAME.into());
            Ok(request)
        }
        _ => Ok(request),
    }
}

/// Makes paths in the options `names` absolute: a host has a working directory of its own. Class
/// paths are lists, a class of Python's may be in a file, and a name without a slash is looked for.
fn make_absolute(options: &mut Options, names: &[&str]) {
    for (name, value) in options {
        let is_path = match name.as_str() {
            name if !names.contains(&name) => false,
            "class" => value.windows(4).any(|part| part == b".py:"),
            "python" => value.contains(&b'/'),
            _ => true,
        };
        if !is_path {
            continue;
        }
        let each = value.split(|byte| *byte == b':').enumerate();
        let each = each.map(|(at, part)| match (at, name.as_str()) {
            (1.., "class" | "config" | "jdk" | "path" | "python") => part.to_vec(),
            _ => match std::path::absolute(Path::new(std::ffi::OsStr::from_bytes(part))) {
                Ok(path) => path.into_os_string().into_encoded_bytes(),
                Err(_) => part.to_vec(),
            },
        });
        *value = each.collect::<Vec<_>>().join(&b':');
    }
}

/// Options of a mount of type python that are the command's, not the file system's.
fn is_own(name: &str) -> bool {
    matches!(name, "name" | "restart" | "start-timeout" | "place" | "way")
}

/// The command of a server in Python; its options are taken out.
fn command(program: &[u8], options: &mut Options) -> Result<Vec<u8>, Failure> {
    let mut take = |wanted: &str| {
        let place = options.iter().position(|(name, _)| name == wanted)?;
        Some(options.remove(place).1)
    };
    let class = take("class").ok_or_else(|| {
        Failure::new("type python needs a class").advice("give class=MODULE.CLASS or FILE.py:CLASS")
    })?;
    let python = take("python").unwrap_or_else(|| b"python3".to_vec());
    let (own, passed) = std::mem::take(options)
        .into_iter()
        .partition(|(name, _)| is_own(name));
    *options = own;
    let mut words = Vec::new();
    for (name, value) in passed {
        let mut word = name.into_bytes();
        if !value.is_empty() {
            word.push(b'=');
            word.extend(value);
        }
        words.push(escaped(&word));
    }
    let mut line = [quoted(&python), quoted(program), quoted(&class)].join(&b' ');
    line.extend_from_slice(b" %s %m");
    if !words.is_empty() {
        line.extend_from_slice(b" -o ");
        line.extend(quoted(&words.join(&b',')));
    }
    Ok(line)
}

/// `word` for a list: `\` keeps a comma.
fn escaped(word: &[u8]) -> Vec<u8> {
    let each = word.iter().flat_map(|&byte| match byte {
        b',' | b'\\' => vec![b'\\', byte],
        _ => vec![byte],
    });
    each.collect()
}

/// `word` for the shell, in a command where a percent sign is two. Plain ones stay as they are: the
/// first names the program that is looked at.
fn quoted(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./+-".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut line = b"'".to_vec();
    for &byte in word {
        match byte {
            b'\'' => line.extend_from_slice(b"'\\''"),
            b'%' => line.extend_from_slice(b"%%"),
            _ => line.push(byte),
        }
    }
    line.push(b'\'');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_options_are_absolute() {
        let here = std::env::current_dir().expect("a directory");
        let here = here.display();
        let made = |name: &str, value: &str| {
            let mut options = vec![(name.to_owned(), value.as_bytes().to_vec())];
            make_absolute(&mut options, &["class", "classpath", "python"]);
            String::from_utf8(options.remove(0).1).expect("text")
        };
        assert_eq!(
            made("classpath", "a:/b.jar:c"),
            format!("{here}/a:/b.jar:{here}/c")
        );
        assert_eq!(made("class", "d/a.py:B"), format!("{here}/d/a.py:B"));
        assert_eq!(
            made("python", "venv/python3"),
            format!("{here}/venv/python3")
        );
        for (name, value) in [("class", "a.B"), ("python", "python3"), ("other", "a")] {
            assert_eq!(made(name, value), value);
        }
    }

    #[test]
    fn a_server_in_python_is_a_command() {
        let option = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let mut options = vec![
            option("class", "it's.py:Of"),
            option("restart", "3"),
            option("path", "/a,b"),
            option("rate", "5%"),
            option("quick", ""),
        ];
        let line = command(b"/lib/p.py", &mut options).expect("a class");
        let want = r"python3 /lib/p.py 'it'\''s.py:Of' %s %m -o 'path=/a\,b,rate=5%%,quick'";
        assert_eq!(String::from_utf8_lossy(&line), want);
        assert_eq!(options, [option("restart", "3")]);
        let error = command(b"/lib/p.py", &mut Vec::new()).expect_err("no class");
        assert!(error.to_string().contains("class"), "{error}");
    }
}
