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
    private int root = -1;
    private String rootPath;

    /** A method before the call. */
    private interface Before {
        int call(Call call) throws Exception;
    }

    /** The system call. */
    private interface Step {
        long call(Native own) throws Exception;
    }

    /** A method behind the call. */
    private interface After {
        int call(Call call, int result) throws Exception;
    }

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
    private long around(String what, Call call, Before before, Step step, After after)
            throws Exception {
        long result = pre ? before.call(call) : 0;
        if (system && result >= 0) {
            result = step.call(Native.own());
        }
        if (post) {
            result = after.call(call, (int) result);
        }
        if (debug) {
            System.err.println(what + " " + call.path + " = " + result);
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
    private static long found(Native own, Call call, long result) {
        if (result >= 0) {
            Memory.read(call.stat, own.room);
        }
        return result;
    }

    @Override
    public void getattr(String path, Stat stat) throws Exception {
        Call call = new Call(path);
        call.stat = stat;
        around("getattr", call, hooks::getattr_pre,
            own -> found(own, call, own.fstatat(root, call.path)), hooks::getattr_post);
    }

    @Override
    public void fgetattr(Object file, Stat stat) throws Exception {
        Call call = of(file);
        call.stat = stat;
        around("fgetattr", call, hooks::fgetattr_pre,
            own -> found(own, call, own.fstat(call.file)), hooks::fgetattr_post);
    }

    @Override
    public String readlink(String path) throws Exception {
        Call call = new Call(path);
        around("readlink", call, hooks::readlink_pre, own -> {
            long length = own.readlinkat(root, call.path);
            if (length >= 0) {
                call.other = Memory.decode(own.room.asSlice(0, length));
            }
            return length;
        }, hooks::readlink_post);
        return call.other;
    }

    @Override
    public void readdir(String path, Directory names) throws Exception {
        Call call = new Call(path);
        call.flags = Native.O_DIRECTORY;
        List<Name> found = new ArrayList<>();
        try {
            around("opendir", call, hooks::opendir_pre, own -> {
                call.file = own.openat(root, call.path, call.flags, 0);
                return call.file;
            }, hooks::opendir_post);
            around("readdir", call, hooks::readdir_pre, own -> list(own, call.file, found),
                hooks::readdir_post);
        } finally {
            if (call.file >= 0) {
                around("releasedir", call, hooks::releasedir_pre, own -> own.close(call.file),
                    hooks::releasedir_post);
            }
        }
        Native own = Native.own();
        String prefix = call.path.isEmpty() ? "" : call.path + "/";
        for (Name one : found) {
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

    private record Name(String name, int type, long inode) {
    }

    private static long list(Native own, int file, List<Name> names) {
        while (file >= 0) {
            int length = own.getdents(file);
            if (length <= 0) {
                return length;
            }
            for (int at = 0; at < length; at += own.length(at)) {
                String name = Memory.text(own.room, at + 19);
                if (!name.equals(".") && !name.equals("..")) {
                    names.add(new Name(name, own.type(at), own.room.get(ValueLayout.JAVA_LONG, at)));
                }
            }
        }
        return 0;
    }

    private record Open(int file, String path) {
    }

    private static Call of(Object file) {
        Open open = (Open) file;
        Call call = new Call(open.path);
        call.file = open.file;
        return call;
    }

    @Override
    public Object open(String path, int flags, int mode) throws Exception {
        Call call = new Call(path);
        call.flags = flags & ~NOT_OURS;
        call.mode = mode;
        Step step = own -> call.file = own.openat(root, call.path, call.flags, call.mode);
        boolean done = false;
        try {
            if ((flags & O_CREAT) != 0) {
                around("create", call, hooks::create_pre, step, hooks::create_post);
            } else {
                around("open", call, hooks::open_pre, step, hooks::open_post);
            }
            done = true;
        } finally {
            if (!done && call.file >= 0) {
                Native.own().close(call.file);
            }
        }
        return new Open(call.file, call.path);
    }

    @Override
    public void close(Object file) throws Exception {
        Call call = of(file);
        around("release", call, hooks::release_pre,
            own -> call.file < 0 ? 0 : own.close(call.file), hooks::release_post);
    }

    @Override
    public long read(Object file, MemorySegment buffer, long offset) throws Exception {
        Call call = of(file);
        call.size = buffer.byteSize();
        call.offset = offset;
        call.data = data ? buffer : null;
        return around("read", call, hooks::read_pre, own -> {
            MemorySegment into = call.data == null ? buffer : call.data;
            return own.pread(call.file, into, Math.min(call.size, into.byteSize()), call.offset);
        }, hooks::read_post);
    }

    @Override
    public long write(Object file, MemorySegment buffer, long offset) throws Exception {
        Call call = of(file);
        call.size = buffer.byteSize();
        call.offset = offset;
        call.data = data ? buffer : null;
        return around("write", call, hooks::write_pre, own -> {
            MemorySegment from = call.data == null ? buffer : call.data;
            return own.pwrite(call.file, from, Math.min(call.size, from.byteSize()), call.offset);
        }, hooks::write_post);
    }

    @Override
    public void fsync(Object file, boolean dataOnly) throws Exception {
        Call call = of(file);
        call.flags = dataOnly ? 1 : 0;
        around("fsync", call, hooks::fsync_pre,
            own -> call.flags != 0 ? own.fdatasync(call.file) : own.fsync(call.file),
            hooks::fsync_post);
    }

    @Override
    public void flush(Object file) throws Exception {
        Call call = of(file);
        around("flush", call, hooks::flush_pre, own -> {
            // What a descriptor's close tells, while the file stays open.
            int copy = own.dup(call.file);
            return copy < 0 ? copy : own.close(copy);
        }, hooks::flush_post);
    }

    @Override
    public void ftruncate(Object file, long size) throws Exception {
        Call call = of(file);
        call.size = size;
        around("ftruncate", call, hooks::ftruncate_pre,
            own -> own.ftruncate(call.file, call.size), hooks::ftruncate_post);
    }

    @Override
    public void truncate(String path, long size) throws Exception {
        Call call = new Call(path);
        call.size = size;
        around("truncate", call, hooks::truncate_pre, own -> {
            int file = own.openat(root, call.path, Native.O_WRONLY, 0);
            if (file < 0) {
                return file;
            }
            int result = own.ftruncate(file, call.size);
            own.close(file);
            return result;
        }, hooks::truncate_post);
    }

    @Override
    public void unlink(String path) throws Exception {
        Call call = new Call(path);
        around("unlink", call, hooks::unlink_pre, own -> own.unlinkat(root, call.path, 0),
            hooks::unlink_post);
    }

    @Override
    public void rmdir(String path) throws Exception {
        Call call = new Call(path);
        around("rmdir", call, hooks::rmdir_pre,
            own -> own.unlinkat(root, call.path, Native.AT_REMOVEDIR), hooks::rmdir_post);
    }

    @Override
    public void mkdir(String path, int mode) throws Exception {
        Call call = new Call(path);
        call.mode = mode;
        around("mkdir", call, hooks::mkdir_pre, own -> own.mkdirat(root, call.path, call.mode),
            hooks::mkdir_post);
    }

    @Override
    public void mknod(String path, int mode, long device) throws Exception {
        Call call = new Call(path);
        call.mode = mode;
        call.device = device;
        around("mknod", call, hooks::mknod_pre,
            own -> own.mknodat(root, call.path, call.mode, call.device), hooks::mknod_post);
    }

    @Override
    public void symlink(String target, String path) throws Exception {
        Call call = new Call(path);
        call.other = target;
        around("symlink", call, hooks::symlink_pre,
            own -> own.symlinkat(call.other, root, call.path), hooks::symlink_post);
    }

    @Override
    public void link(String path, String name) throws Exception {
        Call call = new Call(path);
        call.other = name;
        around("link", call, hooks::link_pre, own -> own.linkat(root, call.path, call.other),
            hooks::link_post);
    }

    @Override
    public void rename(String from, String to, int flags) throws Exception {
        Call call = new Call(from);
        call.other = to;
        call.flags = flags;
        around("rename", call, hooks::rename_pre,
            own -> own.renameat2(root, call.path, call.other, call.flags), hooks::rename_post);
    }

    @Override
    public void chmod(String path, int mode) throws Exception {
        Call call = new Call(path);
        call.mode = mode;
        around("chmod", call, hooks::chmod_pre, own -> own.fchmodat(root, call.path, call.mode),
            hooks::chmod_post);
    }

    @Override
    public void chown(String path, int uid, int gid) throws Exception {
        Call call = new Call(path);
        call.uid = uid;
        call.gid = gid;
        around("chown", call, hooks::chown_pre,
            own -> own.fchownat(root, call.path, call.uid, call.gid), hooks::chown_post);
    }

    @Override
    public void utime(String path, Times times) throws Exception {
        Call call = new Call(path);
        call.times = times;
        around("utimens", call, hooks::utimens_pre, own -> {
            Times now = call.times;
            own.room.set(ValueLayout.JAVA_LONG, 0, now.atime());
            own.room.set(ValueLayout.JAVA_LONG, 8, (long) now.atimeNanos());
            own.room.set(ValueLayout.JAVA_LONG, 16, now.mtime());
            own.room.set(ValueLayout.JAVA_LONG, 24, (long) now.mtimeNanos());
            return own.utimensat(root, call.path);
        }, hooks::utimens_post);
    }

    @Override
    public void statfs(StatFs found) throws Exception {
        Call call = new Call("");
        call.statfs = found;
        around("statfs", call, hooks::statfs_pre, own -> {
            int result = own.fstatvfs(root);
            if (result >= 0) {
                Memory.read(call.statfs, own.room);
            }
            return result;
        }, hooks::statfs_post);
    }

    @Override
    public void fallocate(Object file, int mode, long offset, long length) throws Exception {
        Call call = of(file);
        call.flags = mode;
        call.offset = offset;
        call.size = length;
        around("fallocate", call, hooks::fallocate_pre,
            own -> own.fallocate(call.file, call.flags, call.offset, call.size),
            hooks::fallocate_post);
    }

    @Override
    public long lseek(Object file, long offset, int whence) throws Exception {
        Call call = of(file);
        call.offset = offset;
        call.flags = whence;
        // Offsets have 64 bits, results of methods 32: the place is in the parameters.
        around("lseek", call, hooks::lseek_pre, own -> {
            long found = own.lseek(call.file, call.offset, call.flags);
            call.offset = found;
            return Math.min(found, 0);
        }, hooks::lseek_post);
        return call.offset;
    }

    /** Attributes of links are the links' own: by a path that leads through the descriptor. */
    private String below(String path) {
        return path.isEmpty() ? rootPath + "/." : rootPath + "/" + path;
    }

    @Override
    public byte[] getxattr(String path, String name) throws Exception {
        Call call = new Call(path);
        call.name = name;
        call.data = Native.own().room;
        int length = (int) around("getxattr", call, hooks::getxattr_pre,
            own -> own.getxattr(below(call.path), call.name, call.data), hooks::getxattr_post);
        return call.data.asSlice(0, length).toArray(ValueLayout.JAVA_BYTE);
    }

    @Override
    public void setxattr(String path, String name, MemorySegment value, int flags)
            throws Exception {
        Call call = new Call(path);
        call.name = name;
        call.data = value;
        call.size = value.byteSize();
        call.flags = flags;
        around("setxattr", call, hooks::setxattr_pre, own -> own.setxattr(below(call.path),
            call.name, call.data, call.size, call.flags), hooks::setxattr_post);
    }

    @Override
    public List<String> listxattr(String path) throws Exception {
        Call call = new Call(path);
        call.data = Native.own().room;
        int length = (int) around("listxattr", call, hooks::listxattr_pre,
            own -> own.listxattr(below(call.path), call.data), hooks::listxattr_post);
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
        Call call = new Call(path);
        call.name = name;
        around("removexattr", call, hooks::removexattr_pre,
            own -> own.removexattr(below(call.path), call.name), hooks::removexattr_post);
    }
}
