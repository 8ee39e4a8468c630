//! Indexes of PLFS containers: any records merge within the bound, and every offset is found once.
#![no_main]

use culvert_drivers::plfs::index::{Found, Index, Numbered};
use culvert_drivers::plfs::layout::{self, Record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = layout::dropping(layout::INDEX, bytes);
    let _ = layout::Meta::parse(bytes);
    let _ = layout::metalink(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = culvert_drivers::plfs::plfsrc::Plfsrc::default().read(text);
    }
    let records: Vec<Record> = bytes.chunks_exact(Record::SIZE).filter_map(Record::decode).collect();
    let mut index = Index::new(1000);
    let numbered = records.iter().enumerate().map(|(at, record)| Numbered {
        record: *record,
        chunk: record.id,
        from: (0, at as u64),
    });
    if index.add_all(numbered).and_then(|()| index.settle()).is_err() {
        return;
    }
    let mut time_of = |(_, at): (u32, u64)| Ok(records[at as usize].end);
    let mut at = 0;
    for _ in 0..10_000 {
        at += match index.find(at, &mut time_of) {
            Ok(Found::Data(_, _, length) | Found::Hole(length)) => {
                assert!(length > 0);
                length
            }
            Ok(Found::End) => {
                assert!(at >= index.size());
                return;
            }
            Err(error) => panic!("{error}"),
        };
    }
});
