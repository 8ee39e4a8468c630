//! What a process has from where and by whom it was started, that a server goes by.

use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
};

/// Where a server would run, and with whose rights: in other namespaces the same words mean another
/// file system, and what other groups or capabilities may see is not this process's to see.
pub fn surroundings() -> Vec<u8> {
    let mut text = Vec::new();
    for of in ["mnt", "pid", "net", "user"] {
        let link = fs::read_link(format!("/proc/self/ns/{of}")).unwrap_or_default();
        text.extend_from_slice(link.as_os_str().as_bytes());
    }
    if let Ok(root) = fs::metadata("/") {
        text.extend_from_slice(format!("{}.{}", root.dev(), root.ino()).as_bytes());
    }
    let status = fs::read("/proc/self/status").unwrap_or_default();
    for line in status.split(|&byte| byte == b'\n') {
        if [&b"Uid:"[..], b"Gid:", b"Groups:", b"CapEff:", b"Umask:"]
            .iter()
            .any(|name| line.starts_with(name))
        {
            text.extend_from_slice(line);
        }
    }
    text
}

/// A number that is another one for other `bytes`, unless somebody has looked for such.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Variables that say where a program was started, by whom and as which of many, or nothing but how
/// it is shown: two runs whose others are the same have one server. With a star, all that begin so.
const OF_SESSIONS: &str = "_ PWD OLDPWD SHLVL COLUMNS LINES WINDOWID TERM* COLORTERM DISPLAY \
    WAYLAND_DISPLAY VTE_VERSION KONSOLE_* TMUX* STY WINDOW GPG_TTY SSH_TTY SSH_CLIENT \
    SSH_CONNECTION \
    XDG_SESSION_* XDG_SEAT* XDG_VTNR INVOCATION_ID JOURNAL_STREAM SYSTEMD_EXEC_PID MAKEFLAGS \
    MAKELEVEL MFLAGS PARALLEL_* SLURM* SRUN_* SBATCH_* PBS_* LSB_* FLUX_* PALS_* PMI* OMPI_* MPI* \
    RANK LOCAL_RANK CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES CULVERT_* LD_AUDIT";

/// What a server may go by of the environment `all`: all variables but those of sessions, unless
/// `words` name them. As a number, so that no password is written down.
pub fn environment(all: impl Iterator<Item = (OsString, OsString)>, words: &[Vec<u8>]) -> u64 {
    let is_of_session = |name: &[u8]| {
        OF_SESSIONS
            .split_ascii_whitespace()
            .any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start.as_bytes()),
                None => name == known.as_bytes(),
            })
    };
    let is_named = |name: &[u8]| {
        [&b"$"[..], b"${"].iter().any(|sign| {
            let wanted = [sign, name].concat();
            let has = |word: &Vec<u8>| word.windows(wanted.len()).any(|part| part == wanted);
            words.iter().any(has)
        })
    };
    let mut parts: Vec<Vec<u8>> = all
        .map(|(name, value)| (name.into_encoded_bytes(), value.into_encoded_bytes()))
        .filter(|(name, _)| !is_of_session(name) || is_named(name))
        .map(|(name, value)| [&name[..], b"=", &value, b"\0"].concat())
        .collect();
    parts.sort();
    hash(&parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_may_go_by_of_the_environment_makes_mounts_different() {
        let of = |variables: &[(&str, &str)], words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            let pair = |(name, value): &(&str, &str)| (name.into(), value.into());
            environment(variables.iter().map(pair), &words)
        };
        let home = ("HOME", "/h");
        let usual = of(&[home, ("PWD", "/a"), ("TERM", "x")], &["x"]);
        let elsewhere = [("SLURM_PROCID", "1"), ("_", "x"), ("PWD", "/b"), home];
        assert_eq!(usual, of(&elsewhere, &["x", "$HOME"]));
        assert_ne!(usual, of(&elsewhere, &["x ${SLURM_PROCID}"]));
        assert_ne!(usual, of(&[("HOME", "/i")], &[]));
        assert_ne!(usual, of(&[home, ("AWS_PROFILE", "b")], &[]));
    }
}
