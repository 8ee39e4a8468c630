/* Every call that would change a file: refused on a read-only mount, each with its own errno, and
 * in the order in which the kernel looks at things. Usage: changing SCRATCH, with the tree `odd` as
 * the working directory. */
#include "probe.h"
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <utime.h>

static const char *scratch;

static const char *out(const char *name)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 4096, "%s/%s", scratch, name);
    return path;
}

static void by_path(const char *p)
{
    struct timespec times[2] = { { 1, 0 }, { 2, 0 } }, omit[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };
    struct utimbuf old = { 1, 2 };
    struct timeval tv[2] = { { 1, 0 }, { 2, 0 } };
    printf("== %s\n", p);
    SHOW(open(p, O_WRONLY));
    SHOW(open(p, O_RDWR));
    SHOW(open(p, O_WRONLY | O_CREAT, 0600));
    SHOW(open(p, O_WRONLY | O_CREAT | O_EXCL, 0600));
    SHOW(open(p, O_RDONLY | O_TRUNC));
    SHOW(open(p, O_WRONLY | O_APPEND));
    SHOW(creat(p, 0600));
    SHOW(truncate(p, 0));
    SHOW(truncate(p, -1));
    SHOW(chmod(p, 0777));
    SHOW(fchmodat(AT_FDCWD, p, 0777, AT_SYMLINK_NOFOLLOW));
    SHOW(chown(p, 1, 1));
    SHOW(chown(p, -1, -1));
    SHOW(lchown(p, 1, 1));
    SHOW(fchownat(AT_FDCWD, p, 1, 1, AT_SYMLINK_NOFOLLOW));
    SHOW(utime(p, &old));
    SHOW(utimes(p, tv));
    SHOW(utimensat(AT_FDCWD, p, times, 0));
    SHOW(utimensat(AT_FDCWD, p, NULL, AT_SYMLINK_NOFOLLOW));
    SHOW(utimensat(AT_FDCWD, p, omit, 0));
    SHOW(syscall(SYS_futimesat, AT_FDCWD, p, tv));
    SHOW(mkdir(p, 0700));
    SHOW(mknod(p, S_IFREG | 0600, 0));
    SHOW(mkfifo(p, 0600));
    SHOW(symlink("target", p));
    SHOW(unlink(p));
    SHOW(rmdir(p));
    SHOW(unlinkat(AT_FDCWD, p, 0x1000));
    SHOW(rename(p, "renamed"));
    SHOW(rename("hello.txt", p));
    SHOW(rename(p, p));
    SHOW(rename(p, out("file")));
    SHOW(rename(out("file"), p));
    SHOW(renameat2(AT_FDCWD, p, AT_FDCWD, "renamed", RENAME_NOREPLACE));
    SHOW(renameat2(AT_FDCWD, p, AT_FDCWD, "hello.txt", RENAME_EXCHANGE));
    SHOW(renameat2(AT_FDCWD, p, AT_FDCWD, "renamed", 0x100));
    SHOW(link(p, "linked"));
    SHOW(link("hello.txt", p));
    SHOW(link(p, out("linked")));
    SHOW(link(out("file"), p));
    SHOW(linkat(AT_FDCWD, p, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW));
    SHOW(setxattr(p, "user.x", "1", 1, 0));
    SHOW(lsetxattr(p, "user.x", "1", 1, 0));
    SHOW(removexattr(p, "user.x"));
    SHOW(lremovexattr(p, "user.x"));
}

