/* Mappings of files that change: truncated, grown, removed, renamed, written by calls and by other
 * processes. Each group in a process of its own, in the current directory. */
#include "probe.h"
#include <setjmp.h>
#include <sys/file.h>
#include <sys/resource.h>

#define PAGE 4096

static sigjmp_buf back;

static void on_bus(int signal)
{
    siglongjmp(back, signal);
}

/* The byte at `at`, or -1 where there is none (SIGBUS). */
static int peek(const volatile char *at)
{
    if (sigsetjmp(back, 1))
        return -1;
    return (unsigned char)*at;
}

/* Stores a byte: 0, or -1 where there is no page for it. */
static int poke(volatile char *at, char byte)
{
    if (sigsetjmp(back, 1))
        return -1;
    *at = byte;
    return 0;
}

static int file(const char *name, size_t size)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *bytes = malloc(size + 1);
    for (size_t at = 0; at < size; at++)
        bytes[at] = 'a' + at / 100 % 26;
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        _exit(9);
    free(bytes);
    return fd;
}

static char *map(int fd, size_t length)
{
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        printf("map: %s\n", error_name(errno));
        _exit(9);
    }
    return at;
}

static void size_and_bytes(const char *what, int fd)
{
    struct stat found;
    static char all[1 << 20];
    fstat(fd, &found);
    ssize_t got = pread(fd, all, sizeof all, 0);
    unsigned long sum = 5381;
    for (ssize_t at = 0; at < got; at++)
        sum = sum * 33 + (unsigned char)all[at];
    printf("%s: size %ld, read %zd, sum %lx\n", what, (long)found.st_size, got, sum);
}

/* In another process: 0 when `run` says so. */
static void elsewhere(const char *what, int (*run)(int), int fd)
{
    pid_t child = fork();
    if (child == 0)
        _exit(run(fd));
    int status = 0;
    waitpid(child, &status, 0);
    printf("%s: status %x\n", what, status);
}

static void sizes(void)
{
    int fd = file("sizes", 2 * PAGE + 100);
    char *at = map(fd, 8 * PAGE);
    printf("end %d %d %d\n", peek(at + 2 * PAGE + 99), peek(at + 2 * PAGE + 100), peek(at + 3 * PAGE - 1));
    printf("past %d %d\n", peek(at + 3 * PAGE), poke(at + 7 * PAGE, 'x'));
    show("grow", ftruncate(fd, 5 * PAGE));
    printf("grown %d %d %d\n", peek(at + 3 * PAGE), poke(at + 4 * PAGE, 'g'), peek(at + 5 * PAGE));
    size_and_bytes("grown", fd);
    show("cut", ftruncate(fd, PAGE + 10));
    printf("cut %d %d %d %d\n", peek(at + PAGE + 9), peek(at + PAGE + 10), peek(at + 2 * PAGE), poke(at + 4 * PAGE, 'c'));
    show("grow again", ftruncate(fd, 6 * PAGE));
    printf("zeroes %d %d\n", peek(at + PAGE + 10), peek(at + 4 * PAGE));
    show("append", pwrite(fd, "tail", 4, 6 * PAGE));
    printf("appended %d %d\n", peek(at + 6 * PAGE + 3), peek(at + 6 * PAGE + 4));
    int again = open("sizes", O_RDWR | O_TRUNC);
    printf("emptied %d\n", peek(at));
    show("write", write(again, "new", 3));
    printf("new %d %d %d\n", peek(at), peek(at + 3), peek(at + PAGE));
    size_and_bytes("new", fd);
    int empty = open("empty", O_RDWR | O_CREAT, 0600);
    char *none = map(empty, PAGE);
    printf("empty %d\n", peek(none));
    show("write", write(empty, "1", 1));
    printf("no longer %d\n", peek(none));
}

