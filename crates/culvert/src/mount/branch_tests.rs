//! Lists of branches.

use super::parse::branches;
use super::{Branch, Request, parse_mount, parse_options, parse_volume};
use crate::Result;
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

fn asked(list: &str) -> Result<Vec<Branch>> {
    Request::new(Some(b"u"), list.as_bytes(), b"/m", Vec::new())?.branches()
}

/// A branch as `[DRIVER ]SOURCE[ NAME=VALUE]...[ HOW]`.
fn told(branch: &Branch) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut words = Vec::from([text(&branch.source)]);
    if let Some(mount) = &branch.mount {
        assert_eq!(mount.target, b"/m");
        words.splice(0..0, mount.driver.clone());
        let options = mount.options.iter();
        words.extend(options.map(|(name, value)| format!("{name}={}", text(value))));
    }
    words.extend(Some(text(&branch.how)).filter(|how| !how.is_empty()));
    words.join(" ")
}

#[test]
fn a_branch_is_a_mount_of_its_own() {
    for (list, want) in [
        ("(source=/a)", &["/a"][..]),
        (
            "(type=t,source=/a,layer=l,l.x=1)=RO:/b",
            &["t /a layer=l l.x=1 RO", "/b"],
        ),
        ("/a=RW:(type=t,src=/b,ro)", &["/a RW", "t /b ro="]),
        (
            "memory:(type=memory,size=1G)",
            &["memory", "memory memory size=1G"],
        ),
        (r"(source=/a\,b\:c\=d\(e\)):/f", &["/a,b:c=d(e)", "/f"]),
        (r"(source=/a)=RW\,4G", &["/a RW,4G"]),
        // A parenthesis elsewhere is one.
        ("/a(b:c)=RO", &["/a(b", "c) RO"]),
        (r"\(a\):b", &["(a)", "b"]),
        (r"\(a):./(b", &["(a)", "./(b"]),
        ("(type=t,source=/a,x=(y))", &["t /a x=(y)"]),
    ] {
        let branches = asked(list).map_err(|error| error.to_string()).unwrap();
        let all: Vec<_> = branches.iter().map(told).collect();
        assert_eq!(all, want, "{list}");
        let fields = format!("type=u,source={list},target=/m,x=1");
        let volume = format!("{list}:/m:type=u,x=1");
        for parsed in [
            parse_mount(fields.as_bytes()),
            parse_volume(volume.as_bytes()),
        ] {
            let parsed = parsed.map_err(|error| error.to_string()).unwrap();
            assert_eq!(parsed.options.len(), 1, "{list}");
            assert_eq!(parsed.branches().unwrap(), branches, "{list}");
        }
    }
}

#[test]
fn branches_have_branches() {
    let inner = "type=u,source=(type=t,source=/a):/b=NC,z=1";
    let branches = asked(&format!("/c:({inner})=RO")).unwrap();
    let mount = branches[1].mount.clone().unwrap();
    assert_eq!(mount.options, [("z".to_string(), b"1".to_vec())]);
    let all: Vec<_> = mount.branches().unwrap().iter().map(told).collect();
    assert_eq!(all, ["t /a", "/b NC"]);
}

#[test]
fn options_that_are_lists_keep_their_branches() {
    let list = r"(type=t,source=/a\:1,ro):/b\:2";
    let want = ["t /a:1 ro=", "/b:2"];
    let options = format!("lowerdir={list},ro,upperdir=memory:");
    let fields = format!("type=o,source=o,target=/m,{options}");
    for options in [
        parse_options(options.as_bytes()).unwrap(),
        parse_mount(fields.as_bytes()).unwrap().options,
    ] {
        assert_eq!(options.len(), 3);
        assert_eq!(options[2].1, b"memory:");
        let found = branches(&options[0].1, b"/m").unwrap();
        assert_eq!(found.iter().map(told).collect::<Vec<_>>(), want);
    }
    // Another option is a text, as ever.
    let options = parse_options(br"x=(a,b=c\:d),lowerdir").unwrap();
    assert_eq!(options[0].1, b"(a");
    assert_eq!(options[1].1, b"c:d)");
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for (list, reason) in [
        ("(source=/a", "is not closed"),
        ("(source=/a,(x)", "is not closed"),
        (r"(source=/a\)", "is not closed"),
        ("(source=/a)b", "goes on behind its parenthesis"),
        ("(a)/b:/c", "goes on behind its parenthesis"),
        ("(source=/a))", "goes on behind its parenthesis"),
        ("(source=/a)=RO=RW", "has two ="),
        ("()", "an empty field"),
        ("(source=/a,)", "an empty field"),
        ("(type=t)", "no source (want source=S)"),
        ("(source=/a,target=/b)", "a branch has no target of its own"),
        ("(source=/a,dst=/b)", "a branch has no target of its own"),
        ("(\"source=/a\")", "a quote inside parentheses"),
        ("(type=T,source=/a)", "\"T\" is not a type"),
        (r"(source=/a\b)", "a backslash before \"b\""),
        ("(source=/a:/b)=RO:", "an empty branch"),
    ] {
        let refused = asked(list).unwrap_err();
        assert!(refused.to_string().contains(reason), "{list}: {refused}");
    }
    // Quoted as a whole it is a name.
    let quoted = parse_mount(br#"type=u,"source=(a,b)",target=/m"#).unwrap();
    let all: Vec<_> = quoted.branches().unwrap().iter().map(told).collect();
    assert_eq!(all, ["(a,b)"]);
}
