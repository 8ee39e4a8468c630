package org.culvert;

import java.nio.file.AccessDeniedException;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.NotLinkException;
import java.nio.file.ReadOnlyFileSystemException;

/** What an exception is to the program. */
final class Errors {
    private Errors() {
    }

    /** The number for {@code thrown}, whose trace goes to standard error where it has none. */
    static int number(String operation, Throwable thrown) {
        return switch (thrown) {
            case ErrnoException error when error.errno > 0 && error.errno < 512 -> error.errno;
            case NoSuchFileException error -> ErrnoException.ENOENT;
            case FileAlreadyExistsException error -> ErrnoException.EEXIST;
            case DirectoryNotEmptyException error -> ErrnoException.ENOTEMPTY;
            case NotDirectoryException error -> ErrnoException.ENOTDIR;
            case NotLinkException error -> ErrnoException.EINVAL;
            case AccessDeniedException error -> ErrnoException.EACCES;
            case FileSystemLoopException error -> ErrnoException.ELOOP;
            case AtomicMoveNotSupportedException error -> ErrnoException.EXDEV;
            case ReadOnlyFileSystemException error -> ErrnoException.EROFS;
            case UnsupportedOperationException error -> ErrnoException.EOPNOTSUPP;
            default -> told(operation, thrown);
        };
    }

    private static int told(String operation, Throwable thrown) {
        try {
            System.err.println(operation + ":");
            thrown.printStackTrace();
        } catch (Throwable again) {
            // There is no memory even for that.
        }
        return thrown instanceof OutOfMemoryError ? ErrnoException.ENOMEM : ErrnoException.EIO;
    }
}
