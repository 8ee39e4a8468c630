// Children of a process that has mapped a file store into some of its pages, read others, and give
// pages back in every way there is: what they stored is in the mapping of the parent and in the
// file. Prints what differs; the file is compared by who runs this. usage: mapped_children
// DIRECTORY
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define GUARD_INSTALL 102
#define GUARD_REMOVE 103

#define PAGE 4096L
#define PAGES 1024L

static char *at;
static int fd;

static void say(const char *what, long value) { printf("%s = %ld\n", what, value); fflush(stdout); }

// Every step has pages of its own: each seventh from `step` on, so that no two are neighbours.
static char value(int step, long page) { return (char)(1 + (step * 37 + page) % 120); }
static long first(int step) { return step * 7; }

static void stores(int step, long count) {
    for (long i = 0; i < count; i++) {
        long page = (first(step) + i * 97) % PAGES;
        at[page * PAGE + step] = value(step, page);
    }
}
static void expect(int step, long count) {
    for (long i = 0; i < count; i++) {
        long page = (first(step) + i * 97) % PAGES;
        if (at[page * PAGE + step] != value(step, page)) printf("step %d: page %ld lost in the mapping\n", step, page);
        char byte;
        if (pread(fd, &byte, 1, page * PAGE + step) != 1 || byte != value(step, page)) printf("step %d: page %ld lost for calls\n", step, page);
    }
}

static long sum(void) {
    long sum = 0;
    for (long page = 0; page < PAGES; page++) sum += at[page * PAGE + 100];
    return sum;
}

static void advise(int advice) {
    if (madvise(at, PAGES * PAGE, advice) && advice != GUARD_INSTALL && advice != GUARD_REMOVE) perror("madvise");
}

static void advise_by_process(int advice) {
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    struct iovec all = {at, PAGES * PAGE};
    if (self < 0 || syscall(SYS_process_madvise, self, &all, 1, advice, 0) < 0) perror("process_madvise");
    close(self);
}

static void child(int step) {
    switch (step) {
    case 0: stores(step, 5); _exit(0);
    case 1: sum(); stores(step, 5); sum(); _exit(0);
    case 2: stores(step, 5); advise(MADV_DONTNEED); sum(); _exit(0);
    case 3: stores(step, 5); advise(MADV_PAGEOUT); _exit(0);
    case 4: stores(step, 5); advise(MADV_COLD); _exit(0);
    case 5: stores(step, 5); advise_by_process(MADV_PAGEOUT); _exit(0);
    case 6: stores(step, 5); advise(GUARD_INSTALL); advise(GUARD_REMOVE); _exit(0);
    case 7: stores(step, 5); say("msync", msync(at, PAGES * PAGE, MS_SYNC)); stores(step, 7); _exit(0);
    case 8: stores(step, 5); say("munmap", munmap(at, PAGES * PAGE)); _exit(0);
    case 9: { // A child of the child, which has stored before.
        stores(step, 5);
        pid_t pid = fork();
        if (!pid) { at[first(step) * PAGE + 200] = 7; _exit(0); }
        waitpid(pid, NULL, 0);
        say("the grandchild's byte", at[first(step) * PAGE + 200]);
        _exit(0);
    }
    case 10: { // Moved after a store, stored again.
        stores(step, 3);
        at = mremap(at, PAGES * PAGE, (PAGES + 1) * PAGE, MREMAP_MAYMOVE);
        stores(step, 5);
        _exit(0);
    }
    case 11: { // Stored by the kernel.
        int zero = open("/dev/zero", O_RDONLY);
        long page = first(step);
        if (read(zero, at + page * PAGE, 3 * PAGE) != 3 * PAGE) perror("read");
        stores(step, 5);
        advise(MADV_DONTNEED);
        stores(step, 6);
        _exit(0);
    }
    case 12: stores(step, 5); mprotect(at, PAGES * PAGE, PROT_READ); mprotect(at, PAGES * PAGE, PROT_READ | PROT_WRITE); stores(step, 6); _exit(0);
    }
}

// A file for each step: what one child has not brought to the file no other one brings.
static void try(const char *directory, int step, int stored) {
    char path[4096], bytes[PAGE];
    snprintf(path, sizeof path, "%s/%d", directory, step);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (long page = 0; page < PAGES; page++) {
        memset(bytes, 'a' + page % 26, PAGE);
        if (write(fd, bytes, PAGE) != PAGE) perror("write");
    }
    // The parent looks at no page before: what only the child has in its page tables goes more
    // easily.
    at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) { perror("mmap"); exit(1); }
    pid_t pid = fork();
    if (!pid) child(step);
    int status;
    waitpid(pid, &status, 0);
    printf("step %d: %x\n", step, status);
    fflush(stdout);
    expect(step, stored);
    // It has stored nothing itself, and knows that.
    munmap(at, PAGES * PAGE);
    close(fd);
}

int main(int count, char **words) {
    static const int stored[] = {5, 5, 5, 5, 5, 5, 5, 7, 5, 5, 5, 6, 6};
    if (count != 2) return 2;
    for (int step = 0; step < (int)(sizeof stored / sizeof *stored); step++) try(words[1], step, stored[step]);
    return 0;
}
