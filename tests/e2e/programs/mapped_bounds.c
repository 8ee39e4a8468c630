// What a process may have is used up, or nearly, by mappings of one file: calls fail or succeed,
// nothing hangs, ends, or loses what was stored. usage: mapped_bounds FILE mappings      65,530
// mappings of a page each, then a fork
//        mapped_bounds FILE addresses     children whose addresses end (RLIMIT_AS) at various
//        places mapped_bounds FILE processes     200 processes that store into each page, of which
//        some are killed mapped_bounds FILE forks         threads that fork, children of children,
//        vfork and exec, a daemon
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static const char *path;

static int opened(void) {
    int fd = open(path, O_RDWR);
    if (fd < 0) err(2, "open");
    return fd;
}

static char *mapped(size_t length) {
    int fd = opened();
    char *at = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) err(2, "mmap");
    close(fd);
    return at;
}

static char *content(size_t length) {
    char *bytes = malloc(length);
    int fd = opened();
    if (pread(fd, bytes, length, 0) != (ssize_t)length) err(2, "pread");
    close(fd);
    return bytes;
}

static void make(size_t length) {
    char *bytes = malloc(length);
    memset(bytes, '.', length);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, bytes, length) != (ssize_t)length) err(2, "%s", path);
    close(fd);
    free(bytes);
}

static void wait_for(pid_t child, int want) {
    int status;
    if (waitpid(child, &status, 0) != child || status != want) errx(1, "child: %x for %x", status, want);
}

static void mappings(void) {
    enum { PAGES = 16384, MOST = 70000 };
    static char *at[MOST];
    make((size_t)PAGES * PAGE);
    int fd = opened();
    long count = 0;
    // Neighbours in memory are none in the file: each is a mapping of its own.
    for (; count < MOST; count++) {
        off_t page = count * 7919 % PAGES;
        at[count] = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page * PAGE);
        if (at[count] == MAP_FAILED) break;
        if (count % 16 == 0) at[count][100 + count % 3000] = 's';
    }
    printf("error %d, many %d\n", errno, count > 60000);
    pid_t child = fork();
    if (!child) {
        at[0][7] = 'c';
        _exit(3);
    }
    wait_for(child, 3 << 8);
    for (long i = 1; i < count; i += 2)
        if (munmap(at[i], PAGE)) err(1, "munmap");
    char *bytes = content((size_t)PAGES * PAGE);
    long missing = 0;
    for (long i = 0; i < count; i += 16) missing += bytes[i * 7919 % PAGES * PAGE + 100 + i % 3000] != 's';
    printf("missing %ld, of the child %c\n", missing, bytes[7]);
}

static void addresses(void) {
    enum { LENGTH = 4 << 20, STEP = 256 << 10 };
    make(LENGTH);
    int fd = opened();
    long pages;
    FILE *size = fopen("/proc/self/statm", "r");
    if (!size || fscanf(size, "%ld", &pages) != 1) err(2, "statm");
    fclose(size);
    for (int step = 0; step <= 24; step++) {
        pid_t child = fork();
        if (!child) {
            struct rlimit limit = {pages * PAGE + step * STEP, pages * PAGE + step * STEP};
            if (setrlimit(RLIMIT_AS, &limit)) _exit(10);
            // A call that never comes back.
            alarm(60);
            char *at = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (at == MAP_FAILED && errno != ENOMEM) _exit(11);
            for (int i = 0; at != MAP_FAILED && i < LENGTH; i += PAGE) at[i] = 'a' + step;
            if (at != MAP_FAILED && msync(at, LENGTH, MS_SYNC)) _exit(12);
            if (pwrite(fd, &(char){'A' + step}, 1, 1) != 1) _exit(13);
            pid_t grandchild = fork();
            if (!grandchild) _exit(0);
            if (grandchild < 0) _exit(14);
            wait_for(grandchild, 0);
            _exit(at == MAP_FAILED ? 20 : 0);
        }
        int status;
        waitpid(child, &status, 0);
        char found[2];
        if (pread(fd, found, 2, 0) != 2) err(2, "pread");
        int right = status == 0 ? found[0] == 'a' + step : status == 20 << 8;
        if (!right || found[1] != 'A' + step) printf("with %d KiB more: %x, %c%c\n", step * STEP >> 10, status, found[0], found[1]);
    }
}