static void by_descriptor(const char *path, int flags, const char *what)
{
    struct timespec times[2] = { { 1, 0 }, { 2, 0 } };
    struct iovec part = { "x", 1 };
    int fd = must_open(path, flags), file = open(out("file"), O_RDWR), ends[2];
    pipe(ends);
    write(ends[1], "data", 4);
    printf("== descriptor of %s %s\n", path, what);
    SHOW(write(fd, "x", 1));
    SHOW(write(fd, "", 0));
    SHOW(pwrite(fd, "x", 1, 0));
    SHOW(pwrite(fd, "x", 1, -1));
    SHOW(writev(fd, &part, 1));
    SHOW(pwritev(fd, &part, 1, 0));
    SHOW(pwritev2(fd, &part, 1, 0, 0));
    SHOW(ftruncate(fd, 0));
    SHOW(ftruncate(fd, -1));
    SHOW(fallocate(fd, 0, 0, 10));
    SHOW(fallocate(fd, 0, 0, 0));
    SHOW(fchmod(fd, 0777));
    SHOW(fchown(fd, 1, 1));
    SHOW(futimens(fd, times));
    SHOW(fsetxattr(fd, "user.x", "1", 1, 0));
    SHOW(fremovexattr(fd, "user.x"));
    SHOW(syscall(SYS_sendfile, fd, file, NULL, 1));
    SHOW(splice(ends[0], NULL, fd, NULL, 1, 0));
    SHOW(copy_file_range(file, NULL, fd, NULL, 1, 0));
    SHOW(mkdirat(fd, "new", 0700));
    SHOW(mkdirat(fd, "a.txt", 0700));
    SHOW(openat(fd, "new", O_WRONLY | O_CREAT, 0600));
    SHOW(openat(fd, "a.txt", O_WRONLY));
    SHOW(unlinkat(fd, "a.txt", 0));
    SHOW(unlinkat(fd, "missing", 0));
    SHOW(unlinkat(fd, "empty-dir", AT_REMOVEDIR));
    SHOW(symlinkat("x", fd, "new"));
    SHOW(mknodat(fd, "new", S_IFREG | 0600, 0));
    SHOW(renameat(fd, "a.txt", fd, "c.txt"));
    SHOW(linkat(fd, "a.txt", fd, "c.txt", 0));
    SHOW(linkat(fd, "", AT_FDCWD, "new", AT_EMPTY_PATH));
    SHOW(linkat(fd, "", AT_FDCWD, out("new"), AT_EMPTY_PATH));
    SHOW(fchmodat(fd, "a.txt", 0700, 0));
    SHOW(fchownat(fd, "a.txt", 1, 1, 0));
    SHOW(fchownat(fd, "", 1, 1, AT_EMPTY_PATH));
    SHOW(utimensat(fd, "a.txt", times, 0));
    SHOW(ioctl(fd, 0x40086602 /* FS_IOC_SETFLAGS */, &(long) { 0 }) == -1 ? 0 : 1);
    close(fd);
    close(file);
    close(ends[0]);
    close(ends[1]);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    scratch = argv[1];
    umask(022);
    int fd = creat(out("file"), 0644);
    write(fd, "content", 7);
    close(fd);
    static const char *const paths[] = { "hello.txt", "missing", "dir", "dir/", "dir/new", "dir/new/", "dir/empty-dir", "hello.txt/", "hello.txt/below", "missing/below",
        "links/file", "links/dir", "links/dangling", "links/self", "links/out", ".", "..", "", "dir/.", "dir/.." };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (strcmp(paths[i], "links/out") == 0 || strcmp(paths[i], "..") == 0)
            continue; /* What these name may be changed. */
        by_path(paths[i]);
        chdir(getenv("M"));
    }
    by_descriptor("hello.txt", O_RDONLY, "read");
    by_descriptor("hello.txt", O_PATH, "path");
    by_descriptor("dir", O_RDONLY, "read");
    by_descriptor("dir", O_PATH, "path");

    puts("== sockets");
    int unix_socket = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, "socket");
    SHOW(bind(unix_socket, (struct sockaddr *)&address, sizeof address));
    strcpy(address.sun_path, "hello.txt");
    SHOW(bind(unix_socket, (struct sockaddr *)&address, sizeof address));
    SHOW(connect(unix_socket, (struct sockaddr *)&address, sizeof address));
    strcpy(address.sun_path, "missing/socket");
    SHOW(bind(unix_socket, (struct sockaddr *)&address, sizeof address));
    close(unix_socket);

    puts("== across the border");
    SHOW(rename("hello.txt", out("moved")));
    SHOW(rename(out("file"), "moved"));
    SHOW(rename(out("missing"), "moved"));
    SHOW(link(out("file"), "linked"));
    SHOW(symlink("hello.txt", out("inside")));
    SHOW(open(out("inside"), O_WRONLY));
    char target[4200];
    snprintf(target, sizeof target, "%s/dir/created", getenv("M"));
    SHOW(symlink(target, out("to-new")));
    SHOW(open(out("to-new"), O_WRONLY | O_CREAT, 0600));
    SHOW(mkdir(out("to-new"), 0700));
    snprintf(target, sizeof target, "%s/dir", getenv("M"));
    SHOW(symlink(target, out("to-dir")));
    SHOW(mkdir(out("to-dir/new"), 0700));
    SHOW(unlink(out("to-dir/a.txt")));
    SHOW(unlink(out("to-dir")));
    SHOW(rmdir(getenv("M")));
    SHOW(rename(getenv("M"), out("mount")));
    SHOW(unlink(getenv("M")));

    /* And nothing changed. */
    struct stat st;
    show_stat("hello.txt", stat("hello.txt", &st), &st);
    show_stat("dir/a.txt", stat("dir/a.txt", &st), &st);
    show_stat("dir/new", stat("dir/new", &st), &st);
    return 0;
}
