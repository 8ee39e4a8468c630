//! An object of clang's, as far as programs and their maps need it (ELF, 64 bits, little-endian).

use crate::bpf::MapKind;

/// A program and its maps.
#[derive(Debug)]
pub struct Object<'o> {
    /// The maps' names and kinds.
    pub maps: Vec<(&'o str, MapKind)>,
    code: Vec<u8>,
    /// Where which map's descriptor is to stand: offsets of instructions.
    places: Vec<(usize, usize)>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..N].copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(word))
}

/// The text from `at` to a byte 0.
fn text(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    str::from_utf8(&rest[..end]).ok()
}

struct Section<'o> {
    name: &'o str,
    bytes: &'o [u8],
}

/// `BPF_PSEUDO_MAP_FD`: the immediate value is a descriptor.
const MAP_DESCRIPTOR: u8 = 1;
/// `BPF_LD | BPF_IMM | BPF_DW`.
const LOAD_64: u8 = 0x18;

impl<'o> Object<'o> {
    /// Reads an object whose program is in the section `culvert` and whose maps, if it has any, are
    /// in `maps`; none: it is not such a one.
    pub fn read(bytes: &'o [u8]) -> Option<Self> {
        let sections = sections(bytes)?;
        let find = |name: &str| sections.iter().position(|section| section.name == name);
        let code = sections[find("culvert")?].bytes.to_vec();
        let bytes = |name: &str| find(name).map_or(&[][..], |index| sections[index].bytes);
        // Section 0 is none.
        let (maps_at, symbols) = (find("maps").unwrap_or(0), sections[find(".symtab")?].bytes);
        let names = sections[find(".strtab")?].bytes;
        let size = size_of::<MapKind>();
        // The symbols of the maps, by their offsets.
        let mut named = Vec::new();
        for symbol in symbols.chunks_exact(24) {
            if maps_at != 0 && number::<2>(symbol, 6)? == maps_at as u64 {
                let name = text(names, number::<4>(symbol, 0)? as usize)?;
                named.push((number::<8>(symbol, 8)? as usize, name));
            }
        }
        named.sort_unstable();
        named.retain(|(_, name)| !name.is_empty());
        let mut maps = Vec::new();
        for (at, name) in &named {
            let word = |n: usize| Some(number::<4>(sections[maps_at].bytes, at + 4 * n)? as u32);
            maps.push((
                *name,
                MapKind {
                    kind: word(0)?,
                    key_size: word(1)?,
                    value_size: word(2)?,
                    max_entries: word(3)?,
                    flags: word(4)?,
                },
            ));
            if at % size != 0 {
                return None;
            }
        }
        let mut places = Vec::new();
        for entry in bytes(".relculvert").chunks_exact(16) {
            let at = number::<8>(entry, 0)? as usize;
            let symbol = symbols.get(number::<4>(entry, 12)? as usize * 24..)?;
            let value = number::<8>(symbol, 8)? as usize;
            let map = named.iter().position(|(offset, _)| *offset == value)?;
            let in_maps = number::<2>(symbol, 6)? == maps_at as u64;
            if !in_maps || code.get(at) != Some(&LOAD_64) || code.len() < at + 16 {
                return None;
            }
            places.push((at, map));
        }
        Some(Self { maps, code, places })
    }

    /// Entries of each map, in their order; 0: as the object says.
    ///
    /// # Errors
    /// There is no such map, for people.
    pub fn entries(&self, sizes: &[(&str, u32)]) -> Result<Vec<u32>, String> {
        let names = || self.maps.iter().map(|(name, _)| *name);
        if let Some((name, _)) = sizes
            .iter()
            .find(|(name, _)| !names().any(|map| map == *name))
        {
            let all: Vec<_> = names().collect();
            return Err(match all.is_empty() {
                true => format!("there is no map {name}, and no other"),
                false => format!("there is no map {name}, but {}", all.join(", ")),
            });
        }
        let size = |name| sizes.iter().rfind(|(map, _)| *map == name);
        let entries = names().map(|name| size(name).map_or(0, |(_, size)| *size));
        Ok(entries.collect())
    }

    /// The instructions, with `descriptors` of the maps.
    pub fn code(&self, descriptors: &[i32]) -> Vec<u8> {
        let mut code = self.code.clone();
        for &(at, map) in &self.places {
            code[at + 1] = code[at + 1] & 0x0f | MAP_DESCRIPTOR << 4;
            code[at + 4..at + 8].copy_from_slice(&descriptors[map].to_le_bytes());
        }
        code
    }
}

