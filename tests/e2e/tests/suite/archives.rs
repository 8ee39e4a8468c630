//! What archives of every kind show of the tree that went into them.

use culvert_e2e::{Case, User};

/// Names, types, modes, owners, sizes, times, link targets and contents of everything.
const EVERYTHING: &str = "cd $M; find . -type d -printf '%P d %m %U %G %T@\\n' -o -printf '%P %y %m %n %U %G %s %T@ %l\\n' | LC_ALL=C sort; find . -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";

/// The same without owners and counts of hard links, which not every kind keeps.
const CONTENTS: &str = "cd $M; find . -mindepth 1 -type d -printf '%P d %m %T@\\n' -o -printf '%P %y %m %s %T@ %l\\n' | LC_ALL=C sort; find . -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";

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

/// Reads at random places, small and large, of a member of a compressed archive, and again after the index is cached.
fn random_reads(kind: &str) {
    let case = Case::new(&format!("random-{kind}"), User::Me).mount("odd", kind, "mnt");
    let script = r#"cd $M; python3 -c '
import hashlib, os, random
random.seed(7)
for name in ["big.txt", "data.bin", "sparse.bin"]:
    f = os.open(name, os.O_RDONLY); size = os.fstat(f).st_size; h = hashlib.md5()
    for _ in range(300):
        at = random.randrange(size); h.update(os.pread(f, random.choice([1, 100, 4096, 70000]), at))
    print(name, size, h.hexdigest())
'"#;
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
