/* What mapped files cost: mapping WORKLOAD DIRECTORY [FORM]. Prints lines "NAME VALUE", nanoseconds
 * for each byte, megabyte, fork or mapping. The directory is left as it was found.
 * MAPPING_MEGABYTES makes the large file smaller than a gigabyte. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEGABYTE (1L << 20)

static char path[4200];
static uint64_t block[MEGABYTE / 8];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void say(const char *name, double since, double count)
{
    printf("%s %.3f\n", name, (now() - since) / count);
}

static void fail(const char *what)
{
    fprintf(stderr, "mapping: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* A call that must not fail. */
#define must(call)            \
    ({                        \
        long result_ = (call); \
        if (result_ < 0)      \
            fail(#call);      \
        result_;              \
    })

static uint64_t next(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

/* Byte `at` of the file: its number in the block of a megabyte, so that wrong pages show. */
static unsigned char expected(uint64_t at)
{
    return (at % MEGABYTE / 4096 + at / MEGABYTE) & 0x7f;
}

/* A new file of so many megabytes, written by calls and closed; then opened anew. */
static int made(long megabytes)
{
    int fd = must(open(path, O_WRONLY | O_CREAT | O_EXCL, 0644));
    for (long i = 0; i < megabytes; i++) {
        for (long page = 0; page < MEGABYTE / 4096; page++)
            memset((char *)block + page * 4096, expected(i * MEGABYTE + page * 4096), 4096);
        if (must(write(fd, block, MEGABYTE)) != MEGABYTE)
            fail("a short write");
    }
    must(close(fd));
    return must(open(path, O_RDWR));
}

static unsigned char *mapped(int fd, long megabytes, int protection)
{
    void *at = mmap(NULL, megabytes * MEGABYTE, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

/* 1.25 million bytes of 128 MB, at random places: read for the first time (mapping included),
 * again, written; what was written brought back. */
static void bytes(void)
{
    enum { megabytes = 128, count = 1250000 };
    int fd = made(megabytes);
    double start = now();
    unsigned char *map = mapped(fd, megabytes, PROT_READ | PROT_WRITE);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++) {
            uint64_t at = next() % (megabytes * MEGABYTE);
            if (map[at] != expected(at)) {
                fprintf(stderr, "mapping: wrong byte %d at %ld\n", map[at], (long)at);
                exit(1);
            }
        }
        say(pass ? "read-again" : "read", start, count);
        start = now();
    }
    for (int i = 0; i < count; i++)
        map[next() % (megabytes * MEGABYTE)] = 0x80;
    say("write", start, count);
    start = now();
    must(msync(map, megabytes * MEGABYTE, MS_SYNC));
    say("msync", start, megabytes);
    must(munmap(map, megabytes * MEGABYTE));
    must(close(fd));
}

static long large(void)
{
    const char *asked = getenv("MAPPING_MEGABYTES");
    return asked ? atol(asked) : 1024;
}

static uint64_t sum(const uint64_t *words, long count)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (long i = 0; i < count; i += 4)
        a += words[i], b += words[i + 1], c += words[i + 2], d += words[i + 3];
    return a + b + c + d;
}

/* A gigabyte from its beginning to its end, every byte looked at: by read(2) in blocks of 128 KiB,
 * and mapped. The same sum must come out. */
static void scan(void)
{
    enum { piece = 128 * 1024 };
    long megabytes = large();
    int fd = made(megabytes);
    uint64_t sums[4] = {0};
    for (int pass = 0; pass < 2; pass++) {
        double start = now();
        must(lseek(fd, 0, SEEK_SET));
        for (long n; (n = must(read(fd, block, piece)));)
            sums[pass] += sum(block, n / 8);
        if (pass)
            say("scan-by-read", start, megabytes);
    }
    double start = now();
    unsigned char *map = mapped(fd, megabytes, PROT_READ);
    for (int pass = 2; pass < 4; pass++) {
        sums[pass] = sum((uint64_t *)map, megabytes * MEGABYTE / 8);
        say(pass == 2 ? "scan-cold" : "scan-warm", start, megabytes);
        start = now();
    }
    for (int pass = 1; pass < 4; pass++)
        if (sums[pass] != sums[0])
            fail("the sums differ");
}

/* fork and wait with a gigabyte mapped of which every page was touched. */
static void forks(void)
{
    enum { count = 20 };
    long megabytes = large();
    int fd = made(megabytes);
    unsigned char *map = mapped(fd, megabytes, PROT_READ | PROT_WRITE);
    for (long at = 0; at < megabytes * MEGABYTE; at += 4096)
        map[at] = 1;
    double start = now();
    for (int i = 0; i < count; i++) {
        pid_t child = must(fork());
        if (child == 0)
            _exit(map[next() % megabytes * MEGABYTE] != 1);
        int status;
        must(waitpid(child, &status, 0));
        if (status)
            fail("the child sees something else");
    }
    say("fork", start, count);
    must(munmap(map, megabytes * MEGABYTE));
}

/* Mappings that concern no mount: anonymous ones, and of this program itself. */
static void foreign(void)
{
    enum { count = 200000, size = 16 * 4096 };
    double start = now();
    for (int i = 0; i < count; i++) {
        char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            fail("mmap");
        must(munmap(at, size));
    }
    say("anonymous", start, count);
    int fd = must(open("/proc/self/exe", O_RDONLY));
    start = now();
    for (int i = 0; i < count; i++) {
        char *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            fail("mmap");
        must(munmap(at, size));
    }
    say("file", start, count);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*work)(void);
    } all[] = {{"bytes", bytes}, {"scan", scan}, {"forks", forks}, {"foreign", foreign}};
    for (unsigned i = 0; count > 2 && i < sizeof all / sizeof *all; i++)
        if (!strcmp(words[1], all[i].name)) {
            snprintf(path, sizeof path, "%s/mapped", words[2]);
            all[i].work();
            if (unlink(path) < 0 && errno != ENOENT)
                fail("unlink");
            return 0;
        }
    fprintf(stderr, "usage: mapping bytes|scan|forks|foreign DIRECTORY\n");
    return 2;
}
