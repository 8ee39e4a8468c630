use super::*;
use std::{
    format,
    io::Write,
    process::{Command, Stdio},
    string::ToString,
    vec,
};

/// What `debugfs` says of names: it has ext4's tables (`dx_hash -c`), and hashes what it has
/// folded. Equal hashes (64 bits) of a name folded by ext4 and of its key here: the same folding.
/// None where there is no debugfs.
fn differences(names: &[Vec<u8>]) -> Option<Vec<String>> {
    let mut commands = Vec::new();
    for name in names {
        let key = Folding::Unicode.key(name).unwrap_or_else(|| name.clone());
        commands.extend(b"dx_hash -h half_md4 -c -e utf8 ");
        commands.extend(name);
        commands.extend(b"\ndx_hash -h half_md4 ");
        commands.extend(key);
        commands.push(b'\n');
    }
    let path = std::env::temp_dir().join(format!(
        "culvert-fold-{}-{}",
        std::process::id(),
        names.len()
    ));
    std::fs::File::create(&path)
        .unwrap()
        .write_all(&commands)
        .unwrap();
    let run = Command::new("/sbin/debugfs")
        .arg("-f")
        .arg(&path)
        .stderr(Stdio::null())
        .output();
    std::fs::remove_file(&path).unwrap();
    let Ok(run) = run else {
        std::eprintln!("not compared with ext4's tables: there is no debugfs");
        return None;
    };
    let lines = run.stdout.split(|&byte| byte == b'\n');
    let hashes: Vec<_> = lines
        .filter(|line| line.starts_with(b"Hash of "))
        .map(|line| {
            let end = line.windows(4).rposition(|four| four == b" is ");
            String::from_utf8_lossy(&line[end.unwrap()..]).to_string()
        })
        .collect();
    assert_eq!(hashes.len(), 2 * names.len(), "an answer for each command");
    let pairs = names.iter().zip(hashes.chunks(2));
    let wrong = pairs.filter(|(_, pair)| pair[0] != pair[1]);
    Some(
        wrong
            .map(|(name, _)| name.escape_ascii().to_string())
            .collect(),
    )
}

/// Characters that a line of debugfs's can hold.
fn plain(character: char) -> bool {
    !character.is_ascii() && !character.is_control() && !character.is_whitespace()
}

/// Each character of Unicode, 1,112,064 of them less those that planes without any have many of.
#[test]
fn each_character_folds_as_in_ext4() {
    let sparse = |code: &u32| match code {
        0x30000..0xe0000 | 0xe1000..0x10_ffff => code & 0xff < 2,
        _ => true,
    };
    let all = (0x80..0x11_0000).filter(sparse).filter_map(char::from_u32);
    let names: Vec<_> = all
        .filter(|one| plain(*one))
        .map(|one| format!("x{one}").into_bytes())
        .collect();
    assert!(names.len() > 200_000);
    if let Some(wrong) = differences(&names) {
        assert_eq!(wrong, Vec::<String>::new());
    }
}

/// Several characters, mostly marks and letters that decompose, some newer than Unicode 12.1.
#[test]
fn random_names_fold_as_in_ext4() {
    let mut state = 0x5eed_u64;
    let mut random = |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % below
    };
    let ranges = [
        (0x41, 0x3a),
        (0xc0, 0x180),
        (0x300, 0x70),
        (0x340, 0x10),
        (0x370, 0x90),
        (0x591, 0x30),
        (0x1e00, 0x200),
        (0x1100, 0x100),
        (0xac00, 0x2ba4),
        (0x1dc0, 0x40),
        (0xfb00, 0x50),
        (0x1f600, 0x50),
        (0x1f970, 0x10),
        (0x1ac0, 0x10),
        (0x2c2f, 0x31),
        (0xa7c0, 0x10),
        (0x200b, 5),
        (0x13a0, 0x60),
    ];
    let mut names = Vec::new();
    for _ in 0..20_000 {
        let mut name = String::from("n");
        for _ in 0..=random(8) {
            let (first, length) = ranges[random(ranges.len() as u32) as usize];
            let one = char::from_u32(first + random(length)).unwrap_or('x');
            if one.is_alphanumeric() || plain(one) {
                name.push(one);
            }
        }
        names.push(name.into_bytes());
    }
    if let Some(wrong) = differences(&names) {
        assert_eq!(wrong, Vec::<String>::new());
    }
}

/// Some vectors of the Unicode Character Database, where there is no debugfs.
#[test]
fn names_that_are_the_same() {
    for all in [
        vec!["readme", "README", "ReadMe"],
        vec!["straße", "STRASSE", "STRAẞE", "ſtraſſe"],
        vec!["Å", "å", "A\u{30a}", "a\u{30a}", "\u{212b}"],
        vec!["σς", "ΣΣ", "σσ"],
        vec!["ﬁn", "FIN"],
        vec!["ᾳ", "ᾼ", "αι", "α\u{345}"],
        vec!["q\u{307}\u{323}", "Q\u{323}\u{307}"],
        vec!["İ", "i\u{307}"],
        vec!["각", "\u{1100}\u{1161}\u{11a8}"],
        vec!["a\u{ad}b", "A\u{200d}B", "ab"],
        vec!["\u{ab70}", "\u{13a0}"],
    ] {
        let keys: Vec<_> = all
            .iter()
            .map(|name| Folding::Unicode.key(name.as_bytes()))
            .collect();
        assert!(keys.iter().all(Option::is_some), "{all:?}");
        assert!(keys.iter().all(|key| *key == keys[0]), "{all:?} {keys:?}");
    }
    for (one, other) in [("ı", "i"), ("ı", "I"), ("a", "á"), ("①", "1"), ("Ⅰ", "I")] {
        let [one, other] = [one, other].map(|name| Folding::Unicode.key(name.as_bytes()));
        assert_ne!(one, other);
    }
}

#[test]
fn what_is_no_text_is_the_same_as_itself_only() {
    // A lone continuation, overlong, a surrogate, above U+10FFFF.
    for name in [
        &b"a\x80"[..],
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
    ] {
        assert_eq!(Folding::Unicode.key(name), None, "{name:?}");
        assert!(!is_valid(name), "{name:?}");
    }
    assert!(is_valid("é".as_bytes()) && is_valid(b"e"));
    assert_eq!(Folding::Ascii.key("É".as_bytes()).unwrap(), "É".as_bytes());
}
