import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.culvert.Directory;
import org.culvert.ErrnoException;
import org.culvert.FileSystem;
import org.culvert.Mount;
import org.culvert.Stat;
import org.culvert.StatFs;
import org.culvert.Times;

/** A store of keys and values, as files in one directory; extended attributes say more of a key. */
public class KeyValue extends FileSystem {
    private static final int O_EXCL = 0200;
    private static final int O_TRUNC = 01000;
    private static final int RENAME_NOREPLACE = 1;
    private static final int RENAME_EXCHANGE = 2;
    private static final int XATTR_CREATE = 1;
    private static final int XATTR_REPLACE = 2;

    /** A value; who has it open keeps it when its key is gone. */
    private static final class Value {
        final long inode;
        byte[] bytes = new byte[0];
        int size;
        final Stat stat = new Stat();
        final Map<String, byte[]> attributes = new TreeMap<>();

        Value(long inode, int mode) {
            this.inode = inode;
            stat.ino = inode;
            stat.mode = mode;
            stat.setTimes(Instant.now());
        }

        synchronized void resize(long wanted) {
            if (wanted > Integer.MAX_VALUE - 8) {
                throw new ErrnoException(ErrnoException.EFBIG);
            }
            if (wanted > bytes.length) {
                bytes = Arrays.copyOf(bytes, (int) Math.max(wanted, Math.min(2L * size, 1 << 30)));
            } else if (wanted < size) {
                Arrays.fill(bytes, (int) wanted, size, (byte) 0);
            }
            size = (int) wanted;
            stat.setMtime(Instant.now());
            stat.setCtime(Instant.now());
        }

        synchronized void fill(Stat found) {
            found.ino = inode;
            found.mode = stat.mode;
            found.nlink = 1;
            found.uid = stat.uid;
            found.gid = stat.gid;
            found.size = size;
            found.blocks = (size + 511) / 512;
            found.atime = stat.atime;
            found.atimeNanos = stat.atimeNanos;
            found.mtime = stat.mtime;
            found.mtimeNanos = stat.mtimeNanos;
            found.ctime = stat.ctime;
            found.ctimeNanos = stat.ctimeNanos;
        }
    }

    private final Map<String, Value> values = new TreeMap<>();
    private Value root;
    private long inodes = 1;

    @Override
    public void init(Mount mount) {
        root = new Value(inodes, Stat.S_IFDIR | 0755);
        own(root);
    }

