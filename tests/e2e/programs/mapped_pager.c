// The process that fills mapped files when they are touched, at the ends of what it can do. usage:
// mapped_pager FILE namespace   the first that maps is in a PID namespace of its own, which ends
//        mapped_pager FILE ranges      more parts of mappings than can be noted
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static const char *path;

// A file each of whose pages begins with its number.
static void make(const char *name, unsigned pages) {
    char *bytes = calloc(pages, PAGE);
    for (unsigned i = 0; i < pages; i++) memcpy(bytes + (size_t)i * PAGE, &i, sizeof i);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, bytes, (size_t)pages * PAGE) != (ssize_t)pages * PAGE) err(2, "%s", name);
    close(fd);
    free(bytes);
}

static volatile char *mapped(const char *name, unsigned pages) {
    int fd = open(name, O_RDONLY);
    char *at = mmap(0, (size_t)pages * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (fd < 0 || at == MAP_FAILED) err(2, "%s", name);
    close(fd);
    return at;
}

// Of a page that never comes the program dies here.
static void look(volatile char *at, unsigned page) {
    alarm(30);
    unsigned number = *(volatile unsigned *)(at + (size_t)page * PAGE);
    alarm(0);
    if (number != page) errx(1, "page %u is %u", page, number);
}

static void told(int fd) {
    char byte;
    if (read(fd, &byte, 1) != 1) errx(1, "nobody tells");
}

static void ended(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child || status) errx(1, "a child: %x", status);
}

static void namespace(void) {
    enum { PAGES = 2048 };
    char other[4096];
    snprintf(other, sizeof other, "%s-other", path);
    make(path, PAGES);
    make(other, PAGES);
    int up[2], down[2];
    if (pipe(up) || pipe(down)) err(2, "pipe");
    pid_t outer = fork();
    if (!outer) {
        if (unshare(CLONE_NEWPID)) err(2, "unshare");
        // Its children are in a namespace that has no process yet.
        volatile char *at = mapped(other, PAGES);
        look(at, 1);
        pid_t first = fork();
        if (!first) {
            printf("process %d\n", (int)getpid());
            fflush(stdout);
            at = mapped(path, PAGES);
            look(at, 1);
            write(up[1], "", 1);
            told(down[0]);
            _exit(0);
        }
        ended(first);
        look(at, PAGES / 2);
        _exit(0);
    }
    told(up[0]);
    volatile char *at = mapped(path, PAGES);
    look(at, 2);
    write(down[1], "", 1);
    ended(outer);
    for (unsigned page = 0; page < PAGES; page += 100) look(at, page);
    volatile char *again = mapped(other, PAGES);
    look(again, PAGES - 1);
    puts("all there");
}

static void ranges(void) {
    // Of 65,536 that can be noted.
    enum { EACH = 4095, PROCESSES = 16, MORE = 60, PAGES = 2 * (EACH + MORE) + 2 };
    char other[4096];
    snprintf(other, sizeof other, "%s-other", path);
    make(path, PAGES);
    make(other, 512);
    volatile char *at = mapped(path, PAGES);
    for (int i = 0; i < EACH - 1; i++)
        if (munmap((char *)at + (2 * (size_t)i + 1) * PAGE, PAGE)) err(2, "munmap");
    int up[2];
    if (pipe(up)) err(2, "pipe");
    pid_t children[PROCESSES - 1];
    for (int i = 0; i < PROCESSES - 1; i++) {
        if (!(children[i] = fork())) {
            write(up[1], "", 1);
            pause();
            _exit(1);
        }
        told(up[0]);
    }
    for (int i = EACH - 1; i < EACH - 1 + MORE; i++)
        if (munmap((char *)at + (2 * (size_t)i + 1) * PAGE, PAGE)) err(2, "munmap");
    // Answered after all that came before.
    look(mapped(other, 512), 511);
    for (int i = EACH + MORE; i >= 0; i -= i > EACH - 3 ? 1 : 500) look(at, 2 * i);
    puts("all there");
    for (int i = 0; i < PROCESSES - 1; i++) kill(children[i], SIGKILL);
}

int main(int count, char **words) {
    if (count != 3) return 64;
    path = words[1];
    if (!strcmp(words[2], "namespace")) namespace();
    if (!strcmp(words[2], "ranges")) ranges();
    return 0;
}
