//! Both ways by which requests come, /dev/fuse and io_uring: the same answers; requests that wait
//! hold up nobody, and end when their callers are interrupted.
//!
//! Whether the kernel offers io_uring is a switch for the whole machine, off at first: it is
//! switched on here, and stays on. From then on mounts use it unasked.

use crate::{
    kernel_life::privately,
    kernel_mount::{Mounted, culvert, pjdfstest, possible, shell},
};
use culvert_e2e::{Case, Driver, User, not_tested, world};
use std::{fs, sync::OnceLock};

/// The words for a mount by each transport that there is here.
pub fn transports() -> &'static [&'static str] {
    static FOUND: OnceLock<&[&str]> = OnceLock::new();
    FOUND.get_or_init(|| {
        let on = fs::write("/sys/module/fuse/parameters/enable_uring", "1");
        let doctor = culvert(&["doctor"]);
        let text = doctor.text();
        let line = text
            .lines()
            .find(|line| line.contains("FUSE over io_uring"));
        match (on, line) {
            (Ok(()), Some(line)) if line.contains("offered") => {
                &["transport=device", "transport=ring"]
            }
            (_, line) => {
                not_tested(line.unwrap_or("no line of culvert doctor"));
                &["transport=device"]
            }
        }
    })
}

/// The ring, or nothing where there is none.
fn ring() -> Option<&'static str> {
    transports().get(1).copied()
}

#[test]
fn pjdfstest_by_ring() {
    if let (true, Some(ring)) = (possible(), ring()) {
        pjdfstest(Driver::Passthrough, &["-o", ring], "-ring");
    }
}

/// The programs of other tests of kernel mounts, by the ring: large reads and writes, positions,
/// growth, mappings, locks, many processes.
#[test]
fn programs_by_ring() {
    let (true, Some(ring)) = (possible(), ring()) else {
        return;
    };
    let tests: [(&str, &[&str]); 3] = [
        (
            "writing",
            &["write", "vectors", "open", "size", "transfer", "shared-map"],
        ),
        ("locking", &["record", "wait"]),
        ("sharing", &["append", "killed"]),
    ];
    for driver in [Driver::Passthrough, Driver::Driven, Driver::Memory] {
        for (program, groups) in tests {
            for group in groups {
                let name = format!("ring-{program}-{group}-{}", driver.name());
                let case = Case::new(&name, User::Nobody).directory(driver);
                let program = case.program(program);
                let script =
                    format!("umask 022; cd $M && OUTSIDE=$W/outside exec {program} {group}");
                let argv = ["bash", "-c", script.as_str()];
                let done = case.same_on_kernel_mount_with(&["-o", ring], &argv);
                assert_eq!(done.status, "exit 0", "{script}\n{}", done.report());
            }
        }
    }
}

/// It is the ring that serves: its threads are there, and the requests of a load are no reads of
/// the device.
#[test]
fn requests_come_by_the_ring() {
    let (true, Some(ring)) = (possible(), ring()) else {
        return;
    };
    let mount = Mounted::new("transport-ring", &["-o", ring]);
    let done = shell(&script!(
        "kernel_transport/requests_come_by_the_ring.sh",
        target = mount.text("target"),
        server = mount.server()
    ));
    let queues = std::thread::available_parallelism().expect("there are processors");
    let queues: String = (0..queues.get())
        .map(|queue| format!("queue {queue}\n"))
        .collect();
    assert_eq!(
        done.text(),
        format!("1\n2\n50\n50\n{queues}"),
        "{}",
        done.report()
    );
    // It ends with the connection, also where a mount namespace that another test has made
    // meanwhile still has the mount.
    let server = mount.server();
    let ended = shell(&format!("umount -f {}", mount.text("target")));
    assert_eq!(ended.status, "exit 0", "{}", ended.report());
    let gone = shell(&format!("timeout 60 tail --pid={server} -f /dev/null"));
    assert_eq!(gone.status, "exit 0", "{}", gone.report());
}

/// 4 MB that are written and read in pieces of all lengths around those that a request may have.
#[test]
fn large_requests() {
    if !possible() {
        return;
    }
    for transport in transports() {
        let mount = Mounted::new(
            &format!("large-{}", &transport[10..]),
            &["-o", &format!("driven,{transport}")],
        );
        let done = shell(&script!(
            "kernel_transport/large_requests.sh",
            target = mount.text("target"),
            random = mount.text("random")
        ));
        assert_eq!(done.status, "exit 0", "{transport}: {}", done.report());
    }
}

