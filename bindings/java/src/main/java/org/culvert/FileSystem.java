package org.culvert;

import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * A file system. An author extends it and overrides what the file system has; what is not overridden
 * is refused to programs as a file system refuses that has no such thing (EROFS, ENOSYS, EPERM,
 * EOPNOTSUPP), or done without it.
 *
 * <p>The class has a public constructor without parameters. Methods are called by several threads at
 * once, unless {@link #oneAtATime} says otherwise; none that removes or renames a path runs beside
 * another one that takes a path. Paths are relative to the mount, without a slash at either end; ""
 * is the root. Bytes of a name that are not UTF-8 are the characters U+DC80 to U+DCFF.
 *
 * <p>An {@link ErrnoException} is the call's error; exceptions of {@link java.nio.file} are those
 * that they stand for, {@link UnsupportedOperationException} is EOPNOTSUPP; every other is EIO, and
 * its trace goes to standard error.
 */
public abstract class FileSystem {
    /** For subclasses. */
    protected FileSystem() {
    }

    /**
     * The mount begins.
     *
     * @param mount what is mounted
     * @throws Exception the mount fails with its message
     */
    public void init(Mount mount) throws Exception {
    }

    /** The mount ends; not called when the host is killed. */
    public void destroy() {
    }

    /** @return whether the tree never changes: what was seen once is believed for ever */
    public boolean immutable() {
        return false;
    }

    /** @return whether an open file stays usable when its last name is removed */
    public boolean keepsUnlinked() {
        return false;
    }

    /** @return whether the methods are to be called one at a time */
    public boolean oneAtATime() {
        return false;
    }

    /** @return whether each read is to be asked, whatever the size in the attributes says */
    public boolean noCache() {
        return false;
    }

    /**
     * Attributes of a file, links not followed.
     *
     * @param path the file
     * @param stat to be filled in
     * @throws Exception the error
     */
    public abstract void getattr(String path, Stat stat) throws Exception;

    /**
     * Names of a directory.
     *
     * @param path the directory
     * @param names takes them
     * @throws Exception the error
     */
    public void readdir(String path, Directory names) throws Exception {
        throw new ErrnoException(ErrnoException.ENOSYS);
    }

    /**
     * Opens a file. Where it is not overridden the other methods get the path as file, as it was then:
     * for a tree in which nothing is renamed.
     *
     * @param path the file
     * @param flags of open(2); with O_CREAT the file does not exist yet
     * @param mode permissions of a file that is made, the umask applied
     * @return what the other methods get as {@code file}
     * @throws Exception the error
     */
    public Object open(String path, int flags, int mode) throws Exception {
        return path;
    }

    /**
     * The last descriptor was closed.
     *
     * @param file what open has returned
     * @throws Exception is ignored
     */
    public void close(Object file) throws Exception {
    }

    /**
     * Reads.
     *
     * @param file what open has returned
     * @param buffer where the bytes go; valid during the call
     * @param offset where in the file they begin
     * @return how many bytes there are; 0 only at or behind the end
     * @throws Exception the error
     */
    public long read(Object file, MemorySegment buffer, long offset) throws Exception {
        throw new ErrnoException(ErrnoException.ENOSYS);
    }

    /**
     * Writes.
     *
     * @param file what open has returned
     * @param buffer the bytes; valid during the call
     * @param offset where in the file they begin
     * @return how many bytes were written
     * @throws Exception the error
     */
    public long write(Object file, MemorySegment buffer, long offset) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Makes what was written durable.
     *
     * @param file what open has returned
     * @param dataOnly as for fdatasync(2)
     * @throws Exception the error
     */
    public void fsync(Object file, boolean dataOnly) throws Exception {
    }

    /**
     * Changes the size of an open file.
     *
     * @param file what open has returned
     * @param size the new size
     * @throws Exception the error
     */
    public void ftruncate(Object file, long size) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Attributes of an open file.
     *
     * @param file what open has returned
     * @param stat to be filled in
     * @throws Exception the error
     */
    public void fgetattr(Object file, Stat stat) throws Exception {
        throw new ErrnoException(ErrnoException.ENOSYS);
    }

    /**
     * Changes the size of a file.
     *
     * @param path the file
     * @param size the new size
     * @throws Exception the error
     */
    public void truncate(String path, long size) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Where a symbolic link leads.
     *
     * @param path the link
     * @return its target
     * @throws Exception the error
     */
    public String readlink(String path) throws Exception {
        throw new ErrnoException(ErrnoException.EINVAL);
    }

    /**
     * Removes a file's name.
     *
     * @param path the file
     * @throws Exception the error
     */
    public void unlink(String path) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Makes a directory.
     *
     * @param path the directory
     * @param mode its permissions
     * @throws Exception the error
     */
    public void mkdir(String path, int mode) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Removes an empty directory.
     *
     * @param path the directory
     * @throws Exception the error
     */
    public void rmdir(String path) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Changes the owner.
     *
     * @param path the file
     * @param uid -1: not changed
     * @param gid -1: not changed
     * @throws Exception the error
     */
    public void chown(String path, int uid, int gid) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Changes the permissions.
     *
     * @param path the file
     * @param mode 0 to 07777
     * @throws Exception the error
     */
    public void chmod(String path, int mode) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Whether the caller may use a file. Where it is not overridden, modes and owners decide.
     *
     * @param path the file
     * @param mode bits 4, 2 and 1: read, write, execute
     * @throws Exception the error: {@link ErrnoException#EACCES}
     */
    public void access(String path, int mode) throws Exception {
    }

    /**
     * Renames.
     *
     * @param from the old path
     * @param to the new one
     * @param flags of renameat2(2)
     * @throws Exception the error
     */
    public void rename(String from, String to, int flags) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Changes the times.
     *
     * @param path the file
     * @param times the new ones
     * @throws Exception the error
     */
    public void utime(String path, Times times) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Makes a symbolic link.
     *
     * @param target where it leads
     * @param path the link
     * @throws Exception the error
     */
    public void symlink(String target, String path) throws Exception {
        throw new ErrnoException(ErrnoException.EROFS);
    }

    /**
     * Gives a file a second name.
     *
     * @param path the file
     * @param name its second path
     * @throws Exception the error
     */
    public void link(String path, String name) throws Exception {
        throw new ErrnoException(ErrnoException.EPERM);
    }

    /**
     * Makes a FIFO, a socket or a device.
     *
     * @param path the file
     * @param mode type and permissions
     * @param device of a device
     * @throws Exception the error
     */
    public void mknod(String path, int mode, long device) throws Exception {
        throw new ErrnoException(ErrnoException.EPERM);
    }

    /**
     * What there is of space.
     *
     * @param found to be filled in
     * @throws Exception the error
     */
    public void statfs(StatFs found) throws Exception {
    }

    /**
     * A descriptor is being closed.
     *
     * @param file what open has returned
     * @throws Exception the error, which reaches close(2)
     */
    public void flush(Object file) throws Exception {
    }

    /**
     * Reserves or frees space.
     *
     * @param file what open has returned
     * @param mode of fallocate(2)
     * @param offset where it begins
     * @param length how many bytes
     * @throws Exception the error
     */
    public void fallocate(Object file, int mode, long offset, long length) throws Exception {
        throw new ErrnoException(ErrnoException.EOPNOTSUPP);
    }

    /**
     * Looks for data or a hole.
     *
     * @param file what open has returned
     * @param offset where to begin
     * @param whence SEEK_DATA (3) or SEEK_HOLE (4)
     * @return where it is
     * @throws Exception the error
     */
    public long lseek(Object file, long offset, int whence) throws Exception {
        throw new ErrnoException(ErrnoException.ENOSYS);
    }

    /**
     * The value of an extended attribute.
     *
     * @param path the file
     * @param name the attribute's
     * @return the value
     * @throws Exception the error: {@link ErrnoException#ENODATA} where there is none
     */
    public byte[] getxattr(String path, String name) throws Exception {
        throw new ErrnoException(ErrnoException.EOPNOTSUPP);
    }

    /**
     * Sets an extended attribute.
     *
     * @param path the file
     * @param name the attribute's
     * @param value the value; valid during the call
     * @param flags of setxattr(2)
     * @throws Exception the error
     */
    public void setxattr(String path, String name, MemorySegment value, int flags) throws Exception {
        throw new ErrnoException(ErrnoException.EOPNOTSUPP);
    }

    /**
     * Names of a file's extended attributes.
     *
     * @param path the file
     * @return the names
     * @throws Exception the error
     */
    public List<String> listxattr(String path) throws Exception {
        throw new ErrnoException(ErrnoException.EOPNOTSUPP);
    }

    /**
     * Removes an extended attribute.
     *
     * @param path the file
     * @param name the attribute's
     * @throws Exception the error
     */
    public void removexattr(String path, String name) throws Exception {
        throw new ErrnoException(ErrnoException.EOPNOTSUPP);
    }
}
