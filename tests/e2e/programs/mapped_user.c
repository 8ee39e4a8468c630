// A process that has become another user, and one that maps the files that it has open: mapped_user
// FILE
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 8192 };

static void say(const char *what, ssize_t answer) {
    printf("%s %zd %s\n", what, answer, answer < 0 ? strerror(errno) : "");
}

int main(int count, char **words) {
    if (count != 2) return 64;
    int up[2], down[2];
    char byte, text[8] = "";
    if (pipe(up) || pipe(down)) err(2, "pipe");
    int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, LENGTH) || pwrite(fd, "start", 5, 0) != 5) err(2, "%s", words[1]);
    int reader = open(words[1], O_RDONLY);
    pid_t child = fork();
    if (!child) {
        // Nobody has mapped anything yet. Again and again, as servers do.
        for (int i = 0; i < 3; i++)
            if (setresuid(-1, 65534, -1) || setresuid(-1, 0, -1)) err(2, "setresuid");
        if (setuid(65534)) err(2, "setuid");
        write(up[1], "", 1);
        read(down[0], &byte, 1);
        ssize_t got = pread(reader, text, 5, 0);
        say(text, got);
        got = read(fd, text, 5);
        say(text, got);
        say("pwrite", pwrite(fd, "child", 5, 100));
        say("fsync", fsync(fd));
        return 0;
    }
    read(up[0], &byte, 1);
    int second = open(words[1], O_RDWR);
    char *at = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, second, 0);
    if (second < 0 || at == MAP_FAILED) err(2, "mmap");
    memcpy(at, "store", 5);
    write(down[1], "", 1);
    int status;
    waitpid(child, &status, 0);
    printf("%x %.5s\n", status, at + 100);
    return 0;
}