#[test]
fn a_ring_that_cannot_be_had_is_said() {
    if !possible() {
        return;
    }
    let place = Mounted::place("transport-refused");
    let (source, target) = (place.text("source"), place.text("target"));
    let tried = |options: &str, words: &[&str]| {
        let mut all = vec!["mount", "-o", options];
        all.extend(words);
        all.extend([source.as_str(), target.as_str()]);
        let done = culvert(&all);
        assert_eq!(done.status, "exit 125", "{}", done.report());
        done.report()
    };
    assert!(tried("transport=rings", &[]).contains("auto, device, ring"));
    assert!(tried("request_timeout=0", &[]).contains("request_timeout wants"));
    assert!(tried("request_timeout=65536", &[]).contains("request_timeout wants"));
    assert!(tried("transport=ring", &["--without", "over-io-uring"]).contains("transport=ring:"));
    if ring().is_some() {
        assert!(tried("transport=ring", &["--restart"]).contains("not with restart"));
    }
}

/// The ring where the kernel offers it and the mount can use it, else the device: who has chosen
/// neither sees no difference, and no line of it but with `--trace`.
#[test]
fn the_ring_is_taken_where_it_can_be() {
    if !possible() || ring().is_none() {
        return;
    }
    let script = script!(part "kernel_transport/the_ring_is_taken_where_it_can_be.sh");
    let done = privately("transport-auto", User::Me, script);
    let (ring, device) = (
        "ring
0
",
        "device
0
",
    );
    let off = "refused\nswitched off (root: echo 1 > /sys/module/fuse/parameters/enable_uring)\n";
    assert_eq!(
        done.text(),
        format!(
            "{}except\n{}few\n{device}off\n{device}{}",
            ring.repeat(3),
            device.repeat(3),
            off
        ),
        "{}",
        done.report()
    );
}

/// Threads of a queue that answers one request after the other give way to their callers, and are
/// as they were when that ends; threads that share their processor with others, or that a user's
/// server has, are not held up.
#[test]
fn threads_give_way_and_are_not_held_up() {
    if !possible() || !world().is_root() || ring().is_none() {
        return;
    }
    for (name, user, gives_way) in [("root", User::Me, "5"), ("user", User::Nobody, "0")] {
        let script = script!(part "kernel_transport/threads_give_way_and_are_not_held_up.sh");
        let done = privately(&format!("transport-class-{name}"), user, script);
        let expected = format!("alone {gives_way}\nafter 0\nbeside others: in time\n");
        assert_eq!(done.text(), expected, "{name}\n{}", done.report());
    }
}

/// The thread that has registered a file for the kernel, without root's rights, has them again for
/// what needs them.
#[test]
fn root_has_all_rights_after_an_open() {
    if !possible() {
        return;
    }
    for transport in transports() {
        let name = format!("rights-{}", &transport[10..]);
        let mount = Mounted::new(&name, &["-o", transport]);
        let done = shell(&script!(
            "kernel_transport/root_has_all_rights_after_an_open.sh",
            target = mount.text("target")
        ));
        assert_eq!(
            done.text(),
            "     12 2755\n",
            "{transport}: {}",
            done.report()
        );
    }
}

/// A source with the files `slow` and `fast`, and a mount where `operation` on whatever is called
/// slow waits for an hour.
fn slow(name: &str, transport: &str, operation: &str) -> Mounted {
    slow_with(name, transport, operation, &[])
}

fn slow_with(name: &str, transport: &str, operation: &str, words: &[&str]) -> Mounted {
    // Its end is that of a mount, so before there is one.
    let source = Mounted::place(name).text("source");
    for file in ["slow", "fast"] {
        fs::write(format!("{source}/{file}"), "content\n").expect("the source is ours");
    }
    let rule =
        format!("driven,layer=fault,fault.rule={operation}+path=/slow*+delay=3600s,{transport}");
    let words = [words, &["-o", &rule]].concat();
    Mounted::of(name, &words, &source)
}

/// Not read(2): the pages of a cached file are read by the kernel, which asks for them on nobody's
/// behalf; it ends for fatal signals alone, natively too.
#[test]
fn a_driver_that_waits_is_interrupted() {
    if !possible() {
        return;
    }
    let program = Case::new("transport-interrupted", User::Me).program("interrupted");
    for transport in transports() {
        for (operation, call) in [
            ("open", "open"),
            ("sync", "fsync"),
            ("mkdir", "mkdir"),
            ("rename", "rename"),
            ("unlink", "unlink"),
            ("set_attributes", "chmod"),
            ("set_xattr", "setxattr"),
            ("seek", "lseek"),
        ] {
            let mount = slow(
                &format!("interrupted-{}-{call}", &transport[10..]),
                transport,
                operation,
            );
            let done = shell(&format!("{program} {call} {}", mount.text("target/slow")));
            assert_eq!(
                done.text(),
                format!("{call}: EINTR\n"),
                "{transport}: {}",
                done.report()
            );
            // The thread goes on.
            let after = shell(&format!(
                "ls {}; cat {}",
                mount.text("target"),
                mount.text("target/fast")
            ));
            assert_eq!(
                after.text(),
                "fast\nslow\ncontent\n",
                "{transport}: {}",
                after.report()
            );
        }
    }
}

