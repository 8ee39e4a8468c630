package org.culvert;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.culvert.javafuse.Bridge;
import org.culvert.javafuse.Configuration;
import org.culvert.javafuse.JavaFS;

/** What the native side calls: the functions of {@code culvert/driver.h}, with addresses as longs. */
final class Host {
    /** All of the process's memory: addresses come from the native side, which answers for them. */
    private static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
    private static final int O_CREAT = 0100;
    /** Bytes of a {@code struct culvert_dirent}: inode, type, name. */
    private static final int DIRENT = 272;
    private static final int NAME_MAX = 255;
    /** With more the caller does not ask again. */
    private static final int MOST_NAMES = 1 << 22;
    /** Flags of the driver, by the questions that the file system answers. */
    private static final int IMMUTABLE = 1;
    private static final int KEEPS_UNLINKED = 2;
    private static final int ONE_AT_A_TIME = 4;
    private static final int NO_CACHE = 8;
    /** The functions in their order in {@code struct culvert_driver}, and where the first stands. */
    private static final int FIRST = 24;
    private static final List<String> FUNCTIONS = List.of("finalize", "open", "close", "read",
        "write", "fsync", "ftruncate", "fgetattr", "save", "restore", "getattr", "truncate",
        "readlink", "unlink", "mkdir", "rmdir", "getdirentcount", "getdirents", "chown", "chmod",
        "access", "rename", "utime", "symlink", "link", "mknod", "statfs", "flush", "fallocate",
        "lseek", "getxattr", "setxattr", "listxattr", "removexattr");

    private final FileSystem system;
    private final boolean opens;
    private final Files files = new Files();
    /** A directory that had more names than there was room: it is asked for again at once. */
    private final ThreadLocal<Names> left = new ThreadLocal<>();

    private Host(FileSystem system) {
        this.system = system;
        this.opens = overrides("open");
    }

    /** A call whose error is a number. */
    private interface Call {
        void run() throws Exception;
    }

    private record Entry(byte[] name, int type, long inode) {
    }

    private record Names(String path, List<Entry> entries) {
    }

    /**
     * Fills in a driver.
     *
     * @param table the {@code struct culvert_driver}
     * @param mount the {@code struct culvert_mount}
     * @param why a buffer for the reason
     * @param size its bytes
     * @return whether there is a file system
     */
    static boolean begin(long table, long mount, long why, long size) {
        try {
            Mount mounted = mount(mount);
            FileSystem system = system(mounted);
            system.init(mounted);
            new Host(system).fill(table);
            return true;
        } catch (Throwable thrown) {
            String text = thrown.getMessage();
            if (!(thrown instanceof Refused)) {
                thrown.printStackTrace();
                text = thrown.toString();
            }
            byte[] bytes = Text.encode(String.valueOf(text));
            long count = Math.min(bytes.length, size - 1);
            MemorySegment.copy(bytes, 0, MEMORY, JAVA_BYTE, why, (int) count);
            MEMORY.set(JAVA_BYTE, why + count, (byte) 0);
            return false;
        }
    }

