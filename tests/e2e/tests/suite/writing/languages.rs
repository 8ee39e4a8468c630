//! Run-time systems of languages, and databases, with their own ways to the kernel.

use super::{full, same};
use culvert_e2e::{Case, Driver, User, has_python_suite, installed, on_each_driver};
use std::time::Duration;

on_each_driver! {
    node_file_system |case| if installed("node") { same(&case, r#"cat > t.js <<'END'
const fs = require('fs'), p = require('path'), cp = require('child_process'); const d = process.env.M + '/n';
fs.mkdirSync(p.join(d, 'a/b'), { recursive: true }); fs.writeFileSync(d + '/f', 'hello'); fs.appendFileSync(d + '/f', ' world'); console.log(fs.readFileSync(d + '/f', 'utf8'), fs.statSync(d + '/f').size);
fs.copyFileSync(d + '/f', d + '/g'); fs.renameSync(d + '/g', d + '/a/h'); fs.linkSync(d + '/f', d + '/hard'); fs.symlinkSync('f', d + '/soft'); console.log(fs.readlinkSync(d + '/soft'), fs.lstatSync(d + '/soft').isSymbolicLink(), fs.statSync(d + '/f').nlink, fs.realpathSync(d + '/soft') === d + '/f');
fs.truncateSync(d + '/f', 5); fs.chmodSync(d + '/f', 0o600); fs.utimesSync(d + '/f', 1, 2); const s = fs.statSync(d + '/f', { bigint: true }); console.log(s.size, (s.mode & 0o777n).toString(8), s.mtimeNs);
for (const [what, call] of Object.entries({ exclusive: () => fs.writeFileSync(d + '/f', '', { flag: 'wx' }), missing: () => fs.readFileSync(d + '/none'), rmdir: () => fs.rmdirSync(d), unlink: () => fs.unlinkSync(d + '/a'), mkdir: () => fs.mkdirSync(d + '/f'), open: () => fs.openSync(d + '/f/x') })) try { call(); console.log(what, 'WORKED'); } catch (e) { console.log(what, e.code, e.syscall); }
console.log(fs.readdirSync(d, { withFileTypes: true }).map(e => e.name + e.isDirectory()).sort(), fs.readdirSync(d, { recursive: true }).sort()); fs.cpSync(d + '/a', d + '/copy', { recursive: true });
const fd = fs.openSync(d + '/rw', 'w+'); fs.writeSync(fd, 'abcdef', 3); fs.writevSync(fd, [Buffer.from('12'), Buffer.from('34')], 10); const b = Buffer.alloc(20); console.log(fs.readSync(fd, b, 0, 20, 0), b.toString('hex')); fs.fsyncSync(fd); fs.ftruncateSync(fd, 4); fs.closeSync(fd);
const c = cp.spawnSync('sh', ['-c', 'cat; echo err >&2'], { cwd: d, input: 'in', stdio: ['pipe', fs.openSync(d + '/out', 'w'), fs.openSync(d + '/err', 'a')] }); console.log(c.status, fs.readFileSync(d + '/out', 'utf8'), fs.readFileSync(d + '/err', 'utf8'));
(async () => { await Promise.all([...Array(50).keys()].map(i => fs.promises.writeFile(d + '/p' + i, String(i).repeat(i)))); console.log((await Promise.all([...Array(50).keys()].map(i => fs.promises.readFile(d + '/p' + i, 'utf8')))).join('').length);
const h = await fs.promises.open(d + '/h', 'a+'); await Promise.all([...Array(20)].map(() => h.appendFile('line\n'))); console.log((await fs.promises.stat(d + '/h')).size); let n = 0; for await (const l of h.readLines({ start: 0 })) n++; console.log(n); await h.close().catch(() => {});
const w = fs.createWriteStream(d + '/stream'); for (let i = 0; i < 3000; i++) w.write('line ' + i + '\n'); w.end(() => { let t = 0; fs.createReadStream(d + '/stream', { start: 100 }).on('data', x => t += x.length).on('end', async () => { console.log(t); await fs.promises.rm(d, { recursive: true }); console.log(fs.existsSync(d)); }); }); })();
END
node t.js"#) };

    java_nio |case| if installed("java") && installed("javac") { same(&case.limit(Duration::from_secs(120)), r#"cat > T.java <<'END'
import java.io.*; import java.nio.*; import java.nio.channels.*; import java.nio.file.*; import java.nio.file.attribute.*; import java.nio.charset.StandardCharsets; import java.util.*; import java.util.stream.*;
public class T { static Path d; interface Do { void run() throws Exception; } static void fails(String what, Do call) { try { call.run(); System.out.println(what + " worked"); } catch (Exception e) { System.out.println(what + " " + e.getClass().getSimpleName()); } }
public static void main(String[] a) throws Exception { d = Path.of(System.getenv("M"), "j"); Files.createDirectories(d.resolve("x/y")); Path f = d.resolve("f"); Files.writeString(f, "hello\nworld\n"); System.out.println(Files.readAllLines(f) + " " + Files.size(f)); Files.writeString(f, "more\n", StandardOpenOption.APPEND);
fails("create new", () -> Files.createFile(f)); fails("delete full", () -> Files.delete(d)); fails("missing", () -> Files.readString(d.resolve("none"))); fails("not a directory", () -> Files.newDirectoryStream(f)); Files.copy(f, d.resolve("g"), StandardCopyOption.COPY_ATTRIBUTES); Files.move(d.resolve("g"), d.resolve("x/h"), StandardCopyOption.ATOMIC_MOVE); Files.move(d.resolve("x"), d.resolve("z")); Files.createLink(d.resolve("hard"), f); Files.createSymbolicLink(d.resolve("soft"), Path.of("f")); System.out.println(Files.isSameFile(f, d.resolve("hard")) + " " + Files.readSymbolicLink(d.resolve("soft")) + " " + Files.getAttribute(f, "unix:nlink") + " " + d.resolve("soft").toRealPath().equals(f.toRealPath()));
Files.setPosixFilePermissions(f, PosixFilePermissions.fromString("rw-r-----")); Files.setLastModifiedTime(f, FileTime.fromMillis(123456789L)); System.out.println(PosixFilePermissions.toString(Files.getPosixFilePermissions(f)) + " " + Files.getLastModifiedTime(f)); try (Stream<Path> s = Files.walk(d)) { System.out.println(s.map(p -> d.relativize(p).toString()).sorted().collect(Collectors.toList())); }
try (FileChannel c = FileChannel.open(d.resolve("c"), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) { c.write(ByteBuffer.wrap("0123456789".getBytes())); c.write(ByteBuffer.wrap("XY".getBytes()), 3); c.position(2); ByteBuffer b = ByteBuffer.allocate(5); c.read(b); System.out.println(new String(b.array()) + " " + c.position() + " " + c.size()); FileLock l = c.lock(0, 5, false); System.out.println(l.isValid() + " " + c.tryLock(6, 2, false).isShared()); fails("overlapping", () -> c.lock(2, 2, false));
Process p = new ProcessBuilder("python3", "-c", "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 2, 8); print('free');\ntry: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)\nexcept OSError as e: print('held', e.errno)", d.resolve("c").toString()).redirectErrorStream(true).start(); System.out.print(new String(p.getInputStream().readAllBytes())); l.release(); c.truncate(4); System.out.println(c.size()); c.force(true);
try (FileChannel o = FileChannel.open(d.resolve("o"), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) { System.out.println(c.transferTo(0, 4, o) + " " + o.transferFrom(FileChannel.open(f), 4, 100)); } MappedByteBuffer m = c.map(FileChannel.MapMode.PRIVATE, 0, 4); byte[] x = new byte[4]; m.get(x); System.out.println(new String(x)); c.write(new ByteBuffer[] { ByteBuffer.wrap("ab".getBytes()), ByteBuffer.wrap("cd".getBytes()) }); }
System.out.println(Files.readString(d.resolve("c")) + Files.readString(d.resolve("o"))); try (RandomAccessFile r = new RandomAccessFile(d.resolve("r").toFile(), "rw")) { r.setLength(1000); r.seek(500); r.writeInt(42); r.seek(500); System.out.println(r.readInt() + " " + r.length()); }
try (BufferedWriter w = Files.newBufferedWriter(d.resolve("big"))) { for (int i = 0; i < 20000; i++) w.write("line " + i + "\n"); } try (Stream<String> s = Files.lines(d.resolve("big"))) { System.out.println(s.count()); } File t = File.createTempFile("a", "b", d.toFile()); System.out.println(t.delete() + " " + new File(d.toFile(), "nodir/x").mkdirs() + " " + d.toFile().list().length); Path td = Files.createTempDirectory(d, "t"); Files.delete(td);
try (WatchService w = d.getFileSystem().newWatchService()) { d.register(w, StandardWatchEventKinds.ENTRY_CREATE); Files.createFile(d.resolve("watched")); WatchKey k = w.poll(60, java.util.concurrent.TimeUnit.SECONDS); System.out.println(k == null ? "NO EVENT" : k.pollEvents().get(0).context()); }
try (Stream<Path> s = Files.walk(d)) { s.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete()); } System.out.println(Files.exists(d)); } }
END
javac -J-Xshare:auto -J-XX:TieredStopAtLevel=1 T.java; java -Xshare:auto -XX:TieredStopAtLevel=1 -Djava.io.tmpdir=$M -XX:-UsePerfData T; rm -f T*.class"#) };

    sqlite |case| same(&case.limit(Duration::from_secs(120)), r#"cat > t.py <<'END'
import os, sqlite3, subprocess, sys
d = os.environ["M"] + "/t.db"
def connect(): return sqlite3.connect(d, timeout=30, isolation_level=None)
if len(sys.argv) > 1:
    c = connect()
    for i in range(60):
        c.execute("begin immediate"); (n,) = c.execute("select n from counter").fetchone(); c.execute("update counter set n = ?", (n + 1,)); c.execute("insert into log values (?, ?)", (sys.argv[1], n)); c.execute("commit")
    sys.exit()
c = connect()
print(c.execute("pragma journal_mode").fetchone()); c.executescript("pragma synchronous = normal; create table counter (n); insert into counter values (0); create table log (who, n unique)")
c.execute("create table t (a integer primary key, b text)"); c.execute("begin"); c.executemany("insert into t (b) values (?)", ((f"row {i}" * 20,) for i in range(3000))); c.execute("commit")
c.execute("begin"); c.execute("delete from t where a % 2"); c.execute("rollback"); print(c.execute("select count(*), sum(length(b)) from t").fetchone())
c.execute("create index i on t (b)"); c.execute("delete from t where a % 3 = 0"); c.execute("vacuum"); print(c.execute("pragma integrity_check").fetchone(), c.execute("select count(*) from t").fetchone())
children = [subprocess.Popen([sys.executable, __file__, who]) for who in "ab"]; print([child.wait() for child in children])
print(c.execute("select n from counter").fetchone(), c.execute("select who, count(*) from log group by who").fetchall(), c.execute("pragma integrity_check").fetchone())
o = connect(); c.execute("begin exclusive")
try: o.execute("pragma busy_timeout = 0"); o.execute("select * from counter"); print("NOT LOCKED")
except sqlite3.OperationalError as e: print(e)
c.execute("commit"); print(o.execute("select n from counter").fetchone()); o.execute("pragma journal_mode = persist"); o.execute("insert into counter values (7)"); o.execute("pragma journal_mode = truncate"); o.execute("insert into counter values (8)"); print(sorted(os.listdir(".")))
# A writer that dies in its transaction: the journal is rolled back by the next one.
pid = os.fork()
if pid == 0:
    k = connect(); k.execute("pragma cache_size = 2"); k.execute("begin"); k.execute("update t set b = 'lost'"); os.kill(os.getpid(), 9)
os.waitpid(pid, 0); n = connect(); print(n.execute("select count(*) from t where b = 'lost'").fetchone(), n.execute("pragma integrity_check").fetchone())
n.execute("attach 'other.db' as o"); n.execute("create table o.x as select * from t limit 10"); n.execute("begin"); n.execute("insert into x values (99999, 'q')"); n.execute("update counter set n = 1"); n.execute("commit"); print(n.execute("select count(*) from o.x").fetchone()); print(len("\n".join(n.iterdump())))
END
python3 t.py; command -v sqlite3 >/dev/null && sqlite3 t.db "pragma integrity_check; select count(*) from t; .backup b.db" && sqlite3 b.db "select sum(n) from counter"; rm -f *.db *-journal"#);

    python_files |case| same(&case, r#"cat > t.py <<'END'
import fcntl, mmap, os, shutil, tempfile, threading, multiprocessing
os.chdir(os.environ["M"]); print(os.getcwd() == os.environ["M"])
with tempfile.TemporaryFile(dir=".") as f: f.write(b"unnamed"); f.seek(0); print(f.read(), os.fstat(f.fileno()).st_nlink)
with tempfile.NamedTemporaryFile(dir=".") as f: print(os.stat(f.name).st_size, oct(os.stat(f.name).st_mode))
with tempfile.TemporaryDirectory(dir=".") as d: open(d + "/x", "w").write("x"); shutil.copytree(d, "copy"); shutil.move("copy", "moved"); print(os.listdir("moved")); shutil.rmtree("moved")
f = os.open("f", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640); print(os.write(f, b"0123456789"), os.pread(f, 3, 4), os.pwrite(f, b"ab", 20), os.lseek(f, 0, os.SEEK_CUR), os.fstat(f).st_size); os.ftruncate(f, 15); os.posix_fallocate(f, 10, 20); os.fsync(f); os.fdatasync(f); print(os.preadv(f, [bytearray(2), bytearray(50)], 0), os.pwritev(f, [b"x", b"yz"], 1), os.copy_file_range(f, os.open("g", os.O_CREAT | os.O_WRONLY), 100, 0)); print(open("f", "rb").read(), open("g", "rb").read())
print(os.sendfile(os.open("h", os.O_CREAT | os.O_WRONLY), f, 2, 5), open("h").read()); p = os.pipe(); print(os.splice(f, p[1], 8, offset_src=0), os.read(p[0], 100), os.write(p[1], b"spliced"), os.splice(p[0], os.open("i", os.O_CREAT | os.O_WRONLY), 100), open("i").read())
m = mmap.mmap(f, 0, mmap.MAP_PRIVATE, mmap.PROT_READ); print(m[:5], len(m)); m.close(); os.rename("f", "j"); os.unlink("j"); print(os.pread(f, 5, 0), os.fstat(f).st_nlink, os.path.exists("j"))
d = os.open(".", os.O_RDONLY); os.mkdir("k", dir_fd=d); os.symlink("g", "l", dir_fd=d); os.link("g", "n", src_dir_fd=d, dst_dir_fd=d); print(os.readlink("l", dir_fd=d), os.stat("n", dir_fd=d).st_nlink, sorted(os.listdir(d)), os.access("k", os.X_OK, dir_fd=d)); os.rename("n", "k/n", src_dir_fd=d, dst_dir_fd=d); os.utime("g", ns=(1, 10**18 + 1), dir_fd=d); print(os.stat("g").st_mtime_ns, os.scandir("k").__next__().is_file(), os.statvfs(".").f_namemax, os.pathconf(".", "PC_NAME_MAX")); os.replace("g", "h"); os.removedirs if 0 else os.unlink("k/n"); os.rmdir("k")
def append(n):
    with open("log", "a") as f:
        for i in range(200): f.write(f"{n} {i}\n"); f.flush()
ts = [threading.Thread(target=append, args=(n,)) for n in range(4)]; [t.start() for t in ts]; [t.join() for t in ts]
ps = [multiprocessing.get_context(w).Process(target=append, args=(n,)) for w, n in (("fork", 8), ("spawn", 9))] if 0 else [multiprocessing.get_context("fork").Process(target=append, args=(n,)) for n in (8, 9)]; [p.start() for p in ps]; [p.join() for p in ps]; lines = open("log").read().splitlines(); print(len(lines), len(set(lines)))
for lock in (fcntl.lockf, fcntl.flock):
    f = open("log", "r+"); lock(f, fcntl.LOCK_EX); pid = os.fork()
    if pid == 0:
        try: lock(open("log", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB); os._exit(0)
        except OSError as e: os._exit(e.errno)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])); lock(f, fcntl.LOCK_UN)
for call, *a in ((os.rmdir, "log"), (os.mkdir, "log"), (os.unlink, "none"), (os.open, "x" * 256, os.O_CREAT), (os.open, "y/" * 2500, 0), (os.rename, ".", "z"), (os.link, ".", "z"), (os.readlink, "log"), (os.truncate, "log", -1), (os.chdir, "log"), (os.symlink, "", "e"), (os.open, ".", os.O_WRONLY), (os.mkdir, ""), (os.chmod, "none", 0), (os.listdir, "log")):
    try: call(*a); print(call.__name__, "WORKED")
    except OSError as e: print(call.__name__, e.errno)
END
python3 t.py; rm -f log t.py"#);
}

/// Suites of Python itself, with the temporary directory and the working directory on the mount.
fn python(driver: Driver, user: User, words: &str) {
    if !has_python_suite("test.test_os") {
        return;
    }
    let name = format!("python-{}-{user:?}-{}", driver.name(), words.len());
    let case = Case::new(&name, user)
        .directory(driver)
        .limit(Duration::from_secs(500));
    let program = case.program("unit_tests.py");
    same(
        &case,
        &format!("exec 2>&1; /usr/bin/python3 {program} {words}; rm -rf *"),
    );
}

/// Which of Python's cases run always: those about files. All of them (minutes) run with `CULVERT_E2E_FULL=1`.
fn python_words() -> &'static str {
    if full() {
        "test.test_os test.test_shutil test.test_io test.test_subprocess"
    } else {
        PYTHON
    }
}

const PYTHON: &str = "test.test_shutil test.test_os.FileTests test.test_os.StatAttributeTests test.test_os.UtimeTests test.test_os.WalkTests test.test_os.FwalkTests \
    test.test_os.MakedirTests test.test_os.RemoveDirsTests test.test_os.LinkTests test.test_os.TestSendfile test.test_os.ExtendedAttributeTests \
    test.test_os.TestScandir test.test_os.BlockingTests test.test_os.FDInheritanceTests test.test_os.TestInvalidFD test.test_os.PathTConverterTests \
    test.test_io.CIOTest test.test_io.CBufferedRandomTest test.test_io.CBufferedReaderTest test.test_io.CTextIOWrapperTest test.test_io.MiscIOTest";

macro_rules! python {
    ($($name:ident $driver:ident $user:ident;)*) => { $(
        #[test]
        fn $name() {
            if User::$user == User::Me || culvert_e2e::world().is_root() {
                python(Driver::$driver, User::$user, python_words());
            }
        }
    )* };
}

python! {
    python_suites_on_passthrough Passthrough Nobody;
    python_suites_on_passthrough_as_self Passthrough Me;
    python_suites_on_driven Driven Nobody;
    python_suites_in_memory Memory Nobody;
    python_suites_in_memory_as_self Memory Me;
}
