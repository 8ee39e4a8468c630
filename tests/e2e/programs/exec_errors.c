// The errors of execve and execveat, and which of two comes first: exec_errors DIRECTORY
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

static char *words[] = {"/bin/true", NULL}, *none[] = {NULL};
static char *bad[] = {"x", (char *)8, NULL};
static char *large[] = {"x", NULL, NULL};
static char **const unreadable = (char **)8;

static void make(const char *name, const char *text, mode_t mode) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) || close(fd)) err(2, "%s", name);
}

// execveat in a child: how it failed, or that it did not.
static void tell(const char *what, int directory, const char *path, char **arguments, char **environment, int flags) {
    int pipes[2], failed = 0;
    if (pipe2(pipes, O_CLOEXEC)) err(2, "pipe");
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (flags < 0)
            execve(path, arguments, environment);
        else
            syscall(SYS_execveat, directory, path, arguments, environment, flags);
        failed = errno;
        if (write(pipes[1], &failed, sizeof failed) < 0) _exit(9);
        _exit(0);
    }
    close(pipes[1]);
    if (read(pipes[0], &failed, sizeof failed) < 0) err(2, "read");
    close(pipes[0]);
    int status;
    waitpid(child, &status, 0);
    printf("%s: %s\n", what, failed ? strerrorname_np(failed) : "runs");
}

struct argument {
    const char *name;
    char **arguments, **environment;
} lists[] = {{"", words, none}, {", bad list", unreadable, none}, {", bad string", bad, none}, {", bad environment", words, unreadable}, {", too large", large, none}};

static const char *paths[] = {"true", "script", "missing", "", "file", "unexecutable", "unreadable", "directory", "file/below", "missing/below", "link", "dangling", "loop",
                              "link-to-script", "no-format", "empty", "bad-interpreter", "locked/true", "busy", "fifo", "true/", "directory/", "link/", "recursive",
                              ".", "..", "/bin/true", "/bin", "/no/such", "/bin/true/x"};

int main(int count, char **arguments) {
    if (count != 2 || chdir(arguments[1])) err(2, "usage: exec_errors DIRECTORY");
    char *text = malloc(300000);
    memset(text, 'x', 299999);
    text[299999] = 0;
    large[1] = text;
    if (symlink("true", "link") || symlink("script", "link-to-script") || symlink("nothing", "dangling") || symlink("loop", "loop") || mkdir("directory", 0755) ||
        mkdir("locked", 0755) || mkfifo("fifo", 0755))
        err(2, "make");
    if (system("cp /bin/true true; cp /bin/true busy; cp /bin/true locked/true")) return 2;
    make("script", "#!/bin/true\n", 0755);
    make("file", "#!/bin/true\n", 0644);
    make("unexecutable", "\177ELF", 0600);
    make("unreadable", "#!/bin/true\n", 0111);
    make("no-format", "\1\2\3\4", 0755);
    make("empty", "", 0755);
    make("bad-interpreter", "#!/no/such\n", 0755);
    make("recursive", "#!recursive\n", 0755);
    chmod("locked", 0600);
    int busy = open("busy", O_WRONLY), directory = open(".", O_RDONLY | O_DIRECTORY), file = open("file", O_RDONLY), program = open("true", O_RDONLY),
        path = open("true", O_PATH), link = open("link", O_PATH | O_NOFOLLOW), above = open("/bin", O_RDONLY | O_DIRECTORY);
    if (busy < 0 || directory < 0 || file < 0 || program < 0 || path < 0 || link < 0 || above < 0) err(2, "open");
    char what[256];
    // What its user may execute but not read is EACCES on mounts that a driver serves.
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++)
        for (unsigned j = geteuid() && !strcmp(paths[i], "unreadable") ? 9 : 0; j < sizeof lists / sizeof *lists; j++) {
            struct argument *list = lists + j;
            snprintf(what, sizeof what, "execve %s%s", paths[i], list->name);
            tell(what, 0, paths[i], list->arguments, list->environment, -1);
            if (j > 1) continue;
            const struct {
                const char *name;
                int fd;
            } from[] = {{"here", AT_FDCWD}, {"directory", directory}, {"bad", 777}, {"hidden", 1020}, {"negative", -5}, {"file", file}};
            const struct {
                const char *name;
                int flags;
            } how[] = {{"", 0}, {" nofollow", AT_SYMLINK_NOFOLLOW}, {" empty", AT_EMPTY_PATH}, {" unknown", 0x8000}};
            for (unsigned k = 0; k < 6; k++)
                for (unsigned l = 0; l < 4; l++) {
                    snprintf(what, sizeof what, "execveat %s %s%s%s", from[k].name, paths[i], how[l].name, list->name);
                    tell(what, from[k].fd, paths[i], list->arguments, list->environment, how[l].flags);
                }
        }
    const int fds[] = {file, program, path, link, directory, above, busy};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 5; j++) {
            snprintf(what, sizeof what, "by descriptor %d%s", i, lists[j].name);
            tell(what, fds[i], "", lists[j].arguments, lists[j].environment, AT_EMPTY_PATH);
            snprintf(what, sizeof what, "by descriptor %d without the flag%s", i, lists[j].name);
            tell(what, fds[i], "", lists[j].arguments, lists[j].environment, 0);
            snprintf(what, sizeof what, "by descriptor %d nofollow%s", i, lists[j].name);
            tell(what, fds[i], "", lists[j].arguments, lists[j].environment, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
        }
    tell("bad path", 0, (char *)8, words, none, -1);
    tell("bad path, at", AT_FDCWD, (char *)8, words, none, 0);
    tell("bad path, unknown flag", AT_FDCWD, (char *)8, words, none, 0x8000);
    text[5000] = 0;
    tell("long path", AT_FDCWD, text, words, none, 0);
    tell("long path, bad list", AT_FDCWD, text, unreadable, none, 0);
    text[300] = 0;
    tell("long name", directory, text, words, none, 0);
    return chmod("locked", 0755);
}
