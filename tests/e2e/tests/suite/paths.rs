//! How path names resolve: in, out of, into and between mounts.

use culvert_e2e::{Case, as_each_user, world};

/// Names below the root of the tree `odd`, without odd results of their own.
const NAMES: &[&str] = &[
    ".",
    "./",
    "..",
    "../",
    "../..",
    "/",
    "hello.txt",
    "./hello.txt",
    "hello.txt/",
    "hello.txt/.",
    "hello.txt/..",
    "dir",
    "dir/",
    "dir//",
    "dir/.",
    "dir/..",
    "dir/../hello.txt",
    "dir/../../mnt/hello.txt",
    "dir/sub/../../dir/a.txt",
    "dir/empty-dir",
    "dir/empty-dir/../a.txt",
    "missing",
    "missing/",
    "missing/..",
    "missing/../hello.txt",
    "hello.txt/../hello.txt",
    "empty",
    "hard/one",
    "many/f0777",
    "modes/4755",
    "modes/d1777/file",
    "names/a space",
    "names/...",
    "names/*",
    "names/trailing ",
    "names/back\\slash",
    "names/-dash",
    "../mnt",
    "../mnt/",
    "../mnt/hello.txt",
    "../mnt/../mnt/dir",
    "../outside",
    "../outside/outside.txt",
    "../mnt2",
    "../mnt22",
    "../mn",
    "../mntx",
    "../mnt/../mnt2",
    "../../..",
    "//",
    "///",
    "/.",
    "/..",
    "dir/sub/deep.txt/x",
    ".//dir///a.txt",
    "dir/./././a.txt",
];

/// Names of links in the tree, and through them.
const LINKS: &[&str] = &[
    "links/file",
    "links/file/",
    "links/dir",
    "links/dir/",
    "links/dir/a.txt",
    "links/dir/..",
    "links/dir/../links/dir/b.txt",
    "links/dir-slash",
    "links/dir-slash/a.txt",
    "links/file-slash",
    "links/dot",
    "links/dot/file",
    "links/dot/dot/dot/file",
    "links/up",
    "links/up/hello.txt",
    "links/dangling",
    "links/dangling/",
    "links/dangling/x",
    "links/loop-a",
    "links/self",
    "links/self/x",
    "links/root",
    "links/out",
    "links/out/",
    "links/out-dir",
    "links/out-dir/",
    "links/out-dir/outside.txt",
    "links/out-dir/..",
    "links/out-dir/../mnt/hello.txt",
    "links/out-dir/in-dir/a.txt",
    "links/out-dir/in-file",
    "links/out-and-in",
    "links/above",
    "links/many-slashes",
    "links/null",
    "links/out-absolute",
    "links/in-absolute",
    "links/in-dir",
    "links/in-dir/",
    "links/in-dir/a.txt",
    "links/in-dir/..",
    "links/in-dir/../hello.txt",
    "links/in-root",
    "links/in-root/..",
    "links/in-root/links/in-root/hello.txt",
    "links/chain-30",
    "links/chain-00",
    "links/chain-44",
    "links/chain-45",
    "links/long",
    "links/root/dev/null",
    "links/up/../outside/in-root/links/up/hello.txt",
];

/// Names outside that lead in, for the directory `outside`.
const FROM_OUTSIDE: &[&str] = &[
    "in-file",
    "in-file/",
    "in-dir",
    "in-dir/",
    "in-dir/a.txt",
    "in-dir/..",
    "in-dir/../hello.txt",
    "in-root",
    "in-root/",
    "in-root/hello.txt",
    "in-root/..",
    "in-root/../outside/outside.txt",
    "in-root/links/out",
    "in-absolute",
    "in-absolute/a.txt",
    "in-up",
    "in-and-out",
    "in-missing",
    "in-new",
    "d/../in-dir/../dir/sub/deep.txt",
    "../mnt/hello.txt",
    "d/../../mnt/hello.txt",
    "in-root/links/chain-30",
    "in-root/links/chain-00",
    "in-root/names/...",
    "outside.txt",
    "outside.txt/",
    "missing",
    "d",
    "d/file",
    ".",
    "..",
    "../mnt",
];

fn ask(case: &Case, before: &str, arguments: &str) {
    let paths = case.program("paths");
    case.good(&format!("cd {before} && exec {paths} {arguments}"));
}

