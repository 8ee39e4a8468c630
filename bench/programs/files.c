/* What work on files costs: files WORKLOAD DIRECTORY [FORM]. Prints lines "NAME VALUE", nanoseconds
 * for each file, call or megabyte, and the voluntary context switches of the workload. The
 * directory is left as it was found. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEGABYTE (1 << 20)

/* How many files a workload uses at most; FILES_COUNT asks for fewer. */
static int files = 10000;

static char block[MEGABYTE];
static char base[4096];

/* The time that passes, or with FILES_CLOCK=processor the processor time of this process: for
 * trials on a busy machine. */
static clockid_t timer = CLOCK_MONOTONIC;

static double now(void)
{
    struct timespec t;
    clock_gettime(timer, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "files: %s: %s\n", what, strerror(errno));
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

static void whole(ssize_t done, size_t wanted, const char *what)
{
    if (done < 0)
        fail(what);
    if ((size_t)done != wanted) {
        fprintf(stderr, "files: %s: %zd bytes instead of %zu\n", what, done, wanted);
        exit(1);
    }
}

static uint64_t next(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static void say(const char *name, double since, double count)
{
    printf("%s %.2f\n", name, (now() - since) / count);
}

/* `count` paths of `length` bytes at most, made before the clock runs. */
static char (*paths(const char *in, const char *stem, int count))[256]
{
    char(*all)[256] = malloc(256 * (size_t)count);
    for (int i = 0; i < count; i++)
        if (snprintf(all[i], 256, "%s%s%05d", in, stem, i) >= 256)
            fail("the directory's name is too long");
    return all;
}

/* `most` files written and read: file i has size + i * step bytes. */
static void many(int most, size_t size, size_t step)
{
    int count = most < files ? most : files;
    char(*path)[256] = paths(base, "/file-", count);
    double start = now();
    for (int i = 0; i < count; i++) {
        int fd = must(open(path[i], O_WRONLY | O_CREAT | O_EXCL, 0644));
        whole(write(fd, block, size + i * step), size + i * step, "write");
        must(close(fd));
    }
    say("write", start, count);
    start = now();
    for (int i = 0; i < count; i++) {
        int fd = must(open(path[i], O_RDONLY));
        whole(read(fd, block, size + i * step + 1), size + i * step, "read");
        must(close(fd));
    }
    say("read", start, count);
    for (int i = 0; i < count; i++)
        must(unlink(path[i]));
}

static void small(void) { many(4096, 128, 0); }
static void steps(void) { many(2048, 63, 63); }

/* One file of 128 MB in blocks of 128 KiB. */
static void big(void)
{
    enum { megabytes = 128, size = 128 * 1024, blocks = megabytes * 8 };
    char path[4200];
    sprintf(path, "%s/big", base);
    double start = now();
    int fd = must(open(path, O_RDWR | O_CREAT | O_EXCL, 0644));
    for (int i = 0; i < blocks; i++)
        whole(write(fd, block, size), size, "write");
    must(close(fd));
    say("write", start, megabytes);
    start = now();
    fd = must(open(path, O_RDONLY));
    for (int i = 0; i < blocks; i++)
        whole(read(fd, block, size), size, "read");
    must(close(fd));
    say("read", start, megabytes);
    must(unlink(path));
}

/* Blocks of 4 KiB of a file that is there: read at random places, written again from begin to end.
 * */
static void blocks(void)
{
    enum { count = 8192, rounds = 4 };
    char path[4200];
    sprintf(path, "%s/blocks", base);
    int fd = must(open(path, O_RDWR | O_CREAT | O_EXCL, 0644));
    for (int i = 0; i < count; i++)
        whole(write(fd, block, 4096), 4096, "write");
    double start = now();
    for (int i = 0; i < count * rounds; i++)
        whole(pread(fd, block, 4096, (off_t)(next() % count) * 4096), 4096, "pread");
    say("random-read", start, count * rounds);
    start = now();
    for (int r = 0; r < rounds; r++) {
        must(lseek(fd, 0, SEEK_SET));
        for (int i = 0; i < count; i++)
            whole(write(fd, block, 4096), 4096, "write");
    }
    say("rewrite", start, count * rounds);
    must(close(fd));
    must(unlink(path));
}

/* Calls on 10,000 files. Form: path (absolute), deep (below eight directories), link (through a
 * symbolic link), cwd (relative), dirfd. */
static void calls(const char *form)
{
    char real[4300], in[4300];
    int at = AT_FDCWD, depth = strcmp(form, "deep") == 0 ? 8 : 1;
    sprintf(real, "%s/calls", base);
    must(mkdir(real, 0755));
    for (int i = 1; i < depth; i++) {
        strcat(real, "/deeper");
        must(mkdir(real, 0755));
    }
    sprintf(in, "%s/", real);
    if (strcmp(form, "link") == 0) {
        sprintf(in, "%s/link", base);
        must(symlink("calls", in));
        strcat(in, "/");
    } else if (strcmp(form, "cwd") == 0) {
        must(chdir(real));
        *in = 0;
    } else if (strcmp(form, "dirfd") == 0) {
        at = must(open(real, O_RDONLY | O_DIRECTORY));
        *in = 0;
    }
    char(*path)[256] = paths(in, "file-", files), (*other)[256] = paths(in, "name-", files);
    struct stat st;
    double start = now();
    for (int i = 0; i < files; i++)
        must(close(must(openat(at, path[i], O_WRONLY | O_CREAT | O_EXCL, 0644))));
    say("create", start, files);
    start = now();
    for (int i = 0; i < files; i++)
        must(fstatat(at, path[i], &st, 0));
    say("stat", start, files);
    start = now();
    for (int i = 0; i < files; i++)
        must(faccessat(at, path[i], R_OK, 0));
    say("access", start, files);
    start = now();
    for (int i = 0; i < files; i++)
        must(fchmodat(at, path[i], 0600, 0));
    say("chmod", start, files);
    start = now();
    for (int i = 0; i < files; i++)
        must(close(must(openat(at, path[i], O_RDONLY))));
    say("open", start, files);
    start = now();
    for (int i = 0; i < files; i++)
        must(renameat(at, path[i], at, other[i]));
    say("rename", start, files);
    start = now();
    for (int i = 0; i < files; i++)
        must(unlinkat(at, other[i], 0));
    say("unlink", start, files);
    if (strcmp(form, "link") == 0) {
        in[strlen(in) - 1] = 0;
        must(unlink(in));
    }
    for (int i = 0; i < depth; i++) {
        must(rmdir(real));
        *strrchr(real, '/') = 0;
    }
}

/* What one process of several does: its own file written and read, again and again. */
static void own_file(int number)
{
    enum { size = 16 * MEGABYTE, piece = 16 * 1024, rounds = 4 };
    char path[4200];
    sprintf(path, "%s/own-%d", base, number);
    int fd = must(open(path, O_RDWR | O_CREAT | O_EXCL, 0644));
    for (int r = 0; r < rounds; r++) {
        for (off_t o = 0; o < size; o += piece)
            whole(pwrite(fd, block, piece, o), piece, "pwrite");
        for (off_t o = 0; o < size; o += piece)
            whole(pread(fd, block, piece, o), piece, "pread");
    }
    must(close(fd));
    must(unlink(path));
}

/* Runs `work(0)` to `work(processes - 1)` at the same time, from the same moment on; the time that
 * passes. */
static double together(int processes, void (*work)(int))
{
    int go[2], status;
    must(pipe(go));
    for (int i = 0; i < processes; i++)
        if (must(fork()) == 0) {
            char byte;
            must(close(go[1]));
            must(read(go[0], &byte, 1));
            work(i);
            _exit(0);
        }
    must(close(go[0]));
    timer = CLOCK_MONOTONIC;
    double start = now();
    must(close(go[1]));
    for (int i = 0; i < processes; i++) {
        must(wait(&status));
        if (status != 0)
            exit(1);
    }
    return now() - start;
}

/* One process on a file of its own, then two. */
static void two(void)
{
    printf("one %.0f\n", together(1, own_file));
    printf("two %.0f\n", together(2, own_file));
}

static int shared;

static void append(int number)
{
    char line[64];
    memset(line, 'a' + number, sizeof line);
    for (int i = 0; i < files; i++)
        whole(write(shared, line, sizeof line), sizeof line, "append");
}

/* A descriptor that another process holds too: blocks of 4 KiB written by one; then lines appended
 * by two. */
static void shared_descriptor(void)
{
    enum { count = 8192 };
    char path[4200];
    int hold[2];
    struct stat st;
    sprintf(path, "%s/shared", base);
    shared = must(open(path, O_RDWR | O_CREAT | O_EXCL, 0644));
    for (int i = 0; i < count; i++)
        whole(write(shared, block, 4096), 4096, "write");
    must(pipe(hold));
    pid_t other = must(fork());
    if (other == 0) {
        char byte;
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) != 0);
    }
    must(lseek(shared, 0, SEEK_SET));
    double start = now();
    for (int i = 0; i < count; i++)
        whole(write(shared, block, 4096), 4096, "write");
    say("shared-write", start, count);
    must(lseek(shared, 0, SEEK_SET));
    start = now();
    for (int i = 0; i < count; i++)
        whole(read(shared, block, 4096), 4096, "read");
    say("shared-read", start, count);
    close(hold[1]);
    must(waitpid(other, NULL, 0));
    must(close(shared));
    must(unlink(path));

    shared = must(open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0644));
    printf("append %.2f\n", together(2, append) / (2 * files));
    must(fstat(shared, &st));
    if (st.st_size != 2 * files * 64) {
        fprintf(stderr, "files: %ld bytes after %d appends of 64\n", (long)st.st_size, 2 * files);
        exit(1);
    }
    must(close(shared));
    must(unlink(path));
}

