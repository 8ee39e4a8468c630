//! Compilers, version control, numbers, searching: tools that map what they read or write.

use super::{full, mapped};
use culvert_e2e::installed;

/// A program of many functions, so that its linked file has some hundred pages; the linkers write it by a mapping (gold, lld) or by calls (bfd).
const LINK: &str = r#"
for i in $(seq 8); do { for j in $(seq 400); do echo "int f_${i}_$j(int x) { static int seen[$j]; return seen[0]++ * $i + x + $j; }"; done
  echo "int g_$i(int x) { int s = 0;"; for j in $(seq 400); do echo "s += f_${i}_$j(x);"; done; echo "return s; }"; } > p$i.c; done
{ echo '#include <stdio.h>'; for i in $(seq 8); do echo "int g_$i(int);"; done; echo 'int main(void) { printf("%d\n", 0'; for i in $(seq 8); do echo "+ g_$i($i)"; done; echo '); return 0; }'; } > main.c
cc -g -fPIC -c *.c; ar rc libp.a p*.o; for l in bfd gold lld; do
  ! command -v ld.${l#ld.} >/dev/null || { cc -fuse-ld=$l -Wl,--build-id=sha1 -o program-$l main.o libp.a; ./program-$l; cc -fuse-ld=$l -shared -o $l.so p*.o; }; done
cp --reflink=auto program-bfd copy; cmp copy program-bfd; strip copy; ./copy; objcopy --only-keep-debug program-bfd debug; ld -r -o all.o p*.o
for l in bfd gold lld; do ! test -e program-$l || { cc -fuse-ld=$l -Wl,--build-id=sha1 -o program-$l main.o libp.a; ./program-$l; }; done
file program-*; readelf -SW program-*; nm copy 2>&1 | head -n 1
"#;

const GIT: &str = r#"
export HOME=$W GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_AUTHOR_DATE='2020-01-01 00:00:00 +0000' GIT_COMMITTER_DATE='2020-01-01 00:00:00 +0000'
git init -q -b main r; cd r; git config core.packedGitWindowSize 65536; git config core.packedGitLimit 262144; git config index.version 4; git config gc.writeCommitGraph true; git config core.preloadIndex true
for i in $(seq COUNT); do mkdir -p d$((i % 7)); seq $i $((i * 40)) > d$((i % 7))/f$i; head -c $((i * 997)) /dev/zero | tr '\0' $((i % 10)) >> d$((i % 7))/f$((i / 2)); git add -A; git commit -q -m $i; done
git repack -q -a -d -f --depth=20 --window=20 --write-bitmap-index; git multi-pack-index write; git commit-graph write --reachable --changed-paths; git gc -q --prune=now; git fsck --full --strict; git multi-pack-index verify; git commit-graph verify
git log --stat --format=%s | md5sum; git rev-list --objects --all --use-bitmap-index --count; git clone -q --no-local . ../c; cd ../c; git fsck --full; git status --short; git log --oneline -- d3 | wc -l; git blame d1/f1 | wc -l; git verify-pack .git/objects/pack/*.idx
cd ..; git clone -q --bare --shared r s; git -C s repack -q -a -d; git -C s fsck; diff -r r/d2 c/d2; git -C c bundle create -q ../b --all; git -C c bundle verify -q ../b
"#;

const SEARCH: &str = r#"
seq 200000 > numbers; cp --reflink=auto numbers copy; cp --reflink=auto --sparse=always copy again; cmp numbers again
grep -c 77 numbers; ! command -v rg >/dev/null || { test $(rg --mmap -c 77 numbers) = $(grep -c 77 numbers); rg --mmap -n '^1999' . | sort | md5sum; }
printf '\x7fELF junk' > junk; file numbers junk; file -m /usr/share/misc/magic.mgc numbers >/dev/null 2>&1 || :; strings -n 3 numbers | md5sum; sort -S 1M -R numbers | sort -n -c - 2>/dev/null || sort -S 1M -rn numbers | tail -n 1
python3 - <<'END'
import mmap, os
with open("numbers", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0)
    assert m.find(b"\n199999\n") > 0 and m.rfind(b"\n7\n") > 0
    m[0:1] = b"9"; m.flush(); m.resize(len(m) + 5000); m[-4:] = b"end\n"; m.move(10, 2, 100); m.close()
assert os.path.getsize("numbers") == 1288895 + 5000 and open("numbers", "rb").read()[-4:] == b"end\n"
END
"#;

const JAVA: &str = r#"
cat > T.java <<'END'
import java.nio.*; import java.nio.channels.*; import java.nio.file.*; import static java.nio.file.StandardOpenOption.*;
public class T { static final int SIZE = 3 << 20;
static MappedByteBuffer map(Path p) throws Exception { try (FileChannel c = FileChannel.open(p, READ, WRITE, CREATE)) { return c.map(FileChannel.MapMode.READ_WRITE, 0, SIZE); } }
public static void main(String[] a) throws Exception { Path p = Path.of(a[1]);
if (a[0].equals("child")) { MappedByteBuffer m = map(p); for (int i = 0; i < SIZE; i += 8) if (m.getLong(i) != (long) i * 31) throw new Error("at " + i); for (int i = 0; i < SIZE; i += 4096) m.putLong(i, -i); System.out.println("child"); return; }
MappedByteBuffer m = map(p); for (int i = 0; i < SIZE; i += 8) m.putLong(i, (long) i * 31); m.force(4096, 8192);
Process c = new ProcessBuilder(ProcessHandle.current().info().command().get(), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", ".", "T", "child", a[1]).inheritIO().start(); if (c.waitFor() != 0) throw new Error("child");
for (int i = 0; i < SIZE; i += 8) if (m.getLong(i) != (i % 4096 == 0 ? -i : (long) i * 31)) throw new Error("back at " + i); m.force();
try (FileChannel f = FileChannel.open(p, READ, WRITE)) { ByteBuffer b = ByteBuffer.allocate(8); f.read(b, 8192); b.flip(); if (b.getLong() != -8192) throw new Error("read"); b.clear(); b.putLong(5).flip(); f.write(b, 16); if (m.getLong(16) != 5) throw new Error("written"); MappedByteBuffer v = f.map(FileChannel.MapMode.PRIVATE, 0, 4096); v.putLong(16, 6); if (m.getLong(16) != 5) throw new Error("private"); f.truncate(SIZE); }
System.out.println("right"); } }
END
javac -J-Xshare:auto -J-XX:TieredStopAtLevel=1 T.java; java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp . T parent file
"#;

mapped! {
    linkers |trial| {
        trial.right(LINK, "for p in program-*; do ./$p; cmp <(./$p) <(./program-bfd); done; readelf -aW all.o *.so > /dev/null");
    };

    git_with_packs |trial| {
        let count = if full() { "400" } else { "25" };
        trial.right(&GIT.replace("COUNT", count), "export GIT_CONFIG_GLOBAL=/dev/null; for r in r c s; do sed -i 's:/.*/mounts/[^/]*:..:' $r/objects/info/alternates 2>/dev/null || :; done; git -C r fsck --full; git -C c fsck --full");
    };

    numpy_memmap |trial| {
        let program = trial.program("mapped_numpy.py");
        trial.right(
            &format!("/usr/bin/python3 {program} $M"),
            "/usr/bin/python3 -c 'import numpy as np; a = np.fromfile(\"array\"); assert a[-1] == 99 and a[5006] == 7.25 and a[1003] == 1003.5 and a[3004] == 12.5, a; n = np.load(\"array.npy\"); assert (np.diff(n) >= 0).all()'",
        );
    };

    searching_and_copying |trial| {
        trial.right(SEARCH, "test $(stat -c %s numbers) = 1293895; tail -c 4 numbers | grep -q end; cmp copy again");
    };

    java_mapped_byte_buffers |trial| if installed("java") && installed("javac") {
        trial.right(JAVA, "/usr/bin/python3 -c 'import struct; b = open(\"file\", \"rb\").read(); assert len(b) == 3 << 20 and all(struct.unpack_from(\">q\", b, i) == (-i,) for i in range(4096, len(b), 4096))'");
    };
}
