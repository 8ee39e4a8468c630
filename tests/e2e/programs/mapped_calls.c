// Calls about memory in which a file is mapped, one line each, the same on every file system:
// mapped_calls DIRECTORY PAGES
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static const char *directory;
static size_t length;

static void must(int good, const char *what) {
    if (!good) err(2, "%s", what);
}

static const char *answer(long result) {
    static char text[40];
    if (result == -1) return strerrorname_np(errno);
    snprintf(text, sizeof text, "%ld", result);
    return text;
}

static sigjmp_buf back;
static void on_fault(int number) { siglongjmp(back, number); }

// Each page says which one it is.
static uint64_t word_of(size_t page) { return page * 1000 + 7; }

static int make(const char *name) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *content = calloc(1, length);
    for (size_t at = 0; at < length; at += PAGE) *(uint64_t *)(content + at) = word_of(at / PAGE);
    must(fd >= 0 && write(fd, content, length) == (ssize_t)length, path);
    free(content);
    return fd;
}

static char *map(int fd, int protection) {
    char *at = mmap(0, length, protection, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "mmap");
    return at;
}

static void show(const char *what, const char *map, size_t page) {
    int number = sigsetjmp(back, 1);
    if (number) printf("%s, page %zu: SIG%s\n", what, page, sigabbrev_np(number));
    else printf("%s, page %zu: %llu\n", what, page, (unsigned long long)*(volatile uint64_t *)(map + page * PAGE));
}

// What read(2) sees, once nothing is mapped.
static void file(const char *what, int fd, size_t page) {
    uint64_t word = 0;
    ssize_t got = pread(fd, &word, 8, page * PAGE);
    printf("%s, in the file, page %zu: %zd %llu\n", what, page, got, (unsigned long long)word);
}

static void store(char *map, size_t page, uint64_t word) { *(volatile uint64_t *)(map + page * PAGE) = word; }

static void not_in_children(void) {
    int fd = make("dontfork"), status;
    char *at = map(fd, PROT_READ | PROT_WRITE);
    store(at, 1, 11);
    printf("MADV_DONTFORK: %s\n", answer(madvise(at + 2 * PAGE, 3 * PAGE, MADV_DONTFORK)));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        show("child", at, 1);
        show("child", at, 2);
        show("child", at, 5);
        store(at, 5, 55);
        // Something else lies there now.
        char *other = mmap(at + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        printf("child, in the gap: %d\n", other == at + 3 * PAGE);
        store(at, 3, 33);
        munmap(at, length);
        fflush(stdout);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child, "wait");
    printf("child %x\n", status);
    store(at, 2, 22);
    for (size_t page = 1; page < 6; page++) show("parent", at, page);
    printf("MADV_DOFORK: %s\n", answer(madvise(at, length, MADV_DOFORK)));
    printf("MADV_WIPEONFORK: %s\n", answer(madvise(at, length, MADV_WIPEONFORK)));
    printf("MADV_FREE: %s\n", answer(madvise(at, PAGE, MADV_FREE)));
    munmap(at, length);
    for (size_t page = 1; page < 6; page++) file("after", fd, page);
    close(fd);
}

// A process that shares the memory but has descriptors of its own.
static char *shared_map;
static int shared_fd;
static int in_the_same_memory(void *unused) {
    (void)unused;
    show("beside", shared_map, 9);
    store(shared_map, 10, 1010);
    char *own = map(shared_fd, PROT_READ | PROT_WRITE);
    store(own, 3, 303);
    munmap(own, length);
    munmap(shared_map, 12 * PAGE);
    fflush(stdout);
    return 0;
}

static void same_memory(void) {
    static char stack[256 << 10] __attribute__((aligned(16)));
    int status;
    shared_fd = make("same");
    shared_map = map(shared_fd, PROT_READ | PROT_WRITE);
    store(shared_map, 9, 909);
    fflush(stdout);
    pid_t child = clone(in_the_same_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
    must(child > 0 && waitpid(child, &status, 0) == child, "clone");
    printf("beside %x\n", status);
    show("parent", shared_map, 12);
    show("parent", shared_map, 10);
    munmap(shared_map + 12 * PAGE, length - 12 * PAGE);
    file("parent", shared_fd, 9);
    file("parent", shared_fd, 10);
    file("parent", shared_fd, 3);
    close(shared_fd);
}

static void holes(void) {
    int fd = make("holes");
    char *at = map(fd, PROT_READ | PROT_WRITE);
    store(at, 1, 1);
    printf("MADV_REMOVE: %s\n", answer(madvise(at + PAGE, 2 * PAGE, MADV_REMOVE)));
    show("hole", at, 1);
    show("hole", at, 2);
    show("behind", at, 3);
    file("hole", fd, 2);
    char *looked = map(fd, PROT_READ);
    printf("MADV_REMOVE of a page that may only be read, by a descriptor that may write: %s\n", answer(madvise(looked, PAGE, MADV_REMOVE)));
    munmap(looked, length);
    char path[400];
    snprintf(path, sizeof path, "%s/holes", directory);
    int read_only = open(path, O_RDONLY);
    looked = map(read_only, PROT_READ);
    printf("MADV_REMOVE by one that may not: %s\n", answer(madvise(looked + 5 * PAGE, PAGE, MADV_REMOVE)));
    show("still there", looked, 5);
    printf("mprotect: %s\n", answer(mprotect(looked, PAGE, PROT_READ | PROT_WRITE)));
    printf("a writable mapping of it: %s\n", answer((long)mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, read_only, 0)));
    int here = open(directory, O_RDONLY);
    printf("of a directory: %s\n", answer((long)mmap(0, PAGE, PROT_READ, MAP_SHARED, here, 0)));
    munmap(looked, length);
    munmap(at, length);
    file("after", fd, 1);
    file("after", fd, 5);
    close(fd), close(here), close(read_only);
}

