package org.culvert;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;

/** Names, as bytes and as characters: a byte that is not UTF-8 is a character U+DC80 to U+DCFF. */
final class Text {
    private static final char REPLACED = '\uFFFD';

    private Text() {
    }

    /** The string that begins at {@code at} and ends with NUL. */
    static String read(MemorySegment memory, long at) {
        String text = memory.getString(at);
        if (text.indexOf(REPLACED) < 0) {
            return text;
        }
        long end = at;
        while (memory.get(ValueLayout.JAVA_BYTE, end) != 0) {
            end++;
        }
        return decode(memory.asSlice(at, end - at).toArray(ValueLayout.JAVA_BYTE));
    }

    /** The characters of {@code bytes}. */
    static String decode(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.UTF_8);
        if (text.indexOf(REPLACED) < 0) {
            return text;
        }
        StringBuilder found = new StringBuilder(bytes.length);
        for (int at = 0; at < bytes.length;) {
            int length = sequence(bytes, at);
            if (length == 0) {
                found.append((char) (0xDC00 + (bytes[at++] & 0xFF)));
            } else {
                found.append(new String(bytes, at, length, StandardCharsets.UTF_8));
                at += length;
            }
        }
        return found.toString();
    }

    /** How long the sequence of UTF-8 at {@code at} is; 0: there is none. */
    private static int sequence(byte[] bytes, int at) {
        int first = bytes[at] & 0xFF;
        int length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3
            : first < 0xF5 ? 4 : 0;
        if (length == 0 || at + length > bytes.length) {
            return 0;
        }
        byte[] one = java.util.Arrays.copyOfRange(bytes, at, at + length);
        String text = new String(one, StandardCharsets.UTF_8);
        return java.util.Arrays.equals(text.getBytes(StandardCharsets.UTF_8), one) ? length : 0;
    }

    /** The bytes of {@code text}, without a NUL. */
    static byte[] encode(String text) {
        boolean plain = true;
        for (int i = 0; plain && i < text.length(); i++) {
            plain = !Character.isSurrogate(text.charAt(i));
        }
        if (plain) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
        java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
        for (int i = 0; i < text.length();) {
            int point = text.codePointAt(i);
            i += Character.charCount(point);
            if (point >= 0xDC80 && point <= 0xDCFF) {
                bytes.write(point - 0xDC00);
            } else {
                bytes.writeBytes(Character.toString(point).getBytes(StandardCharsets.UTF_8));
            }
        }
        return bytes.toByteArray();
    }
}
