package org.culvert;

import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.lang.foreign.MemorySegment;
import java.time.Instant;

/** The attributes of a file, as stat(2) has them. A fresh one is all zeros. */
public final class Stat {
    /** The bits of {@link #mode} that are the type. */
    public static final int S_IFMT = 0170000;
    /** A socket. */
    public static final int S_IFSOCK = 0140000;
    /** A symbolic link. */
    public static final int S_IFLNK = 0120000;
    /** A regular file. */
    public static final int S_IFREG = 0100000;
    /** A block device. */
    public static final int S_IFBLK = 0060000;
    /** A directory. */
    public static final int S_IFDIR = 0040000;
    /** A character device. */
    public static final int S_IFCHR = 0020000;
    /** A FIFO. */
    public static final int S_IFIFO = 0010000;

    static final int SIZE = 144;

    /** Stable, equal for hard links only; 0: none. */
    public long ino;
    /** Type and permissions. */
    public int mode;
    /** Names of the file; 0: one. */
    public long nlink;
    /** The owner. */
    public int uid;
    /** The group. */
    public int gid;
    /** The device, of a device's file. */
    public long rdev;
    /** Bytes. */
    public long size;
    /** Bytes that are read well at once; 0: 4,096. */
    public long blksize;
    /** Units of 512 bytes that the file takes. */
    public long blocks;
    /** Time of the last read, seconds since 1970. */
    public long atime;
    /** Nanoseconds of {@link #atime}. */
    public int atimeNanos;
    /** Time of the last change of the content, seconds since 1970. */
    public long mtime;
    /** Nanoseconds of {@link #mtime}. */
    public int mtimeNanos;
    /** Time of the last change of the attributes, seconds since 1970. */
    public long ctime;
    /** Nanoseconds of {@link #ctime}. */
    public int ctimeNanos;

    /** @return whether it is a directory */
    public boolean isDirectory() {
        return (mode & S_IFMT) == S_IFDIR;
    }

    /** @param time the time of the last change of the content */
    public void setMtime(Instant time) {
        mtime = time.getEpochSecond();
        mtimeNanos = time.getNano();
    }

    /** @param time the time of the last read */
    public void setAtime(Instant time) {
        atime = time.getEpochSecond();
        atimeNanos = time.getNano();
    }

    /** @param time the time of the last change of the attributes */
    public void setCtime(Instant time) {
        ctime = time.getEpochSecond();
        ctimeNanos = time.getNano();
    }

    /** @param time the time of all three */
    public void setTimes(Instant time) {
        setAtime(time);
        setMtime(time);
        setCtime(time);
    }

    /** From a {@code struct stat} of x86-64. */
    void read(MemorySegment memory, long at) {
        ino = memory.get(JAVA_LONG_UNALIGNED, at + 8);
        nlink = memory.get(JAVA_LONG_UNALIGNED, at + 16);
        mode = memory.get(JAVA_INT_UNALIGNED, at + 24);
        uid = memory.get(JAVA_INT_UNALIGNED, at + 28);
        gid = memory.get(JAVA_INT_UNALIGNED, at + 32);
        rdev = memory.get(JAVA_LONG_UNALIGNED, at + 40);
        size = memory.get(JAVA_LONG_UNALIGNED, at + 48);
        blksize = memory.get(JAVA_LONG_UNALIGNED, at + 56);
        blocks = memory.get(JAVA_LONG_UNALIGNED, at + 64);
        atime = memory.get(JAVA_LONG_UNALIGNED, at + 72);
        atimeNanos = (int) memory.get(JAVA_LONG_UNALIGNED, at + 80);
        mtime = memory.get(JAVA_LONG_UNALIGNED, at + 88);
        mtimeNanos = (int) memory.get(JAVA_LONG_UNALIGNED, at + 96);
        ctime = memory.get(JAVA_LONG_UNALIGNED, at + 104);
        ctimeNanos = (int) memory.get(JAVA_LONG_UNALIGNED, at + 112);
    }

    /** To a {@code struct stat} of x86-64. */
    void write(MemorySegment memory, long at) {
        memory.set(JAVA_LONG_UNALIGNED, at + 8, ino);
        memory.set(JAVA_LONG_UNALIGNED, at + 16, nlink);
        memory.set(JAVA_INT_UNALIGNED, at + 24, mode);
        memory.set(JAVA_INT_UNALIGNED, at + 28, uid);
        memory.set(JAVA_INT_UNALIGNED, at + 32, gid);
        memory.set(JAVA_LONG_UNALIGNED, at + 40, rdev);
        memory.set(JAVA_LONG_UNALIGNED, at + 48, size);
        memory.set(JAVA_LONG_UNALIGNED, at + 56, blksize);
        memory.set(JAVA_LONG_UNALIGNED, at + 64, blocks);
        memory.set(JAVA_LONG_UNALIGNED, at + 72, atime);
        memory.set(JAVA_LONG_UNALIGNED, at + 80, (long) atimeNanos);
        memory.set(JAVA_LONG_UNALIGNED, at + 88, mtime);
        memory.set(JAVA_LONG_UNALIGNED, at + 96, (long) mtimeNanos);
        memory.set(JAVA_LONG_UNALIGNED, at + 104, ctime);
        memory.set(JAVA_LONG_UNALIGNED, at + 112, (long) ctimeNanos);
    }
}