fn sections(bytes: &[u8]) -> Option<Vec<Section<'_>>> {
    let (start, size) = (number::<8>(bytes, 40)?, number::<2>(bytes, 58)?);
    let (count, names) = (number::<2>(bytes, 60)?, number::<2>(bytes, 62)?);
    let header = |index: u64| bytes.get((start + index * size) as usize..);
    let content = |header: &[u8]| {
        let (offset, length) = (number::<8>(header, 24)?, number::<8>(header, 32)?);
        bytes.get(offset as usize..(offset + length) as usize)
    };
    if !bytes.starts_with(b"\x7fELF\x02\x01") || size < 64 {
        return None;
    }
    let names = content(header(names)?)?;
    (0..count)
        .map(|index| {
            let header = header(index)?;
            Some(Section {
                name: text(names, number::<4>(header, 0)? as usize)?,
                bytes: content(header)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That of the ready parts.
    const OBJECT: &[u8] = include_bytes!("../../../extensions/ready/ready.o");

    #[test]
    fn maps_and_the_places_of_their_descriptors_are_found() {
        let object = Object::read(OBJECT).expect("an object");
        let names: Vec<_> = object.maps.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["settings", "names", "nodes", "xattrs", "records"]);
        let kinds: Vec<_> = object
            .maps
            .iter()
            .map(|(_, map)| (map.kind, map.key_size))
            .collect();
        // Arrays, and a ring buffer.
        assert_eq!(kinds, [(2, 4), (2, 4), (2, 4), (2, 4), (27, 0)]);
        let code = object.code(&[70, 71, 72, 73, 74]);
        assert_eq!(code.len() % 8, 0);
        for &(at, map) in &object.places {
            assert_eq!((code[at], code[at + 1] >> 4), (LOAD_64, MAP_DESCRIPTOR));
            assert_eq!(code[at + 4], 70 + map as u8);
        }
    }

    /// The loader service lets ordinary users fill the maps of the ready parts: these read no other
    /// memory than the request's and their own, which the verifier sees to.
    #[test]
    fn the_ready_parts_call_for_nothing_of_the_kernels() {
        // bpf_map_lookup_elem, bpf_ktime_get_ns, bpf_ringbuf_reserve and bpf_ringbuf_submit.
        const KNOWN: [i32; 4] = [1, 5, 131, 132];
        let object = Object::read(OBJECT).expect("an object");
        for instruction in object.code(&[0; 5]).chunks_exact(8) {
            let number = i32::from_le_bytes(instruction[4..].try_into().expect("four"));
            // BPF_JMP | BPF_CALL of a helper.
            if instruction[..2] == [0x85, 0] {
                assert!(KNOWN.contains(&number), "helper {number}");
            }
        }
    }

    /// The section that extensions/build fills.
    #[test]
    fn the_objects_are_made_of_their_sources() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../extensions/build");
        let example = include_bytes!("../../../extensions/example/example.o");
        let paths = include_bytes!("../../../extensions/paths/paths.o");
        for (name, object) in [("ready", OBJECT), ("example", example), ("paths", paths)] {
            let mut build = std::process::Command::new(place);
            let said = build.args(["sum", name]).output().expect("sh");
            let all = sections(object).expect("an object");
            let kept = all.iter().find(|section| section.name == "source");
            let kept = kept.expect("its source").bytes.strip_suffix(b"\0");
            let now = String::from_utf8_lossy(&said.stdout);
            assert_eq!(
                String::from_utf8_lossy(kept.expect("text")),
                now.trim(),
                "extensions/build makes it"
            );
        }
    }

    /// An object of these sections, as far as it is read here.
    fn with_sections(sections: &[(&str, &[u8])]) -> Vec<u8> {
        let mut made = vec![0; 64];
        let mut headers = vec![0; 64];
        let mut names = vec![0];
        for (name, _) in sections.iter().chain(&[("names", &[][..])]) {
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        let all = sections.iter().copied().chain([("names", &names[..])]);
        let mut at = 1;
        for (name, bytes) in all {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&(at as u32).to_le_bytes());
            header[24..32].copy_from_slice(&(made.len() as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            headers.extend_from_slice(&header);
            made.extend_from_slice(bytes);
            at += name.len() + 1;
        }
        made[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let start = made.len() as u64;
        made[40..48].copy_from_slice(&start.to_le_bytes());
        made[58] = 64;
        made[60] = sections.len() as u8 + 2;
        made[62] = sections.len() as u8 + 1;
        made.extend_from_slice(&headers);
        made
    }

    #[test]
    fn a_program_needs_no_maps() {
        let (code, symbols) = ([0x95, 0, 0, 0, 0, 0, 0, 0], [0; 48]);
        let made = with_sections(&[
            ("culvert", &code),
            (".symtab", &symbols),
            (".strtab", b"\0"),
        ]);
        let object = Object::read(&made).expect("an object");
        assert!(object.maps.is_empty());
        assert_eq!(object.code(&[]), code);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for length in (0..OBJECT.len()).step_by(97) {
            // Nothing reads past the end.
            let _ = Object::read(&OBJECT[..length]);
        }
        assert!(Object::read(b"").is_none() && Object::read(&[0; 100]).is_none());
    }
}
