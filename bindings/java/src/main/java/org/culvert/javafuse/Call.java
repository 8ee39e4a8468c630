package org.culvert.javafuse;

import java.lang.foreign.MemorySegment;
import java.util.List;
import org.culvert.Stat;
import org.culvert.StatFs;
import org.culvert.Times;

/**
 * The parameters of a call. What a hook before the call changes reaches the call, and what the call
 * has found or done reaches the hook behind it. Each operation uses those that it has.
 */
public final class Call {
    /** The path, from the source's directory, without a slash at its beginning. */
    public String path;
    /** The second path: of a rename, a link; of a symbolic link where it leads. */
    public String other;
    /** The name of an extended attribute. */
    public String name;
    /** Permissions. */
    public int mode;
    /** Flags of open(2), renameat2(2), setxattr(2), fallocate(2); of fsync whether data only. */
    public int flags;
    /** The new owner; -1: not changed. */
    public int uid;
    /** The new group; -1: not changed. */
    public int gid;
    /** The device of mknod. */
    public long device;
    /** Where in the file. */
    public long offset;
    /** How many bytes, or the new size of the file. */
    public long size;
    /** The descriptor of the open file. */
    public int file = -1;
    /**
     * The bytes of read, write, getxattr, setxattr and listxattr; null where only metadata are
     * asked for. Those of a write may be replaced by others. Valid during the call.
     */
    public MemorySegment data;
    /** The attributes. */
    public Stat stat;
    /** What statfs has found. */
    public StatFs statfs;
    /** New times. */
    public Times times;

    /** The bytes themselves, whether they are shown or not. */
    MemorySegment buffer;
    /** What a directory has. */
    List<Bridge.Name> names;

    /** What a read or a write is made with. */
    MemorySegment used() {
        return data == null ? buffer : data;
    }

    /** How many bytes of it. */
    long length() {
        return Math.min(size, used().byteSize());
    }

    Call(String path) {
        this.path = path;
    }
}