    /** New files belong to who mounted. */
    private static void own(Value value) {
        try {
            java.nio.file.Path self = java.nio.file.Path.of("/proc/self");
            value.stat.uid = (int) java.nio.file.Files.getAttribute(self, "unix:uid");
            value.stat.gid = (int) java.nio.file.Files.getAttribute(self, "unix:gid");
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    @Override
    public boolean keepsUnlinked() {
        return true;
    }

    private Value find(String path) {
        Value value = path.isEmpty() ? root : values.get(path);
        if (value == null) {
            throw new ErrnoException(
                path.indexOf('/') < 0 ? ErrnoException.ENOENT : ErrnoException.ENOTDIR);
        }
        return value;
    }

    private void changed() {
        root.stat.setMtime(Instant.now());
        root.stat.setCtime(Instant.now());
    }

    @Override
    public synchronized void getattr(String path, Stat stat) {
        Value value = find(path);
        value.fill(stat);
        if (value == root) {
            stat.nlink = 2;
        }
    }

    @Override
    public void fgetattr(Object file, Stat stat) {
        ((Value) file).fill(stat);
    }

    @Override
    public synchronized void readdir(String path, Directory names) {
        if (find(path) != root) {
            throw new ErrnoException(ErrnoException.ENOTDIR);
        }
        values.forEach((name, value) -> names.add(name, Stat.S_IFREG, value.inode));
    }

    @Override
    public synchronized Object open(String path, int flags, int mode) {
        Value value = path.isEmpty() ? root : values.get(path);
        boolean creates = (flags & 0100) != 0;
        if (value != null && creates && (flags & O_EXCL) != 0) {
            throw new ErrnoException(ErrnoException.EEXIST);
        }
        if (value == null && creates) {
            value = new Value(++inodes, Stat.S_IFREG | mode & 07777);
            own(value);
            values.put(path, value);
            changed();
        }
        if (value == null) {
            return find(path);
        }
        if ((flags & O_TRUNC) != 0) {
            value.resize(0);
        }
        return value;
    }

    @Override
    public long read(Object file, MemorySegment buffer, long offset) {
        Value value = (Value) file;
        synchronized (value) {
            int count = (int) Math.clamp(value.size - offset, 0, buffer.byteSize());
            if (count > 0) {
                MemorySegment.copy(value.bytes, (int) offset, buffer, ValueLayout.JAVA_BYTE, 0,
                    count);
            }
            return count;
        }
    }

    @Override
    public long write(Object file, MemorySegment buffer, long offset) {
        Value value = (Value) file;
        synchronized (value) {
            long end = offset + buffer.byteSize();
            value.resize(Math.max(end, value.size));
            MemorySegment.copy(buffer, ValueLayout.JAVA_BYTE, 0, value.bytes, (int) offset,
                (int) buffer.byteSize());
            return buffer.byteSize();
        }
    }

    @Override
    public void ftruncate(Object file, long size) {
        ((Value) file).resize(size);
    }

    @Override
    public synchronized void truncate(String path, long size) {
        find(path).resize(size);
    }

    @Override
    public synchronized void unlink(String path) {
        find(path);
        values.remove(path);
        changed();
    }

    @Override
    public synchronized void rename(String from, String to, int flags) {
        Value value = find(from);
        Value other = values.get(to);
        if (flags == RENAME_EXCHANGE) {
            values.put(from, find(to));
        } else if (flags == RENAME_NOREPLACE && other != null) {
            throw new ErrnoException(ErrnoException.EEXIST);
        } else if (flags > RENAME_EXCHANGE) {
            throw new ErrnoException(ErrnoException.EINVAL);
        } else if (other != value) {
            values.remove(from);
        }
        values.put(to, value);
        value.stat.setCtime(Instant.now());
        changed();
    }

    @Override
    public synchronized void chmod(String path, int mode) {
        Value value = find(path);
        value.stat.mode = value.stat.mode & Stat.S_IFMT | mode;
        value.stat.setCtime(Instant.now());
    }

    @Override
    public synchronized void chown(String path, int uid, int gid) {
        Value value = find(path);
        value.stat.uid = uid == -1 ? value.stat.uid : uid;
        value.stat.gid = gid == -1 ? value.stat.gid : gid;
        // As chown(2) takes set-user-ID and set-group-ID.
        value.stat.mode &= (value.stat.mode & 010) == 0 ? ~04000 : ~06000;
        value.stat.setCtime(Instant.now());
    }

    @Override
    public synchronized void utime(String path, Times times) {
        Stat stat = find(path).stat;
        if (times.atimeNanos() != Times.OMIT) {
            stat.atime = times.atime();
            stat.atimeNanos = times.atimeNanos();
        }
        if (times.mtimeNanos() != Times.OMIT) {
            stat.mtime = times.mtime();
            stat.mtimeNanos = times.mtimeNanos();
        }
        stat.setCtime(Instant.now());
    }

    @Override
    public synchronized void statfs(StatFs found) {
        found.blocks = found.bfree = found.bavail = Runtime.getRuntime().maxMemory() / 4096;
        found.files = inodes;
    }

    @Override
    public void fsync(Object file, boolean dataOnly) {
        // Values live as long as the mount, as a file system in memory has them.
    }

    @Override
    public synchronized byte[] getxattr(String path, String name) {
        byte[] value = find(path).attributes.get(name);
        if (value == null) {
            throw new ErrnoException(ErrnoException.ENODATA);
        }
        return value;
    }

    @Override
    public synchronized void setxattr(String path, String name, MemorySegment value, int flags) {
        Map<String, byte[]> attributes = find(path).attributes;
        boolean exists = attributes.containsKey(name);
        if (exists && (flags & XATTR_CREATE) != 0) {
            throw new ErrnoException(ErrnoException.EEXIST);
        }
        if (!exists && (flags & XATTR_REPLACE) != 0) {
            throw new ErrnoException(ErrnoException.ENODATA);
        }
        attributes.put(name, value.toArray(ValueLayout.JAVA_BYTE));
        find(path).stat.setCtime(Instant.now());
    }

    @Override
    public synchronized List<String> listxattr(String path) {
        return new ArrayList<>(find(path).attributes.keySet());
    }

    @Override
    public synchronized void removexattr(String path, String name) {
        if (find(path).attributes.remove(name) == null) {
            throw new ErrnoException(ErrnoException.ENODATA);
        }
        find(path).stat.setCtime(Instant.now());
    }
}
