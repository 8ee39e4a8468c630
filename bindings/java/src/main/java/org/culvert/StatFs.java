package org.culvert;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.lang.foreign.MemorySegment;

/** What statvfs(3) says of a file system. */
public final class StatFs {
    /** Bytes of a block. */
    public long bsize = 4096;
    /** Bytes of the unit in which the next three count. */
    public long frsize = 4096;
    /** All blocks. */
    public long blocks;
    /** Free blocks. */
    public long bfree;
    /** Free blocks for users. */
    public long bavail;
    /** All inodes. */
    public long files;
    /** Free inodes. */
    public long ffree;
    /** Bytes of the longest name. */
    public long namemax = 255;

    /** From a {@code struct statvfs} of x86-64. */
    void read(MemorySegment memory, long at) {
        bsize = memory.get(JAVA_LONG_UNALIGNED, at);
        frsize = memory.get(JAVA_LONG_UNALIGNED, at + 8);
        blocks = memory.get(JAVA_LONG_UNALIGNED, at + 16);
        bfree = memory.get(JAVA_LONG_UNALIGNED, at + 24);
        bavail = memory.get(JAVA_LONG_UNALIGNED, at + 32);
        files = memory.get(JAVA_LONG_UNALIGNED, at + 40);
        ffree = memory.get(JAVA_LONG_UNALIGNED, at + 48);
        namemax = memory.get(JAVA_LONG_UNALIGNED, at + 80);
    }

    /** To a {@code struct statvfs} of x86-64. */
    void write(MemorySegment memory, long at) {
        memory.set(JAVA_LONG_UNALIGNED, at, bsize);
        memory.set(JAVA_LONG_UNALIGNED, at + 8, frsize);
        memory.set(JAVA_LONG_UNALIGNED, at + 16, blocks);
        memory.set(JAVA_LONG_UNALIGNED, at + 24, bfree);
        memory.set(JAVA_LONG_UNALIGNED, at + 32, bavail);
        memory.set(JAVA_LONG_UNALIGNED, at + 40, files);
        memory.set(JAVA_LONG_UNALIGNED, at + 48, ffree);
        memory.set(JAVA_LONG_UNALIGNED, at + 56, ffree);
        memory.set(JAVA_LONG_UNALIGNED, at + 80, namemax);
    }
}
