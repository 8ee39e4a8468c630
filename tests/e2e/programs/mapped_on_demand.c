// A file of 8 MiB, larger than what is filled before it is mapped, changed through mappings and by
// calls, and compared with a copy in memory after each step: mapped_on_demand DIRECTORY SEED
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 8 << 20, STEPS = 1200, PART = 200000 };

static unsigned long long state;
static unsigned any(unsigned n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) % n;
}

static void must(int good, const char *what, int step) {
    if (!good) {
        printf("%s, step %d: %s\n", what, step, strerror(errno));
        exit(1);
    }
}

static size_t apart(size_t a, size_t b) { return a < b ? b - a : a - b; }

int main(int count, char **words) {
    must(count == 3 && chdir(words[1]) == 0, "usage", 0);
    state = atoll(words[2]) * 2654435761u + 1;
    unsigned char *model = malloc(SIZE), *part = malloc(PART);
    for (int i = 0; i < SIZE; i++) model[i] = i / 4096 % 7 ? any(256) : 0;
    int fd = open("large", O_RDWR | O_CREAT | O_EXCL, 0644);
    must(fd >= 0, "open", 0);
    for (int at = 0; at < SIZE; at += PART) {
        int length = SIZE - at < PART ? SIZE - at : PART;
        must(pwrite(fd, model + at, length, at) == length, "pwrite of the whole", 0);
    }
    unsigned char *map = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int reading = open("large", O_RDONLY);
    unsigned char *read_only = mmap(0, SIZE, PROT_READ, MAP_SHARED, reading, 0);
    unsigned char *private = mmap(0, SIZE, PROT_READ, MAP_PRIVATE, reading, 0);
    must(map != MAP_FAILED && read_only != MAP_FAILED && private != MAP_FAILED, "mmap", 0);
    must(mprotect(read_only, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES, "a read-only descriptor's mapping became writable", 0);
    for (int step = 1; step <= STEPS; step++) {
        size_t at = any(SIZE), to = any(SIZE), length = 1 + any(any(4) ? 5000 : PART - 1);
        if (at + length > SIZE) length = SIZE - at;
        if (to + length > SIZE) length = SIZE - to;
        int byte = any(256), status;
        switch (any(11)) {
        case 0: memset(map + at, byte, length), memset(model + at, byte, length); break;
        case 1:
            memset(part, byte, length), memset(model + at, byte, length);
            must(pwrite(fd, part, length, at) == (ssize_t)length, "pwrite", step);
            break;
        case 2: must(pread(fd, part, length, at) == (ssize_t)length && !memcmp(part, model + at, length), "pread", step); break;
        case 3: must(!memcmp(map + at, model + at, length), "shared mapping", step); break;
        case 4: must(!memcmp(read_only + at, model + at, length), "read-only mapping", step); break;
        case 5: must(!memcmp(private + at, model + at, length), "private mapping", step); break;
        case 6: must(msync(map + at / 4096 * 4096, length, MS_SYNC) == 0, "msync", step); break;
        case 7: // from the mapping into its own file
            if (apart(at, to) < length) break;
            must(pwrite(fd, map + at, length, to) == (ssize_t)length, "pwrite from the mapping", step);
            memcpy(model + to, model + at, length);
            break;
        case 8: // and the way back
            if (apart(at, to) < length + 8192) break;
            must(pread(fd, map + to, length, at) == (ssize_t)length, "pread into the mapping", step);
            memcpy(model + to, model + at, length);
            break;
        case 9:
            if (any(10)) break;
            void *place = mmap(0, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            map = mremap(map, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
            must(map != MAP_FAILED, "mremap", step);
            break;
        case 10:
            if (any(10)) break;
            pid_t child = fork();
            if (child == 0) {
                int same = !memcmp(map + at, model + at, length) && !memcmp(private + to, model + to, length);
                memset(map + at, byte, length);
                _exit(!same);
            }
            must(waitpid(child, &status, 0) == child && status == 0, "child", step);
            memset(model + at, byte, length);
        }
    }
    must(waitpid(-1, 0, __WALL) == -1 && errno == ECHILD, "a child that is not ours", 0);
    must(!memcmp(map, model, SIZE), "all of the mapping", 0);
    must(munmap(map, SIZE) == 0 && munmap(private, SIZE) == 0 && munmap(read_only, SIZE) == 0, "munmap", 0);
    for (int at = 0; at < SIZE; at += PART) {
        ssize_t got = pread(reading, part, PART, at);
        must(got > 0 && !memcmp(part, model + at, got), "all of the file", at);
    }
    puts("right");
}
