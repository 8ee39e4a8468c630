// A file is mapped, and something is short: room for its pages or its bytes, or the right to read
// it. usage: mapped_shortage append FILE BEHIND BALLAST    an append that finds no room for its
// pages changes nothing; BALLAST takes it all
//        mapped_shortage unread FILE BEHIND            an append that cannot be read back once
//        mapped_shortage owed FILE BEHIND              bytes that the file system does not take at
//        first, stored in a mapping that is gone mapped_shortage blind FILE
//        writes through a descriptor of a file that may not be read any more
// BEHIND is FILE as programs outside of the run see it.
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MEGABYTE = 1 << 20 };

static void said(const char *what, long result) {
    if (result < 0) printf("%s: %s\n", what, strerrorname_np(errno));
    else printf("%s: %ld\n", what, result);
    fflush(stdout);
}

static int opened(const char *path, int flags) {
    int fd = open(path, flags, 0666);
    if (fd < 0) err(2, "%s", path);
    return fd;
}

static char *bytes_of(char value) { return memset(malloc(MEGABYTE), value, MEGABYTE); }

static char *mapped(int fd, size_t length) {
    char *at = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) err(2, "mmap");
    return at;
}

// Another process, which compares what it has not stored itself.
static void synced_by_a_child(int fd) {
    int status;
    pid_t child = fork();
    if (!child) _exit(fsync(fd) != 0);
    if (waitpid(child, &status, 0) != child || status) errx(1, "fsync of the child: %x", status);
}

static void counts(const char *path) {
    int fd = opened(path, O_RDONLY);
    long count[256] = {0}, got;
    static unsigned char some[MEGABYTE];
    while ((got = read(fd, some, sizeof some)) > 0)
        for (long i = 0; i < got; i++) count[some[i]]++;
    printf("file:");
    for (int value = 0; value < 256; value++)
        if (count[value]) printf(value ? " %ld %c" : " %ld zero", count[value], value);
    printf("\n");
    close(fd);
}

// A file of a megabyte, in a mapping that goes on behind its end.
static char *with_room_behind(const char *path, int *fd) {
    *fd = opened(path, O_RDWR | O_CREAT | O_TRUNC);
    if (write(*fd, bytes_of('a'), MEGABYTE) != MEGABYTE) err(2, "write");
    char *at = mapped(*fd, 4 * MEGABYTE);
    at[5] = 's';
    return at;
}

static void append(const char *path, const char *behind, const char *ballast) {
    int fd;
    char *at = with_room_behind(path, &fd);
    int all = opened(ballast, O_WRONLY | O_CREAT | O_TRUNC), end = opened(path, O_WRONLY | O_APPEND);
    for (size_t step = MEGABYTE; step >= PAGE; step /= 16)
        while (write(all, bytes_of('x'), step) == (long)step);
    said("append", write(end, bytes_of('b'), MEGABYTE));
    struct stat found;
    fstat(fd, &found);
    said("length", found.st_size);
    synced_by_a_child(fd);
    unlink(ballast), close(all);
    said("append", write(end, bytes_of('b'), MEGABYTE));
    synced_by_a_child(fd);
    printf("mapping: %c\n", at[MEGABYTE + 7]);
    counts(behind);
}

static void unread(const char *path, const char *behind) {
    int fd;
    char *at = with_room_behind(path, &fd);
    int end = opened(path, O_WRONLY | O_APPEND);
    said("append", write(end, bytes_of('b'), MEGABYTE));
    synced_by_a_child(fd);
    said("write", pwrite(fd, "p", 1, 3));
    synced_by_a_child(fd);
    printf("mapping: %c%c\n", at[3], at[MEGABYTE + 7]);
    counts(behind);
}

