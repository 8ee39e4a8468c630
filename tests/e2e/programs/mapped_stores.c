// Shared mappings that are stored into, against calls, other processes and the end of the file:
// prints what it sees, for comparing with the kernel. usage: mapped_stores DIRECTORY
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
static char *directory;
static const char *topic;

static char *path(const char *name) {
    static char buffers[4][512];
    static int next;
    char *buffer = buffers[next++ % 4];
    snprintf(buffer, 512, "%s/%s", directory, name);
    return buffer;
}

static void say(const char *what, long value) { printf("%s: %s = %ld %s\n", topic, what, value, value == -1 ? strerrorname_np(errno) : ""); fflush(stdout); }

static void show(const char *what, const char *bytes, int count) {
    printf("%s: %s = ", topic, what);
    for (int i = 0; i < count; i++)
        printf(bytes[i] >= ' ' && bytes[i] <= '~' ? "%c" : "\\%02x", (unsigned char)bytes[i]);
    puts("");
    fflush(stdout);
}

static int file(const char *name, long size) {
    int fd = open(path(name), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) { perror(name); exit(1); }
    char *bytes = malloc(size + 1);
    for (long i = 0; i < size; i++) bytes[i] = 'a' + (i / 7 + i / PAGE) % 26;
    if (write(fd, bytes, size) != size) { perror("write"); exit(1); }
    free(bytes);
    return fd;
}

static char *map(int fd, long length, int protection, int flags, long offset) {
    char *at = mmap(NULL, length, protection, flags, fd, offset);
    if (at == MAP_FAILED) say("mmap", -1);
    return at;
}

static sigjmp_buf fault;
static void on_fault(int number) { siglongjmp(fault, number); }
// What a load at `at` comes to: the byte, or the signal, negated.
static int load(volatile char *at) {
    int number = sigsetjmp(fault, 1);
    return number ? -number : *at;
}
static int store(volatile char *at, char value) {
    int number = sigsetjmp(fault, 1);
    if (number) return -number;
    *at = value;
    return value;
}

