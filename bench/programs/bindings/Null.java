import java.lang.foreign.MemorySegment;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.culvert.Directory;
import org.culvert.ErrnoException;
import org.culvert.FileSystem;
import org.culvert.Stat;
import org.culvert.Times;

/** The null file system of null.c in Java. */
public class Null extends FileSystem {
    private static final class Node {
        final long inode;
        volatile int mode;
        volatile long size;

        Node(long inode, int mode) {
            this.inode = inode;
            this.mode = mode;
        }

        void fill(Stat stat) {
            stat.ino = inode;
            stat.mode = mode;
            stat.size = size;
        }
    }

    private final ConcurrentHashMap<String, Node> nodes = new ConcurrentHashMap<>();
    private final Node root = new Node(1, Stat.S_IFDIR | 0777);
    private final AtomicLong inodes = new AtomicLong(1);

    private Node find(String path) {
        Node node = path.isEmpty() ? root : nodes.get(path);
        if (node == null) {
            throw new ErrnoException(ErrnoException.ENOENT);
        }
        return node;
    }

    @Override
    public boolean keepsUnlinked() {
        return true;
    }

    @Override
    public void getattr(String path, Stat stat) {
        find(path).fill(stat);
    }

    @Override
    public void fgetattr(Object file, Stat stat) {
        ((Node) file).fill(stat);
    }

    @Override
    public Object open(String path, int flags, int mode) {
        Node node = (flags & 0100) == 0 ? find(path) : nodes.computeIfAbsent(path,
            name -> new Node(inodes.incrementAndGet(), Stat.S_IFREG | mode));
        if ((flags & 01000) != 0) {
            node.size = 0;
        }
        return node;
    }

    @Override
    public long read(Object file, MemorySegment buffer, long offset) {
        long found = Math.clamp(((Node) file).size - offset, 0, buffer.byteSize());
        buffer.asSlice(0, found).fill((byte) 0);
        return found;
    }

    @Override
    public long write(Object file, MemorySegment buffer, long offset) {
        Node node = (Node) file;
        synchronized (node) {
            node.size = Math.max(node.size, offset + buffer.byteSize());
        }
        return buffer.byteSize();
    }

    @Override
    public void ftruncate(Object file, long size) {
        ((Node) file).size = size;
    }

    @Override
    public void truncate(String path, long size) {
        find(path).size = size;
    }

    @Override
    public void unlink(String path) {
        if (nodes.remove(path) == null) {
            throw new ErrnoException(ErrnoException.ENOENT);
        }
    }

    @Override
    public void rename(String from, String to, int flags) {
        Node node = find(from);
        nodes.remove(from);
        nodes.put(to, node);
    }

    @Override
    public void chmod(String path, int mode) {
        find(path).mode = Stat.S_IFREG | mode;
    }

    @Override
    public void utime(String path, Times times) {
        // Nothing is kept.
    }

    @Override
    public void readdir(String path, Directory names) {
        nodes.forEach((name, node) -> names.add(name, Stat.S_IFREG, node.inode));
    }
}