fn all(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// The same names made absolute.
fn absolute(directory: &str, names: &[&str]) -> String {
    let base = world().path(directory);
    names
        .iter()
        .map(|name| format!("{}/{name}\n", base.display()))
        .collect()
}

/// The kernel counts a link again when a fast walk is begun anew, so close to the limit a native
/// walk may end either way: here the rule alone is tested.
#[test]
fn forty_links_are_followed_and_no_more() {
    let case = Case::new("forty", culvert_e2e::User::Me).odd();
    let done = case.through_culvert(&[
        "bash",
        "-c",
        script!("paths/forty_links_are_followed_and_no_more.sh"),
    ]);
    let refused = "Too many levels of symbolic links";
    assert_eq!(
        done.text(),
        "hello, world\nhello, world\n",
        "{}",
        done.report()
    );
    assert_eq!(
        done.errors().matches(refused).count(),
        2,
        "{}",
        done.report()
    );
}

as_each_user! {
    relative_to_a_working_directory_in_the_mount |case| ask(&case.odd().input(all(NAMES)), "$M", "");
    absolute_names |case| ask(&case.odd().input(absolute("mnt", NAMES)), "/", "");
    below_an_open_directory |case| ask(&case.odd().input(all(NAMES)), "/", "$M");
    below_an_o_path_directory |case| ask(&case.odd().input(all(NAMES)), "/tmp", "$M path");
    links_relative |case| ask(&case.odd().input(all(LINKS)), "$M", "");
    links_absolute |case| ask(&case.odd().input(absolute("mnt", LINKS)), "/", "");
    links_below_an_open_directory |case| ask(&case.odd().input(all(LINKS)), "/", "$M");
    from_outside_relative |case| ask(&case.odd().input(all(FROM_OUTSIDE)), "$O", "");
    from_outside_absolute |case| ask(&case.odd().input(absolute("outside", FROM_OUTSIDE)), "/", "");
    from_outside_below_an_open_directory |case| ask(&case.odd().input(all(FROM_OUTSIDE)), "/", "$O");
    from_a_directory_deep_in_the_mount |case| ask(&case.odd().input(all(&[
        ".", "..", "deep.txt", "../a.txt", "../../hello.txt", "../../..", "../../../outside/outside.txt", "../../../mnt/hello.txt", "../../links/dir/../hello.txt", "../../../../..",
    ])), "$M/dir/sub", "");
    working_directory_entered_by_a_link |case| ask(&case.odd().input(all(&[".", "..", "a.txt", "../hello.txt", "../outside.txt"])), "$O/in-dir", "");

    several_mounts |case| ask(
        &case.odd().mount("small", "tar.gz", "mnt2").input(all(&[
            "mnt", "mnt/", "mnt2", "mnt2/", "mnt2/only", "mnt2/sub/below", "mnt2/sub/../only", "mnt2/..", "mnt/../mnt2/only", "mnt2/../mnt/hello.txt", "mnt22", "mnt22/only", "mn/only", "mnt2/hello.txt", "mnt/only",
            "mnt2/sub/../../mnt/dir/a.txt", "mnt2/out",
        ])),
        "$B", "");

    a_mount_in_a_mount |case| ask(
        &case.odd().mount("small", "tar", "mnt/dir/empty-dir").input(all(&[
            "dir", "dir/empty-dir", "dir/empty-dir/", "dir/empty-dir/only", "dir/empty-dir/..", "dir/empty-dir/../a.txt", "dir/empty-dir/sub/below", "dir/empty-dir/sub/../../a.txt", "dir/empty-dir/missing",
            "links/dir/empty-dir/only", "dir/empty-dir/sub/../../../hello.txt",
        ])),
        "$M", "");

    proc_self_fd_names_the_file |case| { case.odd().good(
        script!("paths/proc_self_fd_names_the_file.sh"),
    ); };

    the_working_directory_survives_exec |case| { case.odd().good(
        script!("paths/the_working_directory_survives_exec.sh"),
    ); };

    a_directory_under_a_mount_is_inherited |case| {
        let done = case.natively(&["bash", "-c", script!("paths/a_directory_under_a_mount_is_inherited.sh")]);
        assert_eq!(done.text(), "packed\npacked\nno\nno\nno\n7\npacked\nno\n", "{}", done.report());
    };

    names_missing_again_and_again |case| {
        let case = case.odd();
        let program = case.program("missing_names.py");
        case.good(&format!("exec python3 {program} $M"));
    };

    globs |case| { case.odd().good(
        script!("paths/globs.sh"),
    ); };

    /* The mount table: one line that says read-only and where. Other fields are the file system's own. */
    mount_tables_name_the_mount |case| {
        let case = case.odd();
        case.good(script!("paths/mount_tables_name_the_mount.sh"));
        case.good("awk -v m=$M '$2 == m { print $2, substr($4, 1, 2) }' /proc/mounts \
            /proc/self/mounts /etc/mtab");
        case.good(script!("paths/mount_tables_name_the_mount-2.sh"));
        case.good(script!("paths/mount_tables_name_the_mount-3.sh"));
    };
}