static void calls_and_stores(void) {
    topic = "calls and stores";
    int fd = file("calls", 3 * PAGE + 100), other = open(path("calls"), O_RDWR);
    char *at = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0), got[32] = "";
    memcpy(at + 10, "stored", 6);
    show("pread", got, pread(fd, got, 10, 8));
    show("pread of another open", got, pread(other, got, 10, 8));
    lseek(fd, 10, SEEK_SET);
    show("read", got, read(fd, got, 6));
    struct iovec vector[2] = {{got, 3}, {got + 3, 5}};
    show("preadv2", got, preadv2(other, vector, 2, 10, 0));
    say("pwrite", pwrite(other, "written", 7, 12));
    show("mapped", at + 8, 14);
    memcpy(at + PAGE - 2, "across", 6);
    vector[0] = (struct iovec){"ve", 2}, vector[1] = (struct iovec){"ctor", 4};
    say("pwritev", pwritev(fd, vector, 2, PAGE + 1));
    show("mapped", at + PAGE - 2, 10);
    say("lseek", lseek(other, 0, SEEK_END));
    say("write at the end", write(other, "grown", 5));
    show("mapped", at + 3 * PAGE + 98, 10);
    int append = open(path("calls"), O_WRONLY | O_APPEND);
    say("append", write(append, "appended", 8));
    show("mapped", at + 3 * PAGE + 104, 12);
    char bytes[6 * PAGE];
    say("whole", pread(fd, bytes, sizeof bytes, 0));
    say("equal", memcmp(bytes, at, 3 * PAGE + 113) == 0);
    say("the file to its own mapping", pread(fd, at + 2 * PAGE, 16, 0));
    show("mapped", at + 2 * PAGE, 18);
    say("the mapping to its own file", pwrite(fd, at + 8, 12, PAGE + 100));
    show("mapped", at + PAGE + 98, 16);
    int copy = open(path("calls.copy"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    loff_t from = 0, to = 5;
    say("copy_file_range", copy_file_range(fd, &from, copy, &to, 64, 0));
    show("copied", got, pread(copy, got, 24, 10));
    from = 3, to = 2 * PAGE + 50;
    say("copy_file_range into it", copy_file_range(copy, &from, fd, &to, 20, 0));
    show("mapped", at + 2 * PAGE + 48, 24);
    off_t offset = 8;
    int pipes[2];
    if (pipe(pipes)) exit(1);
    say("sendfile", sendfile(copy, fd, &offset, 20));
    say("splice", splice(fd, &(loff_t){10}, pipes[1], NULL, 12, 0));
    show("spliced", got, read(pipes[0], got, 12));
    say("close", close(fd) | close(other) | close(append) | close(copy));
    memcpy(at + 20, "after close", 11);
    fd = open(path("calls"), O_RDONLY);
    show("read by a new open", got, pread(fd, got, 13, 19));
    say("munmap", munmap(at, 4 * PAGE));
    show("read after munmap", got, pread(fd, got, 13, 19));
    close(fd);
}

static void ends(void) {
    topic = "end of file";
    int fd = file("ends", PAGE + 10);
    char *at = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0), got[32] = "";
    say("behind the end", load(at + PAGE + 11));
    say("stored there", store(at + PAGE + 11, 'X'));
    say("next page", load(at + 2 * PAGE));
    say("msync", msync(at, 2 * PAGE, MS_SYNC));
    struct stat status;
    fstat(fd, &status);
    say("size", status.st_size);
    say("read there", pread(fd, got, 4, PAGE + 10));
    say("ftruncate to more", ftruncate(fd, 3 * PAGE));
    say("next page", load(at + 2 * PAGE));
    say("stored", store(at + 2 * PAGE + 1, 'Y'));
    show("read", got, pread(fd, got, 3, 2 * PAGE));
    say("ftruncate to less", ftruncate(fd, PAGE + 100));
    say("cut page", load(at + 2 * PAGE + 1));
    say("behind the end", load(at + PAGE + 100));
    say("truncate by path", truncate(path("ends"), 3 * PAGE));
    say("again zero", load(at + 2 * PAGE + 1));
    say("O_TRUNC", open(path("ends"), O_WRONLY | O_TRUNC) >= 0);
    say("first page", load(at));
    say("pwrite makes it again", pwrite(fd, "new", 3, 0));
    show("mapped", at, 5);
    say("fallocate", fallocate(fd, 0, 0, 2 * PAGE));
    say("zero", load(at + PAGE));
    at[PAGE] = 'h';
    say("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE));
    say("hole", load(at + PAGE));
    at[PAGE + 5] = 'i';
    show("read", got, pread(fd, got, 7, PAGE));
    say("SEEK_DATA", lseek(fd, PAGE, SEEK_DATA));
    say("MADV_REMOVE", madvise(at, PAGE, MADV_REMOVE));
    say("hole", load(at));
    say("read of the hole", pread(fd, got, 3, 0));
    show("read", got, 3);
    say("MADV_DONTNEED", madvise(at + PAGE, PAGE, MADV_DONTNEED));
    show("kept", at + PAGE + 4, 3);
    munmap(at, 4 * PAGE);
    // A mapping that lies behind the end wholly.
    at = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 16 * PAGE);
    say("far behind", load(at));
    say("pwrite there", pwrite(fd, "far", 3, 16 * PAGE + 1));
    show("mapped", at, 5);
    munmap(at, PAGE);
    close(fd);
}

