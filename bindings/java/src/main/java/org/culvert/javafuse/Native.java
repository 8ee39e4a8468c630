package org.culvert.javafuse;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import org.culvert.ErrnoException;

/** The system calls, by libc. Each returns its result, or the error as a negative number. */
final class Native {
    static final int AT_FDCWD = -100;
    static final int AT_REMOVEDIR = 0x200;
    static final int AT_SYMLINK_NOFOLLOW = 0x100;
    static final int O_DIRECTORY = 0200000;
    static final int O_CLOEXEC = 02000000;
    static final int O_WRONLY = 1;

    private static final Linker LINKER = Linker.nativeLinker();
    private static final StructLayout STATE = Linker.Option.captureStateLayout();
    private static final VarHandle ERRNO =
        STATE.varHandle(MemoryLayout.PathElement.groupElement("errno"));
    private static final int PATH_MAX = 4096;

    private static final MethodHandle OPENAT = LINKER.downcallHandle(
        LINKER.defaultLookup().find("openat").orElseThrow(),
        FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT),
        Linker.Option.captureCallState("errno"), Linker.Option.firstVariadicArg(3));
    private static final MethodHandle CLOSE = of("close", JAVA_INT);
    private static final MethodHandle FSTATAT =
        of("fstatat", JAVA_INT, ADDRESS, ADDRESS, JAVA_INT);
    private static final MethodHandle FSTAT = of("fstat", JAVA_INT, ADDRESS);
    private static final MethodHandle READLINKAT =
        size("readlinkat", JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle UNLINKAT = of("unlinkat", JAVA_INT, ADDRESS, JAVA_INT);
    private static final MethodHandle MKDIRAT = of("mkdirat", JAVA_INT, ADDRESS, JAVA_INT);
    private static final MethodHandle MKNODAT =
        of("mknodat", JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG);
    private static final MethodHandle SYMLINKAT = of("symlinkat", ADDRESS, JAVA_INT, ADDRESS);
    private static final MethodHandle LINKAT =
        of("linkat", JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_INT);
    private static final MethodHandle RENAMEAT2 =
        of("renameat2", JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_INT);
    private static final MethodHandle FCHMODAT =
        of("fchmodat", JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT);
    private static final MethodHandle FCHOWNAT =
        of("fchownat", JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT, JAVA_INT);
    private static final MethodHandle UTIMENSAT =
        of("utimensat", JAVA_INT, ADDRESS, ADDRESS, JAVA_INT);
    private static final MethodHandle FTRUNCATE = of("ftruncate", JAVA_INT, JAVA_LONG);
    private static final MethodHandle PREAD =
        size("pread", JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle PWRITE =
        size("pwrite", JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle FSYNC = of("fsync", JAVA_INT);
    private static final MethodHandle FDATASYNC = of("fdatasync", JAVA_INT);
    private static final MethodHandle FALLOCATE =
        of("fallocate", JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle LSEEK = size("lseek", JAVA_INT, JAVA_LONG, JAVA_INT);
    private static final MethodHandle FSTATVFS = of("fstatvfs", JAVA_INT, ADDRESS);
    private static final MethodHandle GETDENTS =
        size("getdents64", JAVA_INT, ADDRESS, JAVA_LONG);
    private static final MethodHandle DUP = of("dup", JAVA_INT);
    private static final MethodHandle GETXATTR =
        size("lgetxattr", ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle SETXATTR =
        of("lsetxattr", ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT);
    private static final MethodHandle LISTXATTR =
        size("llistxattr", ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle REMOVEXATTR = of("lremovexattr", ADDRESS, ADDRESS);
    private static final ThreadLocal<Native> OWN = ThreadLocal.withInitial(Native::new);

    /** Memory of this thread. */
    private final MemorySegment state = Arena.ofAuto().allocate(STATE);
    private final MemorySegment first = Arena.ofAuto().allocate(PATH_MAX + 64);
    private final MemorySegment second = Arena.ofAuto().allocate(PATH_MAX + 64);
    /** For a structure, or names of a directory. */
    final MemorySegment room = Arena.ofAuto().allocate(1 << 16, 16);

    private Native() {
    }

    static Native own() {
        return OWN.get();
    }

    private static MethodHandle of(String name, MemoryLayout... parameters) {
        return handle(name, FunctionDescriptor.of(JAVA_INT, parameters));
    }

    private static MethodHandle size(String name, MemoryLayout... parameters) {
        return handle(name, FunctionDescriptor.of(JAVA_LONG, parameters));
    }

    private static MethodHandle handle(String name, FunctionDescriptor type) {
        return LINKER.downcallHandle(LINKER.defaultLookup().find(name).orElseThrow(), type,
            Linker.Option.captureCallState("errno"));
    }

    private static MemorySegment text(MemorySegment where, String text) {
        byte[] bytes = Bridge.encode(text);
        if (bytes.length >= PATH_MAX) {
            throw new ErrnoException(ErrnoException.ENAMETOOLONG);
        }
        MemorySegment.copy(bytes, 0, where, JAVA_BYTE, 0, bytes.length);
        where.set(JAVA_BYTE, bytes.length, (byte) 0);
        return where;
    }

    /** The root is its own directory. */
    private MemorySegment path(String path) {
        return text(first, path.isEmpty() ? "." : path);
    }

    private MemorySegment other(String path) {
        return text(second, path.isEmpty() ? "." : path);
    }

    private long answer(long result) {
        return result >= 0 ? result : -(int) ERRNO.get(state, 0L);
    }

    /** What cannot be thrown by a downcall. */
    private static IllegalStateException never(Throwable thrown) {
        return new IllegalStateException(thrown);
    }

    int openat(int directory, String path, int flags, int mode) {
        try {
            return (int) answer((int) OPENAT.invokeExact(state, directory, path(path),
                flags | O_CLOEXEC, mode));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int close(int file) {
        try {
            return (int) answer((int) CLOSE.invokeExact(state, file));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int fstatat(int directory, String path) {
        try {
            return (int) answer((int) FSTATAT.invokeExact(state,
                directory, path(path), room, AT_SYMLINK_NOFOLLOW));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int fstat(int file) {
        try {
            return (int) answer((int) FSTAT.invokeExact(state, file, room));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    long readlinkat(int directory, String path) {
        try {
            return answer((long) READLINKAT.invokeExact(state,
                directory, path(path), room, (long) PATH_MAX));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int unlinkat(int directory, String path, int flags) {
        try {
            return (int) answer((int) UNLINKAT.invokeExact(state, directory, path(path), flags));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int mkdirat(int directory, String path, int mode) {
        try {
            return (int) answer((int) MKDIRAT.invokeExact(state, directory, path(path), mode));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int mknodat(int directory, String path, int mode, long device) {
        try {
            return (int) answer((int) MKNODAT.invokeExact(state,
                directory, path(path), mode, device));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int symlinkat(String target, int directory, String path) {
        try {
            return (int) answer((int) SYMLINKAT.invokeExact(state,
                text(first, target), directory, other(path)));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int linkat(int directory, String path, String name) {
        try {
            return (int) answer((int) LINKAT.invokeExact(state,
                directory, path(path), directory, other(name), 0));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int renameat2(int directory, String from, String to, int flags) {
        try {
            return (int) answer((int) RENAMEAT2.invokeExact(state,
                directory, path(from), directory, other(to), flags));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int fchmodat(int directory, String path, int mode) {
        try {
            return (int) answer((int) FCHMODAT.invokeExact(state, directory, path(path), mode, 0));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int fchownat(int directory, String path, int uid, int gid) {
        try {
            return (int) answer((int) FCHOWNAT.invokeExact(state,
                directory, path(path), uid, gid, AT_SYMLINK_NOFOLLOW));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int utimensat(int directory, String path) {
        try {
            return (int) answer((int) UTIMENSAT.invokeExact(state,
                directory, path(path), room, AT_SYMLINK_NOFOLLOW));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int ftruncate(int file, long size) {
        try {
            return (int) answer((int) FTRUNCATE.invokeExact(state, file, size));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    long pread(int file, MemorySegment data, long size, long offset) {
        try {
            return answer((long) PREAD.invokeExact(state, file, data, size, offset));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    long pwrite(int file, MemorySegment data, long size, long offset) {
        try {
            return answer((long) PWRITE.invokeExact(state, file, data, size, offset));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int fsync(int file) {
        try {
            return (int) answer((int) FSYNC.invokeExact(state, file));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int fdatasync(int file) {
        try {
            return (int) answer((int) FDATASYNC.invokeExact(state, file));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int fallocate(int file, int mode, long offset, long length) {
        try {
            return (int) answer((int) FALLOCATE.invokeExact(state, file, mode, offset, length));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    long lseek(int file, long offset, int whence) {
        try {
            return answer((long) LSEEK.invokeExact(state, file, offset, whence));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int fstatvfs(int file) {
        try {
            return (int) answer((int) FSTATVFS.invokeExact(state, file, room));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int dup(int file) {
        try {
            return (int) answer((int) DUP.invokeExact(state, file));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    long getxattr(String path, String name, MemorySegment value) {
        try {
            return answer((long) GETXATTR.invokeExact(state,
                path(path), text(second, name), value, value.byteSize()));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int setxattr(String path, String name, MemorySegment value, long size, int flags) {
        try {
            return (int) answer((int) SETXATTR.invokeExact(state,
                path(path), text(second, name), value, size, flags));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    long listxattr(String path, MemorySegment names) {
        try {
            return answer((long) LISTXATTR.invokeExact(state, path(path), names, names.byteSize()));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int removexattr(String path, String name) {
        try {
            return (int) answer((int) REMOVEXATTR.invokeExact(state,
                path(path), text(second, name)));
        } catch (Throwable thrown) {
            throw thrown instanceof ErrnoException error ? error : never(thrown);
        }
    }

    int getdents(int file) {
        try {
            return (int) answer((long) GETDENTS.invokeExact(state, file, room, room.byteSize()));
        } catch (Throwable thrown) {
            throw never(thrown);
        }
    }

    /** The type, from the entry of getdents64(2) at {@code at}. */
    int type(long at) {
        return (room.get(JAVA_BYTE, at + 18) & 0xFF) << 12;
    }

    /** How long the entry at {@code at} is. */
    int length(long at) {
        return room.get(JAVA_SHORT_UNALIGNED, at + 16) & 0xFFFF;
    }
}