static void processes(void) {
    enum { COUNT = 200, PAGES = 64 };
    make(PAGES * PAGE);
    int done[2];
    pid_t all[COUNT];
    if (pipe(done)) err(2, "pipe");
    for (int i = 0; i < COUNT; i++) {
        all[i] = fork();
        if (!all[i]) {
            char *at = mapped(PAGES * PAGE);
            for (int page = 0; page < PAGES; page++) at[page * PAGE + i] = 'a' + i % 26;
            if (write(done[1], "", 1) != 1) _exit(9);
            if (i % 3 == 0) pause();
            _exit(0);
        }
        if (all[i] < 0) err(2, "fork");
    }
    char word;
    for (int i = 0; i < COUNT; i++)
        if (read(done[0], &word, 1) != 1) err(2, "read");
    for (int i = 0; i < COUNT; i++) {
        if (i % 3 == 0) kill(all[i], SIGKILL);
        wait_for(all[i], i % 3 == 0 ? SIGKILL : 0);
    }
    char *bytes = content(PAGES * PAGE);
    long missing = 0;
    for (int i = 0; i < COUNT; i++)
        for (int page = 0; page < PAGES; page++) missing += bytes[page * PAGE + i] != 'a' + i % 26;
    printf("missing %ld\n", missing);
}

enum { FORKED = 1 << 20, THREADS = 6 };
static char *shared;

static void in_each_page(int place, char value) {
    for (int i = 0; i < FORKED; i += PAGE) shared[i + place] = value;
}

static void *forks_thread(void *word) {
    int number = (int)(long)word;
    pid_t child = fork();
    if (!child) {
        in_each_page(number, 'a' + number);
        pid_t grandchild = fork();
        if (!grandchild) {
            in_each_page(THREADS + number, 'A' + number);
            _exit(0);
        }
        wait_for(grandchild, 0);
        _exit(0);
    }
    wait_for(child, 0);
    return 0;
}

static void forks(const char *self) {
    make(FORKED);
    shared = mapped(FORKED);
    in_each_page(50, 'p');
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, forks_thread, (void *)i);
    in_each_page(51, 'q');
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    pid_t child = vfork();
    if (!child) {
        shared[100] = 'v';
        execl(self, self, path, "store", (char *)0);
        _exit(9);
    }
    wait_for(child, 0);
    // The daemon goes on when its parent has ended, and this process maps nothing any more.
    int go[2], gone[2];
    if (pipe(go) || pipe(gone)) err(2, "pipe");
    child = fork();
    if (!child) {
        if (daemon(1, 1)) _exit(8);
        shared[102] = 'd';
        char word;
        if (read(go[0], &word, 1) != 1) _exit(7);
        shared[103] = 'e';
        _exit(write(gone[1], "", 1) != 1);
    }
    wait_for(child, 0);
    munmap(shared, FORKED);
    char word;
    if (write(go[1], "", 1) != 1 || read(gone[0], &word, 1) != 1) err(2, "pipe");
    char *bytes = content(FORKED);
    long missing = 0;
    for (int i = 0; i < FORKED; i += PAGE) {
        for (int k = 0; k < THREADS; k++) missing += (bytes[i + k] != 'a' + k) + (bytes[i + THREADS + k] != 'A' + k);
        missing += (bytes[i + 50] != 'p') + (bytes[i + 51] != 'q');
    }
    printf("missing %ld, others %.4s\n", missing, bytes + 100);
}

int main(int count, char **words) {
    if (count != 3) return 64;
    path = words[1];
    const char *what = words[2];
    setvbuf(stdout, 0, _IOLBF, 0);
    if (!strcmp(what, "mappings")) mappings();
    if (!strcmp(what, "addresses")) addresses();
    if (!strcmp(what, "processes")) processes();
    if (!strcmp(what, "forks")) forks(words[0]);
    if (!strcmp(what, "store")) mapped(FORKED)[101] = 'w';
    return 0;
}
