/* Every call that takes a path, with names and paths that are too long, or just not: long_names
 * DIRECTORY. Prints each result. long_names DIRECTORY deep: a tree deeper than a path can be long,
 * made and removed step by step. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

static const char *base;

static void say(const char *what, const char *call, long result)
{
    printf("%s: %s: %s\n", what, call, result < 0 ? strerrorname_np(errno) : "done");
}

static long opened(long fd)
{
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

/* All calls on `path`; what one makes the next ones find. `other` is a good name in the same
 * directory. */
static void all(const char *what, const char *path, const char *other)
{
    struct stat st;
    struct statx stx;
    struct statfs fs;
    char text[8192], *argv[] = { "x", NULL };
    struct timeval times[2] = { { 1, 0 }, { 2, 0 } };
    struct timespec fine[2] = { { 1, 0 }, { 2, 0 } };
    struct utimbuf both = { 1, 2 };
#define T(call) say(what, #call, call)
    T(opened(open(path, O_RDONLY)));
    T(opened(open(path, O_CREAT | O_WRONLY, 0644)));
    T(opened(open(path, O_CREAT | O_EXCL | O_WRONLY, 0644)));
    T(opened(open(path, O_PATH)));
    T(opened(creat(path, 0644)));
    T(opened(openat(AT_FDCWD, path, O_TMPFILE | O_RDWR, 0600)));
    T(stat(path, &st));
    T(lstat(path, &st));
    T(fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW));
    T(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &stx));
    T(statfs(path, &fs));
    T(access(path, R_OK));
    T(faccessat(AT_FDCWD, path, R_OK, AT_EACCESS));
    T(chmod(path, 0600));
    T(fchmodat(AT_FDCWD, path, 0640, 0));
    T(chown(path, -1, -1));
    T(lchown(path, -1, -1));
    T(fchownat(AT_FDCWD, path, -1, -1, 0));
    T(truncate(path, 10));
    T(utimensat(AT_FDCWD, path, fine, 0));
    T(utimes(path, times));
    T(utime(path, &both));
    T(setxattr(path, "user.x", "y", 1, 0));
    T(getxattr(path, "user.x", text, sizeof text));
    T(listxattr(path, text, sizeof text) < 0 ? -1 : 0);
    T(removexattr(path, "user.x"));
    T(readlink(path, text, sizeof text));
    T(link(path, other));
    unlink(other);
    /* One thing is wrong at a time: which of two is reported first is another test's. */
    opened(creat(other, 0644));
    T(link(other, path));
    unlink(other);
    T(rename(path, other));
    opened(creat(other, 0644));
    T(rename(other, path));
    opened(creat(other, 0644));
    T(renameat2(AT_FDCWD, other, AT_FDCWD, path, RENAME_NOREPLACE));
    unlink(other);
    T(renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_NOREPLACE));
    unlink(other);
    T(unlink(path));
    T(symlink("there", path));
    T(readlink(path, text, sizeof text));
    T(unlinkat(AT_FDCWD, path, 0));
    T(mkdir(path, 0755));
    T(chdir(path));
    if (chdir(base) != 0)
        exit(1);
    T(opened(open(path, O_RDONLY | O_DIRECTORY)));
    T(rmdir(path));
    T(mknod(path, S_IFIFO | 0600, 0));
    T(unlink(path));
    T(mknodat(AT_FDCWD, path, S_IFREG | 0600, 0));
    T(unlinkat(AT_FDCWD, path, 0));
    T(unlinkat(AT_FDCWD, path, AT_REMOVEDIR));
    T(execv(path, argv));
    T(symlink(path, other));
    T(unlink(other));
    T(syscall(SYS_name_to_handle_at, AT_FDCWD, path, NULL, NULL, 0));
}

/* `in` and one component of `length` bytes below it. */
static char *component(const char *in, size_t length)
{
    char *path = malloc(strlen(in) + length + 2), *end = stpcpy(stpcpy(path, in), "/");
    memset(end, 'n', length);
    end[length] = 0;
    return path;
}

/* A path to `name` in `base` that is `length` bytes long, by slashes and dots. */
static char *winding(size_t length, const char *name)
{
    char *path = malloc(length + 1), *end = stpcpy(path, base);
    size_t rest = length - strlen(base) - strlen(name);
    for (; rest > 2; rest -= 2)
        end = stpcpy(end, "/.");
    while (rest--)
        *end++ = '/';
    strcpy(end, name);
    return path;
}

static void deep(void)
{
    char *step = component("", 200) + 1;
    int depth = 0;
    while (depth < 30 && mkdir(step, 0755) == 0 && chdir(step) == 0)
        depth++;
    char *where = getcwd(NULL, 0);
    printf("%d directories of 200 bytes deep: getcwd %s\n", depth, where ? "done" : strerrorname_np(errno));
    say("there", "creat", opened(creat("file", 0600)));
    say("there", "unlink", unlink("file"));
    while (depth-- > 0) {
        if (chdir("..") != 0)
            perror("chdir ..");
        say("on the way back", "rmdir", rmdir(step));
    }
}

int main(int argc, char **argv)
{
    base = argc > 1 ? argv[1] : "/nowhere";
    char *other = component(base, 3), text[64];
    if (chdir(base) != 0)
        return 1;
    if (argc > 2) {
        deep();
        return 0;
    }
    for (size_t length = 254; length <= 257; length++) {
        sprintf(text, "a name of %zu bytes", length);
        all(text, component(base, length), other);
        sprintf(text, "a name of %zu bytes below the working directory", length);
        all(text, component(".", length), "other");
    }
    static const size_t lengths[] = { 4094, 4095, 4096, 5000 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        sprintf(text, "a path of %zu bytes", lengths[i]);
        all(text, winding(lengths[i], "name"), other);
    }
    all("an empty path", "", other);
    all("a long path that ends in a slash", winding(4095, "name/"), other);
    DIR *left = opendir(base);
    for (struct dirent *entry; (entry = readdir(left));)
        if (entry->d_name[0] != '.')
            printf("left: %.20s\n", entry->d_name);
    return 0;
}