static void agree(void)
{
    int fd = file("agree", 5 * PAGE);
    char *at = map(fd, 5 * PAGE);
    char bytes[16] = "";
    memcpy(at + PAGE - 3, "stored", 6);
    show("pread", pread(fd, bytes, 6, PAGE - 3));
    printf("%s\n", bytes);
    show("pwrite", pwrite(fd, "written", 7, 2 * PAGE - 3));
    printf("%.7s\n", at + 2 * PAGE - 3);
    char *private = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    private[0] = 'P';
    show("pwrite", pwrite(fd, "12", 2, 0));
    show("pwrite", pwrite(fd, "34", 2, 3 * PAGE));
    printf("private %.2s %.2s shared %.2s\n", private, private + 3 * PAGE, at);
    show("msync sync", msync(at, 5 * PAGE, MS_SYNC));
    show("msync async", msync(at, 5 * PAGE, MS_ASYNC | MS_INVALIDATE));
    show("msync both", msync(at, PAGE, MS_SYNC | MS_ASYNC));
    show("mlock", mlock(at, 2 * PAGE));
    show("munlock", munlock(at, 2 * PAGE));
    show("mprotect", mprotect(at + PAGE, PAGE, PROT_READ));
    show("mprotect", mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE));
    show("munmap of the middle", munmap(at + 2 * PAGE, PAGE));
    char *more = mmap(at + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 4 * PAGE);
    more[0] = 'F';
    printf("fixed %d %c\n", more == at + 2 * PAGE, at[4 * PAGE]);
    char *moved = mremap(private, 5 * PAGE, 9 * PAGE, MREMAP_MAYMOVE);
    printf("moved %d %c %d\n", moved != MAP_FAILED, moved[0], peek(moved + 6 * PAGE));
    char *twice = map(fd, 5 * PAGE);
    twice[5] = 'T';
    printf("twice %c\n", at[5]);
    close(fd);
    at[6] = 'C';
    fd = open("agree", O_RDONLY);
    show("pread", pread(fd, bytes, 2, 5));
    printf("after close %.2s\n", bytes);
    size_and_bytes("agree", fd);
}

static void refused(void)
{
    close(file("refused", PAGE));
    int reads = open("refused", O_RDONLY), writes = open("refused", O_WRONLY), path = open("refused", O_PATH), dir = open(".", O_RDONLY);
    void *at = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, reads, 0);
    works("write, read-only", at == MAP_FAILED ? -1 : 0);
    at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, writes, 0);
    works("read, write-only", at == MAP_FAILED ? -1 : 0);
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, path, 0);
    works("O_PATH", at == MAP_FAILED ? -1 : 0);
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, dir, 0);
    works("directory", at == MAP_FAILED ? -1 : 0);
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reads, 100);
    works("offset", at == MAP_FAILED ? -1 : 0);
    at = mmap(NULL, 0, PROT_READ, MAP_SHARED, reads, 0);
    works("length", at == MAP_FAILED ? -1 : 0);
    at = mmap(NULL, PAGE, PROT_READ, 0, reads, 0);
    works("flags", at == MAP_FAILED ? -1 : 0);
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reads, 0);
    works("shared", at == MAP_FAILED ? -1 : 0);
    works("made writable", mprotect(at, PAGE, PROT_READ | PROT_WRITE));
    at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, reads, 0);
    works("private", at == MAP_FAILED ? -1 : 0);
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reads, 100 * PAGE);
    works("far behind the end", at == MAP_FAILED ? -1 : 0);
    printf("%d\n", peek(at));
}

