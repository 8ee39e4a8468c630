use super::*;
use alloc::{string::ToString, vec};

fn options(pairs: &[(&str, &str)]) -> Options {
    let pair = |(name, value): &(&str, &str)| (name.to_string(), value.as_bytes().to_vec());
    pairs.iter().map(pair).collect()
}

fn request(driver: Option<&str>, source: &str, target: &str, pairs: &[(&str, &str)]) -> Request {
    Request {
        typed: Vec::new(),
        driver: driver.map(str::to_string),
        source: source.as_bytes().to_vec(),
        target: target.as_bytes().to_vec(),
        options: options(pairs),
        more_sources: Vec::new(),
    }
}

/// Without its sources as typed.
fn untyped(parsed: Result<Request>) -> Request {
    Request {
        typed: Vec::new(),
        ..parsed.unwrap()
    }
}

#[track_caller]
fn refused<T: core::fmt::Debug>(result: Result<T>, reason: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), Errno::EINVAL);
    assert!(error.to_string().contains(reason), "{error} lacks {reason}");
}

#[test]
fn volume_forms() {
    for (text, want) in [
        ("a:b", request(None, "a", "b", &[])),
        ("/a:/b:", request(None, "/a", "/b", &[])),
        ("/a:/b:ro", request(None, "/a", "/b", &[("ro", "")])),
        (
            "/a:/b:readonly,x=1,y=a=b,z=",
            request(
                None,
                "/a",
                "/b",
                &[("ro", ""), ("x", "1"), ("y", "a=b"), ("z", "")],
            ),
        ),
        (r"/a\:1:/b\\c", request(None, "/a:1", "/b\\c", &[])),
        (
            r"/a,1:/b:x=1\,2\:3",
            request(None, "/a,1", "/b", &[("x", "1,2:3")]),
        ),
    ] {
        assert_eq!(untyped(parse_volume(text.as_bytes())), want, "{text}");
    }
    assert_eq!(parse_volume(b"/\xff:/\xfe").unwrap().source, b"/\xff");
}

