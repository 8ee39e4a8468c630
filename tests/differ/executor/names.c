/* Operations on names. */
#include "executor.h"
#include "arguments.h"
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/un.h>

static bool linking(struct step *s, int at)
{
    if (IS("link", 2)) {
        touch(P(2));
        result(link(P(1), P(2)));
    } else if (IS("linkat", 5)) {
        touch(P(4));
        result(syscall(SYS_linkat, F(1), P(2), F(3), P(4), (int)N(5)));
    } else if (IS("symlink", 2)) {
        touch(P(2));
        result(symlink(P(1), P(2)));
    } else if (IS("symlinkat", 3)) {
        touch(P(3));
        result(syscall(SYS_symlinkat, P(1), F(2), P(3)));
    } else if (IS("readlink", 3)) {
        char *bytes = buffer(N(3), word_or(s, at + 4, NULL));
        long got = result(syscall(SYS_readlinkat, F(1), P(2), bytes, N(3)));
        if (got > 0 && bytes != (char *)8) {
            char text[PATH_MAX + 1];
            snprintf(text, sizeof text, "%.*s", (int)got, bytes);
            /* pipe:[N] and socket:[N]: the number is new each time. */
            if (text[0] != '/' && text[got - 1] == ']' && strstr(text, ":["))
                *strstr(text, ":[") = 0;
            out(" ");
            out_name(text);
        }
    } else if (IS("rename", 2)) {
        touch(P(1));
        touch(P(2));
        result(rename(P(1), P(2)));
    } else if (IS("renameat2", 5)) {
        touch(P(2));
        touch(P(4));
        result(syscall(SYS_renameat2, F(1), P(2), F(3), P(4), (unsigned)N(5)));
    } else {
        return false;
    }
    return true;
}

/* A UNIX socket bound to a path, or connected to one. Its descriptor goes into a slot. */
static void unix_socket(struct step *s, int at, bool listening)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *name = P(2);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", name && name != (char *)8 ? name : "");
    if (listening) {
        touch(name);
        if (result(bind(fd, (struct sockaddr *)&address, sizeof address)) == 0)
            listen(fd, 8);
    } else {
        result(connect(fd, (struct sockaddr *)&address, sizeof address));
    }
    new_descriptor(W(1), fd);
}

static bool making(struct step *s, int at)
{
    if (IS("unlink", 1)) {
        touch(P(1));
        result(unlink(P(1)));
    } else if (IS("unlinkat", 3)) {
        touch(P(2));
        result(syscall(SYS_unlinkat, F(1), P(2), (int)N(3)));
    } else if (IS("rmdir", 1)) {
        touch(P(1));
        result(rmdir(P(1)));
    } else if (IS("mkdir", 2)) {
        touch(P(1));
        result(mkdir(P(1), (mode_t)N(2)));
    } else if (IS("mkdirat", 3)) {
        touch(P(2));
        result(syscall(SYS_mkdirat, F(1), P(2), (mode_t)N(3)));
    } else if (IS("mknod", 3)) {
        touch(P(2));
        result(syscall(SYS_mknodat, F(1), P(2), (mode_t)N(3), 0x103));
    } else if (IS("bind", 2)) {
        unix_socket(s, at, true);
    } else if (IS("connect", 2)) {
        unix_socket(s, at, false);
    } else {
        return false;
    }
    return true;
}

/* A program that climbs above its directories comes back: it must not change the machine. */
static void stay_inside(void)
{
    char here[PATH_MAX];
    size_t length = (size_t)(strrchr(mount_path, '/') - mount_path);
    if (syscall(SYS_getcwd, here, sizeof here) > 0 && here[0] == '/' && strncmp(here, mount_path, length)) {
        out(" outside");
        syscall(SYS_chdir, mount_path);
    }
}

static bool places(struct step *s, int at)
{
    if (IS("chdir", 1)) {
        result(chdir(P(1)));
        stay_inside();
    } else if (IS("fchdir", 1)) {
        result(fchdir(F(1)));
        stay_inside();
    } else if (IS("getcwd", 1)) {
        char *bytes = buffer(N(1), NULL);
        if (result(syscall(SYS_getcwd, bytes, N(1))) > 0) {
            out(" ");
            out_name(bytes);
        }
    } else if (IS("realpath", 1)) {
        char *found = realpath(P(1), NULL);
        if (outcome(found ? 0 : -1) == 0) {
            out(" ");
            out_name(found);
        }
    } else if (IS("statfs", 1)) {
        struct statfs answer;
        if (result(statfs(P(1), &answer)) == 0)
            out(" namelen=%ld", (long)answer.f_namelen);
    } else if (IS("umask", 1)) {
        result(umask((mode_t)N(1)));
    } else {
        return false;
    }
    return true;
}

bool name_operation(struct step *s, int at)
{
    return linking(s, at) || making(s, at) || places(s, at);
}
