// What becomes of mapped files that are filled on demand when something goes wrong: mapped_lazily
// WHAT FILE [...] Files hold word n at byte 8 n, so that each page tells where it is from. Nothing
// waits for ever: an alarm ends what hangs.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MEGABYTE = 1 << 20, LIMIT = 40 };

static void must(int good, const char *what) {
    if (good) return;
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static int make(const char *name, size_t size) {
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0644);
    must(fd >= 0, "open");
    uint64_t *words = malloc(size);
    for (size_t i = 0; i < size / 8; i++) words[i] = i * 8;
    must(write(fd, words, size) == (ssize_t)size, "write");
    free(words);
    return fd;
}

static void *map(int fd, size_t size, int protection) {
    void *at = mmap(0, size, protection, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "mmap");
    return at;
}

static __thread sigjmp_buf back;
static void on_fault(int number) { siglongjmp(back, number); }

// Says what a load of the word at byte `at` comes to.
static void look(const char *what, const char *map, size_t at) {
    int number = sigsetjmp(back, 1);
    if (number) printf("%s, byte %zu: %s\n", what, at, sigabbrev_np(number));
    else printf("%s, byte %zu: %llu\n", what, at, (unsigned long long)*(volatile uint64_t *)(map + at));
}

// Loads beyond what can be read, by the program and by the kernel for it, and loads before it.
static void unreadable(const char *name, size_t size, size_t bad) {
    int fd = open(name, O_RDWR);
    must(fd >= 0, "open");
    char *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        printf("mmap: %s\n", strerrorname_np(errno));
        return;
    }
    look("before", at, bad - PAGE);
    look("behind", at, bad + 3 * PAGE);
    look("once more", at, bad + 3 * PAGE);
    look("the first", at, 0);
    int pipes[2];
    must(pipe(pipes) == 0, "pipe");
    printf("the kernel: %s\n", write(pipes[1], at + bad + 5 * PAGE, 8) == 8 ? "reads it" : strerrorname_np(errno));
    printf("the kernel, before: %s\n", write(pipes[1], at + bad - 8, 8) == 8 ? "reads it" : strerrorname_np(errno));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        look("a child", at, bad);
        fflush(stdout);
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child, "wait");
    printf("child: %x\nmunmap: %d\n", status, munmap(at, size));
}

// The file ends in front of, inside and behind pages that nobody has touched.
static void truncated(const char *name) {
    size_t size = 8 * MEGABYTE;
    int fd = make(name, size);
    char *at = map(fd, size, PROT_READ | PROT_WRITE), *only_read = map(fd, size, PROT_READ);
    size_t end = 3 * MEGABYTE + 104;
    look("first", at, 7 * MEGABYTE);
    must(ftruncate(fd, end) == 0, "ftruncate");
    look("behind the end", at, 5 * MEGABYTE);
    look("where it was read", at, 7 * MEGABYTE);
    look("before the end", only_read, MEGABYTE);
    look("last word", at, end - 8);
    look("behind, same page", at, end);
    look("next page", only_read, end / PAGE * PAGE + PAGE);
    must(truncate(name, 6 * MEGABYTE) == 0, "truncate");
    look("grown, same page", at, end);
    look("grown", only_read, 5 * MEGABYTE);
    look("still behind", at, 6 * MEGABYTE);
    strcpy(at + 4 * MEGABYTE, "stored");
    char bytes[8] = "";
    must(pread(fd, bytes, 7, 4 * MEGABYTE) == 7, "pread");
    printf("%s\n", bytes);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        look("child", at, 2 * MEGABYTE);
        must(truncate(name, 2 * MEGABYTE) == 0, "truncate by the child");
        look("child", at, 2 * MEGABYTE);
        fflush(stdout);
        _exit(0);
    }
    must(waitpid(child, 0, 0) == child, "wait");
    look("after the child", only_read, 2 * MEGABYTE);
    look("after the child", only_read, 2 * MEGABYTE - 8);
    must(munmap(at, size) == 0 && munmap(only_read, size) == 0, "munmap");
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_END));
}

