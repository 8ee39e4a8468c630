#define _GNU_SOURCE
/* A directory, as it is: every function of driver.h, by the system call that it is named after.
 *
 *     cc -shared -fPIC -I include -o libmirror.so mirror.c
 *     culvert run --mount type=./libmirror.so,source=/data,target=/mnt -- ls -l /mnt
 */
#include <culvert/driver.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static int root = -1;

/* An open file is its descriptor and one, so that it is not null. */
static int number(void *file)
{
    return (int)((intptr_t)file - 1);
}

static int result(long done)
{
    return done < 0 ? errno : 0;
}

static const char *at(const char *path)
{
    return *path ? path : ".";
}

static int init(const struct culvert_mount *mount, void **state)
{
    (void)state;
    for (size_t one = 0; one < mount->option_count; one++) {
        fprintf(stderr, "mirror has no option %s\n", mount->options[one]);
        return EINVAL;
    }
    root = open(mount->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return result(root);
}

static void finalize(void *state)
{
    (void)state;
    close(root);
}

static int mirror_open(void *state, const char *path, int flags, mode_t mode, void **file)
{
    int fd;
    (void)state;
    /* Offsets come with each call, and a file may be read that was opened for writing only. */
    flags &= ~(O_APPEND | O_DIRECT);
    if (flags & O_CREAT)
        flags |= O_EXCL;
    fd = openat(root, at(path), flags | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (flags & O_CREAT && fchmod(fd, mode) < 0) {
        int why = errno;
        close(fd);
        return why;
    }
    *file = (void *)((intptr_t)fd + 1);
    return 0;
}

static int mirror_close(void *state, void *file)
{
    (void)state;
    return result(close(number(file)));
}

static int mirror_read(void *state, void *file, void *buffer, size_t size, off_t offset,
                       size_t *done)
{
    ssize_t count = pread(number(file), buffer, size, offset);
    (void)state;
    *done = count < 0 ? 0 : count;
    return result(count);
}

static int mirror_write(void *state, void *file, const void *buffer, size_t size, off_t offset,
                        size_t *done)
{
    ssize_t count = pwrite(number(file), buffer, size, offset);
    (void)state;
    *done = count < 0 ? 0 : count;
    return result(count);
}

static int mirror_fsync(void *state, void *file, int data_only)
{
    (void)state;
    return result(data_only ? fdatasync(number(file)) : fsync(number(file)));
}

static int mirror_ftruncate(void *state, void *file, off_t size)
{
    (void)state;
    return result(ftruncate(number(file), size));
}

static int mirror_fgetattr(void *state, void *file, struct stat *found)
{
    (void)state;
    return result(fstat(number(file), found));
}

static int mirror_getattr(void *state, const char *path, struct stat *found)
{
    (void)state;
    return result(fstatat(root, at(path), found, AT_SYMLINK_NOFOLLOW));
}

static int mirror_truncate(void *state, const char *path, off_t size)
{
    int fd = openat(root, at(path), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    int done;
    (void)state;
    if (fd < 0)
        return errno;
    done = result(ftruncate(fd, size));
    close(fd);
    return done;
}

static int mirror_readlink(void *state, const char *path, char *buffer, size_t size)
{
    ssize_t length = readlinkat(root, at(path), buffer, size - 1);
    (void)state;
    if (length >= 0)
        buffer[length] = 0;
    return result(length);
}

static int mirror_unlink(void *state, const char *path)
{
    (void)state;
    return result(unlinkat(root, path, 0));
}

static int mirror_mkdir(void *state, const char *path, mode_t mode)
{
    (void)state;
    if (mkdirat(root, path, mode) < 0)
        return errno;
    return result(fchmodat(root, path, mode, 0));
}

static int mirror_rmdir(void *state, const char *path)
{
    (void)state;
    return result(unlinkat(root, path, AT_REMOVEDIR));
}

static int mirror_getdirents(void *state, const char *path, struct culvert_dirent *entries,
                             size_t capacity, size_t *count)
{
    int fd = openat(root, at(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *found;
    int why = errno;
    (void)state;
    if (!directory) {
        if (fd >= 0)
            close(fd);
        return why;
    }
    while ((errno = 0, found = readdir(directory))) {
        mode_t type = DTTOIF(found->d_type);
        if (!strcmp(found->d_name, ".") || !strcmp(found->d_name, ".."))
            continue;
        /* Some file systems do not say it. */
        if (found->d_type == DT_UNKNOWN) {
            struct stat one;
            if (fstatat(fd, found->d_name, &one, AT_SYMLINK_NOFOLLOW) == 0)
                type = one.st_mode & S_IFMT;
            else if (errno == ENOENT)
                continue;
            else
                break;
        }
        if (*count < capacity) {
            entries[*count].inode = found->d_ino;
            entries[*count].type = type;
            strcpy(entries[*count].name, found->d_name);
        }
        ++*count;
    }
    why = errno;
    closedir(directory);
    return why;
}

static int mirror_chown(void *state, const char *path, uid_t uid, gid_t gid)
{
    (void)state;
    return result(fchownat(root, at(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int mirror_chmod(void *state, const char *path, mode_t mode)
{
    (void)state;
    return result(fchmodat(root, at(path), mode, 0));
}

static int mirror_rename(void *state, const char *from, const char *to, unsigned flags)
{
    (void)state;
    return result(renameat2(root, from, root, to, flags));
}

static int mirror_utime(void *state, const char *path, const struct timespec times[2])
{
    (void)state;
    return result(utimensat(root, at(path), times, AT_SYMLINK_NOFOLLOW));
}

static int mirror_symlink(void *state, const char *target, const char *path)
{
    (void)state;
    return result(symlinkat(target, root, path));
}

static int mirror_link(void *state, const char *path, const char *name)
{
    (void)state;
    return result(linkat(root, path, root, name, 0));
}

static int mirror_mknod(void *state, const char *path, mode_t mode, dev_t device)
{
    (void)state;
    if (mknodat(root, path, mode, device) < 0)
        return errno;
    return result(fchmodat(root, path, mode & 07777, 0));
}

static int mirror_statfs(void *state, struct statvfs *found)
{
    (void)state;
    return result(fstatvfs(root, found));
}

static int mirror_fallocate(void *state, void *file, int mode, off_t offset, off_t length)
{
    (void)state;
    return result(fallocate(number(file), mode, offset, length));
}

static int mirror_lseek(void *state, void *file, off_t offset, int whence, off_t *found)
{
    (void)state;
    *found = lseek(number(file), offset, whence);
    return result(*found);
}

/* The l*xattr calls want a path. */
static const char *full(const char *path, char place[static 4200])
{
    snprintf(place, 4200, "/proc/self/fd/%d/%s", root, path);
    return place;
}

static int mirror_getxattr(void *state, const char *path, const char *name, void *value, size_t *size)
{
    char place[4200];
    ssize_t length = lgetxattr(full(path, place), name, value, *size);
    (void)state;
    *size = length < 0 ? 0 : length;
    return result(length);
}

static int mirror_setxattr(void *state, const char *path, const char *name, const void *value,
                           size_t size, int flags)
{
    char place[4200];
    (void)state;
    return result(lsetxattr(full(path, place), name, value, size, flags));
}

static int mirror_listxattr(void *state, const char *path, char *names, size_t *size)
{
    char place[4200];
    ssize_t length = llistxattr(full(path, place), names, *size);
    (void)state;
    *size = length < 0 ? 0 : length;
    return result(length);
}

static int mirror_removexattr(void *state, const char *path, const char *name)
{
    char place[4200];
    (void)state;
    return result(lremovexattr(full(path, place), name));
}

const struct culvert_driver culvert_driver = {
    .version = CULVERT_DRIVER_VERSION,
    .size = sizeof culvert_driver,
    .flags = CULVERT_KEEPS_UNLINKED,
    .init = init,
    .finalize = finalize,
    .open = mirror_open,
    .close = mirror_close,
    .read = mirror_read,
    .write = mirror_write,
    .fsync = mirror_fsync,
    .ftruncate = mirror_ftruncate,
    .fgetattr = mirror_fgetattr,
    .getattr = mirror_getattr,
    .truncate = mirror_truncate,
    .readlink = mirror_readlink,
    .unlink = mirror_unlink,
    .mkdir = mirror_mkdir,
    .rmdir = mirror_rmdir,
    .getdirents = mirror_getdirents,
    .chown = mirror_chown,
    .chmod = mirror_chmod,
    .rename = mirror_rename,
    .utime = mirror_utime,
    .symlink = mirror_symlink,
    .link = mirror_link,
    .mknod = mirror_mknod,
    .statfs = mirror_statfs,
    .fallocate = mirror_fallocate,
    .lseek = mirror_lseek,
    .getxattr = mirror_getxattr,
    .setxattr = mirror_setxattr,
    .listxattr = mirror_listxattr,
    .removexattr = mirror_removexattr,
};
