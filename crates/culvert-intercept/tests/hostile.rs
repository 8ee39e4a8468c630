//! The parsers read outside data: whatever it is, they neither panic nor read beyond it.

use culvert_intercept::elf::{Image, Piece};
use culvert_intercept::functions::Functions;
use culvert_intercept::stub::{self, Slots};
use culvert_intercept::{Interest, analysis};

/// Marsaglia's xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// ld.so: all that is parsed is in it, and it is small.
fn sample() -> Vec<u8> {
    std::fs::read("/lib64/ld-linux-x86-64.so.2")
        .unwrap_or_else(|_| std::fs::read("/proc/self/exe").unwrap())
}

#[test]
fn truncated_files_are_understood_or_refused() {
    let file = sample();
    let mut random = Random(1);
    for length in (0..1024)
        .step_by(7)
        .chain((0..60).map(|_| random.below(file.len())))
    {
        let _ = analysis::file(&file[..length]);
    }
}

#[test]
fn damaged_files_are_understood_or_refused() {
    const EXTREMES: [u64; 8] = [
        0,
        1,
        u64::MAX,
        1 << 63,
        i64::MAX as u64,
        u32::MAX as u64,
        1 << 31,
        0xffff_ffff_ffff_f000,
    ];
    let file = sample();
    let intact = analysis::file(&file).unwrap();
    let mut random = Random(2);
    for round in 0..200 {
        let mut damaged = file.clone();
        for _ in 0..=random.below(4) {
            // Half of them in the headers, where it matters most.
            let at = random.below(if round % 2 == 0 { 1024 } else { file.len() - 8 });
            let value = if random.below(2) == 0 {
                EXTREMES[random.below(8)]
            } else {
                random.next()
            };
            let bytes = value.to_le_bytes();
            let count = [1, 2, 4, 8][random.below(4)];
            damaged[at..at + count].copy_from_slice(&bytes[..count]);
        }
        let _ = analysis::file(&damaged);
    }
    assert!(!intact.sites.is_empty());
}

#[test]
fn section_headers_may_say_anything() {
    let file = sample();
    let table = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    let mut random = Random(3);
    for _ in 0..100 {
        let mut damaged = file.clone();
        for _ in 0..8 {
            let at = table + random.below(file.len() - table - 8);
            damaged[at..at + 8].copy_from_slice(&random.next().to_le_bytes());
        }
        let _ = analysis::file(&damaged);
    }
}

/// Random instructions, rich in what matters here: every site that is found can be rewritten,
/// inside of the code and apart from others.
#[test]
fn sites_in_random_code_never_overlap() {
    const RICH: &[&[u8]] = &[
        &[0x0f, 0x05],
        &[0xb8, 1, 0, 0, 0],
        &[0x90],
        &[0xc3],
        &[0xeb, 0xfe],
        &[0x74, 3],
        &[0x89, 0xd0],
        &[0xe8, 0, 0, 0, 0],
        &[0x48, 0x8d, 0x35, 0, 1, 0, 0],
        &[0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc],
        &[0xf3, 0x0f, 0x1e, 0xfa],
        &[0xff, 0xe0],
        &[0x58],
    ];
    let slots = [
        Slots::near(0x7f00_0030_0000),
        Slots::fixed(0x5660_0000_0000),
    ];
    let mut random = Random(4);
    let mut kinds = [0; 6];
    for _ in 0..3000 {
        let mut code = Vec::new();
        while code.len() < 60 {
            if random.below(8) == 0 {
                code.push(random.next() as u8);
            } else {
                let mut bytes = RICH[random.below(RICH.len())].to_vec();
                if matches!(bytes[0], 0xeb | 0x74) {
                    bytes[1] = random.next() as u8 % 64;
                }
                code.extend(bytes);
            }
        }
        let address = 0x7f00_0000_0000;
        let piece = Piece {
            address,
            bytes: &code,
            executable: true,
        };
        let image = Image {
            kind: 3,
            entry: address,
            headers: Vec::new(),
            pieces: vec![piece],
            bias: 0,
        };
        let found = culvert_intercept::search::find(&image, &Functions::of_image(&image));
        let mut touched = vec![false; code.len()];
        let mut touch = |start: u64, length: usize| {
            let start = (start - address) as usize;
            for byte in &mut touched[start..start + length] {
                assert!(!std::mem::replace(byte, true), "{code:x?} {found:x?}");
            }
        };
        for site in &found.sites {
            let at = (site.address - address) as usize;
            assert_eq!(code[at..at + 2], culvert_intercept::sites::SYSCALL);
            const STUB: u64 = 0x7f00_0010_0000;
            for slots in &slots {
                let record = 0x7f00_0020_0000;
                let stub = stub::emit(site, 0, Interest::Bytes02, slots, STUB, record).unwrap();
                assert_eq!(stub.places.instruction, site.address);
            }
            let (region, island) = stub::edits(site, 0, STUB).unwrap();
            touch(region.address, region.bytes().len());
            assert_eq!(region.address, site.start());
            if site.keeps_syscall() {
                touch(site.address, 2);
            }
            if let Some(island) = island {
                touch(island.address, island.bytes().len());
            }
            kinds[site.kind as usize - 1] += 1;
        }
    }
    assert!(kinds.iter().all(|count| *count > 20), "{kinds:?}");
}
