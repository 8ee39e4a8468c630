package org.culvert;

import java.util.Arrays;

/** The open files of a mount, by the numbers that the native side has for them. */
final class Files {
    private volatile Object[] files = new Object[64];
    private int[] free = new int[64];
    private int freed;
    /** No number is 0, which is a null pointer. */
    private int next = 1;

    synchronized long add(Object file) {
        int number = freed > 0 ? free[--freed] : next++;
        if (number == files.length) {
            files = Arrays.copyOf(files, 2 * number);
        }
        files[number] = file;
        return number;
    }

    Object get(long number) {
        return files[(int) number];
    }

    synchronized Object remove(long number) {
        Object file = files[(int) number];
        files[(int) number] = null;
        if (freed == free.length) {
            free = Arrays.copyOf(free, 2 * freed);
        }
        free[freed++] = (int) number;
        return file;
    }
}
