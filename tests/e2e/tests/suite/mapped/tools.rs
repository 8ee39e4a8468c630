//! Compilers, version control, numbers, searching: tools that map what they read or write.

use super::{full, mapped};
use culvert_e2e::installed;

/// A program of many functions, so that its linked file has some hundred pages; the linkers write
/// it by a mapping (gold, lld) or by calls (bfd).
const LINK: &str = script!(part "mapped/tools/link.sh");

const GIT: &str = script!(part "mapped/tools/git.sh");

const SEARCH: &str = script!(part "mapped/tools/search.sh");

const JAVA: &str = script!(part "mapped/tools/java.sh");

mapped! {
    linkers |trial| {
        trial.right(LINK, script!("mapped/tools/linkers.sh"));
    };

    git_with_packs |trial| {
        let count = if full() { "400" } else { "25" };
        trial.right(&GIT.replace("COUNT", count), script!("mapped/tools/git_with_packs.sh"));
    };

    numpy_memmap |trial| {
        let program = trial.program("mapped_numpy.py");
        trial.right(
            &format!("/usr/bin/python3 {program} $M"),
            script!("mapped/tools/numpy_memmap.sh"),
        );
    };

    searching_and_copying |trial| {
        trial.right(SEARCH, script!("mapped/tools/searching_and_copying.sh"));
    };

    java_mapped_byte_buffers |trial| if installed("java") && installed("javac") {
        trial.right(JAVA, script!("mapped/tools/java_mapped_byte_buffers.sh"));
    };
}
