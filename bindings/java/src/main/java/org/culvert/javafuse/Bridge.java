package org.culvert.javafuse;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.culvert.Directory;
import org.culvert.ErrnoException;
import org.culvert.FileSystem;
import org.culvert.Memory;
import org.culvert.Mount;
import org.culvert.Stat;
import org.culvert.StatFs;
import org.culvert.Times;

/** A {@link JavaFS} as a file system: before, system call, behind. */
public final class Bridge extends FileSystem {
    private static final int O_CREAT = 0100;
    /** Flags that are of the descriptor's, not the file's: appending is done where it is held. */
    private static final int NOT_OURS = 02000 | 0400 | 040000;

    private final JavaFS hooks;
    private final boolean pre;
    private final boolean post;
    private final boolean system;
    private final boolean data;
    private final boolean debug;
    int root = -1;
    private String rootPath;

    /**
     * Of {@code hooks}.
     *
     * @param hooks the author's
     * @param configuration what is called
     */
    public Bridge(JavaFS hooks, Configuration configuration) {
        this.hooks = hooks;
        this.pre = configuration.preCall;
        this.post = configuration.postCall;
        this.system = configuration.sysCall;
        this.data = !configuration.metaDataOnly;
        this.debug = configuration.debug;
    }

    static byte[] encode(String text) {
        return Memory.encode(text);
    }

    /** Before, the call, behind; an error is thrown. */
    private long run(Operation operation, Call call) throws Exception {
        long result = pre ? operation.before().call(hooks, call) : 0;
        if (system && result >= 0) {
            result = operation.step().call(this, Native.own(), call);
        }
        if (post) {
            result = operation.after().call(hooks, call, (int) result);
        }
        if (debug) {
            System.err.println(operation.name() + " " + call.path + " = " + result);
        }
        if (result < 0) {
            throw new ErrnoException((int) -result);
        }
        return result;
    }

    @Override
    public void init(Mount mount) throws Exception {
        root = Native.own().openat(Native.AT_FDCWD, mount.source(), Native.O_DIRECTORY, 0);
        if (root < 0) {
            throw new IllegalArgumentException(
                "source " + mount.source() + " cannot be opened as a directory: errno " + -root);
        }
        rootPath = "/proc/self/fd/" + root;
        hooks.init(mount);
    }

    @Override
    public void destroy() {
        hooks.destroy();
        Native.own().close(root);
    }

    @Override
    public boolean keepsUnlinked() {
        return true;
    }

    /** The attributes that the call has put into this thread's memory. */
    static long found(Native own, Call call, long result) {
        if (result >= 0) {
            Memory.read(call.stat, own.room);
        }
        return result;
    }

    private static Call at(String path) {
        return new Call(path);
    }

    private static Call of(Object file) {
        Open open = (Open) file;
        Call call = new Call(open.path);
        call.file = open.file;
        return call;
    }

    private record Open(int file, String path) {
    }

    @Override
    public void getattr(String path, Stat stat) throws Exception {
        Call call = at(path);
        call.stat = stat;
        run(Operation.GETATTR, call);
    }

    @Override
    public void fgetattr(Object file, Stat stat) throws Exception {
        Call call = of(file);
        call.stat = stat;
        run(Operation.FGETATTR, call);
    }

    @Override
    public String readlink(String path) throws Exception {
        Call call = at(path);
        run(Operation.READLINK, call);
        return call.other;
    }

    long readlink(Native own, Call call) {
        long length = own.readlinkat(root, call.path);
        if (length >= 0) {
            call.other = Memory.decode(own.room.asSlice(0, length));
        }
        return length;
    }

