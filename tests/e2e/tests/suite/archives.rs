//! What archives of every kind show of the tree that went into them.

use culvert_e2e::{Case, User};

/// Names, types, modes, owners, sizes, times, link targets and contents of everything.
const EVERYTHING: &str = script!("archives/everything.sh");

/// The same without owners and counts of hard links, which not every kind keeps.
const CONTENTS: &str = script!("archives/contents.sh");

fn compare(tree: &str, kind: &str, script: &str) {
    Case::new(&format!("archive-{tree}-{kind}"), User::Me)
        .mount(tree, kind, "mnt")
        .good(script);
}

macro_rules! kinds {
    ($($name:ident $tree:literal $kind:literal $script:expr;)*) => { $(
        #[test]
        fn $name() { compare($tree, $kind, $script); }
    )* };
}

kinds! {
    odd_tar "odd" "tar" EVERYTHING;
    odd_tar_gz "odd" "tar.gz" EVERYTHING;
    odd_tar_zst "odd" "tar.zst" EVERYTHING;
    odd_tar_xz "odd" "tar.xz" EVERYTHING;
    odd_tar_bz2 "odd" "tar.bz2" EVERYTHING;
    real_gnu_tar "real" "gnu.tar" EVERYTHING;
    real_tar_gz "real" "tar.gz" EVERYTHING;
    real_tar_zst "real" "tar.zst" EVERYTHING;
    real_tar_xz "real" "tar.xz" EVERYTHING;
    real_tar_bz2 "real" "tar.bz2" EVERYTHING;
    real_zip "real" "zip" CONTENTS;
    programs_zip "programs" "zip" CONTENTS;
}

/// Reads at random places, small and large, of a member of a compressed archive, and again after
/// the index is cached.
fn random_reads(kind: &str) {
    let case = Case::new(&format!("random-{kind}"), User::Me).mount("odd", kind, "mnt");
    let script = script!("archives/random_reads.sh");
    case.good(script);
    case.good(script);
}

#[test]
fn random_reads_tar() {
    random_reads("tar");
}
#[test]
fn random_reads_tar_gz() {
    random_reads("tar.gz");
}
#[test]
fn random_reads_tar_zst() {
    random_reads("tar.zst");
}
#[test]
fn random_reads_tar_xz() {
    random_reads("tar.xz");
}
#[test]
fn random_reads_tar_bz2() {
    random_reads("tar.bz2");
}
