// Mapped files of which more is entered into the page tables than was touched: mapped_entered WHAT
// FILE Files hold word n at byte 8 n, so that each page tells where it is from. What is printed is
// the same natively.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = 8 << 20, LIMIT = 60 };
/* include/uapi/asm-generic/mman-common.h, Linux 6.13. */
enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

static void must(int good, const char *what) {
    if (good) return;
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static int made(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0644);
    must(fd >= 0, "open");
    uint64_t *words = malloc(SIZE);
    for (size_t i = 0; i < SIZE / 8; i++) words[i] = i * 8;
    must(write(fd, words, SIZE) == SIZE, "write");
    free(words);
    return fd;
}

static volatile uint64_t *map(int fd) {
    void *at = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "mmap");
    return at;
}

static int wrong_pages(volatile uint64_t *words) {
    int wrong = 0;
    for (size_t at = 0; at < SIZE; at += PAGE) wrong += words[at / 8] != at;
    return wrong;
}

// Looking at all pages takes far fewer faults than there are pages.
static void faults(const char *name) {
    int fd = made(name);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    int wrong = wrong_pages(map(fd));
    getrusage(RUSAGE_SELF, &after);
    long count = after.ru_minflt - before.ru_minflt;
    if (count < SIZE / PAGE / 4) printf("%d wrong, few faults\n", wrong);
    else printf("%d wrong, %ld faults\n", wrong, count);
}

// What is stored into pages that were entered, by the process that looked at all of them, its child
// and that one's, is in the file.
static void stores(const char *name) {
    int fd = made(name), status;
    volatile uint64_t *words = map(fd);
    int wrong = wrong_pages(words);
    words[5 * PAGE / 8] = 1;
    pid_t child = fork();
    must(child >= 0, "fork");
    if (!child) {
        alarm(LIMIT);
        wrong = words[5 * PAGE / 8] != 1;
        words[6 * PAGE / 8] = 2;
        pid_t second = fork();
        if (!second) {
            words[7 * PAGE / 8] = 3;
            kill(getpid(), SIGKILL);
        }
        wrong += waitpid(second, &status, 0) != second || !WIFSIGNALED(status) || words[7 * PAGE / 8] != 3;
        _exit(wrong);
    }
    must(waitpid(child, &status, 0) == child, "wait");
    must(msync((void *)words, SIZE, MS_SYNC) == 0, "msync");
    must(munmap((void *)words, SIZE) == 0, "munmap");
    close(fd);
    fd = open(name, O_RDONLY);
    uint64_t found[4];
    for (int i = 0; i < 4; i++) must(pread(fd, found + i, 8, (5 + i) * PAGE) == 8, "pread");
    printf("%d wrong, child %x, %d %d %d %d\n", wrong, status, (int)found[0], (int)found[1], (int)found[2], (int)found[3]);
}

static sigjmp_buf back;
static void on_fault(int number) { siglongjmp(back, number); }

static void look(volatile uint64_t *words, size_t page) {
    int number = sigsetjmp(back, 1);
    if (number) printf("page %zu: %s\n", page, sigabbrev_np(number));
    else printf("page %zu: %llu\n", page, (unsigned long long)words[page * PAGE / 8]);
}

// A page that is guarded stays so when its neighbours are looked at for the first time.
static void guarded(const char *name) {
    volatile uint64_t *words = map(made(name));
    char *guard = (char *)words + 700 * PAGE;
    if (madvise(guard, PAGE, GUARD_INSTALL)) {
        must(errno == EINVAL, "guard");
        puts("no guards here");
        return;
    }
    for (size_t page = 698; page < 703; page++) look(words, page);
    must(madvise(guard, PAGE, GUARD_REMOVE) == 0, "the guard's end");
    look(words, 700);
}

// What was stored into a page that has left the page tables since is in the file, though its
// neighbours are entered after that. A file of a bit more than 1 MiB: the third fault fills the
// first 128 KiB, of which the first half is there.
static void left(const char *name) {
    enum { LENGTH = 1152 << 10 };
    int fd = made(name);
    must(ftruncate(fd, LENGTH) == 0, "ftruncate");
    volatile uint64_t *words = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(words != MAP_FAILED, "mmap");
    words[0] = 4711;
    must(madvise((void *)words, PAGE, MADV_DONTNEED) == 0, "madvise");
    look(words, 128);
    look(words, 16);
    must(msync((void *)words, LENGTH, MS_SYNC) == 0, "msync");
    must(munmap((void *)words, LENGTH) == 0, "munmap");
    // While it was mapped read was answered with the pages.
    uint64_t found;
    must(pread(fd, &found, 8, 0) == 8, "pread");
    printf("%d\n", (int)found);
}

int main(int count, char **words) {
    must(count == 3, "usage");
    signal(SIGBUS, on_fault);
    signal(SIGSEGV, on_fault);
    alarm(LIMIT);
    if (!strcmp(words[1], "faults")) faults(words[2]);
    else if (!strcmp(words[1], "stores")) stores(words[2]);
    else if (!strcmp(words[1], "left")) left(words[2]);
    else if (!strcmp(words[1], "guarded")) guarded(words[2]);
    else return 2;
}
