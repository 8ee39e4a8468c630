//! Run-time systems of languages, and databases, with their own ways to the kernel.

use super::{full, same};
use culvert_e2e::{Case, Driver, User, has_python_suite, installed, on_each_driver};
use std::time::Duration;

on_each_driver! {
    node_file_system |case| if installed("node") { same(&case, script!("writing/languages/node_file_system.sh")) };

    java_nio |case| if installed("java") && installed("javac") { same(&case.limit(Duration::from_secs(120)), script!("writing/languages/java_nio.sh")) };

    sqlite |case| same(&case.limit(Duration::from_secs(120)), script!("writing/languages/sqlite.sh"));

    python_files |case| same(&case, script!("writing/languages/python_files.sh"));
}

/// Suites of Python itself, with the temporary directory and the working directory on the mount.
fn python(driver: Driver, user: User, words: &str) {
    if !has_python_suite("test.test_os") {
        return;
    }
    let name = format!("python-{}-{user:?}-{}", driver.name(), words.len());
    let case = Case::new(&name, user)
        .directory(driver)
        .limit(Duration::from_secs(500));
    let program = case.program("unit_tests.py");
    same(
        &case,
        &format!("exec 2>&1; /usr/bin/python3 {program} {words}; rm -rf *"),
    );
}

/// Which of Python's cases run always: those about files. All of them (minutes) run with
/// `CULVERT_E2E_FULL=1`.
fn python_words() -> &'static str {
    if full() {
        "test.test_os test.test_shutil test.test_io test.test_subprocess"
    } else {
        PYTHON
    }
}

const PYTHON: &str = "test.test_shutil test.test_os.FileTests test.test_os.StatAttributeTests \
    test.test_os.UtimeTests test.test_os.WalkTests test.test_os.FwalkTests \
    test.test_os.MakedirTests test.test_os.RemoveDirsTests test.test_os.LinkTests \
    test.test_os.TestSendfile test.test_os.ExtendedAttributeTests \
    test.test_os.TestScandir test.test_os.BlockingTests test.test_os.FDInheritanceTests \
    test.test_os.TestInvalidFD test.test_os.PathTConverterTests \
    test.test_io.CIOTest test.test_io.CBufferedRandomTest test.test_io.CBufferedReaderTest \
    test.test_io.CTextIOWrapperTest test.test_io.MiscIOTest";

macro_rules! python {
    ($($name:ident $driver:ident $user:ident;)*) => { $(
        #[test]
        fn $name() {
            if User::$user == User::Me || culvert_e2e::world().is_root() {
                python(Driver::$driver, User::$user, python_words());
            }
        }
    )* };
}

python! {
    python_suites_on_passthrough Passthrough Nobody;
    python_suites_on_passthrough_as_self Passthrough Me;
    python_suites_on_driven Driven Nobody;
    python_suites_in_memory Memory Nobody;
    python_suites_in_memory_as_self Memory Me;
}
