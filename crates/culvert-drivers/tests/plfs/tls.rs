//! What goes over the wire to the service of all hosts.

use crate::service::of_hosts;
use crate::tools::{Scratch, create_file, open_file, open_for, read_all};
use culvert::{FileSystem, OpenFlags};
use culvert_sync::{Identity, Kind, Listener, relay};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What has been said on the way to the service and back.
type Heard = Arc<Mutex<Vec<u8>>>;

/// Somebody on the way, whose address the lease has from now on.
fn listens(scratch: &Scratch) -> Heard {
    let lease = scratch.backends[0].join(".culvert-sync/lease");
    let text = std::fs::read_to_string(&lease).unwrap();
    let service = text.lines().nth(1).unwrap().split(' ').nth(1).unwrap();
    let (listener, heard) = (TcpListener::bind("127.0.0.1:0").unwrap(), Heard::default());
    let own = listener.local_addr().unwrap().to_string();
    std::fs::write(&lease, text.replace(service, &own)).unwrap();
    let (service, told) = (service.to_owned(), Arc::clone(&heard));
    thread::spawn(move || {
        while let Ok((writer, _)) = listener.accept() {
            let service = TcpStream::connect(&service).unwrap();
            let ways = [
                (writer.try_clone().unwrap(), service.try_clone().unwrap()),
                (service, writer),
            ];
            for (mut from, mut to) in ways {
                let heard = Arc::clone(&told);
                thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        heard.lock().unwrap().extend_from_slice(&bytes[..count]);
                        if to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    heard
}

/// A relay of this host.
fn relays(scratch: &Scratch) -> PathBuf {
    let socket = scratch.root.join("relay");
    let listener = Listener::reserve(&socket).unwrap();
    let listener = listener.listen(Kind::Relay).unwrap();
    thread::spawn(move || relay(&listener, 16, Duration::from_secs(60), || false));
    socket
}

fn has(heard: &Heard, text: &str) -> bool {
    let heard = heard.lock().unwrap();
    heard
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Appends by two hosts; the file is right.
fn append(scratch: &Scratch, options: &[&str]) {
    let all: Vec<Box<dyn FileSystem>> = (0..2).map(|_| scratch.open(options)).collect();
    let file = create_file(&*all[0], "a-name");
    let other = open_for(&*all[1], "a-name", OpenFlags::WRITE).unwrap();
    for step in 0..20u64 {
        let file = [&file, &other][step as usize % 2];
        let done = file.append(&mut &b"12345"[..]).unwrap();
        assert_eq!(done, (step * 5, 5));
    }
    drop((file, other));
    assert_eq!(
        read_all(&*open_file(&*all[1], "a-name").unwrap()).unwrap(),
        b"12345".repeat(20)
    );
}

/// What the user is told when the mount is made.
fn told(scratch: &Scratch, options: &[&str]) -> String {
    let run = scratch.root.to_str().unwrap().as_bytes();
    let environment = culvert_drivers::Environment {
        run_directory: Some(run),
        ..culvert_drivers::Environment::default()
    };
    let mount = scratch.mount(options);
    let prepared = culvert_drivers::prepare(&mount, &environment, &mut |_| ()).unwrap();
    let warnings = prepared.warnings.first.iter();
    warnings.map(|warning| warning.to_string()).collect()
}

#[test]
fn with_tls_nothing_of_what_is_asked_can_be_read_on_the_way() {
    for tls in [false, true] {
        let scratch = Scratch::new(1);
        let identity = tls.then(|| Identity::new().unwrap());
        let service = of_hosts(&scratch, "0", identity);
        let (heard, socket) = (listens(&scratch), relays(&scratch));
        let option = match tls {
            true => format!("tls={}", socket.display()),
            false => String::from("tls=no"),
        };
        let options = ["sync=hosts", &option];
        assert_eq!(told(&scratch, &options), "");
        append(&scratch, &options);
        let length = heard.lock().unwrap().len();
        assert!(length > 500, "{length} bytes");
        let path = scratch.backends[0].join("a-name");
        for text in ["CvS2", "CvH1", path.to_str().unwrap()] {
            assert_eq!(has(&heard, text), !tls, "{text}, TLS: {tls}");
        }
        drop(service);
    }
}

#[test]
fn a_service_with_another_key_than_the_lease_says_is_not_asked() {
    let scratch = Scratch::new(1);
    let service = of_hosts(&scratch, "0", Some(Identity::new().unwrap()));
    let (heard, socket) = (listens(&scratch), relays(&scratch));
    let lease = scratch.backends[0].join(".culvert-sync/lease");
    let text = std::fs::read_to_string(&lease).unwrap();
    let own = text.trim().rsplit(' ').next().unwrap();
    let other = Identity::new().unwrap();
    std::fs::write(&lease, text.replace(own, other.key())).unwrap();
    let option = format!("tls={}", socket.display());
    let told = told(&scratch, &["sync=hosts", &option]);
    assert!(told.contains("another one than the lease says"), "{told}");
    append(&scratch, &["sync=hosts", &option]);
    assert!(!has(&heard, "a-name"));
    drop(service);
}

/// Neither side talks in the clear where the other one, or the user, wants TLS.
#[test]
fn who_wants_tls_and_who_does_not_do_not_talk() {
    for tls in [false, true] {
        let scratch = Scratch::new(1);
        let identity = tls.then(|| Identity::new().unwrap());
        let service = of_hosts(&scratch, "0", identity);
        let (heard, socket) = (listens(&scratch), relays(&scratch));
        let (option, want) = match tls {
            true => (String::from("tls=no"), "started with --tls"),
            false => (format!("tls={}", socket.display()), "started without --tls"),
        };
        let options = ["sync=hosts", &option];
        let told = told(&scratch, &options);
        assert!(
            told.contains(want) && told.contains("appends use locks"),
            "{told}"
        );
        append(&scratch, &options);
        assert_eq!(heard.lock().unwrap().len(), 0);
        drop(service);
    }
}
