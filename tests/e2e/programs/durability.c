/* Random work on files that says what it does, so that somebody else can repeat it:  durability
 * work SEED COUNT DIRECTORY DESCRIPTOR...   a worker for each DESCRIPTOR, in DIRECTORY/w0,
 * DIRECTORY/w1 and so on  Before an operation a line "> NUMBER WORDS..." goes to the worker's
 * descriptor, after it "= NUMBER RESULT", 0 or -errno; the first line is "pid PID". `durability.py`
 * kills, repeats and compares. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

/* What is written: a part of this table, as durability.py makes it too. */
enum { table_size = 1 << 16, longest = 16384 };
static unsigned char table[table_size];
static uint64_t state;

static uint64_t next(uint64_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) % below;
}

static void fill_table(void)
{
    uint32_t x = 12345;
    for (int i = 0; i < table_size; i++) {
        x = x * 1103515245u + 12345u;
        table[i] = x >> 16;
    }
}

/* A name of one of few directories and files, so that names meet. */
static void name(char *out)
{
    static const char *const directories[] = { "", "d0/", "d1/", "d2/", "d0/e0/" };
    sprintf(out, "%sf%d", directories[next(5)], (int)next(6));
}

static void directory(char *out)
{
    static const char *const directories[] = { "d0", "d1", "d2", "d0/e0" };
    strcpy(out, directories[next(4)]);
}

static int written(const char *path, int flags, long offset, long length, long from, int sync)
{
    int fd = open(path, O_WRONLY | flags, 0644);
    if (fd < 0)
        return -errno;
    ssize_t done = flags & O_APPEND ? write(fd, table + from, length) : pwrite(fd, table + from, length, offset);
    int result = done < 0 ? -errno : done != length ? -EIO : 0;
    if (result == 0 && sync && fsync(fd) != 0)
        result = -errno;
    close(fd);
    return result;
}

static int negative(int result)
{
    return result < 0 ? -errno : 0;
}

static void work(int log, uint64_t seed, int count)
{
    char a[64], b[64], line[256];
    state = seed * 0x9e3779b97f4a7c15u | 1;
    dprintf(log, "pid %d\n", (int)getpid());
    for (int number = 0; number < count; number++) {
        long offset = next(40000), length = 1 + next(longest), from = next(table_size - longest);
        int kind = next(100), result;
        name(a), name(b);
#define DO(call, ...)                                                    \
    do {                                                                 \
        int said = sprintf(line, "> %d ", number);                       \
        said += sprintf(line + said, __VA_ARGS__);                       \
        line[said++] = '\n';                                             \
        if (write(log, line, said) != said)                              \
            _exit(3);                                                    \
        result = (call);                                                 \
    } while (0)
        if (kind < 18) {
            int fd;
            DO(negative(fd = open(a, O_WRONLY | O_CREAT | O_EXCL, 0644)), "create %s", a);
            if (fd >= 0)
                close(fd);
        } else if (kind < 36)
            DO(written(a, 0, offset, length, from, 0), "write %s %ld %ld %ld", a, offset, length, from);
        else if (kind < 46)
            DO(written(a, O_APPEND, 0, length, from, 0), "append %s %ld %ld", a, length, from);
        else if (kind < 60)
            DO(written(a, O_CREAT, offset, length, from, 1), "sync %s %ld %ld %ld", a, offset, length, from);
        else if (kind < 64)
            DO(negative(truncate(a, offset)), "truncate %s %ld", a, offset);
        else if (kind < 72)
            DO(negative(rename(a, b)), "rename %s %s", a, b);
        else if (kind < 74)
            DO(negative(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_NOREPLACE)), "renamenew %s %s", a, b);
        else if (kind < 76)
            DO(negative(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE)), "exchange %s %s", a, b);
        else if (kind < 80)
            DO(negative(link(a, b)), "link %s %s", a, b);
        else if (kind < 83)
            DO(negative(symlink(b, a)), "symlink %s %s", b, a);
        else if (kind < 91)
            DO(negative(unlink(a)), "unlink %s", a);
        else if (kind < 95) {
            directory(a);
            DO(negative(mkdir(a, 0755)), "mkdir %s", a);
        } else if (kind < 97) {
            directory(a);
            DO(negative(rmdir(a)), "rmdir %s", a);
        } else {
            directory(a), directory(b);
            DO(negative(rename(a, b)), "rename %s %s", a, b);
        }
        int said = sprintf(line, "= %d %d\n", number, result);
        if (write(log, line, said) != said)
            _exit(3);
    }
}

int main(int argc, char **argv)
{
    if (argc < 6 || strcmp(argv[1], "work") != 0)
        return 2;
    uint64_t seed = strtoull(argv[2], NULL, 0);
    int count = atoi(argv[3]), status, bad = 0;
    fill_table();
    if (chdir(argv[4]) != 0) {
        perror(argv[4]);
        return 1;
    }
    for (int worker = 0; worker + 5 < argc; worker++)
        if (fork() == 0) {
            char own[16];
            for (int other = 5; other < argc; other++)
                if (other != worker + 5)
                    close(atoi(argv[other]));
            sprintf(own, "w%d", worker);
            if (mkdir(own, 0755) != 0 && errno != EEXIST) {
                perror(own);
                _exit(1);
            }
            if (chdir(own) != 0) {
                perror(own);
                _exit(1);
            }
            work(atoi(argv[worker + 5]), seed + worker, count);
            _exit(0);
        }
    for (int worker = 5; worker < argc; worker++)
        close(atoi(argv[worker]));
    while (wait(&status) > 0)
        bad |= WIFEXITED(status) && WEXITSTATUS(status) != 0;
    return bad;
}
