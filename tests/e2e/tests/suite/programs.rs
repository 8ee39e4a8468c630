//! Real programs, as people use them, on real trees.

use culvert_e2e::{Case, as_each_user, installed};

/// On the tree of real files, through a tar and through a zip.
fn on_real_files(kind: &str, name: &str, script: &str) {
    let case =
        Case::new(&format!("{name}-{kind}"), culvert_e2e::User::Me).mount("real", kind, "mnt");
    case.good(&format!("cd $M; {script}"));
}

macro_rules! real_files {
    ($($name:ident $script:expr;)*) => { $(
        mod $name {
            #[test]
            fn tar() { super::on_real_files("gnu.tar", stringify!($name), $script); }
            #[test]
            fn zip() { super::on_real_files("zip", stringify!($name), $script); }
        }
    )* };
}

real_files! {
    grep script!("programs/grep.sh");
    find script!("programs/find.sh");
    checksums script!("programs/checksums.sh");
    tar script!("programs/tar.sh");
    cp script!("programs/cp.sh");
    listing script!("programs/listing.sh");
    text script!("programs/text.sh");
    diff script!("programs/diff.sh");
    du script!("programs/du.sh");
}

#[test]
fn rsync() {
    if installed("rsync") {
        on_real_files("gnu.tar", "rsync", script!("programs/rsync.sh"));
    }
}

fn programs(case: Case) -> Case {
    case.mount("programs", "tar", "mnt")
        .variable("GIT_CONFIG_GLOBAL", "/dev/null")
        .variable("GIT_CONFIG_COUNT", "1")
        .variable("GIT_CONFIG_KEY_0", "safe.directory")
        .variable("GIT_CONFIG_VALUE_0", "*")
}

as_each_user! {
    gcc_reads_sources_and_headers |case| { programs(case).good(
        script!("programs/gcc_reads_sources_and_headers.sh"),
    ); };

    // ThreadSanitizer allows mappings in few places; where ours are changes from start to start.
    sanitizers |case| { programs(case).good(
        script!("programs/sanitizers.sh"),
    ); };

    make_with_its_makefile_in_the_mount |case| { programs(case).good(script!("programs/make_with_its_makefile_in_the_mount.sh")); };

    programs_on_the_mount |case| { programs(case).good(
        script!("programs/programs_on_the_mount.sh"),
    ); };

    a_library_loaded_from_the_mount |case| { programs(case).good(
        script!("programs/a_library_loaded_from_the_mount.sh"),
    ); };

    shell_sources_and_tests |case| { programs(case).good(
        script!("programs/shell_sources_and_tests.sh"),
    ); };

    python_imports_from_the_mount |case| { programs(case).variable("PYTHONDONTWRITEBYTECODE", "1").good(
        script!("programs/python_imports_from_the_mount.sh"),
    ); };

    python_imports_from_a_zip |case| { case.mount("programs", "zip", "mnt").good(
        script!("programs/python_imports_from_a_zip.sh"),
    ); };

    git_reads_an_archived_repository |case| {
        let case = programs(case);
        case.good(
            script!("programs/git_reads_an_archived_repository.sh"));
        case.good(script!("programs/git_reads_an_archived_repository-2.sh"));
    };

    sqlite_reads_a_database |case| {
        if installed("sqlite3") { programs(case).good(
            script!("programs/sqlite_reads_a_database.sh")); }
    };

    node_requires_from_the_mount |case| {
        if installed("node") { programs(case).good(
            script!("programs/node_requires_from_the_mount.sh")); }
    };

    java_reads_a_jar |case| {
        if installed("java") && installed("javac") { programs(case).good(
            script!("programs/java_reads_a_jar.sh")); }
    };

    perl_and_awk |case| {
        if installed("perl") { programs(case).good(script!("programs/perl_and_awk.sh")); }
    };
}
