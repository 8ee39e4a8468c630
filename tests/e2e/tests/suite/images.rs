//! Images of rewritten code: what processes share, and what harms nobody.

use culvert_e2e::{Case, User, as_each_user, world};

const BEGIN: &str = script!(part "images/begin.sh");

/// What `script` says, in a mount namespace with a /dev/shm of its own.
#[track_caller]
fn says(case: Case, script: &str, expected: &str) {
    if world().only_native {
        return;
    }
    let program = case.program("images");
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/images_library.c");
    let culvert = world().culvert.to_str().expect("plain").to_owned();
    let case = case
        .variable("CULVERT", culvert)
        .variable("IMAGES", program)
        .variable("LIBRARY", library);
    let alone: &[&str] = match world().is_root() && case.user() == User::Me {
        true => &["unshare", "-m"],
        false => &["unshare", "--user", "--map-root-user", "-m"],
    };
    let script = format!("{BEGIN}{script}");
    let words = [alone, &["bash", "-c", &script]].concat();
    let done = case.alone(&words);
    assert_eq!(done.text(), expected, "{}", done.report());
}

as_each_user! {
    code_is_not_copied |case| says(case,
        script!("images/code_is_not_copied.sh"),
        "private code: libc 0 kB, ld.so 0 kB\nprivate code: libc 0 kB, ld.so 0 kB\n1\n1\n");

    a_changed_library_is_another |case| says(case,
        script!("images/a_changed_library_is_another.sh"),
        "1000\n1000\n2000\n3000\n3000\nno\n3000\n");

    a_removed_store_harms_nobody |case| says(case,
        script!("images/a_removed_store_harms_nobody.sh"),
        "1000\nready\n1000\nfile\n1000\n1000\n1000\n1000\n1000\n");

    a_full_store_is_left |case| says(case,
        script!("images/a_full_store_is_left.sh"),
        &"1000\n".repeat(5));

    a_library_is_opened_again_and_again |case| says(case,
        script!("images/a_library_is_opened_again_and_again.sh"),
        &"1000, no more mappings\n".repeat(2));

    an_image_is_an_object |case| says(case,
        script!("images/an_image_is_an_object.sh"),
        "1000\n400\n700\n");
}

#[test]
fn images_of_others_are_not_used() {
    let case = Case::new("images-of-others", User::Me);
    if !world().is_root() {
        return;
    }
    says(
        case,
        script!("images/images_of_others_are_not_used.sh"),
        "no\nwritable\nyes\nno\nlinked\nyes\nno\nsymbolic\nyes\nno\nanother user\nyes\nno\n\
         spoilt\nyes\n",
    );
}

#[test]
fn a_confined_process_changes_none() {
    let refused = "open to write: Permission denied\nopen again to write: Permission denied\n\
                   truncate: Permission denied\nrename: Permission denied\n\
                   unlink: Permission denied\ncreate: Permission denied\n\
                   a link: Permission denied\n";
    says(
        Case::new("images-confined", User::Me),
        script!("images/a_confined_process_changes_none.sh"),
        &format!("1000\n{refused}1000\n4 Read-only file system\n1000\n"),
    );
}

/// A debugger's breakpoints are in the code before the program's first instruction.
#[test]
fn breakpoints_stay() {
    let case = Case::new("images-breakpoints", User::Me);
    let program = case.program("images");
    case.good(&format!("{program} clean > /dev/null; {program} traced"));
}