    @Override
    public void readdir(String path, Directory names) throws Exception {
        Call call = at(path);
        call.flags = Native.O_DIRECTORY;
        call.names = new ArrayList<>();
        try {
            run(Operation.OPENDIR, call);
            run(Operation.READDIR, call);
        } finally {
            if (call.file >= 0) {
                run(Operation.RELEASEDIR, call);
            }
        }
        Native own = Native.own();
        String prefix = call.path.isEmpty() ? "" : call.path + "/";
        for (Name one : call.names) {
            int type = one.type;
            // Some file systems do not tell (readdir(3)).
            if (type == 0 && own.fstatat(root, prefix + one.name) >= 0) {
                Stat stat = new Stat();
                Memory.read(stat, own.room);
                type = stat.mode & Stat.S_IFMT;
            }
            if (type != 0) {
                names.add(one.name, type, one.inode);
            }
        }
    }

    /** A name that a directory has. */
    record Name(String name, int type, long inode) {
    }

    static long list(Native own, Call call) {
        while (call.file >= 0) {
            int length = own.getdents(call.file);
            if (length <= 0) {
                return length;
            }
            for (int at = 0; at < length; at += own.length(at)) {
                String name = Memory.text(own.room, at + 19);
                if (!name.equals(".") && !name.equals("..")) {
                    long inode = own.room.get(ValueLayout.JAVA_LONG, at);
                    call.names.add(new Name(name, own.type(at), inode));
                }
            }
        }
        return 0;
    }

    @Override
    public Object open(String path, int flags, int mode) throws Exception {
        Call call = at(path);
        call.flags = flags & ~NOT_OURS;
        call.mode = mode;
        boolean done = false;
        try {
            run((flags & O_CREAT) != 0 ? Operation.CREATE : Operation.OPEN, call);
            done = true;
        } finally {
            if (!done && call.file >= 0) {
                Native.own().close(call.file);
            }
        }
        return new Open(call.file, call.path);
    }

    long opened(Native own, Call call) {
        call.file = own.openat(root, call.path, call.flags, call.mode);
        return call.file;
    }

    @Override
    public void close(Object file) throws Exception {
        run(Operation.RELEASE, of(file));
    }

    /** The part of a file that {@code buffer} is for. */
    private Call part(Object file, MemorySegment buffer, long offset) {
        Call call = of(file);
        call.buffer = buffer;
        call.data = data ? buffer : null;
        call.size = buffer.byteSize();
        call.offset = offset;
        return call;
    }

    @Override
    public long read(Object file, MemorySegment buffer, long offset) throws Exception {
        return run(Operation.READ, part(file, buffer, offset));
    }

    @Override
    public long write(Object file, MemorySegment buffer, long offset) throws Exception {
        return run(Operation.WRITE, part(file, buffer, offset));
    }

    @Override
    public void fsync(Object file, boolean dataOnly) throws Exception {
        Call call = of(file);
        call.flags = dataOnly ? 1 : 0;
        run(Operation.FSYNC, call);
    }

    @Override
    public void flush(Object file) throws Exception {
        run(Operation.FLUSH, of(file));
    }

    long flush(Native own, Call call) {
        // What a descriptor's close tells, while the file stays open.
        int copy = own.dup(call.file);
        return copy < 0 ? copy : own.close(copy);
    }

    @Override
    public void ftruncate(Object file, long size) throws Exception {
        Call call = of(file);
        call.size = size;
        run(Operation.FTRUNCATE, call);
    }

    @Override
    public void truncate(String path, long size) throws Exception {
        Call call = at(path);
        call.size = size;
        run(Operation.TRUNCATE, call);
    }

    long truncate(Native own, Call call) {
        int file = own.openat(root, call.path, Native.O_WRONLY, 0);
        if (file < 0) {
            return file;
        }
        int result = own.ftruncate(file, call.size);
        own.close(file);
        return result;
    }

    @Override
    public void unlink(String path) throws Exception {
        run(Operation.UNLINK, at(path));
    }

    @Override
    public void rmdir(String path) throws Exception {
        run(Operation.RMDIR, at(path));
    }

    @Override
    public void mkdir(String path, int mode) throws Exception {
        Call call = at(path);
        call.mode = mode;
        run(Operation.MKDIR, call);
    }

    @Override
    public void mknod(String path, int mode, long device) throws Exception {
        Call call = at(path);
        call.mode = mode;
        call.device = device;
        run(Operation.MKNOD, call);
    }