static void errors(void) {
    topic = "errors";
    int fd = file("errors", 2 * PAGE), reads = open(path("errors"), O_RDONLY), writes = open(path("errors"), O_WRONLY);
    int place = open(path("errors"), O_PATH), list = open(directory, O_RDONLY | O_DIRECTORY);
    struct { const char *what; long length; int protection, flags, fd; long offset; } rows[] = {
        {"write of a read-only one", PAGE, PROT_WRITE, MAP_SHARED, reads, 0},
        {"read of a write-only one", PAGE, PROT_READ, MAP_SHARED, writes, 0},
        {"write of a write-only one", PAGE, PROT_WRITE, MAP_SHARED, writes, 0},
        {"private of a write-only one", PAGE, PROT_READ, MAP_PRIVATE, writes, 0},
        {"private write of a read-only one", PAGE, PROT_WRITE, MAP_PRIVATE, reads, 0},
        {"O_PATH", PAGE, PROT_READ, MAP_SHARED, place, 0},
        {"directory", PAGE, PROT_READ, MAP_SHARED, list, 0},
        {"directory to write", PAGE, PROT_WRITE, MAP_SHARED, list, 0},
        {"no length", 0, PROT_READ, MAP_SHARED, fd, 0},
        {"unaligned offset", PAGE, PROT_READ, MAP_SHARED, fd, 100},
        {"unaligned offset to write", PAGE, PROT_WRITE, MAP_SHARED, fd, 100},
        {"no type", PAGE, PROT_READ, 0, fd, 0},
        {"negative offset", PAGE, PROT_WRITE, MAP_SHARED, fd, -PAGE},
        {"offset at the end of all", 2 * PAGE, PROT_WRITE, MAP_SHARED, fd, 0x7ffffffffffff000},
        {"all memory", 1L << 47, PROT_WRITE, MAP_SHARED, fd, 0},
        {"unknown flag", PAGE, PROT_WRITE, MAP_SHARED_VALIDATE | 0x4000000, fd, 0},
        {"closed", PAGE, PROT_READ, MAP_SHARED, 99, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *at = mmap(NULL, rows[i].length, rows[i].protection, rows[i].flags, rows[i].fd, rows[i].offset);
        say(rows[i].what, at == MAP_FAILED ? -1 : 0);
        if (at != MAP_FAILED) munmap(at, rows[i].length);
    }
    char *at = map(reads, PAGE, PROT_READ, MAP_SHARED, 0);
    say("mprotect of a read-only one", mprotect(at, PAGE, PROT_READ | PROT_WRITE));
    munmap(at, PAGE);
    at = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    say("msync unaligned", msync(at + 1, PAGE, MS_SYNC));
    say("msync both", msync(at, PAGE, MS_SYNC | MS_ASYNC));
    say("msync unknown", msync(at, PAGE, 64));
    say("msync nothing", msync(at, 0, MS_SYNC));
    say("msync async", msync(at, PAGE, MS_ASYNC));
    say("msync invalidate", msync(at, PAGE, MS_SYNC | MS_INVALIDATE));
    say("mlock", mlock(at, PAGE));
    say("msync invalidate locked", msync(at, PAGE, MS_SYNC | MS_INVALIDATE));
    say("munlock", munlock(at, PAGE));
    munmap(at + PAGE, PAGE);
    at[3] = 'm';
    say("msync with a gap", msync(at, 2 * PAGE, MS_SYNC));
    say("MADV_FREE", madvise(at, PAGE, MADV_FREE));
    say("MADV_WILLNEED", madvise(at, PAGE, MADV_WILLNEED));
    say("MADV_REMOVE unaligned", madvise(at + 1, PAGE, MADV_REMOVE));
    say("munmap unaligned", munmap(at + 1, PAGE));
    say("munmap nothing", munmap(at, 0));
    munmap(at, PAGE);
    close(fd), close(reads), close(writes), close(place), close(list);
}

static void addresses(void) {
    topic = "addresses";
    int fd = file("addresses", 16 * PAGE), second = file("addresses2", 16 * PAGE);
    char got[32] = "";
    char *at = map(fd, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 2 * PAGE);
    for (int i = 0; i < 8; i++) at[i * PAGE] = '0' + i;
    say("munmap of the middle", munmap(at + 3 * PAGE, 2 * PAGE));
    show("read", got, pread(fd, got, 2, 5 * PAGE));
    at[5 * PAGE + 1] = 'R';
    show("read", got, pread(fd, got, 2, 7 * PAGE));
    say("fixed over it", mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, second, 4 * PAGE) == at + PAGE);
    at[PAGE + 2] = 'S';
    show("read of the second", got, pread(second, got, 4, 4 * PAGE));
    show("read of the first", got, pread(fd, got, 4, 3 * PAGE));
    say("anonymous over it", mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
    at[0] = 'n';
    show("read of the first", got, pread(fd, got, 2, 2 * PAGE));
    munmap(at, 8 * PAGE);
    // mremap
    at = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    at[1] = 'x';
    char *grown = mremap(at, 4 * PAGE, 12 * PAGE, MREMAP_MAYMOVE);
    say("grown", grown != MAP_FAILED);
    grown[10 * PAGE] = 'G';
    show("read", got, pread(fd, got, 2, 10 * PAGE));
    char *shrunk = mremap(grown, 12 * PAGE, 2 * PAGE, 0);
    say("shrunk", shrunk == grown);
    shrunk[PAGE] = 's';
    show("read", got, pread(fd, got, 2, PAGE));
    char *room = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved = mremap(shrunk, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + PAGE);
    say("moved", moved == room + PAGE);
    moved[PAGE + 1] = 'M';
    show("read", got, pread(fd, got, 3, PAGE));
    char *twice = mremap(moved, 0, 2 * PAGE, MREMAP_MAYMOVE);
    say("mapped twice", twice != MAP_FAILED);
    if (twice != MAP_FAILED) {
        twice[2] = 'T';
        show("by the other", moved, 4);
        show("read", got, pread(fd, got, 4, 0));
        munmap(twice, 2 * PAGE);
    }
    char *kept = mremap(moved, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    say("DONTUNMAP", kept != MAP_FAILED);
    if (kept != MAP_FAILED) {
        kept[5] = 'K', moved[6] = 'L';
        show("read", got, pread(fd, got, 8, 0));
        munmap(kept, 2 * PAGE);
    }
    moved[7] = 'N';
    show("read", got, pread(fd, got, 9, 0));
    munmap(room, 8 * PAGE);
    show("read", got, pread(fd, got, 9, 0));
    // mprotect of what was mapped to be read
    at = map(fd, 4 * PAGE, PROT_READ, MAP_SHARED, 0);
    say("store", store(at, 'p'));
    say("mprotect", mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE));
    say("store", store(at + PAGE, 'q'));
    show("read", got, pread(fd, got, 2, PAGE));
    say("mprotect", mprotect(at, 4 * PAGE, PROT_NONE));
    say("load", load(at));
    show("read", got, pread(fd, got, 2, PAGE));
    munmap(at, 4 * PAGE);
    at = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    at[0] = 'r';
    say("remap_file_pages", remap_file_pages(at, PAGE, 0, 3, 0));
    at[1] = 'f';
    show("read", got, pread(fd, got, 2, 3 * PAGE));
    show("read", got, pread(fd, got, 2, 0));
    munmap(at, 4 * PAGE);
    // private
    at = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
    at[0] = 'P';
    show("read", got, pread(fd, got, 2, 0));
    munmap(at, 2 * PAGE);
    close(fd), close(second);
}

static void processes(void) {
    topic = "processes";
    int fd = file("processes", 4 * PAGE), turns[2][2], status;
    char *at = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0), got[32] = "", turn = 0;
    if (pipe(turns[0]) || pipe(turns[1])) exit(1);
    at[0] = 'p';
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        topic = "child";
        show("mapped", at, 3);
        at[PAGE] = 'c';
        if (write(turns[0][1], &turn, 1) != 1 || read(turns[1][0], &turn, 1) != 1) _exit(1);
        show("mapped", at + 2 * PAGE, 6);
        int own = open(path("processes"), O_RDWR);
        char *again = map(own, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 2 * PAGE);
        again[PAGE] = 'd';
        munmap(at, 4 * PAGE);
        again[PAGE + 1] = 'e';
        _exit(0);
    }
    if (read(turns[0][0], &turn, 1) != 1) exit(1);
    show("mapped", at + PAGE, 3);
    show("read", got, pread(fd, got, 3, PAGE));
    memcpy(at + 2 * PAGE, "mother", 6);
    close(fd);
    munmap(at, 4 * PAGE);
    if (write(turns[1][1], &turn, 1) != 1) exit(1);
    waitpid(child, &status, 0);
    say("status", status);
    fd = open(path("processes"), O_RDONLY);
    show("read", got, pread(fd, got, 6, 2 * PAGE));
    show("read", got, pread(fd, got, 3, 3 * PAGE));
    close(fd);
    // A child that stores and executes another program.
    fd = open(path("processes"), O_RDWR);
    at = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    if (!(child = fork())) {
        memcpy(at + 100, "exec", 4);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    show("read", got, pread(fd, got, 6, 99));
    if (!(child = vfork())) _exit(0);
    waitpid(child, &status, 0);
    at[101] = 'v';
    show("read", got, pread(fd, got, 6, 99));
    if (!(child = fork())) {
        memcpy(at + 200, "killed", 6);
        raise(SIGKILL);
    }
    waitpid(child, &status, 0);
    say("status", status);
    show("read", got, pread(fd, got, 6, 200));
    munmap(at, PAGE);
    show("read", got, pread(fd, got, 6, 200));
    close(fd);
}

