// A program that wants the highest descriptor numbers for itself, the same on every file system:
// own_numbers DIRECTORY alone|threads|forked|vforked|opened
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 960, LAST = 1023, PAGE = 4096 };

static char path[400];
static const char *directory;
static atomic_int stop, rounds;

static void must(int good, const char *what) {
    if (!good) err(2, "%s", what);
}

static const char *in(const char *name) {
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

// What another thread does all the time: it must meet no number of somebody else's.
static void *works(void *unused) {
    (void)unused;
    char name[400];
    snprintf(name, sizeof name, "%s/beside", directory);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    for (int i = 0; !stop || i < 200; i++, rounds++) {
        struct stat found;
        char word[8];
        if (pwrite(fd, "beside", 6, 0) != 6 || pread(fd, word, 6, 0) != 6 || memcmp(word, "beside", 6)) err(3, "beside");
        if (fstat(fd, &found) || found.st_size != 6 || stat(name, &found) || found.st_size != 6) err(3, "beside, its length");
        int again = open(name, O_RDONLY);
        if (again < 0 || read(again, word, 6) != 6 || memcmp(word, "beside", 6) || close(again)) err(3, "beside, anew");
    }
    close(fd);
    return NULL;
}

// Puts a pipe at each number; how many of them it then is. Beside a thread that opens files EBUSY
// may be the answer for a moment, as dup2(2) says.
static void take(const char *what, int of, int first, int last) {
    enum { TRIES = 1000 };
    int taken = 0, error = 0;
    struct stat want, found;
    must(fstat(of, &want) == 0, "fstat");
    for (int number = first; number <= last; number++) {
        int got, tries = 0;
        do got = number % 2 ? dup2(of, number) : dup3(of, number, O_CLOEXEC);
        while (got < 0 && errno == EBUSY && rounds && !stop && ++tries < TRIES);
        if (got != number) error = errno;
        else taken += fstat(number, &found) == 0 && found.st_ino == want.st_ino;
    }
    printf("%s: %d of %d%s%s\n", what, taken, last - first + 1, error ? ", " : "", error ? strerrorname_np(error) : "");
}

// Everything still works: a file that was open before, with its mapping, a new one, names.
static void use(const char *what, int fd, char *at) {
    char word[40] = "";
    struct stat found;
    must(pread(fd, word, 3, 0) == 3 && pwrite(fd, "two", 3, 8) == 3, "the open file");
    printf("%s: %s, %.3s mapped", what, word, at + 8);
    at[0]++;
    must(pread(fd, word, 1, 0) == 1, "what was stored");
    printf(", %c", word[0]);
    int new = open(in("new"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    must(new >= 0 && write(new, "new", 3) == 3 && pread(new, word, 3, 0) == 3 && close(new) == 0, "a new file");
    must(mkdir(in("folder"), 0755) == 0 && stat(path, &found) == 0 && rmdir(path) == 0, "a folder");
    char old[400];
    strcpy(old, in("new"));
    must(rename(old, in("newer")) == 0 && access(old, F_OK) == -1 && unlink(path) == 0, "names");
    printf(", %s\n", word);
}

// Reads what takes for ever; not at the offset, which a fork would wait for.
static void *reads(void *number) {
    char word;
    int fd = open(in("slow"), O_RDONLY);
    must(fd >= 0, "slow");
    *(atomic_int *)number = gettid();
    must(pread(fd, &word, 1, 0) == 1, "the end of the world");
    return NULL;
}

// Beside a thread that is in a call for ever, a child of vfork takes all numbers: it has each, or
// is told at once that it cannot.
static int vforked(int of) {
    static atomic_int number;
    static int taken, busy;
    pthread_t thread;
    must(pthread_create(&thread, NULL, reads, (void *)&number) == 0, "a thread");
    char state = 0, line[300];
    while (!number) sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)number);
    while (state != 'S') {
        int fd = open(path, O_RDONLY);
        must(fd >= 0 && read(fd, line, sizeof line - 1) > 0 && close(fd) == 0, path);
        char *end = strrchr(line, ')');
        state = end ? end[2] : 0;
        sched_yield();
    }
    pid_t child = vfork();
    if (child == 0) {
        for (int at = FIRST; at <= LAST; at++) {
            int got = dup2(of, at);
            taken += got == at;
            busy += got < 0 && errno == EBUSY;
        }
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child, "wait");
    printf("child %x: %d of %d taken or busy\n", status, taken + busy, LAST - FIRST + 1);
    fflush(stdout);
    _exit(0);
}

// How many numbers a child of vfork cannot have that has `files` files open, which are whole then.
static int refused(int of, int files) {
    static int busy, good, fds[8];
    busy = good = 0;
    pid_t child = vfork();
    if (child == 0) {
        char word[4];
        for (int i = 0; i < files; i++) fds[i] = open(path, O_RDWR);
        for (int at = FIRST; at <= LAST; at++) busy += dup2(of, at) != at;
        for (int i = 0; i < files; i++) good += pread(fds[i], word, 4, 0) == 4 && !memcmp(word, "word", 4);
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child, "wait");
    if (status || good != files) errx(3, "child %x: %d of %d files", status, good, files);
    return busy;
}

// What a child of vfork has opened itself keeps no number from it, however it is kept.
static int opened(int of) {
    int fd = open(in("file"), O_RDWR | O_CREAT, 0644);
    must(fd >= 0 && write(fd, "word", 4) == 4 && close(fd) == 0, "file");
    int before = refused(of, 0), with = refused(of, 8);
    printf("%s\n", with == before ? "no number less" : "numbers less");
    fd = open(path, O_RDONLY);
    must(fd >= 0 && close(fd) == 0, "file, again");
    return 0;
}

int main(int count, char **words) {
    if (count != 3) return 64;
    directory = words[1];
    struct rlimit limit;
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = 1024;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    if (!strcmp(words[2], "vforked")) return vforked(1);
    if (!strcmp(words[2], "opened")) return opened(1);
    int fd = open(in("file"), O_RDWR | O_CREAT | O_TRUNC, 0644), ends[2];
    must(fd >= 0 && write(fd, "one", 3) == 3 && ftruncate(fd, PAGE) == 0 && pipe(ends) == 0, "open");
    char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "mmap");
    use("before", fd, at);
    pthread_t thread;
    int threads = !strcmp(words[2], "threads");
    if (threads) must(pthread_create(&thread, NULL, works, NULL) == 0, "a thread");
    while (threads && !rounds) sched_yield();
    if (!strcmp(words[2], "forked")) {
        fflush(stdout);
        pid_t child = fork();
        int status;
        if (child) {
            must(waitpid(child, &status, 0) == child, "wait");
            printf("child %x\n", status);
            use("parent", fd, at);
            return 0;
        }
    }
    take("high numbers", ends[1], FIRST, LAST);
    use("high numbers taken", fd, at);
    must(close_range(FIRST, LAST, 0) == 0, "close_range");
    use("closed again", fd, at);
    take("once more", ends[1], FIRST, LAST);
    must(close_range(FIRST, LAST, CLOSE_RANGE_CLOEXEC) == 0, "close_range, on exec");
    int kept = 0;
    for (int number = FIRST; number <= LAST; number++) kept += fcntl(number, F_GETFD) == FD_CLOEXEC;
    printf("closed on exec: %d\n", kept);
    // As daemons do, one by one; standard descriptors and ours stay.
    int closed = 0;
    if (threads) {
        stop = 1;
        must(pthread_join(thread, NULL) == 0, "join");
    }
    for (int number = 3; number <= LAST; number++)
        if (number != fd && number != ends[1]) closed += close(number) == 0;
    printf("closed one by one: %d\n", closed);
    use("closed one by one", fd, at);
    // A limit below all of them.
    limit.rlim_cur = 40;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    use("a lower limit", fd, at);
    take("below the limit", ends[1], 20, 39);
    take("behind the limit", ends[1], 40, 41);
    must(close_range(20, 39, 0) == 0, "close_range");
    use("a lower limit, closed again", fd, at);
    must(munmap(at, PAGE) == 0 && close(fd) == 0, "the end");
    return 0;
}
