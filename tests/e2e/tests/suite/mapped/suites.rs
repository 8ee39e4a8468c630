//! Other people's tests of mappings: fsx with mapped reads and writes, and those of Python's module.

use super::{full, mapped};
use culvert_e2e::{has_python_suite, suite};

/// All operations, half of them by mappings, with an msync after each mapped write or (`ASYNC`) without.
const FSX: &str = "
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
    // Two processes at once, each on a file of its own, with and without msync. In parts: fsx leaves its mappings behind, natively too, so that
    // each operation takes the kernel longer than the one before, and dies of ENOMEM after some 1.7 million.
    fsx_with_mappings |trial| {
        let operations = std::env::var("CULVERT_FSX_OPERATIONS").unwrap_or_else(|_| "5000".to_owned());
        let fsx = suite("fsx");
        let fsx = fsx.display();
        let script = format!(
            "cd $W; printf %s '{FSX}' > conf; sed 's/ASYNC/false/' conf > sync; sed 's/ASYNC/true/; s/262144/90000/; s/65536/20000/' conf > async
             run() {{ mkdir $1.d; left={operations} seed=$2
               while [ $left -gt 0 ]; do
                 n=$left; [ $n -le 10000 ] || n=10000; left=$((left - n)) seed=$((seed + 100))
                 {fsx} -f $1 -N $n -S $seed -P $1.d $M/file.$1 > $1.said 2>&1 && tail -n 1 $1.said | grep -q A-OK || {{ tail -n 40 $1.said; return 1; }}
               done; echo A-OK; }}
             run sync 11 & a=$!; run async 12 & b=$!; wait $a; wait $b"
        );
        trial.right(&script, "");
    };

    pythons_own_tests_of_mmap |trial| if has_python_suite("test.test_mmap") {
        // Files of six gigabytes, of holes: filled before they are mapped they take most of a minute.
        let chosen = if full() { "" } else { "-i test_large_\\*" };
        trial.right(&format!("export TMPDIR=$M; /usr/bin/python3 -m test {chosen} --tempdir $M test_mmap"), "");
    };
}
