/* A failed exec changes nothing: descriptors, offsets, close-on-exec, environment, working
 * directory. Usage: exec_fails FILE SCRATCH, with the mount as the working directory. */
#include "probe.h"

extern char **environ;

int main(int argc, char **argv)
{
    char *const none[] = { "x", NULL }, *const empty[] = { NULL }, buffer[64];
    int keep = must_open(argv[1], O_RDONLY), drop = must_open(argv[1], O_RDONLY | O_CLOEXEC), dir = must_open(".", O_RDONLY);
    int variables = 0;
    for (char **v = environ; *v; v++)
        variables++;
    lseek(keep, 3, SEEK_SET);
    lseek(drop, 4, SEEK_SET);
    char *big = malloc(200000);
    memset(big, 'x', 199999);
    big[199999] = 0;
    char *const too_big[] = { "x", big, NULL };
    chdir(argv[2]);
    symlink("loop", "loop");
    int made = open("not-executable", O_WRONLY | O_CREAT, 0644);
    write(made, "#!/bin/sh\n", 10);
    close(made);
    made = open("bad-interpreter", O_WRONLY | O_CREAT, 0755);
    write(made, "#!/nonexistent\n", 15);
    close(made);
    made = open("no-format", O_WRONLY | O_CREAT, 0755);
    write(made, "\1\2\3\4", 4);
    close(made);
    fchdir(dir);
    static const char *const outside[] = { "missing", "loop", "not-executable", "bad-interpreter", "no-format", "", "not-executable/x" };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[2], outside[i]);
        printf("%s: ", outside[i]);
        SHOW(execve(path, none, environ));
    }
    SHOW(execve("hello.txt", none, environ));
    SHOW(execve("missing", none, environ));
    SHOW(execve("dir", none, environ));
    SHOW(execve("links/dangling", none, environ));
    SHOW(execve("links/self", none, environ));
    SHOW(execve("hello.txt/x", none, empty));
    SHOW(execve("/bin/true", too_big, empty));
    SHOW(execve("/bin/true", (char **)8, empty));
    SHOW(execve((char *)8, none, empty));
    SHOW(execve("/bin/true", none, (char **)8));
    SHOW(execveat(keep, "", none, empty, AT_EMPTY_PATH));
    SHOW(execveat(dir, "hello.txt", none, empty, 0));
    SHOW(execveat(dir, "hello.txt", none, empty, 0x100000));
    SHOW(fcntl(keep, F_GETFD));
    SHOW(fcntl(drop, F_GETFD));
    SHOW(lseek(keep, 0, SEEK_CUR));
    SHOW(lseek(drop, 0, SEEK_CUR));
    ssize_t n = read(drop, buffer, 5);
    printf("read %zd '%.*s'\n", n, (int)n, buffer);
    for (char **v = environ; *v; v++)
        variables--;
    printf("environment changed by %d\n", variables);
    printf("still in %s\n", getcwd(buffer, sizeof buffer) ? buffer : "?");
    struct stat st;
    show_stat("hello.txt", stat("hello.txt", &st), &st);
    fflush(stdout);
    if (fork() == 0) {
        execlp("cat", "cat", "hello.txt", NULL);
        _exit(127);
    }
    wait(NULL);
    return 0;
}
