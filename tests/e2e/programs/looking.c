/* Every call that reads a directory, the properties of a file, or its name.
   Usage: looking GROUP, with the tree `odd` as the working directory. */
#include "probe.h"
#include <sys/inotify.h>
#include <sys/xattr.h>

static char buffer[1 << 20];

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

static char *names[4096];
static int count;

static void take_names(long n)
{
    for (long at = 0; at < n;) {
        struct linux_dirent64 *entry = (void *)(buffer + at);
        char *line = malloc(strlen(entry->d_name) + 40);
        sprintf(line, "%s type %d inode %s", entry->d_name, entry->d_type, entry->d_ino ? "some" : "none");
        names[count++] = line;
        at += entry->d_reclen;
    }
}

static void print_names(void)
{
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        if (i < 40)
            printf("  %s\n", names[i]);
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
            printf("  TWICE %s\n", names[i]);
        free(i > 0 ? names[i - 1] : NULL);
    }
    printf("  %d entries\n", count);
    count = 0;
}

static void group_directory(void)
{
    static const char *const paths[] = { ".", "dir", "dir/empty-dir", "links", "names", "modes", "special", "many", "hard" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        static const size_t sizes[] = { 300, 4096, sizeof buffer };
        for (int s = 0; s < 3; s++) {
            int fd = must_open(paths[i], O_RDONLY | O_DIRECTORY);
            long n, calls = 0;
            while ((n = syscall(SYS_getdents64, fd, buffer, sizes[s])) > 0) {
                take_names(n);
                calls++;
            }
            printf("%s in pieces of %zu: last %ld several %d\n", paths[i], sizes[s], n, calls > 1);
            print_names();
            /* Once more from the start, on the same descriptor. */
            SHOW(lseek(fd, 0, SEEK_SET));
            while ((n = syscall(SYS_getdents64, fd, buffer, 4096)) > 0)
                take_names(n);
            printf("again: ");
            print_names();
            close(fd);
        }
    }
    int fd = must_open("many", O_RDONLY);
    SHOW(syscall(SYS_getdents64, fd, buffer, 10));
    SHOW(syscall(SYS_getdents64, fd, buffer, 0));
    close(fd);
    fd = must_open("hello.txt", O_RDONLY);
    SHOW(syscall(SYS_getdents64, fd, buffer, 4096));
    close(fd);
    SHOW(syscall(SYS_getdents64, 999, buffer, 4096));

    /* telldir, seekdir: what was read after a position is read again after it. */
    DIR *stream = opendir("many");
    for (int i = 0; i < 700; i++)
        readdir(stream);
    long position = telldir(stream);
    char after[8][64];
    for (int i = 0; i < 8; i++)
        strcpy(after[i], readdir(stream)->d_name);
    for (int i = 0; i < 500; i++)
        readdir(stream);
    seekdir(stream, position);
    int equal = 0;
    for (int i = 0; i < 8; i++)
        equal += strcmp(after[i], readdir(stream)->d_name) == 0;
    printf("seekdir finds its place %d\n", equal);
    rewinddir(stream);
    while (readdir(stream))
        count++;
    printf("rewound %d\n", count);
    count = 0;
    closedir(stream);
    /* The old call, and the inode that stat gives. */
    fd = must_open("dir", O_RDONLY);
    works("getdents", syscall(SYS_getdents, fd, buffer, 4096));
    close(fd);
    stream = opendir("dir");
    struct dirent *entry;
    int differ = 0;
    while ((entry = readdir(stream))) {
        struct stat st;
        if (strcmp(entry->d_name, "..") != 0 && fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            differ += st.st_ino != entry->d_ino;
    }
    printf("inodes that differ from stat %d\n", differ);
    closedir(stream);
}

static void show_statx(const char *what, int result, const struct statx *st)
{
    if (result != 0) {
        printf("%s = %s\n", what, error_name(errno));
        return;
    }
    int directory = S_ISDIR(st->stx_mode);
    printf("%s = basic %d mode %o uid %u gid %u links %d size %lld mtime %lld.%09u\n", what,
           (st->stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS, st->stx_mode, st->stx_uid, st->stx_gid,
           directory ? -1 : (int)st->stx_nlink, directory ? -1LL : (long long)st->stx_size, (long long)st->stx_mtime.tv_sec,
           st->stx_mtime.tv_nsec);
}

static void group_stat(void)
{
    static const char *const paths[] = { ".", "hello.txt", "empty", "sparse.bin", "dir", "hard/one", "links/file", "links/dangling", "special/fifo",
        "modes/4755", "modes/d1777", "times/before", "times/future", "times/ns", "missing", "hello.txt/", "dir/", "hello.txt/below", "" };
    struct stat st;
    struct statx stx;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        printf("== %s\n", paths[i]);
        show_stat("stat", stat(paths[i], &st), &st);
        show_stat("lstat", lstat(paths[i], &st), &st);
        show_stat("old stat", syscall(SYS_stat, paths[i], &st), &st);
        show_stat("old lstat", syscall(SYS_lstat, paths[i], &st), &st);
        show_statx("statx", statx(AT_FDCWD, paths[i], 0, STATX_ALL, &stx), &stx);
        show_statx("statx, not followed", statx(AT_FDCWD, paths[i], AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &stx), &stx);
        SHOW(statx(AT_FDCWD, paths[i], 0x40000000, STATX_BASIC_STATS, &stx));
        int fd = open(paths[i], O_PATH | O_NOFOLLOW);
        if (fd >= 0) {
            show_stat("fstat", fstat(fd, &st), &st);
            show_stat("AT_EMPTY_PATH", fstatat(fd, "", &st, AT_EMPTY_PATH), &st);
            show_statx("statx AT_EMPTY_PATH", statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &stx), &stx);
            SHOW(fstatat(fd, "", &st, 0));
            SHOW(faccessat(fd, "", R_OK, AT_EMPTY_PATH));
            close(fd);
        }
        works("old access", syscall(SYS_access, paths[i], R_OK));
        works("faccessat2", syscall(SYS_faccessat2, AT_FDCWD, paths[i], X_OK, AT_EACCESS));
        SHOW(syscall(SYS_faccessat2, AT_FDCWD, paths[i], 8, 0));
    }
    /* One file, one identity; another file, another. */
    struct stat one, two, other;
    stat("hard/one", &one);
    stat("hard/three", &two);
    stat("hello.txt", &other);
    printf("hard links are one inode %d, others are not %d\n", one.st_ino == two.st_ino && one.st_dev == two.st_dev, one.st_ino != other.st_ino);
    stat("..", &two);
    printf("the mount is a device of its own: %s\n", "(not compared)");
    int fd = must_open("hard/two", O_RDONLY);
    fstat(fd, &two);
    printf("fstat agrees with stat %d\n", two.st_ino == one.st_ino && two.st_dev == one.st_dev);
    statx(AT_FDCWD, "hard/one", 0, STATX_ALL, &stx);
    printf("statx agrees with stat %d\n", stx.stx_ino == one.st_ino && makedev(stx.stx_dev_major, stx.stx_dev_minor) == one.st_dev);
    close(fd);
    SHOW(fstat(-1, &st));
    SHOW(fstat(999, &st));
    SHOW(fstatat(999, "hello.txt", &st, 0));
    fd = must_open("hello.txt", O_RDONLY);
    SHOW(fstatat(fd, "hello.txt", &st, 0));
    SHOW(fstatat(fd, "/", &st, 0));
    close(fd);
    char small[4];
    SHOW(readlink("links/file", small, sizeof small));
    SHOW(readlink("links/file", small, 0));
    SHOW(readlink("links/file", small, -1));
    SHOW(readlink("hello.txt", small, 4));
    fd = must_open("links/file", O_PATH | O_NOFOLLOW);
    SHOW(readlinkat(fd, "", buffer, 100));
    close(fd);
    struct statfs fs;
    struct statvfs vfs;
    SHOW(statfs("hello.txt", &fs));
    SHOW(statfs("missing", &fs));
    SHOW(statvfs("dir", &vfs));
    printf("read-only %d, names up to %lu\n", (vfs.f_flag & ST_RDONLY) != 0, vfs.f_namemax);
    fd = must_open("hello.txt", O_RDONLY);
    SHOW(fstatfs(fd, &fs));
    SHOW(fpathconf(fd, _PC_NAME_MAX));
    close(fd);
}

