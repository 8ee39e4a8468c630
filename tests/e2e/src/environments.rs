//! Trees from which whole environments run: a Python virtual environment, a Java runtime with a
//! compiler, a C toolchain.

use std::path::Path;

/// What makes the tree `name` in an empty directory, for a place at which it will be seen (`$AT`);
/// none for other trees. It fails where the packages are missing.
pub(crate) fn script(name: &str) -> Option<&'static str> {
    Some(match name {
        "venv" => {
            script!("environments/venv.sh")
        }
        "jdk" => {
            script!("environments/jdk.sh")
        }
        "toolchain" => {
            script!("environments/toolchain.sh")
        }
        _ => return None,
    })
}

/// Whether this machine has what the tree `name` is made of.
pub fn can_be_made(name: &str) -> bool {
    let needs: &[&str] = match name {
        "venv" => &["/usr/bin/python3", "/usr/lib/python3/dist-packages/numpy"],
        "jdk" => &["/usr/bin/jlink", "/usr/bin/javac"],
        "toolchain" => &["/usr/bin/dpkg", "/usr/bin/x86_64-linux-gnu-gcc"],
        _ => &[],
    };
    let missing = needs.iter().find(|path| !Path::new(path).exists());
    if let Some(path) = missing {
        crate::not_tested(format_args!("{path} is missing"));
    }
    missing.is_none()
}