// Two processes that open and map one file each for itself, and take turns in storing what the
// other one looks for.
static void two(const char *name) {
    size_t size = 8 * MEGABYTE;
    close(make(name, size));
    int turns[2][2];
    must(pipe(turns[0]) == 0 && pipe(turns[1]) == 0, "pipe");
    pid_t child = fork();
    int self = child == 0;
    alarm(LIMIT);
    int fd = open(name, O_RDWR);
    char *at = map(fd, size, PROT_READ | PROT_WRITE), turn = 0;
    int wrong = 0;
    for (int page = self; page < (int)(size / PAGE); page += 2) {
        // In no order, so that both meet pages that neither has touched.
        size_t here = (size_t)page * 769 % (size / PAGE) * PAGE, before = (size_t)(page - 1) * 769 % (size / PAGE) * PAGE;
        if (page) must(read(turns[self][0], &turn, 1) == 1, "the turn");
        wrong += *(uint64_t *)(at + here) != here || *(uint64_t *)(at + here + 8) != here + 8;
        wrong += page && *(uint64_t *)(at + before) != ~(uint64_t)before;
        *(uint64_t *)(at + here) = ~(uint64_t)here;
        must(write(turns[!self][1], &turn, 1) == 1, "the turn");
    }
    if (self) _exit(wrong != 0);
    int status;
    must(waitpid(child, &status, 0) == child, "wait");
    for (size_t here = 0; here < size; here += PAGE) {
        uint64_t word;
        wrong += *(uint64_t *)(at + here) != ~(uint64_t)here;
        wrong += pread(fd, &word, 8, here) != 8 || word != ~(uint64_t)here;
    }
    printf("%d wrong, child %x\n", wrong, status);
}