static void names(void) {
    topic = "names";
    int fd = file("removed", 2 * PAGE);
    char *at = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0), got[32] = "";
    unlink(path("removed"));
    at[0] = 'u';
    show("read", got, pread(fd, got, 2, 0));
    close(fd);
    at[1] = 'v';
    say("msync", msync(at, PAGE, MS_SYNC));
    show("mapped", at, 3);
    munmap(at, 2 * PAGE);
    fd = file("renamed", 2 * PAGE);
    at = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    close(fd);
    at[0] = 'r';
    rename(path("renamed"), path("renamed.new"));
    at[1] = 's';
    fd = open(path("renamed.new"), O_RDONLY);
    show("read", got, pread(fd, got, 3, 0));
    chmod(path("renamed.new"), 0444);
    at[2] = 't';
    say("msync", msync(at, PAGE, MS_SYNC));
    munmap(at, 2 * PAGE);
    show("read", got, pread(fd, got, 4, 0));
    close(fd);
    struct stat before, after;
    fd = file("times", PAGE);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    futimens(fd, old);
    fstat(fd, &before);
    at = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    at[0] = 't';
    msync(at, PAGE, MS_SYNC);
    fstat(fd, &after);
    say("mtime changed", after.st_mtime != before.st_mtime);
    munmap(at, PAGE);
    close(fd);
}