int main(int argc, char **argv)
{
    const char *workload = argc > 1 ? argv[1] : "";
    static const struct {
        const char *name;
        void (*run)(void);
    } workloads[] = {
        { "small", small }, { "steps", steps }, { "big", big }, { "blocks", blocks }, { "two", two }, { "shared", shared_descriptor },
    };
    struct rusage used;
    if (argc < 3 || strlen(argv[2]) >= sizeof base)
        return 2;
    if (getenv("FILES_CLOCK") && strcmp(getenv("FILES_CLOCK"), "processor") == 0)
        timer = CLOCK_PROCESS_CPUTIME_ID;
    if (getenv("FILES_COUNT"))
        files = atoi(getenv("FILES_COUNT"));
    strcpy(base, argv[2]);
    memset(block, 'x', sizeof block);
    if (strcmp(workload, "calls") == 0 && argc == 4)
        calls(argv[3]);
    else {
        size_t i = 0;
        while (i < sizeof workloads / sizeof *workloads && strcmp(workloads[i].name, workload) != 0)
            i++;
        if (i == sizeof workloads / sizeof *workloads)
            return 2;
        workloads[i].run();
    }
    must(getrusage(RUSAGE_SELF, &used));
    printf("switches %ld\n", used.ru_nvcsw);
    return 0;
}
