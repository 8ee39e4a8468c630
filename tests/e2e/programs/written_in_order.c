// Writes, appends and truncations of one file by several processes have an order.
//
// written_in_order cut FILE ROUNDS
//     Four write one after another, each when the write before has returned, and somebody cuts the
//     file meanwhile: of two writes the later one is never missing where the earlier one is there.
// written_in_order append FILE ROUNDS
//     One writes at the beginning, one at the end: neither is missing where it came second.
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 4, SIZE = 100 };

static struct {
    _Atomic int round, ready, written, done;
} *shared;

static void must(int done, const char *what) {
    if (!done) err(2, "%s", what);
}

static void await(_Atomic int *word, int value) {
    while (*word < value) sched_yield();
}

static void work(const char *path, int own, int processes, int cuts, int rounds) {
    int appends = !cuts && own == 0, fd = -1;
    char bytes[SIZE];
    memset(bytes, 'a' + own, SIZE);
    srand(own);
    for (int round = 1; round <= rounds; round++) {
        await(&shared->round, round);
        // Who writes before a cut has a log that it goes through.
        if (fd < 0) fd = open(path, O_RDWR | (appends ? O_APPEND : 0));
        must(fd >= 0, path);
        shared->ready++;
        await(&shared->ready, round * processes);
        for (volatile int wait = rand() % 20000; wait > 0; wait--)
            ;
        if (appends) {
            must(write(fd, bytes, SIZE) == SIZE, "append");
        } else if (!cuts) {
            must(pwrite(fd, bytes, SIZE, 0) == SIZE, "write");
        } else if (own < WRITERS) {
            await(&shared->written, (round - 1) * WRITERS + own);
            must(pwrite(fd, bytes, SIZE, own * SIZE) == SIZE, "write");
            shared->written++;
        } else {
            must(!ftruncate(fd, 0), "ftruncate");
        }
        if (!cuts) {
            close(fd);
            fd = -1;
        }
        shared->done++;
    }
    _exit(0);
}

int main(int count, char **words) {
    if (count != 4) return 64;
    const char *path = words[2];
    int cuts = !strcmp(words[1], "cut"), rounds = atoi(words[3]);
    int processes = cuts ? WRITERS + 1 : 2, wrong = 0, status;
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED, "mmap");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    must(fd >= 0, path);
    for (int own = 0; own < processes; own++)
        if (fork() == 0) work(path, own, processes, cuts, rounds);
    for (int round = 1; round <= rounds; round++) {
        must(!ftruncate(fd, 0), "ftruncate");
        shared->round = round;
        await(&shared->done, round * processes);
        char bytes[WRITERS * SIZE] = {0};
        must(pread(fd, bytes, sizeof bytes, 0) >= 0, "pread");
        if (!cuts) {
            wrong += bytes[0] != 'b';
            continue;
        }
        for (int own = 1; own < WRITERS; own++)
            wrong += bytes[(own - 1) * SIZE] && !bytes[own * SIZE];
    }
    while (wait(&status) > 0) wrong += status != 0;
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
