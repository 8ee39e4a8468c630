cat > T.java << 'END'
import java.nio.*;
import java.nio.channels.*;
import java.nio.file.*;
import static java.nio.file.StandardOpenOption.*;
public class T {
    static final int SIZE = 3 << 20;
    static MappedByteBuffer map(Path p) throws Exception {
        try (FileChannel c = FileChannel.open(p, READ, WRITE, CREATE)) {
            return c.map(FileChannel.MapMode.READ_WRITE, 0, SIZE);
        }
    }
    public static void main(String[] a) throws Exception {
        Path p = Path.of(a[1]);
        if (a[0].equals("child")) {
            MappedByteBuffer m = map(p);
            for (int i = 0; i < SIZE; i += 8)
                if (m.getLong(i) != (long) i * 31)
                    throw new Error("at " + i);
            for (int i = 0; i < SIZE; i += 4096)
                m.putLong(i, -i);
            System.out.println("child");
            return;
        }
        MappedByteBuffer m = map(p);
        for (int i = 0; i < SIZE; i += 8)
            m.putLong(i, (long) i * 31);
        m.force(4096, 8192);
        Process c =
            new ProcessBuilder(ProcessHandle.current().info().command().get(), "-Xshare:auto",
                "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", ".", "T", "child", a[1])
                .inheritIO()
                .start();
        if (c.waitFor() != 0)
            throw new Error("child");
        for (int i = 0; i < SIZE; i += 8)
            if (m.getLong(i) != (i % 4096 == 0 ? -i : (long) i * 31))
                throw new Error("back at " + i);
        m.force();
        try (FileChannel f = FileChannel.open(p, READ, WRITE)) {
            ByteBuffer b = ByteBuffer.allocate(8);
            f.read(b, 8192);
            b.flip();
            if (b.getLong() != -8192)
                throw new Error("read");
            b.clear();
            b.putLong(5).flip();
            f.write(b, 16);
            if (m.getLong(16) != 5)
                throw new Error("written");
            MappedByteBuffer v = f.map(FileChannel.MapMode.PRIVATE, 0, 4096);
            v.putLong(16, 6);
            if (m.getLong(16) != 5)
                throw new Error("private");
            f.truncate(SIZE);
        }
        System.out.println("right");
    }
}
END
javac -J-Xshare:auto -J-XX:TieredStopAtLevel=1 T.java
java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp . T parent file