static void group_attributes(void)
{
    int fd = must_open("hello.txt", O_RDONLY);
    works("getxattr", getxattr("hello.txt", "user.none", buffer, 100));
    works("lgetxattr", lgetxattr("links/file", "user.none", buffer, 100));
    works("fgetxattr", fgetxattr(fd, "user.none", buffer, 100));
    works("getxattr, of a missing file", getxattr("missing", "user.none", buffer, 100));
    works("getxattr, system.posix_acl_access", getxattr("hello.txt", "system.posix_acl_access", buffer, 100));
    works("getxattr, security.capability", getxattr("hello.txt", "security.capability", buffer, 100));
    SHOW(listxattr("hello.txt", buffer, 1000));
    SHOW(llistxattr("links/file", buffer, 1000));
    SHOW(flistxattr(fd, buffer, 1000));
    SHOW(listxattr("missing", buffer, 1000));
    SHOW(listxattr("hello.txt", NULL, 0));
    close(fd);
}

static void group_watch(void)
{
    int watcher = inotify_init1(IN_CLOEXEC);
    works("inotify_add_watch on a file", inotify_add_watch(watcher, "hello.txt", IN_ALL_EVENTS));
    works("inotify_add_watch on a directory", inotify_add_watch(watcher, "dir", IN_ALL_EVENTS | IN_ONLYDIR));
    works("inotify_add_watch on a missing file", inotify_add_watch(watcher, "missing", IN_ALL_EVENTS));
    works("inotify_add_watch on no directory", inotify_add_watch(watcher, "hello.txt", IN_ALL_EVENTS | IN_ONLYDIR));
    close(watcher);
}

