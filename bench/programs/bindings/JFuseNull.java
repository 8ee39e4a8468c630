import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.cryptomator.jfuse.api.DirFiller;
import org.cryptomator.jfuse.api.Errno;
import org.cryptomator.jfuse.api.FileInfo;
import org.cryptomator.jfuse.api.Fuse;
import org.cryptomator.jfuse.api.FuseOperations;
import org.cryptomator.jfuse.api.Stat;
import org.cryptomator.jfuse.api.TimeSpec;

/** The null file system of null.c by jFUSE: JFuseNull TARGET. */
public class JFuseNull implements FuseOperations {
    private static final byte[] ZEROES = new byte[1 << 20];

    private static final class Node {
        volatile int mode;
        volatile long size;

        Node(int mode) {
            this.mode = mode;
        }
    }

    private final ConcurrentHashMap<String, Node> nodes = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<Long, Node> files = new ConcurrentHashMap<>();
    private final AtomicLong handles = new AtomicLong(1);
    private final Errno errno;

    JFuseNull(Errno errno) {
        this.errno = errno;
        nodes.put("/", new Node(Stat.S_IFDIR | 0777));
    }

    @SuppressWarnings("try")
    public static void main(String[] words) throws Exception {
        var builder = Fuse.builder();
        try (Fuse fuse = builder.build(new JFuseNull(builder.errno()))) {
            fuse.mount("jfuse", Path.of(words[0]), "-o", "allow_other", "-o", "default_permissions");
            new CountDownLatch(1).await();
        }
    }

    @Override
    public Errno errno() {
        return errno;
    }

    @Override
    public Set<Operation> supportedOperations() {
        return EnumSet.of(Operation.GET_ATTR, Operation.OPEN, Operation.CREATE, Operation.READ,
            Operation.WRITE, Operation.TRUNCATE, Operation.UNLINK, Operation.RENAME,
            Operation.CHMOD, Operation.UTIMENS, Operation.READ_DIR, Operation.RELEASE);
    }

    @Override
    public int getattr(String path, Stat stat, FileInfo fi) {
        Node node = nodes.get(path);
        if (node == null) {
            return -errno.enoent();
        }
        stat.setMode(node.mode);
        stat.setNLink((short) 1);
        stat.setSize(node.size);
        return 0;
    }

    private int opened(Node node, FileInfo fi) {
        long handle = handles.incrementAndGet();
        files.put(handle, node);
        fi.setFh(handle);
        return 0;
    }

    @Override
    public int open(String path, FileInfo fi) {
        Node node = nodes.get(path);
        if (node == null) {
            return -errno.enoent();
        }
        if ((fi.getFlags() & 01000) != 0) {
            node.size = 0;
        }
        return opened(node, fi);
    }

    @Override
    public int create(String path, int mode, FileInfo fi) {
        return opened(nodes.computeIfAbsent(path, name -> new Node(Stat.S_IFREG | mode)), fi);
    }

    @Override
    public int release(String path, FileInfo fi) {
        files.remove(fi.getFh());
        return 0;
    }

    @Override
    public int read(String path, ByteBuffer buffer, long count, long offset, FileInfo fi) {
        int found = (int) Math.clamp(files.get(fi.getFh()).size - offset, 0, count);
        buffer.put(ZEROES, 0, found);
        return found;
    }

    @Override
    public int write(String path, ByteBuffer buffer, long count, long offset, FileInfo fi) {
        Node node = files.get(fi.getFh());
        synchronized (node) {
            node.size = Math.max(node.size, offset + count);
        }
        return (int) count;
    }

    @Override
    public int truncate(String path, long size, FileInfo fi) {
        Node node = nodes.get(path);
        if (node == null) {
            return -errno.enoent();
        }
        node.size = size;
        return 0;
    }

    @Override
    public int unlink(String path) {
        return nodes.remove(path) == null ? -errno.enoent() : 0;
    }

    @Override
    public int rename(String from, String to, int flags) {
        Node node = nodes.remove(from);
        if (node == null) {
            return -errno.enoent();
        }
        nodes.put(to, node);
        return 0;
    }

    @Override
    public int chmod(String path, int mode, FileInfo fi) {
        Node node = nodes.get(path);
        if (node == null) {
            return -errno.enoent();
        }
        node.mode = Stat.S_IFREG | mode & 07777;
        return 0;
    }

    @Override
    public int utimens(String path, TimeSpec atime, TimeSpec mtime, FileInfo fi) {
        return 0;
    }

    @Override
    public int readdir(String path, DirFiller filler, long offset, FileInfo fi, int flags) {
        try {
            filler.fill(".");
            filler.fill("..");
            for (String name : nodes.keySet()) {
                if (name.length() > 1) {
                    filler.fill(name.substring(1));
                }
            }
            return 0;
        } catch (java.io.IOException error) {
            return -errno.eio();
        }
    }
}
