package org.culvert;

/** The error of a call: a number of errno(3). It has no trace, so that errors cost little. */
public final class ErrnoException extends RuntimeException {
    /** Operation not permitted. */
    public static final int EPERM = 1;
    /** No such file or directory. */
    public static final int ENOENT = 2;
    /** Interrupted. */
    public static final int EINTR = 4;
    /** Input or output error. */
    public static final int EIO = 5;
    /** Bad descriptor. */
    public static final int EBADF = 9;
    /** Try again. */
    public static final int EAGAIN = 11;
    /** Not enough memory. */
    public static final int ENOMEM = 12;
    /** Permission denied. */
    public static final int EACCES = 13;
    /** Busy. */
    public static final int EBUSY = 16;
    /** The file exists. */
    public static final int EEXIST = 17;
    /** Another file system. */
    public static final int EXDEV = 18;
    /** Not a directory. */
    public static final int ENOTDIR = 20;
    /** Is a directory. */
    public static final int EISDIR = 21;
    /** Invalid argument. */
    public static final int EINVAL = 22;
    /** The file is too large. */
    public static final int EFBIG = 27;
    /** No space left. */
    public static final int ENOSPC = 28;
    /** Read-only file system. */
    public static final int EROFS = 30;
    /** Result too large for the buffer. */
    public static final int ERANGE = 34;
    /** The name is too long. */
    public static final int ENAMETOOLONG = 36;
    /** Not implemented. */
    public static final int ENOSYS = 38;
    /** The directory is not empty. */
    public static final int ENOTEMPTY = 39;
    /** Too many symbolic links. */
    public static final int ELOOP = 40;
    /** No such attribute. */
    public static final int ENODATA = 61;
    /** Not supported. */
    public static final int EOPNOTSUPP = 95;

    private static final long serialVersionUID = 1;

    /** The number, positive. */
    public final int errno;

    /** @param errno the number, from 1 to 511 */
    public ErrnoException(int errno) {
        super("errno " + errno, null, false, false);
        this.errno = errno;
    }
}
