// One thread stores into a mapping while another takes the mapping away: every store that went into
// the file stays there. usage: mapped_threads munmap|replaced|moved|refused FILE ROUNDS
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256, LENGTH = PAGES * PAGE };

static char *bytes;
static uint64_t stored;
static int stop;
static sigjmp_buf back;

static void on_fault(int number) { siglongjmp(back, number); }

// Store n goes into page n modulo PAGES. Ends when the mapping is gone.
static void *writer(void *unused) {
    (void)unused;
    if (sigsetjmp(back, 1)) return 0;
    for (uint64_t n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
        *(volatile uint64_t *)(bytes + n % PAGES * PAGE) = n;
        __atomic_store_n(&stored, n, __ATOMIC_RELEASE);
    }
    return 0;
}

// The last of the stores 1 to `count` into `page`; 0: none.
static uint64_t last(uint64_t count, uint64_t page) {
    uint64_t n = count / PAGES * PAGES + page;
    return n <= count ? n : n >= PAGES ? n - PAGES : 0;
}

// An mremap onto the mapping that fails when that is gone already (`mremap_to`, mm/mremap.c): with
// what stays at the old place it would be more than the process may have.
static void refused(int fd) {
    long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1 || fclose(file)) err(2, "statm");
    char *old = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct rlimit before, limit;
    if (old == MAP_FAILED || getrlimit(RLIMIT_AS, &before)) err(2, "memory");
    limit = before;
    limit.rlim_cur = pages * PAGE + LENGTH / 2;
    if (setrlimit(RLIMIT_AS, &limit)) err(2, "setrlimit");
    char *new = mremap(old, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, bytes);
    if (setrlimit(RLIMIT_AS, &before)) err(2, "setrlimit");
    if (new != MAP_FAILED) errx(2, "mremap is not refused");
    munmap(old, LENGTH);
}

int main(int count, char **words) {
    if (count != 4) return 64;
    const char *what = words[1];
    int rounds = atoi(words[3]), wrong = 0;
    signal(SIGSEGV, on_fault);
    alarm(120);
    for (int round = 0; round < rounds; round++) {
        static char content[LENGTH];
        memset(content, 0, LENGTH);
        int fd = open(words[2], O_RDWR | O_CREAT | O_TRUNC, 0666);
        if (fd < 0 || write(fd, content, LENGTH) != LENGTH) err(2, "%s", words[2]);
        bytes = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        char *room = mmap(0, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (bytes == MAP_FAILED || room == MAP_FAILED) err(2, "mmap");
        stored = stop = 0;
        pthread_t thread;
        if (pthread_create(&thread, 0, writer, 0)) err(2, "pthread_create");
        while (__atomic_load_n(&stored, __ATOMIC_ACQUIRE) < 8) {}
        int replaced = !strcmp(what, "replaced");
        if (replaced) {
            if (mmap(bytes, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != bytes) err(2, "mmap over");
            uint64_t now = __atomic_load_n(&stored, __ATOMIC_ACQUIRE);
            while (__atomic_load_n(&stored, __ATOMIC_ACQUIRE) < now + 2 * PAGES) {}
            __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        } else if (!strcmp(what, "moved")) {
            if (mremap(bytes, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, room) != room) err(2, "mremap");
        } else if (!strcmp(what, "refused")) {
            refused(fd);
        } else if (munmap(bytes, LENGTH)) err(2, "munmap");
        pthread_join(thread, 0);
        if (!strcmp(what, "moved") && munmap(room, LENGTH)) err(2, "munmap");
        if (pread(fd, content, LENGTH, 0) != LENGTH) err(2, "pread");
        // The stores that went into the file are the first so many: all, where the thread ended at
        // the first that could not.
        uint64_t in_file = replaced ? 0 : stored;
        for (int page = 0; replaced && page < PAGES; page++) {
            uint64_t word = *(uint64_t *)(content + page * PAGE);
            if (word > in_file) in_file = word;
        }
        for (int page = 0; page < PAGES; page++)
            wrong += *(uint64_t *)(content + page * PAGE) != last(in_file, page);
        for (int page = 0; replaced && page < PAGES; page++)
            wrong += *(uint64_t *)(bytes + page * PAGE) != last(stored, page);
        if (replaced) munmap(bytes, LENGTH);
        if (strcmp(what, "moved")) munmap(room, LENGTH);
        close(fd);
    }
    printf("%d rounds, %d wrong\n", rounds, wrong);
    return wrong != 0;
}