static void holes(void)
{
    int fd = open("holes", O_RDWR | O_CREAT | O_TRUNC, 0600);
    show("grow", ftruncate(fd, 64 * PAGE));
    show("write", pwrite(fd, "x", 1, 20 * PAGE));
    char *at = map(fd, 64 * PAGE);
    show("data", lseek(fd, 0, SEEK_DATA) / PAGE);
    printf("hole %d\n", peek(at + 5 * PAGE));
    at[40 * PAGE] = 'y';
    show("data", lseek(fd, 30 * PAGE, SEEK_DATA) / PAGE);
    show("hole", lseek(fd, 40 * PAGE, SEEK_HOLE) / PAGE);
    show("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 20 * PAGE, PAGE));
    printf("punched %d\n", peek(at + 20 * PAGE));
    show("remove", madvise(at + 40 * PAGE, PAGE, MADV_REMOVE));
    printf("removed %d\n", peek(at + 40 * PAGE));
    show("allocate", fallocate(fd, 0, 60 * PAGE, 10 * PAGE));
    show("allocate, size kept", fallocate(fd, FALLOC_FL_KEEP_SIZE, 70 * PAGE, 10 * PAGE));
    size_and_bytes("holes", fd);
    int huge = open("huge", O_RDWR | O_CREAT | O_TRUNC, 0600);
    show("a terabyte", ftruncate(huge, 1L << 40));
    at = mmap(NULL, 1L << 40, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, huge, 0);
    works("mapped", at == MAP_FAILED ? -1 : 0);
    at[1L << 39] = 'h';
    char byte = 0;
    show("pread", pread(huge, &byte, 1, 1L << 39));
    printf("%c\n", byte);
}

static void names(void)
{
    int fd = file("first", 3 * PAGE);
    struct stat before, after;
    char *at = map(fd, 3 * PAGE);
    show("link", link("first", "second"));
    show("rename", rename("first", "third"));
    show("chmod", chmod("third", 0600));
    at[0] = '3';
    fstat(fd, &before);
    stat("second", &after);
    printf("same %d links %ld mode %o\n", before.st_ino == after.st_ino, (long)after.st_nlink, after.st_mode & 07777);
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    show("utimens", futimens(fd, times));
    stat("second", &after);
    printf("mtime %ld.%ld\n", (long)after.st_mtim.tv_sec, after.st_mtim.tv_nsec);
    show("write", pwrite(fd, "w", 1, 1));
    stat("second", &after);
    printf("later %d\n", after.st_mtim.tv_sec > 2000);
    int other = open("second", O_RDWR);
    loff_t from = 0, to = 2 * PAGE;
    show("copy", copy_file_range(other, &from, fd, &to, 5, 0));
    printf("copied %.5s\n", at + 2 * PAGE);
    close(file("over", 10));
    show("unlink", unlink("second"));
    show("rename over", rename("over", "third"));
    at[1] = 'U';
    show("pread", pread(fd, (char[2]){0}, 2, 0));
    size_and_bytes("removed", fd);
    close(fd), close(other);
    printf("mapped alone %.2s\n", at);
    int unnamed = open(".", O_TMPFILE | O_RDWR, 0600);
    show("grow", ftruncate(unnamed, PAGE));
    at = map(unnamed, PAGE);
    at[7] = 'n';
    show("close", close(unnamed));
    printf("unnamed %c\n", at[7]);
}

static int before_the_move, pipes[2][2];

/* Has the file open, and its end seen, before it is mapped elsewhere. */
static int other_process(int fd)
{
    char bytes[8] = "";
    (void)!read(pipes[0][0], bytes, 1);
    if (pread(before_the_move, bytes, 5, 10) != 5 || memcmp(bytes, "first", 5))
        return 1;
    if (pwrite(before_the_move, "second", 6, 20) != 6 || lseek(fd, 0, SEEK_CUR) != 30)
        return 2;
    if (write(fd, "shared offset", 13) != 13)
        return 3;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 1};
    if (fcntl(fd, F_SETLK, &lock) != -1 || flock(before_the_move, LOCK_EX | LOCK_NB) != -1)
        return 4;
    char *at = map(before_the_move, 3 * PAGE);
    at[50] = 'm';
    int appends = open("processes", O_WRONLY | O_APPEND);
    if (write(appends, "end", 3) != 3)
        return 5;
    (void)!write(pipes[1][1], "", 1);
    return 0;
}

static void processes(void)
{
    int fd = file("processes", 3 * PAGE), locked = open("processes", O_RDWR);
    before_the_move = open("processes", O_RDWR);
    if (pipe(pipes[0]) || pipe(pipes[1]))
        return;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    show("lock", fcntl(fd, F_SETLK, &lock));
    show("flock", flock(locked, LOCK_EX));
    lseek(fd, 30, SEEK_SET);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(other_process(fd));
    char *at = map(fd, 4 * PAGE);
    memcpy(at + 10, "first", 5);
    (void)!write(pipes[0][1], "", 1);
    (void)!read(pipes[1][0], (char[1]){0}, 1);
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %x: %.5s %.6s %.13s %c %.3s\n", status, at + 10, at + 20, at + 30, at[50], at + 3 * PAGE);
    show("offset", lseek(fd, 0, SEEK_CUR));
    size_and_bytes("processes", fd);
}

static char *inherited;

static int stores(int fd)
{
    inherited[0] = 'c';
    inherited[PAGE] = 'p';
    return pwrite(fd, "w", 1, 1) != 1;
}

