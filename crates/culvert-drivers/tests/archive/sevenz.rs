//! 7z archives.

use crate::compare::{Keeps, same};
use crate::tools::{Scratch, node, open, paths, prepare, read, sh};
use culvert::Errno;
use std::fs;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        r#"
mkdir -p t/d/e; seq 1 700000 > t/numbers; echo hello > t/d/f; : > t/d/empty; cp /bin/ls t/d/program
chmod 4755 t/d/program; chmod 640 t/d/f; ln -s ../numbers t/d/link; echo x > "t/d/e/ä name"
head -c 3000000 /dev/urandom > t/random; find t | xargs -d '\n' touch -h -d '2001-02-03 04:05:06.7'
7z a -bd -snl lzma2.7z ./t/* > log; 7z a -bd -snl -m0=lzma -mf=off lzma.7z ./t/* > log
7z a -bd -snl -m0=bzip2 -mf=off bzip2.7z ./t/* > log; 7z a -bd -snl -m0=copy -mf=off copy.7z ./t/* > log
7z a -bd -snl -mf=bcj -ms=off each.7z ./t/* > log; 7z a -bd -snl -mhc=off -mf=off plain.7z ./t/* > log
7z a -bd -snl -mf=delta:4 delta.7z ./t/* > log
7z a -bd -m0=ppmd ppmd.7z t/d/f > log; 7z a -bd -psecret -mhe=on secret.7z t/d/f > log
7z a -bd -psecret hidden.7z t/d/f > log; mkdir nothing; 7z a -bd nothing.7z ./nothing/ > log || :
"#,
    );
    scratch
}

#[test]
fn archives_of_7z_are_as_7z_unpacks_them() {
    let scratch = scratch();
    for name in ["lzma2", "lzma", "bzip2", "copy", "each", "plain", "delta"] {
        let path = scratch.path(&format!("{name}.7z"));
        let (fs, prepared) = open(&path, &[]).unwrap();
        assert!(prepared.summary.starts_with("7z, "), "{}", prepared.summary);
        assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
        let keeps = Keeps {
            time_unit: 100,
            owners: false,
            hard_links: false,
        };
        same(&*fs, &scratch.path("t"), keeps);
        // Backwards, too.
        let numbers = node(&*fs, b"numbers").unwrap();
        let content = fs::read(scratch.path("t/numbers")).unwrap();
        assert!(read(&*fs, numbers, 4095).unwrap() == content, "{name}");
        let program = node(&*fs, b"d/program").unwrap();
        let content = fs::read(scratch.path("t/d/program")).unwrap();
        assert!(read(&*fs, program, 100_000).unwrap() == content, "{name}");
    }
}

#[test]
fn what_is_not_read_in_a_7z_archive_is_refused() {
    let scratch = scratch();
    for (name, errno) in [
        ("ppmd", Errno::EOPNOTSUPP),
        ("secret", Errno::EACCES),
        ("hidden", Errno::EACCES),
    ] {
        let refused = prepare(&scratch.path(&format!("{name}.7z")), &[]).unwrap_err();
        assert_eq!(refused.errno(), errno, "{name}: {refused}");
    }
    let whole = fs::read(scratch.path("lzma2.7z")).unwrap();
    let mut wrong = whole.clone();
    wrong[whole.len() / 2] ^= 1;
    for bytes in [&wrong[..], &whole[..whole.len() - 9], &whole[..40]] {
        let refused = prepare(&scratch.archive(bytes), &[]).unwrap_err();
        assert_eq!(refused.errno(), Errno::EIO, "{refused}");
    }
    let mut empty = b"7z\xbc\xaf\x27\x1c\0\x04".to_vec();
    empty.extend_from_slice(&[0x8d, 0x9b, 0xd5, 0x0f]);
    empty.extend_from_slice(&[0; 20]);
    let (fs, _) = open(&scratch.archive(&empty), &[]).unwrap();
    assert!(paths(&*fs).is_empty());
}