    /** Why there is no file system: a text for the user, no trace. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1;

        Refused(String why) {
            super(why);
        }
    }

    private static Mount mount(long at) {
        long options = MEMORY.get(JAVA_LONG, at + 16);
        long count = MEMORY.get(JAVA_LONG, at + 24);
        Map<String, String> found = new LinkedHashMap<>();
        for (long i = 0; i < count; i++) {
            String option = Text.read(MEMORY, MEMORY.get(JAVA_LONG, options + 8 * i));
            int equals = option.indexOf('=');
            found.put(equals < 0 ? option : option.substring(0, equals),
                equals < 0 ? "" : option.substring(equals + 1));
        }
        return new Mount(Text.read(MEMORY, MEMORY.get(JAVA_LONG, at)),
            Text.read(MEMORY, MEMORY.get(JAVA_LONG, at + 8)), Map.copyOf(found),
            MEMORY.get(JAVA_INT, at + 32) != 0);
    }

    private static FileSystem system(Mount mount) throws Exception {
        String file = mount.options().get("config");
        Configuration configuration = new Configuration();
        if (file != null) {
            try {
                configuration = Configuration.read(Path.of(file));
            } catch (IOException | IllegalArgumentException error) {
                throw new Refused("config=" + file + ": " + error.getMessage());
            }
        }
        String name = mount.options().getOrDefault("class", configuration.className);
        String path = mount.options().getOrDefault("classpath", configuration.classPath);
        if (name == null) {
            throw new Refused("no class; name one with class=PACKAGE.CLASS,classpath=JAR");
        }
        Class<?> found;
        try {
            found = Class.forName(name.replace('/', '.'), true, ClassPath.of(path));
        } catch (SecurityException error) {
            throw new Refused(error.getMessage());
        } catch (ClassNotFoundException | NoClassDefFoundError error) {
            throw new Refused("class " + name + " is not to be found (" + error.getMessage()
                + "); name its jar or directory with classpath=, which is "
                + (path == null ? "not given" : path));
        } catch (UnsupportedClassVersionError error) {
            throw new Refused("class " + name + ": " + error.getMessage()
                + "; name a newer JDK with jdk=DIRECTORY");
        }
        Object made;
        try {
            made = found.getConstructor().newInstance();
        } catch (NoSuchMethodException | IllegalAccessException | InstantiationException error) {
            throw new Refused("class " + name
                + " has no public constructor without parameters, or is not public");
        } catch (InvocationTargetException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
        if (made instanceof JavaFS hooks) {
            return new Bridge(hooks, configuration);
        }
        if (made instanceof FileSystem system) {
            return system;
        }
        throw new Refused("class " + name + " is no " + FileSystem.class.getName() + " and no "
            + JavaFS.class.getName());
    }

    /** Whether the author has written method {@code name}. */
    private boolean overrides(String name) {
        for (Method method : FileSystem.class.getDeclaredMethods()) {
            if (method.getName().equals(name)) {
                try {
                    return system.getClass().getMethod(name, method.getParameterTypes())
                        .getDeclaringClass() != FileSystem.class;
                } catch (NoSuchMethodException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
        return false;
    }

    private boolean has(String function) {
        return switch (function) {
            case "finalize", "open", "close", "getattr" -> true;
            case "save", "restore", "getdirentcount" -> false;
            case "getdirents" -> overrides("readdir");
            default -> overrides(function);
        };
    }

    private void fill(long table) throws Exception {
        long flags = (system.immutable() ? IMMUTABLE : 0)
            | (system.keepsUnlinked() ? KEEPS_UNLINKED : 0)
            | (system.oneAtATime() ? ONE_AT_A_TIME : 0) | (system.noCache() ? NO_CACHE : 0);
        MEMORY.set(JAVA_LONG, table + 8, flags);
        Linker linker = Linker.nativeLinker();
        MethodHandles.Lookup lookup = MethodHandles.lookup();
        for (Method method : Host.class.getDeclaredMethods()) {
            int index = FUNCTIONS.indexOf(method.getName());
            if (index < 0 || !has(method.getName())) {
                continue;
            }
            MethodType type = MethodType.methodType(method.getReturnType(),
                method.getParameterTypes());
            MethodHandle handle = lookup.findVirtual(Host.class, method.getName(), type);
            MemoryLayout[] parameters = new MemoryLayout[type.parameterCount()];
            for (int i = 0; i < parameters.length; i++) {
                parameters[i] = type.parameterType(i) == int.class ? JAVA_INT : JAVA_LONG;
            }
            FunctionDescriptor descriptor = type.returnType() == void.class
                ? FunctionDescriptor.ofVoid(parameters)
                : FunctionDescriptor.of(JAVA_INT, parameters);
            MemorySegment stub = linker.upcallStub(handle.bindTo(this), descriptor, Arena.global());
            MEMORY.set(JAVA_LONG, table + FIRST + 8L * index, stub.address());
        }
    }

    private static int answered(String operation, Call call) {
        try {
            call.run();
            return 0;
        } catch (Throwable thrown) {
            return Errors.number(operation, thrown);
        }
    }

    private static String text(long at) {
        return Text.read(MEMORY, at);
    }

    private static MemorySegment bytes(long at, long size) {
        return MEMORY.asSlice(at, size);
    }

    // The functions, by the names that they have in the table.

    void finalize(long state) {
        answered("destroy", system::destroy);
    }

    int open(long state, long path, int flags, int mode, long file) {
        if (!opens && (flags & O_CREAT) != 0) {
            return ErrnoException.ENOSYS;
        }
        return answered("open",
            () -> MEMORY.set(JAVA_LONG, file, files.add(system.open(text(path), flags, mode))));
    }

    int close(long state, long file) {
        return answered("close", () -> system.close(files.remove(file)));
    }

    int read(long state, long file, long buffer, long size, long offset, long done) {
        return answered("read", () -> MEMORY.set(JAVA_LONG, done,
            system.read(files.get(file), bytes(buffer, size), offset)));
    }

    int write(long state, long file, long buffer, long size, long offset, long done) {
        return answered("write", () -> MEMORY.set(JAVA_LONG, done,
            system.write(files.get(file), bytes(buffer, size).asReadOnly(), offset)));
    }

    int fsync(long state, long file, int dataOnly) {
        return answered("fsync", () -> system.fsync(files.get(file), dataOnly != 0));
    }

    int ftruncate(long state, long file, long size) {
        return answered("ftruncate", () -> system.ftruncate(files.get(file), size));
    }

    int fgetattr(long state, long file, long stat) {
        return answered("fgetattr", () -> {
            Stat found = new Stat();
            system.fgetattr(files.get(file), found);
            found.write(MEMORY, stat);
        });
    }

    int getattr(long state, long path, long stat) {
        return answered("getattr", () -> {
            Stat found = new Stat();
            system.getattr(text(path), found);
            found.write(MEMORY, stat);
        });
    }

    int truncate(long state, long path, long size) {
        return answered("truncate", () -> system.truncate(text(path), size));
    }

    int readlink(long state, long path, long buffer, long size) {
        return answered("readlink", () -> {
            byte[] target = Text.encode(system.readlink(text(path)));
            if (target.length >= size) {
                throw new ErrnoException(ErrnoException.ENAMETOOLONG);
            }
            MemorySegment.copy(target, 0, MEMORY, JAVA_BYTE, buffer, target.length);
            MEMORY.set(JAVA_BYTE, buffer + target.length, (byte) 0);
        });
    }

    int unlink(long state, long path) {
        return answered("unlink", () -> system.unlink(text(path)));
    }

    int mkdir(long state, long path, int mode) {
        return answered("mkdir", () -> system.mkdir(text(path), mode));
    }

    int rmdir(long state, long path) {
        return answered("rmdir", () -> system.rmdir(text(path)));
    }

    int getdirents(long state, long path, long entries, long capacity, long count) {
        return answered("readdir", () -> {
            String name = text(path);
            Names names = left.get();
            left.remove();
            if (names == null || !names.path.equals(name)) {
                names = new Names(name, new ArrayList<>());
                List<Entry> found = names.entries;
                system.readdir(name, (each, type, inode) -> {
                    if (each.equals(".") || each.equals("..")) {
                        return;
                    }
                    byte[] bytes = Text.encode(each);
                    if (bytes.length > NAME_MAX) {
                        throw new ErrnoException(ErrnoException.ENAMETOOLONG);
                    }
                    found.add(new Entry(bytes, type, inode));
                });
            }
            MEMORY.set(JAVA_LONG, count, (long) names.entries.size());
            if (names.entries.size() > capacity) {
                if (names.entries.size() <= MOST_NAMES) {
                    left.set(names);
                }
                return;
            }
            long at = entries;
            for (Entry entry : names.entries) {
                MEMORY.set(JAVA_LONG_UNALIGNED, at, entry.inode);
                MEMORY.set(JAVA_INT_UNALIGNED, at + 8, entry.type);
                int length = entry.name.length;
                MemorySegment.copy(entry.name, 0, MEMORY, JAVA_BYTE, at + 12, length);
                MEMORY.set(JAVA_BYTE, at + 12 + length, (byte) 0);
                at += DIRENT;
            }
        });
    }

    int chown(long state, long path, int uid, int gid) {
        return answered("chown", () -> system.chown(text(path), uid, gid));
    }

    int chmod(long state, long path, int mode) {
        return answered("chmod", () -> system.chmod(text(path), mode));
    }

    int access(long state, long path, int mode) {
        return answered("access", () -> system.access(text(path), mode));
    }

    int rename(long state, long from, long to, int flags) {
        return answered("rename", () -> system.rename(text(from), text(to), flags));
    }

    int utime(long state, long path, long times) {
        return answered("utime", () -> system.utime(text(path), new Times(
            MEMORY.get(JAVA_LONG, times), (int) MEMORY.get(JAVA_LONG, times + 8),
            MEMORY.get(JAVA_LONG, times + 16), (int) MEMORY.get(JAVA_LONG, times + 24))));
    }

    int symlink(long state, long target, long path) {
        return answered("symlink", () -> system.symlink(text(target), text(path)));
    }

    int link(long state, long path, long name) {
        return answered("link", () -> system.link(text(path), text(name)));
    }

    int mknod(long state, long path, int mode, long device) {
        return answered("mknod", () -> system.mknod(text(path), mode, device));
    }

    int statfs(long state, long statfs) {
        return answered("statfs", () -> {
            StatFs found = new StatFs();
            system.statfs(found);
            found.write(MEMORY, statfs);
        });
    }

    int flush(long state, long file) {
        return answered("flush", () -> system.flush(files.get(file)));
    }

    int fallocate(long state, long file, int mode, long offset, long length) {
        return answered("fallocate",
            () -> system.fallocate(files.get(file), mode, offset, length));
    }

    int lseek(long state, long file, long offset, int whence, long found) {
        return answered("lseek", () -> MEMORY.set(JAVA_LONG, found,
            system.lseek(files.get(file), offset, whence)));
    }

    int getxattr(long state, long path, long name, long value, long size) {
        return answered("getxattr",
            () -> fit(system.getxattr(text(path), text(name)), value, size));
    }

    int setxattr(long state, long path, long name, long value, long size, int flags) {
        return answered("setxattr", () -> system.setxattr(text(path), text(name),
            bytes(value, size).asReadOnly(), flags));
    }

    int listxattr(long state, long path, long names, long size) {
        return answered("listxattr", () -> {
            java.io.ByteArrayOutputStream all = new java.io.ByteArrayOutputStream();
            for (String name : system.listxattr(text(path))) {
                all.writeBytes(Text.encode(name));
                all.write(0);
            }
            fit(all.toByteArray(), names, size);
        });
    }

    int removexattr(long state, long path, long name) {
        return answered("removexattr", () -> system.removexattr(text(path), text(name)));
    }

    private static void fit(byte[] found, long value, long size) {
        if (found.length > MEMORY.get(JAVA_LONG, size)) {
            throw new ErrnoException(ErrnoException.ERANGE);
        }
        MemorySegment.copy(found, 0, MEMORY, JAVA_BYTE, value, found.length);
        MEMORY.set(JAVA_LONG, size, (long) found.length);
    }
}
