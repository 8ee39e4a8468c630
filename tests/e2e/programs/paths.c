/* Reads path names from standard input, one a line, and asks everything about each: how it
 * resolves, what is there, what every way of opening it gives. With arguments DIRECTORY NAME, paths
 * are resolved below that open directory. */
#include "probe.h"
#include <linux/openat2.h>

static long openat2_call(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = { .flags = flags, .resolve = resolve };
    long fd;
    /* The kernel says EAGAIN to scoped lookups of .. while anybody mounts or renames anything. */
    do
        fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
    while (fd == -1 && errno == EAGAIN);
    return fd;
}

static void one(int dir, const char *path)
{
    char buffer[8192];
    struct stat st;
    struct statx stx;

    printf("== %s\n", path);
    show_stat("stat", fstatat(dir, path, &st, 0), &st);
    show_stat("lstat", fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW), &st);
    ssize_t n = readlinkat(dir, path, buffer, sizeof buffer - 1);
    if (n >= 0) {
        buffer[n] = 0;
        printf("readlink = %s\n", buffer);
    } else {
        show("readlink", n);
    }
    WORKS(faccessat(dir, path, F_OK, 0));
    WORKS(faccessat(dir, path, R_OK, 0));
    WORKS(faccessat(dir, path, X_OK, AT_EACCESS));
    WORKS(faccessat(dir, path, W_OK, 0));
    WORKS(faccessat(dir, path, R_OK, AT_SYMLINK_NOFOLLOW));
    WORKS(statx(dir, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &stx));

    static const struct { const char *name; int flags; } ways[] = {
        { "O_RDONLY", O_RDONLY },
        { "O_DIRECTORY", O_RDONLY | O_DIRECTORY },
        { "O_NOFOLLOW", O_RDONLY | O_NOFOLLOW },
        { "O_PATH", O_PATH },
        { "O_PATH|O_NOFOLLOW", O_PATH | O_NOFOLLOW },
        { "O_PATH|O_DIRECTORY", O_PATH | O_DIRECTORY },
        { "O_WRONLY", O_WRONLY },
        { "O_RDWR", O_RDWR },
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int fd = openat(dir, path, ways[i].flags | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) {
            show(ways[i].name, fd);
            continue;
        }
        snprintf(buffer, sizeof buffer, "%s fstat", ways[i].name);
        show_stat(buffer, fstat(fd, &st), &st);
        char link[64], target[4200];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        n = readlink(link, target, sizeof target - 1);
        if (n > 0 && strncmp(target, "/proc/", 6) != 0) {
            target[n] = 0;
            printf("%s is %s\n", ways[i].name, target);
        }
        if (i == 0 && S_ISREG(st.st_mode)) {
            n = read(fd, buffer, sizeof buffer);
            printf("read = %zd %016lx\n", n, n > 0 ? digest(buffer, n) : 0);
        }
        close(fd);
    }

    static const struct { const char *name; uint64_t resolve; } limits[] = {
        { "RESOLVE_NO_XDEV", RESOLVE_NO_XDEV },
        { "RESOLVE_NO_SYMLINKS", RESOLVE_NO_SYMLINKS },
        { "RESOLVE_NO_MAGICLINKS", RESOLVE_NO_MAGICLINKS },
        { "RESOLVE_BENEATH", RESOLVE_BENEATH },
        { "RESOLVE_IN_ROOT", RESOLVE_IN_ROOT },
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        long fd = openat2_call(dir, path, O_RDONLY | O_NONBLOCK, limits[i].resolve);
        works(limits[i].name, fd);
        if (fd >= 0)
            close(fd);
    }

    /* As a working directory: where am I, what is above, and back. */
    int here = open(".", O_RDONLY | O_DIRECTORY);
    int at = openat(dir, path, O_PATH | O_DIRECTORY);
    if (at >= 0 && WORKS(fchdir(at)) == 0) {
        printf("getcwd = %s\n", getcwd(buffer, sizeof buffer) ? buffer : error_name(errno));
        show_stat(". ", stat(".", &st), &st);
        works("..", stat("..", &st));
        works("hello.txt", stat("hello.txt", &st));
        works("../hello.txt", stat("../hello.txt", &st));
        works("a.txt", stat("a.txt", &st));
        if (fchdir(here) != 0)
            die("the way back");
    }
    if (at >= 0)
        close(at);
    if (dir == AT_FDCWD && WORKS(chdir(path)) == 0 && fchdir(here) != 0)
        die("the way back");
    close(here);
}

int main(int argc, char **argv)
{
    int dir = AT_FDCWD;
    if (argc > 1 && (dir = open(argv[1], argc > 2 ? O_PATH : O_RDONLY)) < 0)
        die(argv[1]);
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, stdin)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = 0;
        one(dir, line);
    }
    return 0;
}
