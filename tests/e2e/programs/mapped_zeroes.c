// A thread stores into a mapping while another makes fallocate(2) zero the first page of the file,
// which takes its time: what is stored behind that page stays. usage: mapped_zeroes FILE
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1 << 14, LENGTH = PAGES * PAGE };

static int file, ended;

static void *zeroing(void *unused) {
    (void)unused;
    int result = fallocate(file, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, PAGE);
    printf("fallocate: %s\n", result ? strerrorname_np(errno) : "ok");
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    return 0;
}

int main(int count, char **words) {
    if (count != 2) return 64;
    file = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (file < 0 || ftruncate(file, LENGTH) || pwrite(file, "first", 5, 0) != 5) err(2, "%s", words[1]);
    volatile char *bytes = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) err(2, "mmap");
    pthread_t thread;
    if (pthread_create(&thread, 0, zeroing, 0)) errx(2, "pthread_create");
    // Every page once, so slowly that the call begins and ends meanwhile.
    int stored = 1;
    for (; stored < PAGES && !__atomic_load_n(&ended, __ATOMIC_ACQUIRE); stored++) {
        bytes[stored * PAGE] = 1;
        for (volatile int pause = 0; pause < 20000; pause++) {}
    }
    pthread_join(thread, 0);
    int lost = 0;
    for (int page = 1; page < stored; page++) lost += bytes[page * PAGE] != 1;
    printf("first byte %d, stores lost: %d\n", bytes[0], lost);
    return lost != 0;
}
