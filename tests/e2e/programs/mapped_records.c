// What stands in a run of who maps which file: mapped_records WHAT FILE [FILE BEHIND] `number`: the
// program takes all numbers at which descriptors may lie that are not its own. `half`, `dead`,
// `full`: all places for records are taken, by what killed processes left half made, by records of
// dead ones, by living ones. `reused`: the number of a removed file is another's. `brings`: a reader's
// msync. `reads`, `given`: a reader without descriptors.
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, RECORDS = 8192 };

// As in culvert-run, mappings.rs.
struct record {
    uint32_t owner, mount;
    uint64_t node, start, end;
};

static void must(int good, const char *what) {
    if (!good) err(2, "%s", what);
}

static int make(const char *name, const char *content) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    must(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content) && ftruncate(fd, PAGE) == 0, name);
    return fd;
}

static char *map(int fd) {
    char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "mmap");
    return at;
}

// The directory of this process's run, as culvert has told it; "" natively.
static const char *run_directory(void) {
    static char all[1 << 16];
    FILE *file = fopen("/proc/self/environ", "r");
    size_t got = file ? fread(all, 1, sizeof all - 1, file) : 0;
    for (char *entry = all; entry < all + got; entry += strlen(entry) + 1) {
        if (strncmp(entry, "CULVERT_RUN=", 12)) continue;
        entry[strcspn(entry, ":")] = 0;
        return entry + 12;
    }
    return "";
}

// A reader that has the file open all the time; what it sees is the last that was stored, though
// nobody has written it back.
static void number(const char *name) {
    int fd = make(name, "0"), ask[2], answer[2];
    char *at = map(fd), word = 0;
    at[0] = '1';
    must(pipe(ask) == 0 && pipe(answer) == 0, "pipe");
    struct rlimit limit;
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    int taken = 0;
    for (int high = 200; high < (int)limit.rlim_cur && high < 2100; high++) taken += dup2(0, high) == high;
    for (int high = 200; high < (int)limit.rlim_cur && high < 2100; high++) close(high);
    printf("all taken: %d\n", taken > 100);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(ask[1]), close(answer[0]);
        munmap(at, PAGE);
        close(fd);
        int own = open(name, O_RDONLY);
        while (read(ask[0], &word, 1) == 1)
            if (pread(own, &word, 1, 0) != 1 || write(answer[1], &word, 1) != 1) _exit(1);
        _exit(0);
    }
    close(ask[0]), close(answer[1]);
    for (char next = '2'; next < '6'; next++) {
        at[0] = next;
        must(write(ask[1], &next, 1) == 1 && read(answer[0], &word, 1) == 1, "the reader");
        printf("stored %c, read %c\n", next, word);
    }
    close(ask[1]);
    must(waitpid(child, 0, 0) == child, "wait");
}

// Takes all places that are free: `owner` 0 means the owner of the first record.
static void take_all(uint32_t owner, uint64_t end) {
    char name[500];
    snprintf(name, sizeof name, "%s/mappings", run_directory());
    int fd = open(name, O_RDWR);
    must(fd >= 0, name);
    size_t length = PAGE + RECORDS * sizeof(struct record);
    char *table = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(table != MAP_FAILED, "mmap of the table");
    struct record *records = (struct record *)(table + PAGE);
    if (!owner) owner = records[0].owner;
    *(uint32_t *)table = RECORDS;
    for (int i = 0; i < RECORDS; i++)
        if (records[i].owner == 0) records[i] = (struct record){owner, 0, 1000000 + i, 0, end};
    munmap(table, length);
    close(fd);
}

static void used_up(const char *what, const char *name) {
    char *first = map(make(name, "first")), other[500];
    first[0] = 'F';
    const uint32_t nobody = UINT32_MAX, dead = 4194001;
    if (!strcmp(what, "half")) take_all(nobody, 0);
    if (!strcmp(what, "dead")) take_all(dead, PAGE);
    if (!strcmp(what, "full")) take_all(0, PAGE);
    snprintf(other, sizeof other, "%s.other", name);
    int fd = make(other, "other");
    char *second = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (second == MAP_FAILED) {
        printf("mmap: %s\n", strerrorname_np(errno));
    } else {
        second[0] = 'O';
        munmap(second, PAGE);
    }
    munmap(first, PAGE);
    char bytes[6] = "";
    must(pread(fd, bytes, 5, 0) == 5, "pread");
    printf("%s\n", bytes);
}

