#define _GNU_SOURCE
/* A directory, as it is, without a libc: each function is one system call, and runs in the programs
 * themselves. DEFUSE's paper calls this the direct wrapper.
 *
 *     cc -O2 -shared -fPIC -I include -o libdirect.so direct.c
 *     culvert run --mount type=./libdirect.so,source=/data,target=/mnt -- ls -l /mnt
 *
 * As all of it is a directory of the kernel's, it says so (direct_tree), and the kernel serves programs
 * itself. With option calls it does not, and each function is called.
 */
#include <culvert/freestanding.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

static long call(long number, long a, long b, long c, long d)
{
    return culvert_syscall(number, a, b, c, d, 0, 0);
}

/* What a function returns for what a system call has returned. */
static int result(long done)
{
    return done < 0 ? (int)-done : 0;
}

/* An open file: a descriptor that is kept. */
static int number(void *kept)
{
    return culvert_number(kept);
}

struct direct {
    struct culvert_kept *root;
    int calls;
};

static int root(void *state)
{
    return culvert_number(((struct direct *)state)->root);
}

static long text(const char *path)
{
    return (long)(*path ? path : ".");
}

static int init(const struct culvert_mount *mount, void **state)
{
    struct direct *direct;
    int calls = 0;
    long fd;
    for (size_t i = 0; i < mount->option_count; i++) {
        if (strcmp(mount->options[i], "calls")) {
            strcpy(mount->reason, "direct has one option, calls");
            return EINVAL;
        }
        calls = 1;
    }
    fd = call(SYS_open, (long)mount->source, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return result(fd);
    direct = malloc(sizeof *direct);
    if (!direct) {
        call(SYS_close, fd, 0, 0, 0);
        return ENOMEM;
    }
    direct->root = culvert_keep((int)fd);
    direct->calls = calls;
    *state = direct;
    return 0;
}

static void finalize(void *state)
{
    culvert_drop(((struct direct *)state)->root);
    free(state);
}

static int direct_tree(void *state, int *fd)
{
    *fd = root(state);
    return ((struct direct *)state)->calls ? ENOSYS : 0;
}

static int direct_open(void *state, const char *path, int flags, mode_t mode, void **file)
{
    long fd;
    /* Offsets come with each call. */
    flags &= ~(O_APPEND | O_DIRECT);
    if (flags & O_CREAT)
        flags |= O_EXCL;
    /* What is no file by now is found out by fgetattr (CULVERT_OPENS_FILES). */
    flags |= O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
    fd = call(SYS_openat, root(state), text(path), flags | O_NONBLOCK, 0);
    /* A lease, on which others have to be waited for: then it is a file. */
    if (fd == -EAGAIN)
        fd = call(SYS_openat, root(state), text(path), flags, 0);
    if (fd < 0)
        return result(fd);
    if (flags & O_CREAT) {
        long done = call(SYS_fchmod, fd, mode, 0, 0);
        if (done < 0) {
            call(SYS_close, fd, 0, 0, 0);
            return result(done);
        }
    }
    *file = culvert_keep((int)fd);
    return 0;
}

static int direct_close(void *state, void *file)
{
    (void)state;
    culvert_drop(file);
    return 0;
}

static int direct_descriptor(void *state, void *file, int *fd)
{
    (void)state;
    *fd = number(file);
    return 0;
}

static int moved(long count, size_t *done)
{
    *done = count < 0 ? 0 : (size_t)count;
    return result(count);
}

static int direct_read(void *state, void *file, void *buffer, size_t size, off_t offset, size_t *done)
{
    (void)state;
    return moved(call(SYS_pread64, number(file), (long)buffer, (long)size, offset), done);
}

static int direct_write(void *state, void *file, const void *buffer, size_t size, off_t offset,
                        size_t *done)
{
    (void)state;
    return moved(call(SYS_pwrite64, number(file), (long)buffer, (long)size, offset), done);
}

static int direct_copy(void *state, void *from, off_t offset, void *to, off_t to_offset, size_t length,
                       size_t *done)
{
    (void)state;
    return moved(culvert_syscall(SYS_copy_file_range, number(from), (long)&offset, number(to),
                                 (long)&to_offset, (long)length, 0),
                 done);
}

static int direct_fsync(void *state, void *file, int data_only)
{
    (void)state;
    return result(call(data_only ? SYS_fdatasync : SYS_fsync, number(file), 0, 0, 0));
}

static int direct_ftruncate(void *state, void *file, off_t size)
{
    (void)state;
    return result(call(SYS_ftruncate, number(file), size, 0, 0));
}

static int direct_fgetattr(void *state, void *file, struct stat *found)
{
    (void)state;
    return result(call(SYS_fstat, number(file), (long)found, 0, 0));
}

static int direct_fallocate(void *state, void *file, int mode, off_t offset, off_t length)
{
    (void)state;
    return result(call(SYS_fallocate, number(file), mode, offset, length));
}

static int direct_lseek(void *state, void *file, off_t offset, int whence, off_t *found)
{
    (void)state;
    *found = call(SYS_lseek, number(file), offset, whence, 0);
    return result(*found);
}

static int direct_getattr(void *state, const char *path, struct stat *found)
{
    return result(call(SYS_newfstatat, root(state), text(path), (long)found, AT_SYMLINK_NOFOLLOW));
}

static int direct_truncate(void *state, const char *path, off_t size)
{
    long done, fd = call(SYS_openat, root(state), text(path), O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return result(fd);
    done = call(SYS_ftruncate, fd, size, 0, 0);
    call(SYS_close, fd, 0, 0, 0);
    return result(done);
}

static int direct_readlink(void *state, const char *path, char *buffer, size_t size)
{
    long length = call(SYS_readlinkat, root(state), text(path), (long)buffer, (long)size - 1);
    if (length >= 0)
        buffer[length] = 0;
    return result(length);
}

static int direct_unlink(void *state, const char *path)
{
    return result(call(SYS_unlinkat, root(state), (long)path, 0, 0));
}

static int direct_mkdir(void *state, const char *path, mode_t mode)
{
    long done = call(SYS_mkdirat, root(state), (long)path, mode, 0);
    if (done == 0)
        done = call(SYS_fchmodat, root(state), (long)path, mode, 0);
    return result(done);
}

static int direct_rmdir(void *state, const char *path)
{
    return result(call(SYS_unlinkat, root(state), (long)path, AT_REMOVEDIR, 0));
}

/* struct linux_dirent64 of getdents64(2). */
struct entry {
    uint64_t inode;
    int64_t next;
    uint16_t length;
    uint8_t type;
    char name[];
};

static int direct_getdirents(void *state, const char *path, struct culvert_dirent *entries,
                             size_t capacity, size_t *count)
{
    char bytes[16384] __attribute__((aligned(8)));
    long fd, filled;
    fd = call(SYS_openat, root(state), text(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return result(fd);
    while ((filled = call(SYS_getdents64, fd, (long)bytes, sizeof bytes, 0)) > 0) {
        for (long at = 0; at < filled; at += ((struct entry *)(bytes + at))->length) {
            const struct entry *found = (const struct entry *)(bytes + at);
            mode_t type = DTTOIF(found->type);
            if (!strcmp(found->name, ".") || !strcmp(found->name, ".."))
                continue;
            /* Some file systems do not say it. */
            if (found->type == DT_UNKNOWN) {
                struct stat one;
                long done = call(SYS_newfstatat, fd, (long)found->name, (long)&one, AT_SYMLINK_NOFOLLOW);
                if (done == -ENOENT)
                    continue;
                if (done < 0) {
                    call(SYS_close, fd, 0, 0, 0);
                    return result(done);
                }
                type = one.st_mode & S_IFMT;
            }
            if (*count < capacity) {
                entries[*count].inode = found->inode;
                entries[*count].type = type;
                strcpy(entries[*count].name, found->name);
            }
            ++*count;
        }
    }
    call(SYS_close, fd, 0, 0, 0);
    return result(filled);
}

static int direct_chown(void *state, const char *path, uid_t uid, gid_t gid)
{
    return result(culvert_syscall(SYS_fchownat, root(state), text(path), uid, gid,
                                  AT_SYMLINK_NOFOLLOW, 0));
}

static int direct_chmod(void *state, const char *path, mode_t mode)
{
    return result(call(SYS_fchmodat, root(state), text(path), mode, 0));
}

static int direct_rename(void *state, const char *from, const char *to, unsigned flags)
{
    return result(culvert_syscall(SYS_renameat2, root(state), (long)from, root(state), (long)to,
                                  flags, 0));
}

static int direct_utime(void *state, const char *path, const struct timespec times[2])
{
    return result(call(SYS_utimensat, root(state), text(path), (long)times, AT_SYMLINK_NOFOLLOW));
}

static int direct_symlink(void *state, const char *target, const char *path)
{
    return result(call(SYS_symlinkat, (long)target, root(state), (long)path, 0));
}

static int direct_link(void *state, const char *path, const char *name)
{
    return result(culvert_syscall(SYS_linkat, root(state), (long)path, root(state), (long)name, 0,
                                  0));
}

static int direct_mknod(void *state, const char *path, mode_t mode, dev_t device)
{
    long done = call(SYS_mknodat, root(state), (long)path, mode, (long)device);
    if (done == 0)
        done = call(SYS_fchmodat, root(state), (long)path, mode & 07777, 0);
    return result(done);
}

static int direct_statfs(void *state, struct statvfs *found)
{
    struct statfs is;
    long done = call(SYS_fstatfs, root(state), (long)&is, 0, 0);
    if (done == 0) {
        found->f_bsize = is.f_bsize;
        found->f_frsize = is.f_frsize ? is.f_frsize : is.f_bsize;
        found->f_blocks = is.f_blocks;
        found->f_bfree = is.f_bfree;
        found->f_bavail = is.f_bavail;
        found->f_files = is.f_files;
        found->f_ffree = is.f_ffree;
        found->f_namemax = is.f_namelen;
    }
    return result(done);
}

const struct culvert_driver culvert_driver = {
    .version = CULVERT_DRIVER_VERSION,
    .size = sizeof culvert_driver,
    .flags = CULVERT_STATELESS | CULVERT_KEEPS_UNLINKED | CULVERT_OPENS_FILES,
    .init = init,
    .finalize = finalize,
    .open = direct_open,
    .close = direct_close,
    .read = direct_read,
    .write = direct_write,
    .fsync = direct_fsync,
    .ftruncate = direct_ftruncate,
    .fgetattr = direct_fgetattr,
    .getattr = direct_getattr,
    .truncate = direct_truncate,
    .readlink = direct_readlink,
    .unlink = direct_unlink,
    .mkdir = direct_mkdir,
    .rmdir = direct_rmdir,
    .getdirents = direct_getdirents,
    .chown = direct_chown,
    .chmod = direct_chmod,
    .rename = direct_rename,
    .utime = direct_utime,
    .symlink = direct_symlink,
    .link = direct_link,
    .mknod = direct_mknod,
    .statfs = direct_statfs,
    .fallocate = direct_fallocate,
    .lseek = direct_lseek,
    .descriptor = direct_descriptor,
    .copy = direct_copy,
    .tree = direct_tree,
};
