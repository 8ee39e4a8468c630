// Threads sync a place at which two files are mapped in turn: what is stored into one of them is
// never taken for the other's. usage: mapped_places DIRECTORY ROUNDS
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16, LENGTH = PAGES * PAGE, THREADS = 8 };

static const char *directory;
static char *place;
static int stop;

static int opened(int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/file-%d", directory, number);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || ftruncate(fd, LENGTH)) err(2, "%s", path);
    return fd;
}

static char *mapped(void *at, int fd) {
    char *bytes = mmap(at, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0), fd, 0);
    if (bytes == MAP_FAILED) err(2, "mmap");
    return bytes;
}

// Nothing may be mapped there: ENOMEM.
static void *syncing(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) msync(place, LENGTH, MS_SYNC);
    return 0;
}

int main(int count, char **words) {
    if (count != 3) return 64;
    directory = words[1];
    int rounds = atoi(words[2]), wrong = 0;
    int files[2] = {opened(0), opened(1)};
    place = mapped(0, files[0]);
    munmap(place, LENGTH);
    // Far from where the kernel would put something else.
    place = (char *)((uintptr_t)place >> 40 << 40 ^ (uintptr_t)1 << 44);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], 0, syncing, 0)) errx(2, "pthread_create");
    for (uint64_t round = 1; round <= (uint64_t)rounds; round++) {
        int fd = files[round % 2];
        char *bytes = mapped(place, fd);
        for (int page = 0; page < PAGES; page++) *(volatile uint64_t *)(bytes + page * PAGE) = round;
        if (munmap(bytes, LENGTH)) err(2, "munmap");
        for (int page = 0; page < PAGES; page++) {
            uint64_t word;
            if (pread(fd, &word, sizeof word, page * PAGE) != sizeof word) err(2, "pread");
            if (word != round) {
                wrong++;
                break;
            }
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("%d rounds, %d wrong\n", rounds, wrong);
    return wrong != 0;
}
