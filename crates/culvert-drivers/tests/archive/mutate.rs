//! Archives and indexes with random damage: whatever happens, it is an error or a tree, never a
//! crash. Seeded, so that a failure comes again.

use crate::explore::{explore, index};
use crate::packages;
use crate::tools::{Scratch, python, sh};
use culvert_drivers::archive::Bytes;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// xorshift64* (Marsaglia; Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled").
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Numbers that parsers stumble over.
const ODD: [&[u8]; 10] = [
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\xff\xff\xff\x7f",
    b"77777777777",
    b"\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"../",
    b"/",
    b"\0",
    b"99999999999999999999",
    b"PK\x05\x06",
];

fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => {
                let odd = ODD[random.below(ODD.len())];
                let end = (at + odd.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&odd[..end - at]);
            }
            2 => {
                let end = (at + random.below(600)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            3 => {
                let end = (at + random.below(600)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ if at < bytes.len() => bytes[at] = random.next() as u8,
            _ => {}
        }
    }
}

/// Tar headers whose checksum is wrong go nowhere: makes them right again.
fn mend(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        if &block[257..262] == b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

/// The same of the checksums of a 7z archive.
pub fn mend_7z(bytes: &mut [u8]) {
    use culvert_drivers::archive::codec::crc32;
    let number = |bytes: &[u8], at: usize| {
        let word = bytes[at..]
            .first_chunk()
            .map(|word| u64::from_le_bytes(*word));
        word.and_then(|word| usize::try_from(word).ok())
    };
    if !bytes.starts_with(b"7z\xbc\xaf\x27\x1c") || bytes.len() < 32 {
        return;
    }
    let (at, length) = (number(bytes, 12), number(bytes, 20));
    let start = at.and_then(|at| at.checked_add(32));
    let end = start
        .zip(length)
        .and_then(|(start, length)| start.checked_add(length));
    let header = start
        .zip(end)
        .and_then(|(start, end)| bytes.get(start..end));
    if let Some(sum) = header.map(|header| crc32(0, header)) {
        bytes[28..32].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = crc32(0, &bytes[12..32]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
}

fn seeds() -> Vec<Vec<u8>> {
    let scratch = Scratch::new();
    python(
        &scratch.0,
        r#"
import os
os.makedirs('t/d/e'); open('t/f', 'w').write('f' * 700); os.link('t/f', 't/d/hard'); os.symlink('../f', 't/d/soft')
open('t/' + 'n' * 150, 'w').write('x'); open('t/d/e/' + 'm' * 150, 'w')
f = open('t/s', 'wb'); f.seek(100000); f.write(b'data'); f.seek(300000); f.write(b'x'); f.truncate(500000); f.close()
"#,
    );
    sh(
        &scratch.0,
        r#"
tar --format=gnu --sparse -cf 0 t; tar --format=posix --sparse -cf 1 t; tar --format=v7 -cf 2 t/f t/d/hard
tar --format=posix --sparse --sparse-version=0.1 -cf 3 t; gzip -k1 1; mv 1.gz 4
rm t/s; zip -qyr 5.zip t; zip -qyr0 6.zip t; zip -qyr -fz 7.zip t; mv 5.zip 5; mv 6.zip 6; mv 7.zip 7
find t | cpio -o -H newc --quiet -F 8; find t | cpio -o -H odc --quiet -F 9; find t | cpio -o -H bin --quiet -F 10
ar rc 11 t/f t/nnnnn*; genisoimage -quiet -R -o 12 t; lzip -k1 1; mv 1.lz 13
"#,
    );
    packages::make(&scratch);
    sh(
        &scratch.0,
        "mv p.xz.deb 14; mv p.none.deb 15; mv p.gzip.rpm 16; mv p.none.rpm 17
         7z a -bd -mhc=off 18.7z t > 7z.log; mv 18.7z 18; 7z a -bd -m0=lzma 19.7z t > 7z.log
         mv 19.7z 19; 7z a -bd -mf=bcj -mhc=off -ms=off 20.7z t /bin/true > 7z.log; mv 20.7z 20
         7z a -bd -m0=copy -mhc=off 21.7z t > 7z.log; mv 21.7z 21",
    );
    (0..22)
        .map(|name| fs::read(scratch.path(&name.to_string())).unwrap())
        .collect()
}

#[test]
fn damaged_archives() {
    let seeds = seeds();
    let mut random = Random(0x0123_4567_89ab_cdef);
    let start = Instant::now();
    let (mut runs, mut trees) = (0, 0);
    while runs < 20_000 && start.elapsed() < Duration::from_secs(8) {
        let mut bytes = seeds[runs % seeds.len()].clone();
        damage(&mut random, &mut bytes);
        if random.below(2) == 0 {
            mend(&mut bytes);
            mend_7z(&mut bytes);
        }
        let raw: Arc<dyn Bytes> = Arc::new(bytes);
        for tolerant in [false, true] {
            if let Some(image) = index(&raw, tolerant) {
                trees += usize::from(explore(raw.clone(), image).unwrap() > 0);
            }
        }
        runs += 1;
    }
    assert!(
        trees > runs / 20,
        "{trees} trees of {runs}: the damage hits too hard to test anything"
    );
}

#[test]
fn damaged_indexes() {
    let seeds = seeds();
    let mut random = Random(0xfedc_ba98_7654_3210);
    let start = Instant::now();
    let mut runs = 0;
    let good: Vec<(Arc<dyn Bytes>, Vec<u8>)> = seeds
        .into_iter()
        .map(|seed| {
            let raw: Arc<dyn Bytes> = Arc::new(seed);
            let image = index(&raw, false).unwrap();
            (raw, image)
        })
        .collect();
    while runs < 20_000 && start.elapsed() < Duration::from_secs(6) {
        let (raw, image) = &good[runs % good.len()];
        let mut image = image.clone();
        // The header has a checksum; what lies behind it is believed as little.
        for _ in 0..=random.below(6) {
            let at = 256 + random.below(image.len() - 256);
            image[at] = match random.below(3) {
                0 => 0xff,
                1 => 0,
                _ => random.next() as u8,
            };
        }
        explore(raw.clone(), image);
        runs += 1;
    }
}

#[test]
fn archives_cut_anywhere() {
    for seed in seeds() {
        let image = index(&(Arc::new(seed.clone()) as Arc<dyn Bytes>), false).unwrap();
        for end in (0..seed.len()).step_by(509) {
            let raw: Arc<dyn Bytes> = Arc::new(seed[..end].to_vec());
            if let Some(image) = index(&raw, true) {
                explore(raw.clone(), image);
            }
            // The archive shrinks after the index was made.
            explore(raw, image.clone());
        }
    }
}
