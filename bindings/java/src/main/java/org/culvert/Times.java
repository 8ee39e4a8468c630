package org.culvert;

/**
 * New times of a file, seconds since 1970 and nanoseconds; nanoseconds may be {@link #OMIT}.
 *
 * @param atime of the last read
 * @param atimeNanos its nanoseconds
 * @param mtime of the last change
 * @param mtimeNanos its nanoseconds
 */
public record Times(long atime, int atimeNanos, long mtime, int mtimeNanos) {
    /** Nanoseconds of a time that stays as it is ({@code UTIME_OMIT} of utimensat(2)). */
    public static final int OMIT = (1 << 30) - 2;
}