// The pager's processes and a writer are killed, so that nobody has brought what it stored to its
// file when that is removed.
static void reused(const char *name, const char *behind) {
    close(make(name, "before"));
    int ready[2], status;
    must(pipe(ready) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        char *at = map(open(name, O_RDWR));
        memcpy(at, "stored", 6);
        must(write(ready[1], "", 1) == 1, "write");
        pause();
    }
    char word, command[600];
    must(read(ready[0], &word, 1) == 1, "read");
    // Only those of this run.
    snprintf(command, sizeof command, "pids=$(pgrep -f -- 'run-pager %s$'); kill -STOP $pids; kill -9 $pids", run_directory());
    must(system(command) != -1, "system");
    kill(child, SIGKILL);
    must(waitpid(child, &status, 0) == child, "wait");
    struct stat old, new;
    must(stat(behind, &old) == 0 && unlink(behind) == 0, behind);
    for (int i = 0; i < 200; i++) {
        // Others are kept, so that the next one gets another number.
        char other[600];
        snprintf(other, sizeof other, "%s.%d", behind, i);
        int fd = open(other, O_RDWR | O_CREAT | O_EXCL, 0666);
        must(fd >= 0 && fstat(fd, &new) == 0, other);
        if (new.st_ino != old.st_ino) {
            close(fd);
            continue;
        }
        must(write(fd, "another", 7) == 7 && ftruncate(fd, PAGE) == 0 && rename(other, behind) == 0, "the new file");
        close(fd);
        break;
    }
    // `not reused`: this file system gives no number twice.
    if (new.st_ino != old.st_ino) {
        puts("not reused");
        return;
    }
    char bytes[8] = "", there[8] = "";
    int fd = open(name, O_RDWR), outside = open(behind, O_RDONLY);
    must(fd >= 0 && pread(fd, bytes, 7, 0) == 7 && pread(outside, there, 7, 0) == 7, "pread");
    printf("%s %s\n", bytes, there);
}

// A descriptor is closed while the file stays mapped: who reads the file behind the mount sees what
// was stored before.
static void closed(const char *name, const char *behind) {
    char seen[8] = "";
    int fd = make(name, "before"), outside = open(behind, O_RDONLY);
    must(outside >= 0, behind);
    char *at = map(fd);
    memcpy(at, "stored", 6);
    must(close(fd) == 0 && pread(outside, seen, 6, 0) == 6, "close");
    printf("close: %s\n", seen);
    for (int i = 0; i < 2; i++) {
        fd = open(name, O_RDONLY);
        memcpy(at, i ? "ranges" : "others", 6);
        must(i ? close_range(fd, fd, 0) == 0 : dup2(outside, fd) == fd, "closed");
        must(pread(outside, seen, 6, 0) == 6, "pread");
        printf("%s: %s\n", i ? "close_range" : "dup2", seen);
        if (!i) close(fd);
    }
}