/// Signals while the kernel reads pages, other than fatal ones, end nothing: by both ways the
/// caller has all he asked for.
#[test]
fn a_read_of_pages_is_not_interrupted() {
    if !possible() {
        return;
    }
    let program = Case::new("transport-uninterrupted", User::Me).program("interrupted");
    for transport in transports() {
        let name = format!("uninterrupted-{}", &transport[10..]);
        let source = Mounted::place(&name).text("source");
        for number in 0..3 {
            fs::write(format!("{source}/{number}"), [7; 128 << 10]).expect("the source is ours");
        }
        let options = format!("driven,layer=fault,fault.rule=read+path=/*+delay=100ms,{transport}");
        let mount = Mounted::of(&name, &["-o", &options], &source);
        let done = shell(&format!(
            "for file in 0 1 2; do {program} read {}/$file; done",
            mount.text("target")
        ));
        assert_eq!(
            done.text(),
            "read: ended by itself\n".repeat(3),
            "{transport}: {}",
            done.report()
        );
    }
}

/// More requests wait than there are threads at first: others are answered all the same, and each
/// waiting one is found when its caller is interrupted.
#[test]
fn requests_that_wait_hold_up_nobody() {
    for transport in transports() {
        flood(&format!("flood-{}", &transport[10..]), transport, &[]);
    }
}

/// Nor where a keeper would start the server again: its channels, of which there are more now, are
/// the next server's, too.
#[test]
fn requests_that_wait_hold_up_nobody_with_a_keeper() {
    flood("flood-kept", "transport=device", &["--restart"]);
}

fn flood(name: &str, transport: &str, words: &[&str]) {
    if !possible() {
        return;
    }
    let program = Case::new(&format!("transport-{name}"), User::Me).program("interrupted");
    let mount = slow_with(name, transport, "open", words);
    let (target, kept) = (mount.text("target"), !words.is_empty());
    let done = shell(&script!("kernel_transport/flood.sh", target, program, kept));
    let interrupted = "     20 open: EINTR\n";
    let again = if kept { interrupted } else { "" };
    assert_eq!(
        done.text(),
        format!("content\n{interrupted}left\n{again}content\nended\n"),
        "{transport}: {}",
        done.report()
    );
}

/// A request that takes longer than it may ends the mount, for all; the server says which one, and
/// ends.
#[test]
fn a_request_has_its_time() {
    if !possible()
        || !shell("[ -e /proc/sys/fs/fuse/max_request_timeout ]")
            .status
            .ends_with(" 0")
    {
        not_tested("the kernel has no request timeout (Linux 6.15)");
        return;
    }
    // By both at once: the kernel looks every 15 seconds only.
    let mounts: Vec<_> = transports()
        .iter()
        .map(|transport| {
            let name = format!("timeout-{}", &transport[10..]);
            let log = world().path("mounts").join(format!("{name}.log"));
            let log = log.to_str().expect("plain").to_owned();
            let options = format!("{transport},request_timeout=1,log={log}");
            (slow(&name, &options, "read"), log)
        })
        .collect();
    let all: String = mounts
        .iter()
        .map(|(mount, _)| format!(" {}", mount.text("target/slow")))
        .collect();
    let done = shell(&format!(
        "for file in {all}; do (timeout 300 cat $file 2>&1; echo $?) & done; wait"
    ));
    for (mount, log) in &mounts {
        let server = mount.server();
        let ended = shell(&format!(
            "[ -z '{server}' ] || timeout 60 tail --pid='{server}' -f /dev/null; ls {}",
            mount.text("target")
        ));
        assert!(
            ended
                .report()
                .contains("Transport endpoint is not connected"),
            "{}",
            ended.report()
        );
        let text = fs::read_to_string(log).unwrap_or_default();
        assert!(
            text.contains("was not answered (Read); request_timeout is 1 s"),
            "{text}\n{}",
            done.report()
        );
    }
    let failed = done.text().lines().filter(|line| *line == "1").count();
    assert_eq!(failed, mounts.len(), "{}", done.report());
}