static void owed(const char *path, const char *behind) {
    int made = opened(behind, O_WRONLY | O_CREAT | O_TRUNC);
    if (write(made, bytes_of('.'), 4 * PAGE) != 4 * PAGE) err(2, "%s", behind);
    close(made);
    int fd = opened(path, O_RDWR);
    char *at = mapped(fd, 4 * PAGE);
    memset(at, 's', 4 * PAGE);
    said("munmap", munmap(at, 4 * PAGE));
    said("fsync", fsync(fd));
    said("fsync", fsync(fd));
    said("close", close(fd));
    fd = opened(path, O_RDONLY);
    char seen = 0;
    pread(fd, &seen, 1, PAGE);
    printf("read: %c\n", seen);
    said("fsync", fsync(fd));
    counts(behind);
    // Nothing is owed any more: it is as it was.
    at = mapped(opened(path, O_RDWR), 4 * PAGE);
    at[1] = 't';
    said("munmap", munmap(at, 4 * PAGE));
    counts(behind);
}

static void wait_for(int fd) {
    char word;
    if (read(fd, &word, 1) != 1) err(2, "pipe");
}

static void tell(int fd) {
    if (write(fd, "", 1) != 1) err(2, "pipe");
}

static void blind(const char *path) {
    enum { LENGTH = 300000 };
    int fd = opened(path, O_WRONLY | O_CREAT | O_TRUNC), end = opened(path, O_WRONLY | O_APPEND);
    if (write(fd, bytes_of('a'), LENGTH) != LENGTH) err(2, "write");
    int ready[2], look[2], status;
    if (pipe(ready) || pipe(look)) err(2, "pipe");
    // Another process maps it, so that this one has no mapping to read by.
    pid_t child = fork();
    if (!child) {
        int own = opened(path, O_RDWR);
        char *at = mapped(own, MEGABYTE);
        strcpy(at, "store");
        if (fchmod(own, 0200)) err(2, "fchmod");
        tell(ready[1]);
        wait_for(look[0]);
        struct stat found;
        fstat(own, &found);
        printf("%ld long, %.5s|%.6s|%c%c|%c%c%c|%c%d\n", (long)found.st_size, at, at + 99, at[1000], at[250999], at[LENGTH - 1], at[LENGTH],
               at[LENGTH + 99999], at[LENGTH + 100000], at[LENGTH + 100003]);
        fflush(stdout);
        tell(ready[1]);
        wait_for(look[0]);
        fstat(own, &found);
        printf("%ld long, %d%d%d\n", (long)found.st_size, at[0], at[350000], at[399999]);
        char last[4] = "";
        printf("read: %ld %.2s\n", (long)pread(own, last, 2, 1000), last);
        exit(0);
    }
    wait_for(ready[0]);
    said("open", open(path, O_RDONLY) < 0 ? -1 : 0);
    said("pwrite", pwrite(fd, "later", 5, 100));
    said("long", pwrite(fd, bytes_of('l'), 250000, 1000));
    said("append", write(end, bytes_of('e'), 100000));
    struct iovec parts[] = {{"1", 1}, {"", 0}, {"23", 2}};
    said("writev", writev(end, parts, 3));
    void *volatile nowhere = (void *)1;
    said("fault", write(end, nowhere, 5));
    said("fsync", fsync(fd));
    tell(look[1]);
    wait_for(ready[0]);
    said("cut", ftruncate(fd, 350000));
    said("grown", ftruncate(fd, 400000));
    said("longer", fallocate(fd, 0, 0, 400001));
    said("hole", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
    int pages[2];
    if (pipe(pages) || write(pages[1], "zz", 2) != 2) err(2, "pipe");
    loff_t place = 1000;
    said("splice", splice(pages[0], 0, fd, &place, 2, 0));
    tell(look[1]);
    waitpid(child, &status, 0);
    printf("child %x\n", status);
}

int main(int count, char **words) {
    const char *what = count > 2 ? words[1] : "";
    if (count == 5 && !strcmp(what, "append")) append(words[2], words[3], words[4]);
    else if (count == 4 && !strcmp(what, "unread")) unread(words[2], words[3]);
    else if (count == 4 && !strcmp(what, "owed")) owed(words[2], words[3]);
    else if (count == 3 && !strcmp(what, "blind")) blind(words[2]);
    else return 64;
    return 0;
}
