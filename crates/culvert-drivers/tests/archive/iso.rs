//! Images of ISO 9660.

use crate::compare::{Keeps, same};
use crate::tools::{Scratch, node, open, paths, prepare, read, sh};
use std::fs;

const TREE: &str = r#"
mkdir -p tree/a/b tree/empty; cd tree
printf 'hello\n' > a/hello; : > a/nothing; seq 1 30000 > a/b/numbers; head -c 2048 /dev/urandom > block
ln -s hello a/link; ln -s ../nowhere a/b/dangling; ln -s /usr/bin/../lib/./x absolute
chmod 4755 a/hello; chmod 1777 a/b; chmod 400 a/nothing; mkfifo fifo
touch -d '1999-12-31 23:59:59' a/b/numbers; touch -h -d '2001-02-03 04:05:06' a/link
long=$(printf 'n%.0s' $(seq 1 200)); echo long > $long; far=$(printf 'f%.0s' $(seq 1 150)); ln -s ../$far longlink
mkdir -p d1/d2/d3/d4/d5/d6/d7/d8/d9/d10; echo deep > d1/d2/d3/d4/d5/d6/d7/d8/d9/d10/file
i=0; while [ $i -lt 200 ]; do echo $i > a/b/file$i; i=$((i+1)); done
mknod null c 1 3 2>/dev/null || true
"#;

const KEEPS: Keeps = Keeps {
    hard_links: false,
    ..Keeps::SECONDS
};

#[test]
fn rock_ridge_is_the_tree() {
    let scratch = Scratch::new();
    sh(&scratch.0, TREE);
    sh(
        &scratch.0,
        "genisoimage -quiet -R -o t.iso tree; genisoimage -quiet -R -J -D -o deep.iso tree 2>log",
    );
    for name in ["t.iso", "deep.iso"] {
        let (fs, prepared) = open(&scratch.path(name), &[]).unwrap();
        assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
        assert!(prepared.summary.starts_with("iso9660, "));
        let moved = node(&*fs, b"rr_moved");
        match moved {
            // What genisoimage makes for directories that lie too deep is empty here.
            Ok(moved) => assert!(crate::tools::names(&*fs, moved).unwrap().is_empty()),
            Err(_) => same(&*fs, &scratch.path("tree"), KEEPS),
        }
        let deep = node(&*fs, b"d1/d2/d3/d4/d5/d6/d7/d8/d9/d10/file").unwrap();
        assert_eq!(read(&*fs, deep, 10).unwrap(), b"deep\n");
    }
}

#[test]
fn joliet_and_plain_names() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "mkdir -p t/Sub; echo 1 > 't/Grüße an alle.text'; echo 2 > t/Sub/b.txt
         genisoimage -quiet -input-charset utf-8 -J -o joliet.iso t; rm t/Gr*; echo 3 > t/NOEND
         genisoimage -quiet -o plain.iso t",
    );
    let (fs, _) = open(&scratch.path("joliet.iso"), &[]).unwrap();
    assert_eq!(paths(&*fs), ["Grüße an alle.text", "Sub/", "Sub/b.txt"]);
    let (fs, _) = open(&scratch.path("plain.iso"), &[]).unwrap();
    assert_eq!(paths(&*fs), ["noend", "sub/", "sub/b.txt"]);
    let file = node(&*fs, b"noend").unwrap();
    assert_eq!(read(&*fs, file, 10).unwrap(), b"3\n");
    let attributes = fs.attributes(&crate::tools::CALLER, file).unwrap();
    assert_eq!(attributes.permissions, 0o555);
}

#[test]
fn an_image_that_is_cut_off_or_goes_in_circles_is_bounded() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "mkdir -p t/a/b; echo 1 > t/a/f; genisoimage -quiet -R -o t.iso t",
    );
    let whole = fs::read(scratch.path("t.iso")).unwrap();
    fs::write(scratch.path("cut.iso"), &whole[..34 << 10]).unwrap();
    assert!(prepare(&scratch.path("cut.iso"), &[]).is_err());
    // Directory b becomes its parent. Behind the path table comes the record with its name.
    let place = |name: &[u8]| {
        let at = whole
            .windows(2)
            .rposition(|two| two == [1, name[0]])
            .unwrap()
            + 1;
        at - 33
    };
    let (a, b) = (place(b"A"), place(b"B"));
    let mut circle = whole.clone();
    let from = circle[a + 2..a + 18].to_vec();
    circle[b + 2..b + 18].copy_from_slice(&from);
    fs::write(scratch.path("circle.iso"), &circle).unwrap();
    let (fs, prepared) = open(&scratch.path("circle.iso"), &[]).unwrap();
    assert_eq!(prepared.warnings.total, 1);
    assert!(prepared.warnings.first[0].text.contains("circle"));
    assert_eq!(paths(&*fs), ["a/", "a/f"]);
    // Both directories claim nearly all of the image.
    let length = (whole.len() - (64 << 10)) as u32;
    let both = [&length.to_le_bytes()[..], &length.to_be_bytes()].concat();
    let mut greedy = whole.clone();
    for at in [a, b] {
        greedy[at + 10..at + 18].copy_from_slice(&both);
    }
    fs::write(scratch.path("greedy.iso"), &greedy).unwrap();
    let error = prepare(&scratch.path("greedy.iso"), &[]).unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
}

#[test]
fn a_file_in_parts_that_lie_apart_is_left_out_whole() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "mkdir t; for name in a b c d; do head -c 3000 /dev/urandom > t/$name; done
         genisoimage -quiet -o t.iso t",
    );
    let mut image = fs::read(scratch.path("t.iso")).unwrap();
    // A, C and D are parts of one file: between the first two lies B.
    for (name, goes_on) in [(b"A.;1", 0x80), (b"C.;1", 0x80), (b"D.;1", 0)] {
        let at = image
            .windows(5)
            .rposition(|five| five[0] == 4 && &five[1..] == name)
            .unwrap();
        image[at - 32 + 25] |= goes_on;
    }
    let at = image.windows(4).rposition(|four| four == b"B.;1").unwrap();
    // B is no record of its own any more: an associated file.
    image[at - 33 + 25] |= 4;
    fs::write(scratch.path("parts.iso"), &image).unwrap();
    let (fs, prepared) = open(&scratch.path("parts.iso"), &[]).unwrap();
    assert_eq!(prepared.warnings.total, 2, "{:?}", prepared.warnings.first);
    assert!(paths(&*fs).is_empty(), "{:?}", paths(&*fs));
}