static void advice(void) {
    int fd = make("advice");
    char *at = map(fd, PROT_READ | PROT_WRITE);
    store(at, 1, 1);
    static const struct { int number; const char *name; } all[] = {
        {MADV_NORMAL, "NORMAL"}, {MADV_RANDOM, "RANDOM"}, {MADV_SEQUENTIAL, "SEQUENTIAL"}, {MADV_WILLNEED, "WILLNEED"}, {MADV_DONTNEED, "DONTNEED"},
        {MADV_COLD, "COLD"}, {MADV_PAGEOUT, "PAGEOUT"}, {MADV_POPULATE_READ, "POPULATE_READ"}, {MADV_POPULATE_WRITE, "POPULATE_WRITE"},
        {MADV_DONTDUMP, "DONTDUMP"}, {MADV_DODUMP, "DODUMP"}, {12345, "12345"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        store(at, i + 2, 100 + i);
        printf("MADV_%s: %s\n", all[i].name, answer(madvise(at, length, all[i].number)));
        show("kept", at, 1);
        show("kept", at, i + 2);
    }
    // On oneself, and of what every kernel allows.
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    struct iovec parts[] = {{at, 2 * PAGE}, {at + 4 * PAGE, PAGE}};
    printf("process_madvise: %s\n", answer(syscall(SYS_process_madvise, self, parts, 2, MADV_WILLNEED, 0)));
    close(self);
    munmap(at, length);
    file("after", fd, 1);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) file("after", fd, i + 2);
    close(fd);
}

static void locked(void) {
    int fd = make("locked");
    char *at = map(fd, PROT_READ | PROT_WRITE);
    unsigned char there[8] = "";
    printf("mlock: %s\n", answer(mlock(at + PAGE, 2 * PAGE)));
    printf("mincore: %s", answer(mincore(at + PAGE, 2 * PAGE, there)));
    printf(" %d %d\n", there[0] & 1, there[1] & 1);
    show("locked", at, 2);
    printf("mlock2: %s\n", answer(mlock2(at + 8 * PAGE, 4 * PAGE, MLOCK_ONFAULT)));
    store(at, 8, 808);
    printf("munlock: %s\n", answer(munlock(at, length)));
    char *populated = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    must(populated != MAP_FAILED, "MAP_POPULATE");
    show("populated", populated, length / PAGE - 1);
    show("populated", populated, 8);
    store(populated, 20, 2020);
    munmap(populated, length);
    printf("munmap, mlock: %s\n", answer(mlock(populated, PAGE)));
    munmap(at, length);
    file("after", fd, 8);
    file("after", fd, 20);
    close(fd);
}

static void moved(void) {
    int fd = make("moved");
    char *at = map(fd, PROT_READ | PROT_WRITE);
    store(at, 1, 11);
    char *left = mremap(at, length, length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    must(left != MAP_FAILED && left != at, "MREMAP_DONTUNMAP");
    store(at, 2, 22);
    store(left, 3, 33);
    for (size_t page = 1; page < 4; page++) show("both", at, page), show("both", left, page);
    show("not touched yet", left, length / PAGE - 1);
    show("not touched yet", at, length / PAGE - 2);
    char *more = mremap(left, 0, length, MREMAP_MAYMOVE);
    must(more != MAP_FAILED, "mremap of length 0");
    store(more, 4, 44);
    munmap(left, length);
    munmap(at, length);
    show("the third", more, 4);
    // Other pages of the same file, in a place of their own.
    printf("remap_file_pages: %s\n", answer(remap_file_pages(more, 4 * PAGE, 0, 30, 0)));
    show("remapped", more, 0);
    store(more, 1, 3131);
    show("as before", more, 4);
    munmap(more, length);
    file("after", fd, 1);
    for (size_t page = 2; page < 5; page++) file("after", fd, page);
    file("after", fd, 31);
    close(fd);
}

// Anonymous memory in which each page says that it is one of these.
static char *anonymous(void) {
    char *at = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED, "anonymous memory");
    for (size_t page = 0; page < length / PAGE; page++) store(at, page, 500000 + page);
    return at;
}