// What has been stored when msync returns is in the file behind the mount, whoever stored it:
// another process, or this one through another mapping.
static void synced(const char *name, const char *behind) {
    enum { PAGES = 4, LENGTH = PAGES * 4096 };
    int turn[2], stored[2];
    must(pipe(turn) == 0 && pipe(stored) == 0, "pipe");
    int fd = make(name, "before"), outside = open(behind, O_RDONLY), reader = open(name, O_RDONLY);
    must(outside >= 0 && reader >= 0 && ftruncate(fd, LENGTH) == 0, behind);
    char *own = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *other = mmap(0, LENGTH, PROT_READ, MAP_SHARED, fd, 0);
    char *readable = mmap(0, LENGTH, PROT_READ, MAP_SHARED, reader, 0);
    must(own != MAP_FAILED && other != MAP_FAILED && readable != MAP_FAILED, "mmap");
    pid_t child = fork();
    must(child >= 0, "fork");
    char word;
    while (child == 0) {
        must(read(turn[0], &word, 1) == 1, "turn");
        for (int page = 0; page < PAGES; page++) memset(own + page * 4096, word, 7);
        must(write(stored[1], &word, 1) == 1, "stored");
    }
    char *through[] = {own, own, other, readable};
    const char *names[] = {"a child, by the mapping", "a child, by a part", "this process, by another mapping", "a child, by a mapping of a reader"};
    for (int i = 0; i < 4; i++) {
        char letter = 'a' + i, seen[PAGES + 1] = "";
        if (i == 2) for (int page = 0; page < PAGES; page++) memset(own + page * 4096, letter, 7);
        else must(write(turn[1], &letter, 1) == 1 && read(stored[0], &word, 1) == 1, "child");
        int first = i == 0 ? 0 : 2;
        must(msync(through[i] + first * 4096, LENGTH - first * 4096, MS_SYNC) == 0, "msync");
        for (int page = 0; page < PAGES; page++) must(pread(outside, seen + page, 1, page * 4096) == 1, "pread");
        printf("%s: %s\n", names[i], seen + first);
    }
    kill(child, SIGKILL);
}

// Another process has stored, and this one, which maps the file as a reader, is to bring that to the
// file. `limited`: it has no descriptor left for it.
static void brings(const char *name, int limited) {
    int stored[2];
    char word;
    must(pipe(stored) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        memcpy(map(make(name, "before")), "stored", 6);
        must(write(stored[1], "", 1) == 1, "stored");
        for (;;) pause();
    }
    must(read(stored[0], &word, 1) == 1, "child");
    int reader = open(name, O_RDONLY);
    char *at = mmap(0, PAGE, PROT_READ, MAP_SHARED, reader, 0);
    must(at != MAP_FAILED, "mmap");
    if (limited) {
        struct rlimit none = {3, 3};
        must(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
    }
    int answer = msync(at, PAGE, MS_SYNC);
    printf("msync %d %s\n", answer, answer ? strerrorname_np(errno) : "");
    kill(child, SIGKILL);
}

// What the file that is open in `fd` begins with, for a process that has no descriptor left, and
// whose limit its user may raise or, `hard`, not.
static void reads_limited(int fd, int hard) {
    struct rlimit limit;
    char seen[8] = "";
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = 3;
    if (hard) limit.rlim_max = 3;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    printf("read %s\n", pread(fd, seen, 6, 0) == 6 ? seen : strerrorname_np(errno));
}

// Another process has stored into a mapping since this one has opened the file.
static void reads(const char *name, int hard) {
    int stored[2];
    char word;
    close(make(name, "before"));
    int reader = open(name, O_RDONLY);
    must(reader >= 0 && pipe(stored) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        memcpy(map(open(name, O_RDWR)), "stored", 6);
        must(write(stored[1], "", 1) == 1, "stored");
        for (;;) pause();
    }
    must(read(stored[0], &word, 1) == 1, "child");
    reads_limited(reader, hard);
    kill(child, SIGKILL);
}

// A program that is not intercepted has written to the file.
static void given(const char *name, int hard) {
    int fd = make(name, "before");
    must(lseek(fd, 0, SEEK_SET) == 0, "lseek");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        dup2(fd, 1);
        execlp("busybox", "busybox", "echo", "-n", "after!", (char *)0);
        _exit(127);
    }
    must(waitpid(child, 0, 0) == child, "wait");
    reads_limited(fd, hard);
}

int main(int count, char **words) {
    if (count < 3) return 64;
    const char *what = words[1], *name = words[2];
    alarm(60);
    if (!strcmp(what, "number")) number(name);
    else if (!strcmp(what, "reused")) reused(name, words[3]);
    else if (!strcmp(what, "closed")) closed(name, words[3]);
    else if (!strcmp(what, "synced")) synced(name, words[3]);
    else if (!strcmp(what, "brings")) brings(name, 0);
    else if (!strcmp(what, "brings-limited")) brings(name, 1);
    else if (!strcmp(what, "reads")) reads(name, 0);
    else if (!strcmp(what, "reads-hard")) reads(name, 1);
    else if (!strcmp(what, "given")) given(name, 0);
    else if (!strcmp(what, "given-hard")) given(name, 1);
    else used_up(what, name);
}
