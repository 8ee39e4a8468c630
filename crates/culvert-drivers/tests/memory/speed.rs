use crate::tools::Run;
use culvert::{File, OpenFlags, Opened, SetAttributes, testing::caller};

fn driven(opened: Opened) -> Box<dyn File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(_) => panic!("backed"),
    }
}
fn cpu() -> u64 {
    let mut t = [0u64; 2];
    unsafe { culvert_sys::syscall::call(culvert_sys::nr::CLOCK_GETTIME, [3, t.as_mut_ptr() as usize]) }.unwrap();
    t[0] * 1_000_000_000 + t[1]
}
fn time(what: &str, n: u32, mut f: impl FnMut(u32)) {
    let t = cpu();
    for i in 0..n {
        f(i);
    }
    println!("{what:20} {:6.0} ns", (cpu() - t) as f64 / f64::from(n));
}
#[test]
#[ignore]
fn speed() {
    let run = Run::new();
    let (_mount, fs) = run.fresh(&[]);
    let me = caller();
    let d = fs.mkdir(&me, fs.root(), b"d", 0o755).unwrap().attributes.node;
    let b = vec![7u8; 4096];
    let names: Vec<String> = (0..4096).map(|i| format!("f{i}")).collect();
    let paths: Vec<String> = (0..4096).map(|i| format!("d/f{i}")).collect();
    time("nothing", 100000, |_| { std::hint::black_box(caller()); });
    time("create+close", 4096, |i| { drop(fs.create(&me, d, names[i as usize].as_bytes(), OpenFlags::WRITE, 0o644).unwrap()); });
    time("open+close", 4096, |i| { let n = fs.lookup(&me, d, names[i as usize].as_bytes()).unwrap().attributes.node; drop(fs.open(&me, n, OpenFlags::WRITE).unwrap()); });
    time("open+write128+close", 4096, |i| { let n = fs.lookup(&me, d, names[i as usize].as_bytes()).unwrap().attributes.node; let f = driven(fs.open(&me, n, OpenFlags::WRITE).unwrap()); f.write_at(0, &mut &b[..128]).unwrap(); });
    time("lookup", 4096, |i| { fs.lookup(&me, d, names[i as usize].as_bytes()).unwrap(); });
    time("lookup", 4096, |i| { fs.lookup(&me, d, names[i as usize].as_bytes()).unwrap(); });
    time("walk", 4096, |i| { fs.walk(&me, fs.root(), paths[i as usize].as_bytes()).unwrap(); });
    let n = fs.lookup(&me, d, b"f5").unwrap().attributes.node;
    time("attributes", 100000, |_| { fs.attributes(n).unwrap(); });
    time("chmod", 100000, |_| { fs.set_attributes(&me, n, &SetAttributes { permissions: Some(0o600), ..SetAttributes::default() }).unwrap(); });
    time("unlink", 4096, |i| { fs.unlink(&me, d, names[i as usize].as_bytes()).unwrap(); });
    let f = driven(fs.create(&me, d, b"big", OpenFlags::READ_WRITE, 0o644).unwrap().1);
    time("fresh 4k", 32768, |i| { f.write_at(u64::from(i) * 4096, &mut &b[..]).unwrap(); });
    let mut x = 1u32;
    let mut buf = vec![0u8; 4096];
    time("random read 4k", 200000, |_| { x = x.wrapping_mul(1103515245).wrapping_add(12345); f.read_at(u64::from((x >> 8) % 32768) * 4096, &mut buf.as_mut_slice()).unwrap(); });
    time("random read 100", 200000, |_| { x = x.wrapping_mul(1103515245).wrapping_add(12345); f.read_at(u64::from((x >> 8) % 32768) * 4096, &mut &mut buf[..100]).unwrap(); });
    time("same read 100", 200000, |_| { f.read_at(0, &mut &mut buf[..100]).unwrap(); });
    time("rewrite 4k", 200000, |_| { x = x.wrapping_mul(1103515245).wrapping_add(12345); f.write_at(u64::from((x >> 8) % 32768) * 4096, &mut &b[..]).unwrap(); });
    time("same write 100", 200000, |_| { f.write_at(0, &mut &b[..100]).unwrap(); });
    let clock = culvert_sys::clock::Clock::new();
    time("clock", 200000, |_| { std::hint::black_box(clock.now()); });
    time("coarse", 200000, |_| { std::hint::black_box(clock.coarse()); });
}
