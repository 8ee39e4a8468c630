package org.culvert.javafuse;

/**
 * An operation of JavaFuse's model; all that there are stand here once.
 *
 * @param name as methods before and behind it are called
 * @param before the method before the call
 * @param step the system call
 * @param after the method behind the call
 */
record Operation(String name, Before before, Step step, After after) {
    /** The method before the call. */
    interface Before {
        int call(JavaFS hooks, Call call) throws Exception;
    }

    /** The system call. */
    interface Step {
        long call(Bridge bridge, Native own, Call call) throws Exception;
    }

    /** The method behind the call. */
    interface After {
        int call(JavaFS hooks, Call call, int result) throws Exception;
    }

    static final Operation GETATTR = new Operation("getattr", JavaFS::getattr_pre,
        (bridge, own, call) -> Bridge.found(own, call, own.fstatat(bridge.root, call.path)),
        JavaFS::getattr_post);
    static final Operation FGETATTR = new Operation("fgetattr", JavaFS::fgetattr_pre,
        (bridge, own, call) -> Bridge.found(own, call, own.fstat(call.file)),
        JavaFS::fgetattr_post);
    static final Operation READLINK = new Operation("readlink", JavaFS::readlink_pre,
        Bridge::readlink,
        JavaFS::readlink_post);
    static final Operation OPENDIR = new Operation("opendir", JavaFS::opendir_pre,
        Bridge::opened,
        JavaFS::opendir_post);
    static final Operation READDIR = new Operation("readdir", JavaFS::readdir_pre,
        (bridge, own, call) -> Bridge.list(own, call),
        JavaFS::readdir_post);
    static final Operation RELEASEDIR = new Operation("releasedir", JavaFS::releasedir_pre,
        (bridge, own, call) -> own.close(call.file),
        JavaFS::releasedir_post);
    static final Operation OPEN = new Operation("open", JavaFS::open_pre,
        Bridge::opened,
        JavaFS::open_post);
    static final Operation CREATE = new Operation("create", JavaFS::create_pre,
        Bridge::opened,
        JavaFS::create_post);
    static final Operation RELEASE = new Operation("release", JavaFS::release_pre,
        (bridge, own, call) -> call.file < 0 ? 0 : own.close(call.file),
        JavaFS::release_post);
    static final Operation READ = new Operation("read", JavaFS::read_pre,
        (bridge, own, call) -> own.pread(call.file, call.used(), call.length(), call.offset),
        JavaFS::read_post);
    static final Operation WRITE = new Operation("write", JavaFS::write_pre,
        (bridge, own, call) -> own.pwrite(call.file, call.used(), call.length(), call.offset),
        JavaFS::write_post);
    static final Operation FSYNC = new Operation("fsync", JavaFS::fsync_pre,
        (bridge, own, call) -> call.flags != 0 ? own.fdatasync(call.file) : own.fsync(call.file),
        JavaFS::fsync_post);
    static final Operation FLUSH = new Operation("flush", JavaFS::flush_pre,
        Bridge::flush,
        JavaFS::flush_post);
    static final Operation FTRUNCATE = new Operation("ftruncate", JavaFS::ftruncate_pre,
        (bridge, own, call) -> own.ftruncate(call.file, call.size),
        JavaFS::ftruncate_post);
    static final Operation TRUNCATE = new Operation("truncate", JavaFS::truncate_pre,
        Bridge::truncate,
        JavaFS::truncate_post);
    static final Operation UNLINK = new Operation("unlink", JavaFS::unlink_pre,
        (bridge, own, call) -> own.unlinkat(bridge.root, call.path, 0),
        JavaFS::unlink_post);
    static final Operation RMDIR = new Operation("rmdir", JavaFS::rmdir_pre,
        (bridge, own, call) -> own.unlinkat(bridge.root, call.path, Native.AT_REMOVEDIR),
        JavaFS::rmdir_post);
    static final Operation MKDIR = new Operation("mkdir", JavaFS::mkdir_pre,
        (bridge, own, call) -> own.mkdirat(bridge.root, call.path, call.mode),
        JavaFS::mkdir_post);
    static final Operation MKNOD = new Operation("mknod", JavaFS::mknod_pre,
        (bridge, own, call) -> own.mknodat(bridge.root, call.path, call.mode, call.device),
        JavaFS::mknod_post);
    static final Operation SYMLINK = new Operation("symlink", JavaFS::symlink_pre,
        (bridge, own, call) -> own.symlinkat(call.other, bridge.root, call.path),
        JavaFS::symlink_post);
    static final Operation LINK = new Operation("link", JavaFS::link_pre,
        (bridge, own, call) -> own.linkat(bridge.root, call.path, call.other),
        JavaFS::link_post);
    static final Operation RENAME = new Operation("rename", JavaFS::rename_pre,
        (bridge, own, call) -> own.renameat2(bridge.root, call.path, call.other, call.flags),
        JavaFS::rename_post);
    static final Operation CHMOD = new Operation("chmod", JavaFS::chmod_pre,
        (bridge, own, call) -> own.fchmodat(bridge.root, call.path, call.mode),
        JavaFS::chmod_post);
    static final Operation CHOWN = new Operation("chown", JavaFS::chown_pre,
        (bridge, own, call) -> own.fchownat(bridge.root, call.path, call.uid, call.gid),
        JavaFS::chown_post);
    static final Operation UTIMENS = new Operation("utimens", JavaFS::utimens_pre,
        Bridge::utimens,
        JavaFS::utimens_post);
    static final Operation STATFS = new Operation("statfs", JavaFS::statfs_pre,
        Bridge::statfs,
        JavaFS::statfs_post);
    static final Operation FALLOCATE = new Operation("fallocate", JavaFS::fallocate_pre,
        (bridge, own, call) -> own.fallocate(call.file, call.flags, call.offset, call.size),
        JavaFS::fallocate_post);
    static final Operation LSEEK = new Operation("lseek", JavaFS::lseek_pre,
        Bridge::lseek,
        JavaFS::lseek_post);
    static final Operation GETXATTR = new Operation("getxattr", JavaFS::getxattr_pre,
        (bridge, own, call) -> own.getxattr(bridge.below(call.path), call.name, call.data),
        JavaFS::getxattr_post);
    static final Operation SETXATTR = new Operation("setxattr", JavaFS::setxattr_pre,
        Bridge::setxattr,
        JavaFS::setxattr_post);
    static final Operation LISTXATTR = new Operation("listxattr", JavaFS::listxattr_pre,
        (bridge, own, call) -> own.listxattr(bridge.below(call.path), call.data),
        JavaFS::listxattr_post);
    static final Operation REMOVEXATTR = new Operation("removexattr",
        JavaFS::removexattr_pre,
        (bridge, own, call) -> own.removexattr(bridge.below(call.path), call.name),
        JavaFS::removexattr_post);
}
