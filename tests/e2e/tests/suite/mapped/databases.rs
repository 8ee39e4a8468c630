//! Databases, which map their files and are killed in the middle.

use super::{full, mapped};
use culvert_e2e::installed;

/// How often each is killed.
fn rounds() -> u32 {
    if full() { 40 } else { 2 }
}

mapped! {
    sqlite_in_wal_mode_and_with_mmap |trial| {
        let program = trial.program("mapped_sqlite.py");
        trial.right(&format!("/usr/bin/python3 {program} $M \
            {}", rounds()), &format!("/usr/bin/python3 {program} verify $M"));
    };

    lmdb |trial| if installed("mdb_stat") {
        let program = trial.program("mapped_lmdb.py");
        trial.right(
            &script!("mapped/databases/lmdb.sh", program, rounds = rounds()),
            &format!("/usr/bin/python3 {program} verify $M"),
        );
    };

    // initdb refuses root.
    postgresql |trial| if !trial.as_root() && installed("../lib/postgresql") {
        let program = trial.program("mapped_postgres.py");
        let (transactions, rounds) = if full() { (20000, 10) } else { (100, 1) };
        trial.right(&format!("/usr/bin/python3 {program} $M {transactions} \
            {rounds}"), &format!("/usr/bin/python3 {program} verify $M"));
    };
}