static void limits(void) {
    topic = "limits";
    int fd = file("limits", 64 * PAGE);
    char got[32] = "";
    struct rlimit small = {4 * PAGE, RLIM_INFINITY}, files, all = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &small);
    char *at = map(fd, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    at[60 * PAGE] = 'l';
    say("msync", msync(at, 64 * PAGE, MS_SYNC));
    show("read", got, pread(fd, got, 2, 60 * PAGE));
    munmap(at, 64 * PAGE);
    setrlimit(RLIMIT_FSIZE, &all);
    getrlimit(RLIMIT_NOFILE, &files);
    at = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    int last = 0, first = dup(0);
    for (int next = first; next >= 0; next = dup(0)) last = next;
    at[7] = 'n';
    show("read", got, pread(fd, got, 3, 6));
    say("msync", msync(at, PAGE, MS_SYNC));
    munmap(at, PAGE);
    for (; last >= first; last--) close(last);
    show("read", got, pread(fd, got, 3, 6));
    close(fd);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    directory = arguments[1];
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    calls_and_stores();
    ends();
    errors();
    addresses();
    processes();
    names();
    limits();
    // Left to the end of the process.
    int fd = file("last", 2 * PAGE);
    char *at = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    close(fd);
    memcpy(at + PAGE, "the last", 8);
    return 0;
}