// A descriptor whose offset is shared with another process, read where nobody has touched the
// mapping yet.
static void shared(const char *name) {
    size_t size = 8 * MEGABYTE;
    close(make(name, size));
    int fd = open(name, O_RDWR), status;
    alarm(LIMIT);
    char *at = map(fd, size, PROT_READ | PROT_WRITE);
    *(uint64_t *)(at + size / 2) = 1;
    pid_t child = fork();
    static char bytes[70001];
    if (!child) _exit(read(fd, bytes, PAGE) != PAGE);
    must(waitpid(child, &status, 0) == child, "wait");
    ssize_t got = read(fd, bytes, sizeof bytes);
    int wrong = 0;
    for (size_t i = 0; i + 8 <= (size_t)got; i += PAGE) wrong += *(uint64_t *)(bytes + i) != PAGE + i;
    printf("child %x, %zd read, %d wrong, offset %lld\n", status, got, wrong, (long long)lseek(fd, 0, SEEK_CUR));
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

// Stores and is killed, as the only process of its run.
static void last(const char *name, size_t size) {
    printf("%s\n", run_directory());
    fflush(stdout);
    int fd = open(name, O_RDWR);
    must(fd >= 0, "open");
    char *at = map(fd, size, PROT_READ | PROT_WRITE);
    for (size_t here = 0; here < size; here += 5 * PAGE) *(uint64_t *)(at + here + 16) = ~(uint64_t)here;
    raise(SIGKILL);
}

// The pager of this run: its first process, or a child of that. 0: there is none.
static pid_t pager(pid_t parent) {
    DIR *all = opendir("/proc");
    const char *run = run_directory();
    pid_t found = 0;
    for (struct dirent *entry; !found && (entry = readdir(all));) {
        char name[300], line[700] = "", *word = line;
        if (!isdigit(entry->d_name[0])) continue;
        snprintf(name, sizeof name, "/proc/%s/cmdline", entry->d_name);
        FILE *file = fopen(name, "r");
        if (!file) continue;
        size_t got = fread(line, 1, sizeof line - 1, file);
        fclose(file);
        word += strlen(word) + 1;
        if (word >= line + got || strcmp(word, "run-pager")) continue;
        word += strlen(word) + 1;
        if (strcmp(word, run)) continue;
        snprintf(name, sizeof name, "/proc/%s/stat", entry->d_name);
        if (!(file = fopen(name, "r"))) continue;
        int father = 0, session = 0, number = 0;
        char state = 'Z';
        int fields = fscanf(file, "%d (%*[^)]) %c %d %*d %d", &number, &state, &father, &session);
        fclose(file);
        if (fields == 4 && state != 'Z' && (parent ? father == parent : session == number)) found = number;
    }
    closedir(all);
    return found;
}

enum { READERS = 3, LARGE = 24 * MEGABYTE };
static char *large;
static int done, wrong;

static void *reader(void *which) {
    size_t pages = LARGE / PAGE;
    for (size_t i = 0; i < pages; i++) {
        size_t here = (i * 1531 + (size_t)which * 2048) % pages * PAGE;
        uint64_t word = *(volatile uint64_t *)(large + here + 24);
        if (word != here + 24) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    }
    __atomic_add_fetch(&done, 1, __ATOMIC_RELEASE);
    return 0;
}

// Kills workers of the pager while threads read, or at last the guardian.
static void killed(const char *name, int kills, int guardian_too) {
    large = map(open(name, O_RDWR), LARGE, PROT_READ | PROT_WRITE);
    pthread_t threads[READERS];
    for (size_t i = 0; i < READERS; i++) pthread_create(&threads[i], 0, reader, (void *)i);
    pid_t guardian = pager(0);
    int made = 0;
    pid_t worker = 0, before = 0;
    while (guardian && made < kills && __atomic_load_n(&done, __ATOMIC_ACQUIRE) == 0) {
        worker = pager(guardian);
        // A killed process is seen until it has ended.
        if (worker && worker != before && kill(worker, SIGKILL) == 0) made++, before = worker;
    }
    if (guardian_too && guardian) {
        // Not both at one stroke.
        while (!(worker = pager(guardian)) || worker == before) sched_yield();
        kill(guardian, SIGKILL);
    }
    for (int i = 0; i < READERS; i++) pthread_join(threads[i], 0);
    *(uint64_t *)(large + 40) = 1;
    must(msync(large, LARGE, MS_SYNC) == 0, "msync");
    fprintf(stderr, "guardian %s, %d workers killed\n", guardian ? "found" : "missing", made);
    printf("%d wrong\n", wrong);
}

// Whether a process has ended and closed all that it had open: every thread does that before it is
// seen as gone, or, the first one, as a zombie. The command line is empty before.
static int ended(pid_t process) {
    char name[64], state = 'X';
    snprintf(name, sizeof name, "/proc/%d/task", process);
    DIR *all = opendir(name);
    if (!all) return 1;
    int threads = 0;
    for (struct dirent *entry; (entry = readdir(all));) threads += entry->d_name[0] != '.';
    closedir(all);
    snprintf(name, sizeof name, "/proc/%d/stat", process);
    FILE *file = fopen(name, "r");
    if (!file) return 1;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'X';
    fclose(file);
    return threads <= 1 && (state == 'Z' || state == 'X');
}

// Kills both processes of the pager at one stroke, and maps something else while a thread waits for
// a page.
static void both(const char *name) {
    large = map(open(name, O_RDWR), LARGE, PROT_READ | PROT_WRITE);
    pid_t guardian = pager(0), worker = guardian ? pager(guardian) : 0;
    fprintf(stderr, "pager %s\n", worker ? "found" : "missing");
    if (worker) {
        kill(guardian, SIGSTOP), kill(worker, SIGSTOP);
        kill(guardian, SIGKILL), kill(worker, SIGKILL);
        while (!ended(guardian) || !ended(worker)) sched_yield();
    }
    pthread_t thread;
    pthread_create(&thread, 0, reader, 0);
    char other[400];
    snprintf(other, sizeof other, "%s.other", name);
    char *second = map(make(other, PAGE), PAGE, PROT_READ | PROT_WRITE);
    second[0] = 1;
    pthread_join(thread, 0);
    printf("%d wrong\n", wrong);
}

// The guardian of the pager is killed, which then fills what is left, holes of the file's own too;
// and when that is done the rest of it.
static void sparse(const char *name) {
    size_t size = 2 * LARGE, data = LARGE;
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    must(ftruncate(fd, size) == 0 && pwrite(fd, "a", 1, 0) == 1 && pwrite(fd, "b", 1, data) == 1, "a file with holes");
    volatile char *bytes = map(fd, size, PROT_READ);
    must(bytes[0] == 'a', "the first byte");
    pid_t guardian = pager(0), worker = guardian ? pager(guardian) : 0;
    fprintf(stderr, "guardian %s\n", worker ? "found" : "missing");
    if (worker) {
        static unsigned char there[2 * LARGE / PAGE];
        size_t missing = 1;
        kill(guardian, SIGKILL);
        while (missing) {
            must(mincore((void *)bytes, size, there) == 0, "mincore");
            missing = 0;
            for (size_t i = 0; i < sizeof there; i++) missing += !(there[i] & 1);
            usleep(1000);
        }
        kill(worker, SIGKILL);
        while (!ended(worker)) sched_yield();
    }
    for (size_t at = 0; at < size; at += PAGE) wrong += bytes[at] != (at == 0 ? 'a' : at == data ? 'b' : 0);
    printf("%d wrong\n", wrong);
}

int main(int count, char **words) {
    must(count >= 3, "usage");
    const char *what = words[1], *name = words[2];
    signal(SIGBUS, on_fault);
    signal(SIGSEGV, on_fault);
    alarm(LIMIT);
    if (!strcmp(what, "make")) close(make(name, atoll(words[3])));
    else if (!strcmp(what, "unreadable")) unreadable(name, atoll(words[3]), atoll(words[4]));
    else if (!strcmp(what, "truncated")) truncated(name);
    else if (!strcmp(what, "two")) two(name);
    else if (!strcmp(what, "shared")) shared(name);
    else if (!strcmp(what, "last")) last(name, atoll(words[3]));
    else if (!strcmp(what, "killed")) killed(name, atoi(words[3]), atoi(words[4]));
    else if (!strcmp(what, "both")) both(name);
    else if (!strcmp(what, "sparse")) sparse(name);
    else return 2;
}