static void children(void)
{
    int fd = file("children", 2 * PAGE);
    inherited = map(fd, 2 * PAGE);
    inherited[0] = 'p';
    elsewhere("child", stores, fd);
    printf("seen %.2s %c\n", inherited, inherited[PAGE]);
    munmap(inherited, 2 * PAGE);
    inherited = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    elsewhere("child of a private one", stores, fd);
    printf("not seen %.2s\n", inherited);
    inherited = map(fd, 2 * PAGE);
    pid_t child = fork();
    if (child == 0) {
        inherited[9] = 'k';
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    char byte = 0;
    pread(fd, &byte, 1, 9);
    printf("killed %c\n", byte);
    /* Other programs meet what was stored. */
    printf("cat: ");
    fflush(stdout);
    (void)!system("head -c 12 children; echo; exec 3<>children; head -c 3 <&3; head -c 3 <&3 | od -c | head -n 1");
}

/* Writers by calls and by stores, each with its own bytes, while the file moves under them. */
static void together(void)
{
    enum { WORKERS = 4, ROUNDS = 400, PIECE = 3000 };
    for (int round = 0; round < 6; round++) {
        int fd = file("together", WORKERS * PIECE);
        pid_t children[WORKERS];
        fflush(stdout);
        for (int worker = 0; worker < WORKERS; worker++) {
            children[worker] = fork();
            if (children[worker])
                continue;
            int own = open("together", O_RDWR), bad = 0;
            char bytes[PIECE], seen[PIECE];
            char *at = worker % 2 ? NULL : map(own, WORKERS * PIECE);
            for (int turn = 0; turn < ROUNDS; turn++) {
                memset(bytes, 'a' + (turn + worker) % 26, PIECE);
                if (at && turn % 2)
                    memcpy(at + worker * PIECE, bytes, PIECE);
                else
                    bad |= pwrite(own, bytes, PIECE, worker * PIECE) != PIECE;
                if (at && turn % 3)
                    bad |= memcmp(at + worker * PIECE, bytes, PIECE);
                else
                    bad |= pread(own, seen, PIECE, worker * PIECE) != PIECE || memcmp(seen, bytes, PIECE);
                if (turn == ROUNDS / 2 && worker == 3)
                    at = map(own, WORKERS * PIECE);
            }
            _exit(bad != 0);
        }
        int failed = 0;
        for (int worker = 0; worker < WORKERS; worker++) {
            int status = 0;
            waitpid(children[worker], &status, 0);
            failed += status != 0;
        }
        printf("failed %d\n", failed);
        size_and_bytes("together", fd);
        close(fd);
        unlink("together");
    }
}

/* Files that were mapped once, more than half as many as RLIMIT_NOFILE allows. */
static void descriptors(void)
{
    enum { FILES = 40 };
    int fds[FILES];
    char name[8], bytes[6] = "";
    struct rlimit limit = { 64, 64 };
    SHOW(setrlimit(RLIMIT_NOFILE, &limit));
    for (int at = 0; at < FILES; at++) {
        snprintf(name, sizeof name, "d%d", at);
        fds[at] = must_open(name, O_RDWR | O_CREAT);
        write(fds[at], "hello", 5);
        char *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[at], 0);
        if (map == MAP_FAILED)
            die("mmap");
        *map = 'H';
        munmap(map, PAGE);
    }
    int right = 0;
    for (int at = 0; at < FILES; at++) {
        right += pwrite(fds[at], "L", 1, 3) == 1 && pread(fds[at], bytes, 5, 0) == 5 && strcmp(bytes, "HelLo") == 0;
        close(fds[at]);
        snprintf(name, sizeof name, "d%d", at);
        unlink(name);
    }
    printf("right %d\n", right);
}

int main(int count, char **words)
{
    struct sigaction action = {.sa_handler = on_bus};
    sigaction(SIGBUS, &action, NULL);
    const struct { const char *name; void (*run)(void); } groups[] = {
        {"sizes", sizes}, {"agree", agree}, {"refused", refused}, {"holes", holes},
        {"names", names}, {"processes", processes}, {"children", children}, {"together", together}, {"descriptors", descriptors},
    };
    for (size_t at = 0; at < sizeof groups / sizeof *groups; at++)
        if (count > 1 && strcmp(words[1], groups[at].name) == 0) {
            groups[at].run();
            return 0;
        }
    return 2;
}
