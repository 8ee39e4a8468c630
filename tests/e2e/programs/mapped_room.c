// Files that are larger than the memory for them. usage: mapped_room make FILE MEGABYTES | scan
// FILE [PASSES] | store FILE | stores FILE | sums FILE | each FILE... | both FILE FILE | calls FILE
// | sparse FILE | filled FILE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L

static uint64_t word(uint64_t at) { return (at + 1) * 0x9e3779b97f4a7c15u; }

static char *map(const char *path, int protection, long *size) {
    int fd = open(path, protection & PROT_WRITE ? O_RDWR : O_RDONLY);
    struct stat found;
    if (fd < 0 || fstat(fd, &found)) { perror(path); exit(1); }
    *size = found.st_size;
    char *at = mmap(NULL, *size, protection, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) printf("mmap: %s\n", strerrorname_np(errno));
    return at == MAP_FAILED ? NULL : at;
}

static long wrong(const char *at, long size, int backwards) {
    long count = 0;
    for (long i = 0; i < size; i += PAGE) {
        long page = backwards ? size - PAGE - i : i;
        if (*(uint64_t *)(at + page) != word(page) || *(uint64_t *)(at + page + PAGE - 8) != word(page + PAGE - 8)) count++;
    }
    return count;
}

// Megabytes that are in use where run directories are.
static long used(void) {
    struct statvfs found;
    return statvfs("/dev/shm", &found) ? -1 : (long)(found.f_blocks - found.f_bfree) * (long)found.f_frsize >> 20;
}

// Each thread, and a child, counts in a word of its own in pages that it jumps to; the first one in
// the first pages only, all the time, so that these are stored into while they are dropped.
enum { THREADS = 3, STORES = 10000, COUNTS = 64, HOT = 8 };

static char *stored_map;
static long stored_pages;
static uint32_t *counted[THREADS + 1];
static atomic_int others;

static void *store_at_random(void *which) {
    long me = (long)which;
    uint64_t state = me + 1;
    for (int i = 0; i < STORES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        long page = (long)(state >> 33) % stored_pages;
        *(volatile uint64_t *)(stored_map + page * PAGE + COUNTS + 8 * me) += 1;
        counted[me][page]++;
    }
    others--;
    return NULL;
}

static void *store_all_the_time(void *unused) {
    for (long i = 0; others; i++) {
        long page = i % HOT;
        *(volatile uint64_t *)(stored_map + page * PAGE + COUNTS) += 1;
        counted[0][page]++;
    }
    return unused;
}

static void clear_counts(void) {
    for (long page = 0; page < stored_pages; page++) memset(stored_map + page * PAGE + COUNTS, 0, 8 * (THREADS + 1));
}

// How many of the words in `page` are not what was counted.
static long miscounted(const char *bytes, long page) {
    long count = 0;
    for (long i = 0; i <= THREADS; i++) count += ((const uint64_t *)(bytes + COUNTS))[i] != counted[i][page];
    return count;
}

