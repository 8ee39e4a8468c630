// Several processes map one file at the same time, each storing into every page as soon as it can:
// no store is undone by another that is still mapping. usage: mapped_together FILE ROUNDS
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN = 4, PAGE = 4096, LENGTH = 16 << 20 };

static void child(const char *path, int number, int pause, int ready, int all) {
    struct timespec time = {0, pause};
    nanosleep(&time, 0);
    int fd = open(path, O_RDWR);
    char *bytes = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) err(2, "mmap");
    for (size_t at = number; at < LENGTH; at += PAGE) bytes[at] = 'A' + number;
    char word = 0;
    if (write(ready, &word, 1) != 1) err(2, "write");
    close(ready);
    // Ends when all have stored.
    if (read(all, &word, 1) < 0) err(2, "read");
    for (size_t at = number; at < LENGTH; at += PAGE)
        if (bytes[at] != 'A' + number) errx(1, "the store at %zu is gone", at);
    exit(0);
}

int main(int count, char **words) {
    if (count != 3) return 64;
    int rounds = atoi(words[2]), failed = 0;
    for (int round = 0; round < rounds; round++) {
        static char content[LENGTH];
        memset(content, 'x', LENGTH);
        int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0666);
        if (fd < 0 || write(fd, content, LENGTH) != LENGTH) err(2, "%s", words[1]);
        int ready[2], all[2];
        if (pipe(ready) || pipe(all)) err(2, "pipe");
        for (int number = 0; number < CHILDREN; number++)
            if (fork() == 0) {
                close(all[1]);
                child(words[1], number, number * (round % 4) * 1000000, ready[1], all[0]);
            }
        close(ready[1]);
        char word;
        while (read(ready[0], &word, 1) == 1) {}
        close(ready[0]), close(all[0]), close(all[1]);
        int status;
        while (wait(&status) > 0) failed += status != 0;
        if (pread(fd, content, LENGTH, 0) != LENGTH) err(2, "pread");
        for (size_t at = 0; at < LENGTH; at += PAGE)
            failed += memcmp(content + at, "ABCD", CHILDREN) != 0;
        close(fd);
        if (unlink(words[1])) err(2, "unlink");
    }
    printf("%d rounds, %d wrong\n", rounds, failed);
    return failed != 0;
}
