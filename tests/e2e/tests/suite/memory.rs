//! File systems in memory that are larger than it; where the bytes of their files lie.

use crate::kernel_mount::shell;
use culvert_e2e::world;
use std::path::PathBuf;

/// A place with directories `spill` and `mnt`.
fn place(name: &str) -> PathBuf {
    let place = world().claim("memory", name);
    for directory in ["spill", "mnt"] {
        std::fs::create_dir_all(place.join(directory)).unwrap();
    }
    place
}

/// Programs one after another and side by side, and mapped files; the spill goes with the run.
#[test]
fn programs_share_what_is_spilled() {
    let at = place("shared");
    let map = "import mmap, sys\nfile = open(sys.argv[1], 'r+b')\n\
               mmap.mmap(file.fileno(), 0)[:4] = b'text'\n";
    std::fs::write(at.join("map.py"), map).unwrap();
    let (culvert, place) = (world().culvert.display(), at.display());
    let script = format!(
        "head -c 9000000 /dev/urandom > {place}/bytes
         {culvert} run --mount type=memory,target={place}/mnt,size=1m,spill={place}/spill -- \
            sh -ec 'cd {place}/mnt
            cp {place}/bytes a; cp a b & cp a c & wait
            for i in a b c; do cmp {place}/bytes $i; done
            python3 {place}/map.py a
            head -c 4 a; echo; cmp -n 8999996 -i 4 {place}/bytes a
            rm a b; cp c d; cmp c d
            ls {place}/spill | wc -l
            test $(cat {place}/spill/*/pages | wc -c) -lt 40000000 && echo reused'
         {culvert} run -v memory:{place}/mnt -- true
         ls {place}/spill | wc -l"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "text\n1\nreused\n0\n", "{}", done.report());
}

#[test]
fn a_full_spill_is_no_space() {
    let at = place("full");
    let (culvert, place) = (world().culvert.display(), at.display());
    let script = format!(
        "{culvert} run --mount \
         type=memory,target={place}/mnt,size=1m,spill={place}/spill,spill-size=3m -- sh -c '
            cd {place}/mnt; seq 1 100000 > kept
            head -c 9000000 /dev/zero > much 2>/dev/null || echo full
            seq 1 100000 | cmp - kept; rm much; seq 1 100000 > again; cmp kept again'"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "full\n", "{}", done.report());
}

#[test]
fn a_program_asks_where_its_bytes_are() {
    let at = place("regions");
    let (culvert, place) = (world().culvert.display(), at.display());
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let script = format!(
        "cc -Wall -Wextra -Werror -o {place}/regions -I {root}/crates/culvert-library/include \
            {root}/tests/e2e/programs/regions.c
         {culvert} run --mount type=memory,target={place}/mnt,size=1m,spill={place}/spill \
            -- {place}/regions {place}/mnt/file
         {culvert} run -v memory:{place}/mnt -- {place}/regions {place}/mnt/file"
    );
    let done = shell(&script);
    let want = "some in memory, some spilled\nsome in memory, none spilled\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// By the command, of a file system with a name, as CRUISE's variables make it.
#[test]
fn the_command_lists_regions() {
    let at = place("listed");
    let (culvert, place) = (world().culvert.display(), at.display());
    let name = format!("memory:e2e-{}", std::process::id());
    let script = format!(
        "export CRUISE_CHUNK_MEM=512kb CRUISE_USE_SPILLOVER=1 CRUISE_SPILLOVER_SIZE=4mb
         export CRUISE_EXTERNAL_DATA_DIR={place}/spill CRUISE_MAX_FILES=10
         {culvert} run -v {name}:{place}/mnt -- sh -c 'seq 1 300000 > {place}/mnt/numbers
            df --output=itotal {place}/mnt | tail -n 1 | tr -d \" \"'
         {culvert} memory regions | grep -c {place}/spill/
         seq 1 300000 > {place}/numbers
         {culvert} memory regions {name} numbers | while read offset length at file; do
            cmp -n $length -i $offset:$at {place}/numbers $file
         done
         {culvert} memory regions {name} numbers | awk '{{ sum += $2 }} END {{ print sum }}'
         {culvert} memory regions {name} missing 2>&1 | grep -o 'No such.*'
         image=$({culvert} memory regions {name} | awk '/memory.e2e/ {{ print $2 }}')
         rm -r $image*"
    );
    let done = shell(&script);
    let want = "11\n1\n1988895\nNo such file or directory\n";
    assert_eq!(done.text(), want, "{}", done.report());
}