static int stores(const char *path) {
    long size;
    stored_map = map(path, PROT_READ | PROT_WRITE, &size);
    if (!stored_map) return 0;
    stored_pages = size / PAGE;
    clear_counts();
    for (int i = 0; i <= THREADS; i++)
        counted[i] = mmap(NULL, stored_pages * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (!child) {
        store_at_random((void *)THREADS);
        _exit(0);
    }
    pthread_t threads[THREADS];
    others = THREADS - 1;
    pthread_create(threads, NULL, store_all_the_time, NULL);
    for (long i = 1; i < THREADS; i++) pthread_create(threads + i, NULL, store_at_random, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    int status;
    waitpid(child, &status, 0);
    long mapped = 0, read = 0;
    for (long page = 0; page < stored_pages; page++) mapped += miscounted(stored_map + page * PAGE, page);
    munmap(stored_map, size);
    int fd = open(path, O_RDONLY);
    char bytes[PAGE];
    for (long page = 0; page < stored_pages; page++) read += pread(fd, bytes, PAGE, page * PAGE) != PAGE || miscounted(bytes, page);
    printf("child %x, %ld wrong in the mapping, %ld in the file\n", status, mapped, read);
    for (int i = 0; i <= THREADS; i++) {
        uint64_t all = 0;
        for (long page = 0; page < stored_pages; page++) all += counted[i][page];
        printf("%s%ld", i ? " " : "", (long)all);
    }
    printf("\n");
    fprintf(stderr, "used %ld\n", used());
    return 0;
}

// What all threads have counted.
static int sums(const char *path) {
    int fd = open(path, O_RDONLY);
    uint64_t words[PAGE / 8], all[THREADS + 1] = {0};
    for (long page = 0; pread(fd, words, PAGE, page * PAGE) == PAGE; page++)
        for (int i = 0; i <= THREADS; i++) all[i] += words[COUNTS / 8 + i];
    for (int i = 0; i <= THREADS; i++) printf("%s%ld", i ? " " : "", (long)all[i]);
    printf("\n");
    return 0;
}

// Reads all of it by calls, of any length and at any place, while a part of it has been looked at
// and stored into by a mapping.
static int calls(const char *path) {
    enum { LARGE = 1 << 20, APART = 37 };
    long size, count = 0;
    char *at = map(path, PROT_READ | PROT_WRITE, &size);
    if (!at) return 0;
    for (long page = 0; page < size / PAGE; page += APART * 64) at[page * PAGE + 100] = 7;
    unsigned char *bytes = malloc(LARGE);
    int fd = open(path, O_RDONLY);
    long read_in_all = 0, got;
    while ((got = read(fd, bytes, LARGE)) > 0) {
        for (long i = 0; i < got; i += 8) {
            long place = read_in_all + i;
            uint64_t want = word(place);
            if (place % PAGE == 96 && place / PAGE % (APART * 64) == 0) ((unsigned char *)&want)[4] = 7;
            count += memcmp(bytes + i, &want, 8) != 0;
        }
        read_in_all += got;
    }
    printf("%ld MiB, %s, %ld wrong\n", read_in_all >> 20, got ? strerrorname_np(errno) : "to the end", count);
    // Over the borders of what has been looked at, into several places.
    count = 0;
    for (long start = 1; start < size; start += 3000001) {
        struct iovec parts[] = {{bytes, 777}, {bytes + 777, 0}, {bytes + 777, 300000}, {bytes + 300777, 5}};
        got = preadv(fd, parts, 4, start);
        count += got != (size - start < 300782 ? size - start : 300782);
        for (long i = 0; i < got; i++) {
            long place = start + i;
            uint64_t whole = word(place & ~7);
            unsigned char want = ((unsigned char *)&whole)[place % 8];
            if (place % PAGE == 100 && place / PAGE % (APART * 64) == 0) want = 7;
            count += bytes[i] != want;
        }
    }
    printf("%ld wrong, behind the end %ld\n", count, (long)pread(fd, bytes, 10, size));
    fprintf(stderr, "used %ld\n", used());
    return 0;
}

static void tried(const char *what, int good) { printf("%s: %s\n", what, good ? "good" : strerrorname_np(errno)); }

// What wants all of a file at once, of which most is a hole: a gigabyte with a megabyte of content
// in the middle.
static int sparse(const char *path) {
    enum { CONTENT = 1 << 20 };
    const long size = 1L << 30, place = size / 2 + 5000;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666), all = PROT_READ | PROT_WRITE;
    char *bytes = memset(malloc(CONTENT), 'c', CONTENT);
    if (fd < 0 || ftruncate(fd, size) || pwrite(fd, bytes, CONTENT, place) != CONTENT) { perror(path); return 1; }
    char *at = mmap(NULL, size, all, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) { perror("mmap"); return 1; }
    at[0] = 'a';
    tried("MAP_POPULATE", mmap(NULL, PAGE, all, MAP_SHARED | MAP_POPULATE, fd, 0) != MAP_FAILED);
    tried("PROT_EXEC", mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    char *target = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tried("MREMAP_FIXED", mremap(at + (1 << 20), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    pid_t pid = fork();
    if (!pid) {
        at[place - 1] = 'f';
        _exit(at[place] != 'c');
    }
    int status;
    waitpid(pid, &status, 0);
    at[place + CONTENT] = at[place + 1000] = 's';
    target[3] = 'm';
    printf("child %x, %c %d %c%c%c %d %c\n", status, at[0], at[1], at[place - 1], at[place], at[place + 1000], at[place - 2], at[place + CONTENT]);
    munmap(at, size);
    munmap(target, PAGE);
    struct stat found;
    fsync(fd);
    fstat(fd, &found);
    char seen[4] = {0};
    long right = pread(fd, bytes, CONTENT, place) == CONTENT;
    for (long i = 0; i < CONTENT; i++) right &= bytes[i] == (i == 1000 ? 's' : 'c');
    pread(fd, seen, 1, 0), pread(fd, seen + 1, 1, place - 1), pread(fd, seen + 2, 1, place + CONTENT), pread(fd, seen + 3, 1, (1 << 20) + 3);
    printf("%s, %.4s, %s\n", right ? "right" : "wrong", seen, found.st_blocks < 2 * (CONTENT + (8 << 20)) / 512 ? "sparse" : "not sparse");
    fprintf(stderr, "used %ld\n", used());
    return 0;
}

// What wants all of a file at once for which there is no room, while it is mapped on demand and
// stored into.
static int filled(const char *path) {
    long size;
    char *at = map(path, PROT_READ | PROT_WRITE, &size);
    int fd = open(path, O_RDWR);
    if (!at) return 0;
    at[100] = 1;
    tried("MAP_POPULATE", mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0) != MAP_FAILED);
    tried("PROT_EXEC", mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    char *target = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tried("MREMAP_FIXED", mremap(at + (1 << 20), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    printf("%ld wrong\n", wrong(at, size, 0));
    return 0;
}

static sigjmp_buf fault;
static void on_fault(int number) { siglongjmp(fault, number); }

int main(int count, char **words) {
    long size;
    if (count >= 4 && !strcmp(words[1], "make")) {
        int fd = open(words[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
        uint64_t bytes[PAGE / 8];
        for (long at = 0; at < atol(words[3]) << 20; at += PAGE) {
            for (long i = 0; i < PAGE / 8; i++) bytes[i] = word(at + i * 8);
            if (write(fd, bytes, PAGE) != PAGE) { perror("write"); return 1; }
        }
        return 0;
    }
    if (count >= 3 && !strcmp(words[1], "scan")) {
        char *at = map(words[2], PROT_READ, &size);
        if (!at) return 0;
        for (int pass = 0; pass < (count > 3 ? atoi(words[3]) : 2); pass++) {
            printf("%ld wrong\n", wrong(at, size, pass % 2));
            fprintf(stderr, "used %ld\n", used());
        }
        fflush(stdout);
        // Two at once, in two directions.
        pid_t pid = fork();
        long found = wrong(at, size, pid == 0);
        if (!pid) _exit(found != 0);
        int status;
        waitpid(pid, &status, 0);
        printf("%ld wrong, child %x\n", found, status);
        return 0;
    }
    if (count == 3 && !strcmp(words[1], "store")) {
        char *at = map(words[2], PROT_READ | PROT_WRITE, &size);
        signal(SIGBUS, on_fault);
        int number = sigsetjmp(fault, 1);
        if (!number) for (long page = 0; page < size; page += PAGE) at[page + 8] = 1;
        printf("%s\n", number == SIGBUS ? "BUS" : "all stored");
        return 0;
    }
    if (count == 3 && !strcmp(words[1], "stores")) return stores(words[2]);
    if (count == 3 && !strcmp(words[1], "calls")) return calls(words[2]);
    if (count == 3 && !strcmp(words[1], "sparse")) return sparse(words[2]);
    if (count == 3 && !strcmp(words[1], "filled")) return filled(words[2]);
    if (count == 3 && !strcmp(words[1], "sums")) return sums(words[2]);
    if (!strcmp(words[1], "each")) {
        for (int i = 2; i < count; i++) {
            char *at = map(words[i], PROT_READ, &size);
            if (!at) continue;
            printf("%ld wrong\n", wrong(at, size, 0));
            munmap(at, size);
        }
        return 0;
    }
    if (count == 4 && !strcmp(words[1], "both")) {
        long second_size;
        char *at = map(words[2], PROT_READ, &size);
        if (at) printf("%ld wrong\n", wrong(at, size, 0));
        char *second = map(words[3], PROT_READ, &second_size);
        if (second) printf("%ld wrong\n", wrong(second, second_size, 0));
        return 0;
    }
    return 2;
}