#[test]
fn volume_refusals_say_why() {
    for (text, reason) in [
        ("", "no target"),
        ("/a", "no target"),
        (":/b", "the source is empty"),
        ("/a:", "the target is empty"),
        ("/a:/b:ro:x", "more than three fields"),
        (r"/a\b:/c", "a backslash before \"b\""),
        (r"/a:/c\", "a backslash at the end"),
        ("/a:/b:ro,,x", "an option has no name"),
        ("/a:/b:=x", "an option has no name"),
        ("/a:/b:ro=maybe", "neither true nor false"),
        ("/a:/b:a b", "\"a b\" is not an option name"),
        ("/a\0:/b", "holds a NUL byte"),
    ] {
        refused(parse_volume(text.as_bytes()), reason);
    }
    refused(
        parse_volume(&[&[b'a'; 4096][..], b":b"].concat()),
        "more than 4095",
    );
}

#[test]
fn mount_forms() {
    let plain = request(Some("archive"), "/a", "/b", &[]);
    for (text, want) in [
        ("type=archive,source=/a,target=/b", plain.clone()),
        ("dst=/b,src=/a,type=archive", plain.clone()),
        ("type=archive,destination=/b,src=/a", plain.clone()),
        (r#""type=archive","source=/a","target=/b""#, plain),
        ("src=a,dst=b", request(None, "a", "b", &[])),
        (
            "src=a,dst=b,readonly",
            request(None, "a", "b", &[("ro", "")]),
        ),
        (
            "src=a,dst=b,ro=false",
            request(None, "a", "b", &[("rw", "")]),
        ),
        ("src=a,dst=b,rw=0", request(None, "a", "b", &[("ro", "")])),
        ("src=a,dst=b,v", request(None, "a", "b", &[("v", "")])),
        (r#""src=a,""b",dst=c=d"#, request(None, "a,\"b", "c=d", &[])),
        (
            r#"src=a\,\"b,dst=c\:\\d:e"#,
            request(None, "a,\"b", "c:\\d:e", &[]),
        ),
        (r#""src=a\b",dst=c"#, request(None, "a\\b", "c", &[])),
    ] {
        assert_eq!(untyped(parse_mount(text.as_bytes())), want, "{text}");
    }
}

#[test]
fn further_sources_are_kept_in_their_order() {
    let request = parse_mount(br"type=t,source=/a,dst=/m,src=/b:c,source=/d\,e").unwrap();
    assert_eq!(request.source, b"/a");
    assert_eq!(request.more_sources, [&b"/b:c"[..], b"/d,e"]);
}

/// The branches of `request`, each as `SOURCE[ HOW]`.
fn branches(request: &Request) -> Result<Vec<String>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let one = |branch: &Branch| match branch.how.is_empty() {
        true => text(&branch.source),
        false => format!("{} {}", text(&branch.source), text(&branch.how)),
    };
    Ok(request.branches()?.iter().map(one).collect())
}

#[test]
fn lists_are_the_same_in_all_syntaxes() {
    for (list, want) in [
        ("/a", &["/a"][..]),
        ("/a:/b", &["/a", "/b"]),
        ("/a=RW:b.tar.zst=RO", &["/a RW", "b.tar.zst RO"]),
        (r"/a=RW\,4G:/b", &["/a RW,4G", "/b"]),
        (r"/a\:b\=c=RO:/d\\e", &["/a:b=c RO", r"/d\e"]),
        ("memory:", &["memory"]),
        ("memory", &["memory"]),
        ("/a:memory:=RW", &["/a", "memory", " RW"]),
        ("memory:/b", &["memory", "/b"]),
        ("memory::b", &["memory", "b"]),
        (r"memory\:n:b", &["memory:n", "b"]),
        ("memory=RW:b", &["memory RW", "b"]),
        ("a:./b:../c", &["a", "./b", "../c"]),
    ] {
        let fields = format!("source={list},type=u,target=/m,x=1");
        let volume = format!("{list}:/m:x=1,type=u");
        let helper = Request::new(Some(b"u"), list.as_bytes(), b"/m", options(&[("x", "1")]));
        for asked in [
            parse_mount(fields.as_bytes()),
            parse_volume(volume.as_bytes()),
            helper,
        ] {
            let asked = match asked {
                Err(error) => Err(error),
                Ok(asked) => {
                    assert_eq!(asked.driver.as_deref(), Some("u"), "{list}");
                    assert_eq!((&*asked.target, asked.options.len()), (&b"/m"[..], 1));
                    branches(&asked)
                }
            };
            match want.contains(&" RW") {
                true => refused(asked, "may be its name or a branch"),
                false => assert_eq!(asked.unwrap(), want, "{list}"),
            }
        }
    }
    let several = parse_mount(br#"type=u,source=/a=RO:b,"source=/c:d=e",src=/f,dst=/m"#).unwrap();
    assert_eq!(branches(&several).unwrap(), ["/a RO", "b", "/c:d=e", "/f"]);
    // Of one source there is no list.
    assert_eq!(
        parse_mount(b"type=u,source=/a:b,dst=/m").unwrap().source,
        b"/a:b"
    );
    let two = parse_volume(b"/a:/b:/m:type=u").unwrap();
    assert_eq!((&*two.source, two.more_sources.len()), (&b"/a"[..], 1));
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for (list, reason) in [
        ("/a:", "an empty branch"),
        ("/a::/b", "an empty branch"),
        ("memory:::/b", "an empty branch"),
        ("=RW", "the branch is empty"),
        ("/a=b=RO", "has two ="),
        ("memory:n", "may be its name or a branch"),
        ("memory:base.tar=RO:/a", "may be its name or a branch"),
    ] {
        let request = Request::new(Some(b"u"), list.as_bytes(), b"/m", Vec::new());
        refused(request.and_then(|asked| asked.branches()), reason);
    }
    refused(parse_volume(b"/a:/b:/m"), "\"/m\" is not an option name");
    refused(parse_volume(b"/a:/b:/m:ro"), "several sources want type=T");
    refused(parse_volume(b"/m:type=u"), "no source");
    refused(parse_volume(b"/a:/b:type=u,type=v"), "type is given twice");
    refused(parse_volume(b"/a:/b:type="), "the type is empty");
    let bad = Request::new(None, br"/a\b", b"/m", Vec::new()).unwrap();
    assert_eq!(bad.source, br"/a\b");
    refused(bad.branches(), "a backslash before \"b\"");
}

#[test]
fn mount_refusals_say_why() {
    for (text, reason) in [
        ("", "an empty field"),
        ("src=a,", "an empty field"),
        ("src=a", "no target"),
        ("dst=a", "no source"),
        ("src,dst=a", "\"src\" needs a value"),
        ("src=,dst=a", "the source is empty"),
        ("src=a,source=,dst=c", "the source is empty"),
        ("src=a,dst=b,target=c", "target is given twice"),
        ("type=,src=a,dst=b", "the type is empty"),
        ("type=Tar,src=a,dst=b", "\"Tar\" is not a type"),
        ("\"src=a,dst=b", "no closing quote"),
        ("\"src=a\"x,dst=b", "after its closing quote"),
        ("src=\"a\",dst=b", "a quote inside a field"),
        (r"src=a\nb,dst=b", "a backslash before \"n\""),
        (r"s\,rc=a,dst=b,src=c", "\"s,rc\" is not an option name"),
    ] {
        refused(parse_mount(text.as_bytes()), reason);
    }
}

#[test]
fn options_are_kept_in_order_and_the_last_one_decides() {
    let mut mount = request(Some("t"), "/a", "/b", &[]).into_mount("");
    mount.options = parse_options(b"ro,a=1,rw,a=2,b").unwrap();
    assert_eq!(mount.options.len(), 5);
    assert!(!mount.read_only());
    assert_eq!(mount.option("a"), Some(&b"2"[..]));
    assert_eq!(mount.option("b"), Some(&b""[..]));
    assert_eq!(mount.option("c"), None);
    assert_eq!(parse_options(b"").unwrap(), []);
    refused(parse_options(b"a,"), "an option has no name");
}

#[test]
fn check_wants_plain_absolute_targets() {
    let with = |target: &str| request(Some("t"), "s", target, &[]).into_mount("");
    assert!(with("/a/b.c/...").check().is_ok());
    for target in [
        "a", "/", "//a", "/a/", "/a//b", "/a/./b", "/a/..", "/./a", "",
    ] {
        assert!(with(target).check().is_err(), "{target}");
    }
}

/// A small generator of bytes, the same in every run (splitmix64).
struct Bytes(u64);

impl Bytes {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
    fn path(&mut self) -> Vec<u8> {
        let special = b":,=\"\\ a\xff";
        let byte = |g: &mut Self| match g.below(2) {
            0 => special[g.below(special.len() as u64) as usize],
            _ => (g.below(255) + 1) as u8,
        };
        let mut path = vec![b'/', b'x'];
        for _ in 0..self.below(12) {
            path.push(byte(self));
        }
        path.retain(|&b| b != b'/');
        path.insert(0, b'/');
        path
    }
    fn mount(&mut self, target: &[u8], depth: u64) -> Mount {
        let mut options = Vec::new();
        for i in 0..self.below(4) {
            options.push((format!("o{i}"), self.path()));
        }
        let mut branches = Vec::new();
        for _ in 0..self.below(depth + 1) {
            branches.push(self.mount(target, depth - 1));
        }
        Mount {
            driver: "archive".into(),
            source: self.path(),
            target: target.to_vec(),
            options,
            branches,
        }
    }
    fn mounts(&mut self) -> [Mount; 2] {
        let targets = [self.path(), self.path()];
        targets.map(|target| self.mount(&target, 2))
    }
}

#[test]
fn the_run_file_gives_the_mounts_again() {
    let mut generator = Bytes(1);
    for _ in 0..2000 {
        let mounts = generator.mounts();
        assert_eq!(decode(&encode(&mounts)).unwrap(), mounts);
    }
    assert_eq!(decode(&encode(&[])).unwrap(), []);
}

#[test]
fn damaged_run_files_are_refused_or_read_as_written() {
    let mut generator = Bytes(2);
    let mounts = generator.mounts();
    let good = encode(&mounts);
    for length in 0..good.len() {
        assert_eq!(decode(&good[..length]).unwrap_err().errno(), Errno::EBADMSG);
    }
    assert!(decode(&[&good[..], b"\0"].concat()).is_err());
    for _ in 0..20_000 {
        let mut bad = good.clone();
        for _ in 0..=generator.below(3) {
            let at = generator.below(bad.len() as u64) as usize;
            bad[at] = generator.next() as u8;
        }
        if let Ok(read) = decode(&bad) {
            assert_eq!(encode(&read), bad);
        }
    }
}

#[test]
fn huge_counts_cost_nothing() {
    let mut bad = encode(&[]);
    bad[12..16].fill(0xff);
    let error = decode(&bad).unwrap_err();
    assert!(error.to_string().contains("truncated"), "{error}");
    let error = decode(&[&bad[..8], &[3, 0, 0, 0][..]].concat()).unwrap_err();
    assert!(
        error.to_string().contains("version 3, this one reads 2"),
        "{error}"
    );
}

#[test]
fn a_run_file_holds_only_mounts_that_may_travel() {
    let good = request(Some("t"), "/s", "/a", &[("o", "1")]).into_mount("");
    let bad: [fn(&mut Mount); 7] = [
        |mount| mount.target = b"/a/../b".to_vec(),
        |mount| mount.driver = "T".into(),
        |mount| mount.source.clear(),
        |mount| mount.options[0].0 = "o=".into(),
        |mount| mount.options[0].1.push(0),
        |mount| {
            let mut elsewhere = mount.clone();
            elsewhere.target = b"/b".to_vec();
            mount.branches.push(elsewhere);
        },
        |mount| {
            for _ in 0..DEEPEST {
                mount.branches = vec![mount.clone()];
            }
        },
    ];
    for spoil in bad {
        let mut mount = good.clone();
        spoil(&mut mount);
        let error = decode(&encode(&[good.clone(), mount])).unwrap_err();
        assert_eq!(error.errno(), Errno::EBADMSG);
        let said = error.to_string();
        let which = said.contains("mount 1: ") || said.contains("too many branches");
        assert!(which, "{said}");
    }
    let mut damaged = encode(&[good]);
    damaged[0] = b'C';
    let error = decode(&damaged).unwrap_err();
    assert!(error.to_string().contains("not a run file"), "{error}");
}