    @Override
    public void symlink(String target, String path) throws Exception {
        Call call = at(path);
        call.other = target;
        run(Operation.SYMLINK, call);
    }

    @Override
    public void link(String path, String name) throws Exception {
        Call call = at(path);
        call.other = name;
        run(Operation.LINK, call);
    }

    @Override
    public void rename(String from, String to, int flags) throws Exception {
        Call call = at(from);
        call.other = to;
        call.flags = flags;
        run(Operation.RENAME, call);
    }

    @Override
    public void chmod(String path, int mode) throws Exception {
        Call call = at(path);
        call.mode = mode;
        run(Operation.CHMOD, call);
    }

    @Override
    public void chown(String path, int uid, int gid) throws Exception {
        Call call = at(path);
        call.uid = uid;
        call.gid = gid;
        run(Operation.CHOWN, call);
    }

    @Override
    public void utime(String path, Times times) throws Exception {
        Call call = at(path);
        call.times = times;
        run(Operation.UTIMENS, call);
    }

    long utimens(Native own, Call call) {
        Times now = call.times;
        own.room.set(ValueLayout.JAVA_LONG, 0, now.atime());
        own.room.set(ValueLayout.JAVA_LONG, 8, (long) now.atimeNanos());
        own.room.set(ValueLayout.JAVA_LONG, 16, now.mtime());
        own.room.set(ValueLayout.JAVA_LONG, 24, (long) now.mtimeNanos());
        return own.utimensat(root, call.path);
    }

    @Override
    public void statfs(StatFs found) throws Exception {
        Call call = at("");
        call.statfs = found;
        run(Operation.STATFS, call);
    }

    long statfs(Native own, Call call) {
        int result = own.fstatvfs(root);
        if (result >= 0) {
            Memory.read(call.statfs, own.room);
        }
        return result;
    }

    @Override
    public void fallocate(Object file, int mode, long offset, long length) throws Exception {
        Call call = of(file);
        call.flags = mode;
        call.offset = offset;
        call.size = length;
        run(Operation.FALLOCATE, call);
    }

    @Override
    public long lseek(Object file, long offset, int whence) throws Exception {
        Call call = of(file);
        call.offset = offset;
        call.flags = whence;
        run(Operation.LSEEK, call);
        return call.offset;
    }

    /** Offsets have 64 bits, results of methods 32: the place is in the parameters. */
    long lseek(Native own, Call call) {
        long found = own.lseek(call.file, call.offset, call.flags);
        call.offset = found;
        return Math.min(found, 0);
    }

    /** Attributes of links are the links' own: by a path that leads through the descriptor. */
    String below(String path) {
        return path.isEmpty() ? rootPath + "/." : rootPath + "/" + path;
    }

    @Override
    public byte[] getxattr(String path, String name) throws Exception {
        Call call = at(path);
        call.name = name;
        call.data = Native.own().room;
        int length = (int) run(Operation.GETXATTR, call);
        return call.data.asSlice(0, length).toArray(ValueLayout.JAVA_BYTE);
    }

    @Override
    public void setxattr(String path, String name, MemorySegment value, int flags)
            throws Exception {
        Call call = at(path);
        call.name = name;
        call.data = value;
        call.size = value.byteSize();
        call.flags = flags;
        run(Operation.SETXATTR, call);
    }

    long setxattr(Native own, Call call) {
        return own.setxattr(below(call.path), call.name, call.data, call.size, call.flags);
    }

    @Override
    public List<String> listxattr(String path) throws Exception {
        Call call = at(path);
        call.data = Native.own().room;
        int length = (int) run(Operation.LISTXATTR, call);
        List<String> names = new ArrayList<>();
        for (long at = 0; at < length;) {
            String name = Memory.text(call.data, at);
            names.add(name);
            at += encode(name).length + 1;
        }
        return names;
    }

    @Override
    public void removexattr(String path, String name) throws Exception {
        Call call = at(path);
        call.name = name;
        run(Operation.REMOVEXATTR, call);
    }
}