static void group_open(void)
{
    /* Opens that are refused for another reason than the read-only mount, and what open does with
     * flags. */
    works("O_CREAT on an existing file", open("hello.txt", O_RDONLY | O_CREAT, 0600));
    works("O_CREAT|O_EXCL on an existing file", open("hello.txt", O_RDONLY | O_CREAT | O_EXCL, 0600));
    works("O_CREAT on a directory", open("dir", O_RDONLY | O_CREAT, 0600));
    works("O_CREAT|O_DIRECTORY", open("dir", O_RDONLY | O_CREAT | O_DIRECTORY, 0600));
    works("O_DIRECTORY on a file", open("hello.txt", O_RDONLY | O_DIRECTORY));
    works("O_WRONLY on a directory", open("dir", O_WRONLY));
    works("O_TRUNC|O_RDONLY", open("hello.txt", O_RDONLY | O_TRUNC));
    works("O_NOATIME", open("hello.txt", O_RDONLY | O_NOATIME));
    works("O_PATH with others", open("hello.txt", O_PATH | O_RDWR | O_CREAT | O_TRUNC, 0600));
    works("O_TMPFILE", open("dir", O_TMPFILE | O_RDWR, 0600));
    works("creat", creat("hello.txt", 0600));
    works("missing", open("missing", O_RDONLY));
    works("missing/missing", open("missing/missing", O_RDONLY));
    works("file/below", open("hello.txt/below", O_RDONLY));
    works("empty path", open("", O_RDONLY));
    char *name = malloc(5000);
    memset(name, 'x', 4999);
    name[256] = 0;
    works("a name of 256", open(name, O_RDONLY));
    name[256] = 'x';
    name[4095] = 0;
    works("a path of 4095", open(name, O_RDONLY));
    name[4095] = 'x';
    name[4096] = 0;
    works("a path of 4096", open(name, O_RDONLY));
    for (int i = 0; i + 4 < 4096; i += 4)
        memcpy(name + i, "dir/", 4);
    for (int i = 0; i < 4090; i += 2)
        memcpy(name + i, "./", 2);
    strcpy(name + 4080, "empty");
    works("a long path of dots", open(name, O_RDONLY));
    works("openat with a bad directory", openat(999, "hello.txt", O_RDONLY));
    works("openat with a bad directory and an absolute path", openat(999, "/", O_RDONLY));
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        { "directory", group_directory }, { "stat", group_stat }, { "attributes", group_attributes }, { "watch", group_watch },
        { "open", group_open },
    };
    return RUN_GROUP(groups, argv[1]);
}
