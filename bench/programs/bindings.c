/* What file systems in several languages are measured by: bindings WORKLOAD DIRECTORY. Each line is a
 * name and microseconds.
 *
 *   calls     one call at a time: the lower quartile of batches, after a time in which
 *             compilers get warm
 *   postmark  PostMark's pattern (Katcher, TR3022): files of 1 to 64 KiB, transactions of read or
 *             append and create or delete, in blocks of 4 KiB; of a transaction
 *   bonnie    Bonnie's six phases (modified in JavaFuse's study): putc, blocks of 16 KiB, getc, read,
 *             and both reads with the pages dropped; of the whole file
 *   buffers   16 MB in buffers of 4 to 128 KiB; of the whole file
 *   copy      of one large file in memory, in buffers of 128 KiB, then fsync; of the whole file
 *
 * POSTMARK=FILES:TRANSACTIONS, BONNIE=MB and COPY=MB change the sizes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { batches = 9, KB = 1024, MB = KB * KB, names = 100 };

static const char *directory;
static _Alignas(4096) char data[MB];
static int file;
static unsigned long turn;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

/* `name` with a number, in the directory. */
static const char *path(const char *name, unsigned long number)
{
    static char paths[2][4096];
    char *found = paths[turn++ % 2];
    snprintf(found, sizeof paths[0], "%s/%s%lu", directory, name, number);
    return found;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void read_4k(unsigned long i)
{
    must(pread(file, data, 4 * KB, i % 100000 * 4 * KB) == 4 * KB, "pread");
}

static void write_4k(unsigned long i)
{
    must(pwrite(file, data, 4 * KB, i % 100000 * 4 * KB) == 4 * KB, "pwrite");
}

static void absent(unsigned long i)
{
    struct stat st;
    must(stat(path("absent", i), &st) != 0, "stat");
}

static void mode(unsigned long i)
{
    must(chmod(path("list", 0), i % 2 ? 0600 : 0644) == 0, "chmod");
}

static void make(unsigned long i)
{
    const char *made = path("made", i);
    int fd = open(made, O_CREAT | O_EXCL | O_WRONLY, 0644);
    must(fd >= 0 && close(fd) == 0 && unlink(made) == 0, "made");
}

static void move(unsigned long i)
{
    must(rename(path("moved", i % 2), path("moved", (i + 1) % 2)) == 0, "rename");
}

static void list(unsigned long i)
{
    (void)i;
    DIR *opened = opendir(directory);
    must(opened != NULL, "opendir");
    int count = 0;
    while (readdir(opened))
        count++;
    closedir(opened);
    must(count >= names, "readdir");
}

static void touch(const char *which)
{
    int fd = open(which, O_CREAT | O_WRONLY, 0644);
    must(fd >= 0 && close(fd) == 0, which);
}

static void calls(void)
{
    static const struct {
        const char *name;
        void (*one)(unsigned long);
        int count;
    } each[] = {
        {"read-4k", read_4k, 500}, {"write-4k", write_4k, 500}, {"stat-absent", absent, 500},
        {"chmod", mode, 300},      {"create-unlink", make, 100}, {"rename", move, 200},
        {"list-100", list, 20},
    };
    const char *name = path("blocks", 0);
    for (int i = 0; i < names; i++)
        touch(path("list", i));
    touch(path("moved", 0));
    file = open(name, O_CREAT | O_RDWR | O_DIRECT, 0644);
    must(file >= 0 && ftruncate(file, 100000L * 4 * KB) == 0, "blocks");
    for (size_t w = 0; w < sizeof each / sizeof *each; w++) {
        double batch[batches], end = now() + 600e3;
        unsigned long done = 0;
        while (now() < end || done % 2)
            each[w].one(done++);
        for (int b = 0; b < batches; b++) {
            double start = now();
            for (int i = 0; i < each[w].count; i++)
                each[w].one(done++);
            batch[b] = (now() - start) / each[w].count;
        }
        qsort(batch, batches, sizeof *batch, ascending);
        printf("%s %.3f\n", each[w].name, batch[batches / 4]);
    }
    close(file);
    unlink(path("blocks", 0));
    for (int i = 0; i < names; i++)
        unlink(path("list", i));
    unlink(path("moved", 0));
    unlink(path("moved", 1));
}

static unsigned long seed = 42;

static unsigned long random_below(unsigned long limit)
{
    seed = seed * 6364136223846793005 + 1442695040888963407;
    return (seed >> 33) % limit;
}

static void put(int fd, long size)
{
    for (long part; size > 0; size -= part) {
        part = size < 4 * KB ? size : 4 * KB;
        must(write(fd, data, part) == part, "write");
    }
}

static void create(unsigned long number)
{
    int fd = open(path("post", number), O_CREAT | O_EXCL | O_WRONLY, 0644);
    must(fd >= 0, "create");
    put(fd, KB + random_below(63 * KB));
    must(close(fd) == 0, "close");
}

static double transactions(unsigned long files, unsigned long count)
{
    unsigned long *live = malloc((files + count) * sizeof *live), last = 0, alive = 0;
    while (alive < files) {
        create(last);
        live[alive++] = last++;
    }
    double start = now();
    for (unsigned long i = 0; i < count; i++) {
        unsigned long one = random_below(alive);
        if (random_below(2)) {
            int fd = open(path("post", live[one]), O_RDONLY);
            must(fd >= 0, "open");
            while (read(fd, data, 4 * KB) > 0)
                continue;
            close(fd);
        } else {
            int fd = open(path("post", live[one]), O_WRONLY | O_APPEND);
            must(fd >= 0, "open");
            put(fd, 1 + random_below(4 * KB));
            close(fd);
        }
        if (random_below(2) || alive < 2) {
            create(last);
            live[alive++] = last++;
        } else {
            one = random_below(alive);
            must(unlink(path("post", live[one])) == 0, "unlink");
            live[one] = live[--alive];
        }
    }
    double taken = (now() - start) / count;
    while (alive)
        must(unlink(path("post", live[--alive])) == 0, "unlink");
    free(live);
    return taken;
}

static void postmark(void)
{
    unsigned long files = 300, count = 3000;
    const char *given = getenv("POSTMARK");
    if (given)
        sscanf(given, "%lu:%lu", &files, &count);
    for (double warm = now() + 1.5e6; now() < warm;)
        transactions(files / 4, count / 8);
    printf("postmark %.3f\n", transactions(files, count));
}

static long size_of(const char *variable, long otherwise)
{
    const char *given = getenv(variable);
    return (given ? atol(given) : otherwise) * MB;
}

static double take(double *since)
{
    double before = *since;
    *since = now();
    return *since - before;
}

static void told(const char *name, double *since, int tell)
{
    double taken = take(since);
    if (tell)
        printf("%s %.0f\n", name, taken);
    *since = now();
}

static void drop(const char *which)
{
    int fd = open(which, O_RDONLY);
    must(fd >= 0 && fsync(fd) == 0, which);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void get_all(const char *which, long size)
{
    FILE *stream = fopen(which, "r");
    must(stream != NULL, which);
    long count = 0;
    while (getc_unlocked(stream) != EOF)
        count++;
    must(count == size, "getc");
    fclose(stream);
}

static void read_all(const char *which, long size)
{
    int fd = open(which, O_RDONLY);
    must(fd >= 0, which);
    long count = 0;
    for (long part; (part = read(fd, data, 16 * KB)) > 0;)
        count += part;
    must(count == size, "read");
    close(fd);
}

static void phases(long size, int tell)
{
    const char *which = path("bonnie", 0);
    double since = now();
    FILE *stream = fopen(which, "w");
    must(stream != NULL, which);
    for (long i = 0; i < size; i++)
        putc_unlocked(i, stream);
    must(fclose(stream) == 0, "putc");
    told("putc", &since, tell);
    int fd = open(which, O_WRONLY | O_TRUNC);
    must(fd >= 0, which);
    for (long i = 0; i < size; i += 16 * KB)
        must(write(fd, data, 16 * KB) == 16 * KB, "write");
    must(close(fd) == 0, "close");
    told("blocks", &since, tell);
    get_all(which, size);
    told("getc", &since, tell);
    read_all(which, size);
    told("read", &since, tell);
    drop(which);
    since = now();
    get_all(which, size);
    told("getc-dropped", &since, tell);
    drop(which);
    since = now();
    read_all(which, size);
    told("read-dropped", &since, tell);
    must(unlink(which) == 0, "unlink");
}

static void bonnie(void)
{
    long size = size_of("BONNIE", 16);
    phases(size / 4, 0);
    phases(size, 1);
}

static void written(int fd, long size, long buffer)
{
    for (long i = 0; i < size; i += buffer)
        must(write(fd, data, buffer) == buffer, "write");
}

static void buffers(void)
{
    const char *which = path("buffers", 0);
    for (long buffer = 4; buffer <= 128; buffer *= 2) {
        double batch[3];
        for (int b = 0; b < 3; b++) {
            int fd = open(which, O_CREAT | O_WRONLY | O_TRUNC, 0644);
            must(fd >= 0, which);
            double start = now();
            written(fd, 16 * MB, buffer * KB);
            must(close(fd) == 0, "close");
            batch[b] = now() - start;
        }
        qsort(batch, 3, sizeof *batch, ascending);
        printf("buffer-%ldk %.0f\n", buffer, batch[1]);
    }
    must(unlink(which) == 0, "unlink");
}

static void copy(void)
{
    long size = size_of("COPY", 64);
    const char *which = path("copy", 0);
    double batch[3];
    for (int b = 0; b < 3; b++) {
        int fd = open(which, O_CREAT | O_WRONLY | O_TRUNC, 0644);
        must(fd >= 0, which);
        double start = now();
        written(fd, size, 128 * KB);
        must(fsync(fd) == 0 && close(fd) == 0, "fsync");
        batch[b] = now() - start;
    }
    qsort(batch, 3, sizeof *batch, ascending);
    printf("copy %.0f\n", batch[1]);
    must(unlink(which) == 0, "unlink");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } works[] = {{"calls", calls},     {"postmark", postmark}, {"bonnie", bonnie},
                 {"buffers", buffers}, {"copy", copy}};
    if (argc < 3)
        return 2;
    directory = argv[2];
    memset(data, 'x', sizeof data);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (!strcmp(argv[1], works[i].name)) {
            works[i].run();
            return 0;
        }
    return 2;
}
