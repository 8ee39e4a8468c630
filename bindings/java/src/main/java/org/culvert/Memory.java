package org.culvert;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Between C's structures and strings and their Java forms, for x86-64. */
public final class Memory {
    private Memory() {
    }

    /**
     * Bytes of a name, without a NUL.
     *
     * @param text the name; U+DC80 to U+DCFF are bytes that are not UTF-8
     * @return its bytes
     */
    public static byte[] encode(String text) {
        return Text.encode(text);
    }

    /**
     * The name that bytes are.
     *
     * @param bytes without a NUL
     * @return the name
     */
    public static String decode(MemorySegment bytes) {
        return Text.decode(bytes.toArray(ValueLayout.JAVA_BYTE));
    }

    /**
     * A string that ends with NUL.
     *
     * @param memory where it is
     * @param at where it begins
     * @return the string
     */
    public static String text(MemorySegment memory, long at) {
        return Text.read(memory, at);
    }

    /**
     * Attributes.
     *
     * @param stat is filled in
     * @param memory a {@code struct stat}
     */
    public static void read(Stat stat, MemorySegment memory) {
        stat.read(memory, 0);
    }

    /**
     * What statvfs(3) says.
     *
     * @param found is filled in
     * @param memory a {@code struct statvfs}
     */
    public static void read(StatFs found, MemorySegment memory) {
        found.read(memory, 0);
    }
}
