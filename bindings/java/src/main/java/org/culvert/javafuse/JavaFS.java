package org.culvert.javafuse;

import org.culvert.Mount;

/**
 * A file system in JavaFuse's model: each operation is a system call on the source's directory,
 * with a method before it and one behind it. A class has those that it needs.
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

    /** Before stat. */
    default int getattr_pre(Call call) throws Exception { return 0; }
    /** Behind stat. */
    default int getattr_post(Call call, int result) throws Exception { return result; }

    /** Before fstat. */
    default int fgetattr_pre(Call call) throws Exception { return 0; }
    /** Behind fstat. */
    default int fgetattr_post(Call call, int result) throws Exception { return result; }

    /** Before readlink. */
    default int readlink_pre(Call call) throws Exception { return 0; }
    /** Behind readlink. */
    default int readlink_post(Call call, int result) throws Exception { return result; }

    /** Before opening a directory. */
    default int opendir_pre(Call call) throws Exception { return 0; }
    /** Behind opening a directory. */
    default int opendir_post(Call call, int result) throws Exception { return result; }

    /** Before reading a directory. */
    default int readdir_pre(Call call) throws Exception { return 0; }
    /** Behind reading a directory. */
    default int readdir_post(Call call, int result) throws Exception { return result; }

    /** Before closing a directory. */
    default int releasedir_pre(Call call) throws Exception { return 0; }
    /** Behind closing a directory. */
    default int releasedir_post(Call call, int result) throws Exception { return result; }

    /** Before mknod. */
    default int mknod_pre(Call call) throws Exception { return 0; }
    /** Behind mknod. */
    default int mknod_post(Call call, int result) throws Exception { return result; }

    /** Before mkdir. */
    default int mkdir_pre(Call call) throws Exception { return 0; }
    /** Behind mkdir. */
    default int mkdir_post(Call call, int result) throws Exception { return result; }

    /** Before unlink. */
    default int unlink_pre(Call call) throws Exception { return 0; }
    /** Behind unlink. */
    default int unlink_post(Call call, int result) throws Exception { return result; }

    /** Before rmdir. */
    default int rmdir_pre(Call call) throws Exception { return 0; }
    /** Behind rmdir. */
    default int rmdir_post(Call call, int result) throws Exception { return result; }

    /** Before symlink. */
    default int symlink_pre(Call call) throws Exception { return 0; }
    /** Behind symlink. */
    default int symlink_post(Call call, int result) throws Exception { return result; }

    /** Before rename. */
    default int rename_pre(Call call) throws Exception { return 0; }
    /** Behind rename. */
    default int rename_post(Call call, int result) throws Exception { return result; }

    /** Before link. */
    default int link_pre(Call call) throws Exception { return 0; }
    /** Behind link. */
    default int link_post(Call call, int result) throws Exception { return result; }

    /** Before chmod. */
    default int chmod_pre(Call call) throws Exception { return 0; }
    /** Behind chmod. */
    default int chmod_post(Call call, int result) throws Exception { return result; }

    /** Before chown. */
    default int chown_pre(Call call) throws Exception { return 0; }
    /** Behind chown. */
    default int chown_post(Call call, int result) throws Exception { return result; }

    /** Before truncate. */
    default int truncate_pre(Call call) throws Exception { return 0; }
    /** Behind truncate. */
    default int truncate_post(Call call, int result) throws Exception { return result; }

    /** Before ftruncate. */
    default int ftruncate_pre(Call call) throws Exception { return 0; }
    /** Behind ftruncate. */
    default int ftruncate_post(Call call, int result) throws Exception { return result; }

    /** Before a change of times. */
    default int utimens_pre(Call call) throws Exception { return 0; }
    /** Behind a change of times. */
    default int utimens_post(Call call, int result) throws Exception { return result; }

    /** Before open. */
    default int open_pre(Call call) throws Exception { return 0; }
    /** Behind open. */
    default int open_post(Call call, int result) throws Exception { return result; }

    /** Before open with O_CREAT. */
    default int create_pre(Call call) throws Exception { return 0; }
    /** Behind open with O_CREAT. */
    default int create_post(Call call, int result) throws Exception { return result; }

    /** Before read. */
    default int read_pre(Call call) throws Exception { return 0; }
    /** Behind read. */
    default int read_post(Call call, int result) throws Exception { return result; }

    /** Before write. */
    default int write_pre(Call call) throws Exception { return 0; }
    /** Behind write. */
    default int write_post(Call call, int result) throws Exception { return result; }

    /** Before statfs. */
    default int statfs_pre(Call call) throws Exception { return 0; }
    /** Behind statfs. */
    default int statfs_post(Call call, int result) throws Exception { return result; }

    /** Before a descriptor's close. */
    default int flush_pre(Call call) throws Exception { return 0; }
    /** Behind a descriptor's close. */
    default int flush_post(Call call, int result) throws Exception { return result; }

    /** Before the last close. */
    default int release_pre(Call call) throws Exception { return 0; }
    /** Behind the last close. */
    default int release_post(Call call, int result) throws Exception { return result; }

    /** Before fsync. */
    default int fsync_pre(Call call) throws Exception { return 0; }
    /** Behind fsync. */
    default int fsync_post(Call call, int result) throws Exception { return result; }

    /** Before fallocate. */
    default int fallocate_pre(Call call) throws Exception { return 0; }
    /** Behind fallocate. */
    default int fallocate_post(Call call, int result) throws Exception { return result; }

    /** Before a search for data or a hole. */
    default int lseek_pre(Call call) throws Exception { return 0; }
    /** Behind a search for data or a hole. */
    default int lseek_post(Call call, int result) throws Exception { return result; }

    /** Before setxattr. */
    default int setxattr_pre(Call call) throws Exception { return 0; }
    /** Behind setxattr. */
    default int setxattr_post(Call call, int result) throws Exception { return result; }

    /** Before getxattr. */
    default int getxattr_pre(Call call) throws Exception { return 0; }
    /** Behind getxattr. */
    default int getxattr_post(Call call, int result) throws Exception { return result; }

    /** Before listxattr. */
    default int listxattr_pre(Call call) throws Exception { return 0; }
    /** Behind listxattr. */
    default int listxattr_post(Call call, int result) throws Exception { return result; }

    /** Before removexattr. */
    default int removexattr_pre(Call call) throws Exception { return 0; }
    /** Behind removexattr. */
    default int removexattr_post(Call call, int result) throws Exception { return result; }
}
