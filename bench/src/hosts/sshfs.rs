//! sshfs, with an sshd of this machine that listens on the loopback interface alone.

use super::both::Both;
use crate::figure::{Figure, Judged};
use crate::tools::{Place, sh, succeeds};

const ROUNDS: usize = 5;
/// Bytes that are read, in MiB. A gigabyte would take as much of /dev/shm.
const READ: u32 = 256;

/// An sshd, which ends with this.
struct Sshd<'a>(&'a Place);

impl<'a> Sshd<'a> {
    /// It answers; none: it does not here.
    fn new(place: &'a Place) -> Option<Self> {
        let all = place.path("hosts-ssh");
        let started = succeeds(&format!(
            "mkdir -p {all} /run/sshd; cd {all} && rm -f key host && ssh-keygen -q -t ed25519 -N \
            '' -f key &&
             ssh-keygen -q -t ed25519 -N '' -f host && cp key.pub authorized &&
             printf '%s\\n' 'ListenAddress 127.0.0.1' 'Port {PORT}' 'HostKey {all}/host' \
                'AuthorizedKeysFile {all}/authorized' 'StrictModes no' 'PidFile {all}/pid' \
                'Subsystem sftp internal-sftp' > config &&
             $(PATH=$PATH:/usr/sbin command -v sshd) -f {all}/config &&
             printf '%s\\n' 'Host *' 'Port {PORT}' 'IdentityFile {all}/key' 'IdentitiesOnly yes' \
                'StrictHostKeyChecking no' 'UserKnownHostsFile /dev/null' 'LogLevel ERROR' > \
                client &&
             for i in $(seq 50); do ssh -F client 127.0.0.1 true && break; sleep .1; done &&
             ssh -F client 127.0.0.1 true"
        ));
        let sshd = Self(place);
        started.then_some(sshd)
    }
}

impl Drop for Sshd<'_> {
    fn drop(&mut self) {
        let pid = self.0.path("hosts-ssh/pid");
        sh(&format!("test ! -s {pid} || kill $(cat {pid})"));
    }
}

const PORT: u16 = 22_322;

/// Attributes and names not believed, a large file read, a tree made.
pub fn sshfs(place: &Place) -> Vec<Figure> {
    let sshd = succeeds("command -v sshfs && command -v ssh-keygen").then(|| Sshd::new(place));
    let Some(Some(_sshd)) = sshd else {
        eprintln!("not measured: sshfs and an sshd of one's own are wanted (openssh-server)");
        return Vec::new();
    };
    let (all, source) = (place.path("hosts-ssh"), place.path("hosts-served"));
    sh(&format!(
        "mkdir -p {source}/tree && head -c {READ}M /dev/urandom > {source}/large &&
         for i in $(seq 500); do head -c 4096 /dev/urandom > {source}/tree/file$i; done &&
         tar c -C {source} -f {all}/tree.tar tree"
    ));
    let figures = [
        ("dir_cache=no,attr_timeout=0,entry_timeout=0", true),
        ("", false),
    ]
    .into_iter()
    .filter_map(|(options, is_cold)| {
        let options = format!("ssh_command=ssh -F {all}/client,{options}");
        let options = options.trim_end_matches(',');
        let name = if is_cold { "far-cold" } else { "far" };
        let kernel = format!("sshfs -o '{options}' 127.0.0.1:{source} TARGET");
        let quoted = options.replace(',', "\",\"");
        let ours = format!("type=fuse.sshfs,\"{quoted}\",source=127.0.0.1:{source}");
        let both = Both::of(place, name, "", &kernel, ours)?;
        Some(match is_cold {
            true => cold(&both),
            false => bulk(&both, &all),
        })
    })
    .flatten()
    .collect();
    sh(&format!("rm -rf {source}"));
    figures
}

fn cold(both: &Both<'_>) -> Vec<Figure> {
    let stat = format!("{} fstat DIR/tree 300", both.place.program("hosts"));
    let what = "sshfs over loopback: cold attributes";
    vec![both.timed(ROUNDS, &stat, (what, "µs"), Judged::Speed(0.9))]
}

/// `work` by the clock, milliseconds.
fn clocked(before: &str, work: &str, after: &str) -> String {
    format!(
        "sh -c '{before}; s=$(date +%s%N); {work}; e=$(date +%s%N); {after}; echo $(( (e - s) / \
        1000 ))e-3'"
    )
}

fn bulk(both: &Both<'_>, all: &str) -> Vec<Figure> {
    // Its pages are none of this file any more.
    let read = clocked("touch DIR/large", "cat DIR/large > /dev/null", "true");
    let untar = clocked(
        "rm -rf DIR/made; mkdir DIR/made",
        &format!("tar x -C DIR/made -f {all}/tree.tar"),
        "rm -r DIR/made",
    );
    let (read_what, untar_what) = (
        format!("sshfs over loopback: read of {READ} MiB"),
        "sshfs over loopback: untar of 500 files of 4 KiB",
    );
    vec![
        both.timed(ROUNDS, &read, (&read_what, "ms"), Judged::Speed(0.9)),
        both.timed(ROUNDS, &untar, (untar_what, "ms"), Judged::Speed(0.9)),
    ]
}
