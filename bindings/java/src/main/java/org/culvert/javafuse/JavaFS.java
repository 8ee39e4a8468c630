package org.culvert.javafuse;

import org.culvert.Mount;

/**
 * A file system in JavaFuse's model: each operation is a system call on the source's directory, with
 * a method before it and one behind it. A class has those that it needs.
 *
 * <p>A method before the call returns 0, or the error of errno(3) as a negative number: the call is
 * left out then, and the error is its result. Where system calls are turned off what it returns is
 * the result. A method behind the call gets the result, which is negative for an error, and returns
 * what the program gets. An exception is EIO. Methods are called by several threads at once.
 */
public interface JavaFS {
    /**
     * The mount begins.
     *
     * @param mount what is mounted
     * @throws Exception the mount fails with its message
     */
    default void init(Mount mount) throws Exception {
    }

    /** The mount ends. */
    default void destroy() {
    }

    /**
     * Before stat.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int getattr_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind stat.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int getattr_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before fstat.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int fgetattr_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind fstat.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int fgetattr_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before readlink.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int readlink_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind readlink.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int readlink_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before opening a directory.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int opendir_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind opening a directory.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int opendir_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before reading a directory.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int readdir_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind reading a directory.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int readdir_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before closing a directory.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int releasedir_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind closing a directory.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int releasedir_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before mknod.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int mknod_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind mknod.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int mknod_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before mkdir.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int mkdir_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind mkdir.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int mkdir_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before unlink.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int unlink_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind unlink.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int unlink_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before rmdir.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int rmdir_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind rmdir.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int rmdir_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before symlink.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int symlink_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind symlink.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int symlink_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before rename.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int rename_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind rename.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int rename_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before link.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int link_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind link.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int link_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before chmod.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int chmod_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind chmod.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int chmod_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before chown.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int chown_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind chown.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int chown_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before truncate.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int truncate_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind truncate.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int truncate_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before ftruncate.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int ftruncate_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind ftruncate.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int ftruncate_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before a change of times.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int utimens_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind a change of times.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int utimens_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before open.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int open_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind open.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int open_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before open with O_CREAT.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int create_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind open with O_CREAT.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int create_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before read.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int read_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind read.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int read_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before write.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int write_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind write.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int write_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before statfs.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int statfs_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind statfs.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int statfs_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before a descriptor's close.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int flush_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind a descriptor's close.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int flush_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before the last close.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int release_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind the last close.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int release_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before fsync.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int fsync_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind fsync.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int fsync_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before fallocate.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int fallocate_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind fallocate.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int fallocate_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before a search for data or a hole.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int lseek_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind a search for data or a hole.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int lseek_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before setxattr.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int setxattr_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind setxattr.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int setxattr_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before getxattr.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int getxattr_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind getxattr.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int getxattr_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before listxattr.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int listxattr_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind listxattr.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int listxattr_post(Call call, int result) throws Exception {
        return result;
    }

    /**
     * Before removexattr.
     *
     * @param call its parameters
     * @return 0 or a negative error
     * @throws Exception is EIO
     */
    default int removexattr_pre(Call call) throws Exception {
        return 0;
    }

    /**
     * Behind removexattr.
     *
     * @param call its parameters
     * @param result its result
     * @return what the program gets
     * @throws Exception is EIO
     */
    default int removexattr_post(Call call, int result) throws Exception {
        return result;
    }
}
