//! Kernel mounts that are mounted again with other owners (idmapped mounts, `--with idmap`): each user has the rights and makes the files that he would natively.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::not_tested;

/// What users 0, 1000 (2 in the file system) and 3 (nobody there) may do, and whose the results are.
const TWO_USERS: &str = r##"
as() { setpriv --reuid=$1 --regid=$1 --clear-groups -- bash -c "umask 022; $2" 2>&1 | sed "s/^bash: line [0-9]*: //"; }
owners() { (cd $1; stat -c "%n %u %g %a" *); }
chmod 777 .
as 1000 "echo mine > f; mkdir d; ln -s f l; mkfifo p; ln f h; echo x > gone; rm gone; mv h h2; owners() { stat -c \"%u %g %a %s\" \"\$@\"; }; owners f d l p h2"
as 1000 "chmod 640 f; cat f; echo more >> f; truncate -s 3 f; touch -d @7 f; stat -c \"%Y %s\" f; echo again > f; mv f d/f; cat d/f; echo y > d/y; ls d"
as 3 "cat d/f; echo x > d/f; rm -f d/y; mv d e; chmod 777 d; echo x > new; mkdir new; ls; id -u"
as 0 "cat d/f; echo root > r; chown 1000:1000 r; stat -c \"%u %g\" r; chown 3 r; chmod 600 r; stat -c \"%u %g %a\" r"
as 1000 "cat r; chmod 400 r; echo no > r; chmod 644 r; chmod u+s r; stat -c %a r"
cp /bin/true s; chown 0:0 s; for how in "echo >> s" "truncate -s 9 s" ": > s"; do chmod 6777 s; as 1000 "$how"; stat -c %a s; done
setfacl -m u:1000:r r; getfacl -cn r; setfacl -d -m u:1000:rwx d; as 1000 "touch d/acl; getfacl -cn d/acl; setfattr -n user.a -v b d/acl; getfattr --only-values -n user.a d/acl"; echo
chmod 2777 d; as 1000 "mkdir d/sub; touch d/file; stat -c \"%u %g %a\" d/sub d/file"
echo "here:"; owners .; owners d; echo "there:"; owners $THERE; owners $THERE/d
"##;

fn run(name: &str, words: Option<&[&str]>) -> Option<String> {
    let place = match words {
        Some(words) => {
            let mut all = vec!["--allow-other", "--with", "idmap"];
            all.extend(words);
            Mounted::new(name, &all)
        }
        None => Mounted::place(name),
    };
    let there = place.text("source");
    let mounted = match words {
        Some(_) => place.text("target"),
        None => there.clone(),
    };
    let program = format!("{}/programs/idmapped.py", env!("CARGO_MANIFEST_DIR"));
    let again = place.text("again");
    let done = shell(&format!(
        "mkdir -p {again}; exec unshare -m bash -c 'python3 {program} {mounted} {again} || exit 77; export THERE={there}; cd {again}; eval \"$0\"' '{}'",
        TWO_USERS.replace('\'', "'\\''")
    ));
    match done.status.as_str() {
        "exit 77" => None,
        _ => Some(format!("{}{}", done.text(), done.errors())),
    }
}

#[test]
fn each_user_is_who_he_is_there() {
    if !possible() {
        return;
    }
    let Some(native) = run("idmapped-native", None) else {
        not_tested("the file system below has no idmapped mounts");
        return;
    };
    assert!(
        native.contains("1000 1000 644 5") && native.contains("f 2 2 640"),
        "{native}"
    );
    for (name, words) in [
        ("idmapped", &[][..]),
        ("idmapped-driven", &["-o", "driven"]),
        ("idmapped-cached", &["--without", "passthrough"]),
    ] {
        let ours = run(name, Some(words));
        assert_eq!(ours.as_ref(), Some(&native), "{name}");
    }
}

/// Only where it was asked for: the server would not know whom it acts for.
#[test]
fn not_without_being_asked_for() {
    if !possible() {
        return;
    }
    let program = format!("{}/programs/idmapped.py", env!("CARGO_MANIFEST_DIR"));
    let mount = Mounted::new("idmapped-not", &["--allow-other"]);
    let (target, again) = (mount.text("target"), mount.text("again"));
    let done = shell(&format!(
        "mkdir -p {again}; exec unshare -m python3 {program} {target} {again}"
    ));
    assert!(
        done.errors().contains("Invalid argument"),
        "{}",
        done.report()
    );
    let listed = culvert(&["mount", "--with", "list"]);
    assert!(listed.text().contains("idmap"), "{}", listed.report());
}