// The kernel's newer versions move several mappings with what lies between them; older ones say
// EFAULT.
static void move_to(const char *what, char *from, size_t old, size_t new, int flags, char *to) {
    char *got = mremap(from, old, new, flags, to);
    printf("%s: %s", what, answer(got == MAP_FAILED ? -1 : 0));
    printf("%s\n", got == MAP_FAILED || !(flags & MREMAP_FIXED) || got == to ? "" : ", elsewhere");
}

static void gaps(void) {
    enum { FIXED = MREMAP_MAYMOVE | MREMAP_FIXED };
    int fd = make("gaps"), other = make("other");
    char *at = map(fd, PROT_READ | PROT_WRITE), *to = anonymous();
    store(at, 1, 11), store(at, 9, 99), store(at, 14, 1414);
    munmap(at + 4 * PAGE, 4 * PAGE);
    move_to("from a gap", at + 4 * PAGE, 8 * PAGE, 8 * PAGE, FIXED, to);
    move_to("over a gap, larger", at, 16 * PAGE, 20 * PAGE, MREMAP_MAYMOVE, 0);
    move_to("over a gap, smaller", at + PAGE, 12 * PAGE, 8 * PAGE, FIXED, to);
    move_to("over a gap, kept", at, 16 * PAGE, 16 * PAGE, FIXED | MREMAP_DONTUNMAP, to);
    move_to("onto itself", at, 16 * PAGE, 16 * PAGE, FIXED, at + 8 * PAGE);
    show("not moved", at, 1);
    // In the gap of the target lies the other file.
    char *kept = mmap(to + 5 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, other, 0);
    must(kept == to + 5 * PAGE, "the other file");
    store(to, 5, 5555);
    move_to("over a gap", at, 16 * PAGE, 16 * PAGE, FIXED, to);
    for (size_t page = 0; page < 18; page++) show("old", at, page), show("new", to, page);
    store(to, 2, 22), store(to, 10, 1010), store(to, 6, 6666);
    show("the end", at, length / PAGE - 1);
    // Two files and memory side by side, the last page of which is another's.
    char *line = anonymous();
    must(mmap(line + 2 * PAGE, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 20 * PAGE) == line + 2 * PAGE, "side by side");
    must(mmap(line + 5 * PAGE, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, other, 20 * PAGE) == line + 5 * PAGE, "side by side");
    must(mmap(line + 8 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 30 * PAGE) == line + 8 * PAGE, "side by side");
    store(line, 3, 2121), store(line, 5, 2020);
    move_to("several", line, 10 * PAGE, 10 * PAGE, FIXED, to + 20 * PAGE);
    for (size_t page = 0; page < 10; page++) show("old", line, page), show("new", to + 20 * PAGE, page);
    // The same mapping twice, and over one of ours.
    char *second = map(other, PROT_READ | PROT_WRITE);
    move_to("once more", second, 0, 4 * PAGE, FIXED, to + 40 * PAGE);
    store(to, 41, 4141);
    show("both", second, 1);
    move_to("over a mapping, kept", second + 8 * PAGE, 4 * PAGE, 4 * PAGE, FIXED | MREMAP_DONTUNMAP, to + 40 * PAGE);
    store(to, 43, 4343), store(second, 9, 909);
    show("both", to, 41), show("both", second, 11);
    // Over 4 TiB in which there is nothing else: as quick. What the process maps meanwhile finds
    // room behind them.
    const size_t wide = 1ul << 42;
    char *target = mmap(0, 3 * wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), *sparse = target + wide;
    must(target != MAP_FAILED && munmap(sparse, 2 * wide) == 0, "addresses");
    must(mmap(sparse, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 24 * PAGE) == sparse, "in the wide");
    store(sparse, 1, 2525);
    move_to("over a wide gap", sparse, wide, wide, FIXED, target);
    show("old", sparse, 1), show("new", target, 1);
    munmap(sparse, 4 * PAGE), munmap(target, wide);
    munmap(second, length), munmap(at, length), munmap(line, length), munmap(to, length);
    static const size_t of_first[] = {1, 2, 9, 10, 14, 21, 25}, of_other[] = {0, 1, 9, 11, 20};
    for (size_t i = 0; i < sizeof of_first / sizeof *of_first; i++) file("gaps", fd, of_first[i]);
    for (size_t i = 0; i < sizeof of_other / sizeof *of_other; i++) file("other", other, of_other[i]);
    close(fd), close(other);
}

int main(int count, char **words) {
    if (count != 3) return 64;
    directory = words[1];
    length = atol(words[2]) * PAGE;
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    alarm(60);
    not_in_children();
    same_memory();
    holes();
    advice();
    locked();
    moved();
    gaps();
}
