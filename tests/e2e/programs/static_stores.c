// A program that nobody intercepts stores into a file that it inherited, while others store into
// their mapping of it: static_stores DIRECTORY STATIC STATIC is this program, linked statically:
// static_stores child FD READY GO
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 20000, SHOWN = 8 };

static void must(int good, const char *what) {
    if (!good) err(2, "%s", what);
}

static int child(char **words) {
    int fd = atoi(words[0]), ready = atoi(words[1]), go = atoi(words[2]);
    char word;
    char *at = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "the child's mapping");
    memcpy(at + 9000, "static", 6);
    must(write(ready, "r", 1) == 1 && read(go, &word, 1) == 1, "the parent");
    memcpy(at + 9020, "later", 5);
    must(pwrite(fd, "write", 5, 13020) == 5 && munmap(at, LENGTH) == 0, "the child's end");
    return 0;
}

static void show(const char *what, int fd, const char *at) {
    static const int places[] = {10, 9000, 9020, 9100, 13000, 13020, LENGTH - SHOWN};
    char bytes[SHOWN];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        must(pread(fd, bytes, SHOWN, places[i]) == SHOWN, "pread");
        printf("%s, byte %d: %.*s", what, places[i], SHOWN, bytes);
        if (at) printf(", mapped %.*s", SHOWN, at + places[i]);
        printf("\n");
    }
}

int main(int count, char **words) {
    if (count == 5 && !strcmp(words[1], "child")) return child(words + 2);
    if (count != 3) return 64;
    char name[400], numbers[3][12];
    snprintf(name, sizeof name, "%s/file", words[1]);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644), ready[2], go[2];
    char *dots = malloc(LENGTH), word;
    memset(dots, '.', LENGTH);
    must(fd >= 0 && write(fd, dots, LENGTH) == LENGTH && pipe(ready) == 0 && pipe(go) == 0, name);
    char *at = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "mmap");
    memcpy(at + 10, "before", 6);
    for (int round = 0; round < 2; round++) {
        snprintf(numbers[0], 12, "%d", fd), snprintf(numbers[1], 12, "%d", ready[1]), snprintf(numbers[2], 12, "%d", go[0]);
        pid_t pid = fork();
        if (pid == 0) {
            execl(words[2], words[2], "child", numbers[0], numbers[1], numbers[2], (char *)0);
            _exit(127);
        }
        must(pid > 0 && read(ready[0], &word, 1) == 1, "the child");
        memcpy(at + 9100, round ? "MINE" : "mine", 4);
        memcpy(at + 13000, round ? "PAGE" : "page", 4);
        int status;
        must(write(go[1], "g", 1) == 1 && waitpid(pid, &status, 0) == pid, "wait");
        printf("child %x\n", status);
        show("while it is mapped", fd, at);
        memcpy(at + 9000, "again.", 6);
        memcpy(at + 13020, "again", 5);
        show("once more", fd, at);
    }
    must(munmap(at, LENGTH) == 0 && close(fd) == 0, "close");
    fd = open(name, O_RDONLY);
    show("anew", fd, NULL);
    return 0;
}
