cat > T.java << 'END'
import java.io.*;
import java.nio.*;
import java.nio.channels.*;
import java.nio.file.*;
import java.nio.file.attribute.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.*;
public class T {
    static Path d;
    interface Do {
        void run() throws Exception;
    }
    static void fails(String what, Do call) {
        try {
            call.run();
            System.out.println(what + " worked");
        } catch (Exception e) {
            System.out.println(what + " " + e.getClass().getSimpleName());
        }
    }
    public static void main(String[] a) throws Exception {
        d = Path.of(System.getenv("M"), "j");
        Files.createDirectories(d.resolve("x/y"));
        Path f = d.resolve("f");
        Files.writeString(f, "hello\nworld\n");
        System.out.println(Files.readAllLines(f) + " " + Files.size(f));
        Files.writeString(f, "more\n", StandardOpenOption.APPEND);
        fails("create new", () -> Files.createFile(f));
        fails("delete full", () -> Files.delete(d));
        fails("missing", () -> Files.readString(d.resolve("none")));
        fails("not a directory", () -> Files.newDirectoryStream(f));
        Files.copy(f, d.resolve("g"), StandardCopyOption.COPY_ATTRIBUTES);
        Files.move(d.resolve("g"), d.resolve("x/h"), StandardCopyOption.ATOMIC_MOVE);
        Files.move(d.resolve("x"), d.resolve("z"));
        Files.createLink(d.resolve("hard"), f);
        Files.createSymbolicLink(d.resolve("soft"), Path.of("f"));
        System.out.println(Files.isSameFile(f, d.resolve("hard")) + " "
            + Files.readSymbolicLink(d.resolve("soft")) + " " + Files.getAttribute(f, "unix:nlink")
            + " " + d.resolve("soft").toRealPath().equals(f.toRealPath()));
        Files.setPosixFilePermissions(f, PosixFilePermissions.fromString("rw-r-----"));
        Files.setLastModifiedTime(f, FileTime.fromMillis(123456789L));
        System.out.println(PosixFilePermissions.toString(Files.getPosixFilePermissions(f)) + " "
            + Files.getLastModifiedTime(f));
        try (Stream<Path> s = Files.walk(d)) {
            System.out.println(
                s.map(p -> d.relativize(p).toString()).sorted().collect(Collectors.toList()));
        }
        try (FileChannel c = FileChannel.open(d.resolve("c"), StandardOpenOption.CREATE,
                 StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            c.write(ByteBuffer.wrap("0123456789".getBytes()));
            c.write(ByteBuffer.wrap("XY".getBytes()), 3);
            c.position(2);
            ByteBuffer b = ByteBuffer.allocate(5);
            c.read(b);
            System.out.println(new String(b.array()) + " " + c.position() + " " + c.size());
            FileLock l = c.lock(0, 5, false);
            System.out.println(l.isValid() + " " + c.tryLock(6, 2, false).isShared());
            fails("overlapping", () -> c.lock(2, 2, false));
            Process p = new ProcessBuilder("python3", "-c",
                "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX | "
                + "fcntl.LOCK_NB, 2, 8); print('free');\ntry: fcntl.lockf(f, fcntl.LOCK_EX | "
                + "fcntl.LOCK_NB, 5, 0)\nexcept OSError as e: print('held', e.errno)",
                d.resolve("c").toString())
                            .redirectErrorStream(true)
                            .start();
            System.out.print(new String(p.getInputStream().readAllBytes()));
            l.release();
            c.truncate(4);
            System.out.println(c.size());
            c.force(true);
            try (FileChannel o = FileChannel.open(
                     d.resolve("o"), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
                System.out.println(
                    c.transferTo(0, 4, o) + " " + o.transferFrom(FileChannel.open(f), 4, 100));
            }
            MappedByteBuffer m = c.map(FileChannel.MapMode.PRIVATE, 0, 4);
            byte[] x = new byte[4];
            m.get(x);
            System.out.println(new String(x));
            c.write(new ByteBuffer[] {
                ByteBuffer.wrap("ab".getBytes()), ByteBuffer.wrap("cd".getBytes())});
        }
        System.out.println(Files.readString(d.resolve("c")) + Files.readString(d.resolve("o")));
        try (RandomAccessFile r = new RandomAccessFile(d.resolve("r").toFile(), "rw")) {
            r.setLength(1000);
            r.seek(500);
            r.writeInt(42);
            r.seek(500);
            System.out.println(r.readInt() + " " + r.length());
        }
        try (BufferedWriter w = Files.newBufferedWriter(d.resolve("big"))) {
            for (int i = 0; i < 20000; i++)
                w.write("line " + i + "\n");
        }
        try (Stream<String> s = Files.lines(d.resolve("big"))) {
            System.out.println(s.count());
        }
        File t = File.createTempFile("a", "b", d.toFile());
        System.out.println(t.delete() + " " + new File(d.toFile(), "nodir/x").mkdirs() + " "
            + d.toFile().list().length);
        Path td = Files.createTempDirectory(d, "t");
        Files.delete(td);
        try (WatchService w = d.getFileSystem().newWatchService()) {
            d.register(w, StandardWatchEventKinds.ENTRY_CREATE);
            Files.createFile(d.resolve("watched"));
            WatchKey k = w.poll(60, java.util.concurrent.TimeUnit.SECONDS);
            System.out.println(k == null ? "NO EVENT" : k.pollEvents().get(0).context());
        }
        try (Stream<Path> s = Files.walk(d)) {
            s.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
        }
        System.out.println(Files.exists(d));
    }
}
END
javac -J-Xshare:auto -J-XX:TieredStopAtLevel=1 T.java
java -Xshare:auto -XX:TieredStopAtLevel=1 -Djava.io.tmpdir=$M -XX:-UsePerfData T
rm -f T*.class
