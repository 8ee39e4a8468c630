/* The directory that the source names, by libfuse's interface by paths, versions 2 and 3. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#if FUSE_USE_VERSION >= 30
#define FILE_ARGUMENT , struct fuse_file_info *file
#define NO_FILE (void)file
#else
#define FILE_ARGUMENT
#define NO_FILE
#endif

static char base[PATH_MAX];

#define AT(path) \
    char place[2 * PATH_MAX]; \
    snprintf(place, sizeof place, "%s%s", base, path)
#define DONE(call) return (call) == -1 ? -errno : 0

static int my_getattr(const char *path, struct stat *found FILE_ARGUMENT)
{ NO_FILE; AT(path); DONE(lstat(place, found)); }
static int my_readlink(const char *path, char *to, size_t size)
{ AT(path); ssize_t n = readlink(place, to, size - 1); if (n < 0) return -errno; to[n] = 0; return 0; }
static int my_mkdir(const char *path, mode_t mode) { AT(path); DONE(mkdir(place, mode)); }
static int my_unlink(const char *path) { AT(path); DONE(unlink(place)); }
static int my_rmdir(const char *path) { AT(path); DONE(rmdir(place)); }
static int my_symlink(const char *to, const char *path) { AT(path); DONE(symlink(to, place)); }
#if FUSE_USE_VERSION >= 30
static int my_rename(const char *from, const char *path, unsigned flags)
{ AT(path); char old[2 * PATH_MAX]; snprintf(old, sizeof old, "%s%s", base, from);
  DONE(renameat2(-100, old, -100, place, flags)); }
#else
static int my_rename(const char *from, const char *path)
{ AT(path); char old[2 * PATH_MAX]; snprintf(old, sizeof old, "%s%s", base, from);
  DONE(rename(old, place)); }
#endif
static int my_link(const char *from, const char *path)
{ AT(path); char old[2 * PATH_MAX]; snprintf(old, sizeof old, "%s%s", base, from);
  DONE(link(old, place)); }
static int my_chmod(const char *path, mode_t mode FILE_ARGUMENT)
{ NO_FILE; AT(path); DONE(chmod(place, mode)); }
static int my_truncate(const char *path, off_t size FILE_ARGUMENT)
{ NO_FILE; AT(path); DONE(truncate(place, size)); }
static int my_utimens(const char *path, const struct timespec times[2] FILE_ARGUMENT)
{ NO_FILE; AT(path); DONE(utimensat(-100, place, times, AT_SYMLINK_NOFOLLOW)); }
static int my_create(const char *path, mode_t mode, struct fuse_file_info *file)
{ AT(path); int fd = open(place, file->flags, mode); if (fd < 0) return -errno; file->fh = fd; return 0; }
static int my_open(const char *path, struct fuse_file_info *file)
{ AT(path); int fd = open(place, file->flags); if (fd < 0) return -errno; file->fh = fd; return 0; }
static int my_read(const char *path, char *to, size_t size, off_t at, struct fuse_file_info *file)
{ (void)path; ssize_t n = pread(file->fh, to, size, at); return n < 0 ? -errno : n; }
static int my_write(const char *path, const char *from, size_t size, off_t at, struct fuse_file_info *file)
{ (void)path; ssize_t n = pwrite(file->fh, from, size, at); return n < 0 ? -errno : n; }
static int my_release(const char *path, struct fuse_file_info *file)
{ (void)path; close(file->fh); return 0; }
static int my_statfs(const char *path, struct statvfs *found) { AT(path); DONE(statvfs(place, found)); }
static int my_setxattr(const char *path, const char *name, const char *value, size_t size, int flags)
{ AT(path); DONE(lsetxattr(place, name, value, size, flags)); }
static int my_getxattr(const char *path, const char *name, char *value, size_t size)
{ AT(path); ssize_t n = lgetxattr(place, name, value, size); return n < 0 ? -errno : n; }

#if FUSE_USE_VERSION >= 30
static int my_readdir(const char *path, void *into, fuse_fill_dir_t fill, off_t offset,
                      struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
    (void)offset, (void)file, (void)flags;
#define FILL(name, found, next) fill(into, name, found, next, 0)
#else
static int my_readdir(const char *path, void *into, fuse_fill_dir_t fill, off_t offset,
                      struct fuse_file_info *file)
{
    (void)offset, (void)file;
#define FILL(name, found, next) fill(into, name, found, next)
#endif
    AT(path);
    DIR *directory = opendir(place);
    struct dirent *entry;
    if (!directory)
        return -errno;
#ifdef POSITIONS
    seekdir(directory, offset);
#endif
    while ((entry = readdir(directory))) {
        struct stat found = {.st_ino = entry->d_ino, .st_mode = entry->d_type << 12};
#ifdef POSITIONS
        if (FILL(entry->d_name, &found, telldir(directory)))
            break;
#else
        FILL(entry->d_name, &found, 0);
#endif
    }
    closedir(directory);
    return 0;
}

static void my_destroy(void *data)
{
    (void)data;
    char place[2 * PATH_MAX];
    snprintf(place, sizeof place, "%s/../ended", base);
    FILE *told = fopen(place, "a");
    if (told) {
        fputs("ended\n", told);
        fclose(told);
    }
}

static const struct fuse_operations operations = {
    .getattr = my_getattr, .readlink = my_readlink, .mkdir = my_mkdir, .unlink = my_unlink,
    .rmdir = my_rmdir, .symlink = my_symlink, .rename = my_rename, .link = my_link,
    .chmod = my_chmod, .truncate = my_truncate, .utimens = my_utimens, .create = my_create,
    .open = my_open, .read = my_read, .write = my_write, .release = my_release,
    .statfs = my_statfs, .readdir = my_readdir, .destroy = my_destroy,
    .setxattr = my_setxattr, .getxattr = my_getxattr,
};

static int word(void *data, const char *arg, int key, struct fuse_args *out)
{
    (void)data, (void)out;
    if (key == FUSE_OPT_KEY_NONOPT && !base[0])
        return realpath(arg, base) ? 0 : -1;
    return 1;
}

int main(int argc, char **argv)
{
    struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
    umask(0);
    if (fuse_opt_parse(&args, NULL, NULL, word) == -1)
        return 1;
    return fuse_main(args.argc, args.argv, &operations, NULL);
}
