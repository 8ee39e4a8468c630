//! Other people's tests of mappings: fsx with mapped reads and writes, and those of Python's
//! module.

use super::{full, mapped};
use culvert_e2e::{has_python_suite, suite};

/// All operations, half of them by mappings, with an msync after each mapped write or (`ASYNC`)
/// without.
pub const FSX: &str = "
flen = 262144
nomsyncafterwrite = ASYNC
[opsize]
max = 65536
min = 1
[weights]
close_open = 1
read = 10
write = 10
mapread = 15
mapwrite = 15
invalidate = 2
truncate = 8
fsync = 0.1
fdatasync = 0.1
posix_fallocate = 3
punch_hole = 3
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
";

mapped! {
    // Two processes at once, each on a file of its own, with and without msync. In parts: fsx
    // leaves its mappings behind, natively too, so that each operation takes the kernel longer than
    // the one before, and dies of ENOMEM after some 1.7 million.
    fsx_with_mappings |trial| {
        let operations = std::env::var("CULVERT_FSX_OPERATIONS").unwrap_or_else(|_| "5000".to_owned());
        let fsx = suite("fsx");
        let fsx = fsx.display();
        let script = script!("mapped/suites/fsx_with_mappings.sh", fsx = FSX, operations, fsx_2 = fsx);
        trial.right(&script, "");
    };

    pythons_own_tests_of_mmap |trial| if has_python_suite("test.test_mmap") {
        // Files of six gigabytes, of holes: filled before they are mapped they take most of a
        // minute.
        let chosen = if full() { "" } else { "-i test_large_\\*" };
        trial.right(&script!("mapped/suites/pythons_own_tests_of_mmap.sh", chosen), "");
    };
}
