// Several processes write into one file at the same time.
//
// written_together write|map|remove FILE
//     While a write stands still, since its bytes are missing (userfaultfd(2)), another process
//     writes, maps the file, or removes its last name with a descriptor that it shares: "beside",
//     or "waits" where that waited for the write. In the end all see what was written.
// written_together mapped|removed FILE ROUNDS
//     Writers write numbers at places of their own. Meanwhile somebody maps the file, or removes it
//     while he holds a descriptor that a child has, too; the last numbers are there in the end, in
//     the mapping and for each descriptor.
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WRITERS = 3, PLACES = 64, LENGTH = WRITERS * PLACES * PAGE, TIMES = 4 };

static void must(int done, const char *what) {
    if (!done) err(2, "%s", what);
}

struct served {
    int faults, tell, hear;
    char *page;
    int answered;
};

// Has the other process write when the page is missed, and gives the page when it has, or is not
// heard of for some seconds.
static void *serve(void *given) {
    struct served *served = given;
    struct uffd_msg message;
    static char bytes[PAGE];
    char word = 0;
    must(read(served->faults, &message, sizeof message) == sizeof message, "a fault");
    must(write(served->tell, &word, 1) == 1, "tell");
    struct pollfd heard = {.fd = served->hear, .events = POLLIN};
    served->answered = poll(&heard, 1, 5000) == 1;
    memset(bytes, 'a', PAGE);
    struct uffdio_copy copy = {.dst = (uintptr_t)served->page, .src = (uintptr_t)bytes, .len = PAGE};
    must(!ioctl(served->faults, UFFDIO_COPY, &copy), "UFFDIO_COPY");
    return 0;
}

// What the other process does when it is told.
static void other(const char *path, const char *how, int told, int done) {
    char word, bytes[PAGE], *mapped = 0;
    int fd = open(path, O_RDWR), status;
    memset(bytes, 'b', PAGE);
    must(fd >= 0 && pwrite(fd, bytes, PAGE, PAGE) == PAGE, "a first write");
    must(write(done, &word, 1) == 1, "ready");
    must(read(told, &word, 1) == 1, "told");
    if (!strcmp(how, "write")) {
        must(pwrite(fd, bytes, PAGE, 2 * PAGE) == PAGE, "the other's write");
    } else if (!strcmp(how, "map")) {
        mapped = mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, 0);
        must(mapped != MAP_FAILED, "mmap");
        bytes[0] = *(volatile char *)mapped;
    } else {
        pid_t child = fork();
        if (child == 0) _exit(pread(fd, bytes, 1, 0) != 1);
        must(waitpid(child, &status, 0) == child && status == 0, "a child");
        must(!unlink(path), "unlink");
    }
    must(write(done, &word, 1) == 1, "done");
    must(read(told, &word, 1) == 1, "told");
    if (mapped && (mapped[0] != 'a' || memcmp(mapped, mapped + 1, PAGE - 1)))
        errx(1, "what is mapped is older");
    must(pread(fd, bytes, PAGE, 0) == PAGE, "the other's read");
    if (bytes[0] != 'a' || memcmp(bytes, bytes + 1, PAGE - 1)) errx(1, "what it reads is older");
    _exit(0);
}

static int beside(const char *path, const char *how) {
    int tell[2], hear[2], status;
    char word = 0, bytes[PAGE];
    must(!pipe(tell) && !pipe(hear), "pipe");
    int made = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    must(made >= 0, path);
    close(made);
    pid_t child = fork();
    if (child == 0) other(path, how, tell[0], hear[1]);
    must(read(hear[0], &word, 1) == 1, "the other is ready");
    struct served served = {.tell = tell[1], .hear = hear[0]};
    served.page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    served.faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    must(served.faults >= 0, "userfaultfd");
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register registered = {
        .range = {.start = (uintptr_t)served.page, .len = PAGE},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    must(!ioctl(served.faults, UFFDIO_API, &api), "UFFDIO_API");
    must(!ioctl(served.faults, UFFDIO_REGISTER, &registered), "UFFDIO_REGISTER");
    pthread_t thread;
    must(!pthread_create(&thread, 0, serve, &served), "a thread");
    int fd = open(path, O_RDWR);
    must(fd >= 0 && pwrite(fd, served.page, PAGE, 0) == PAGE, "a write");
    pthread_join(thread, 0);
    must(write(tell[1], &word, 1) == 1, "tell");
    must(waitpid(child, &status, 0) == child && status == 0, "the other");
    must(pread(fd, bytes, PAGE, PAGE) == PAGE && bytes[0] == 'b', "the first page of the other");
    puts(served.answered ? "beside" : "waits");
    return 0;
}

static long place(int writer, int at) { return ((long)at * WRITERS + writer) * PAGE; }

// Writes each of its places several times, and reads in the end what it has written.
static void writer(const char *path, int own, int round, int opened, int begin) {
    int fd = open(path, own == 0 ? O_WRONLY : O_RDWR), number;
    char word = 0;
    must(fd >= 0, path);
    must(write(opened, &word, 1) == 1, "opened");
    must(read(begin, &word, 1) == 0, "the beginning");
    for (int time = 0; time < TIMES; time++)
        for (int at = 0; at < PLACES; at++) {
            number = round * TIMES + time;
            must(pwrite(fd, &number, sizeof number, place(own, at)) == sizeof number, "a number");
        }
    for (int at = 0; own != 0 && at < PLACES; at++) {
        must(pread(fd, &number, sizeof number, place(own, at)) == sizeof number, "its number");
        if (number != round * TIMES + TIMES - 1) errx(1, "writer %d: %d at %d", own, number, at);
    }
    _exit(0);
}

static int wrong(int round, int number) { return number != round * TIMES + TIMES - 1; }

static int together(const char *path, int rounds, int removed) {
    int failed = 0;
    for (int round = 1; round <= rounds; round++) {
        int opened[2], begin[2], status, number;
        char words[WRITERS];
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
        must(fd >= 0 && !ftruncate(fd, LENGTH), path);
        must(!pipe(begin) && !pipe(opened), "pipe");
        for (int own = 0; own < WRITERS; own++)
            if (fork() == 0) {
                close(begin[1]);
                writer(path, own, round, opened[1], begin[0]);
            }
        char *bytes = 0;
        // All of them have it open before it may go.
        for (int own = 0; own < WRITERS; own++)
            must(read(opened[0], words, 1) == 1, "all have it open");
        close(opened[0]), close(opened[1]), close(begin[0]), close(begin[1]);
        usleep(round * 37 % 1500);
        if (removed) {
            must(!unlink(path), "unlink");
        } else {
            bytes = mmap(0, LENGTH, PROT_READ, MAP_SHARED, fd, 0);
            must(bytes != MAP_FAILED, "mmap");
        }
        while (wait(&status) > 0) failed += status != 0;
        for (int own = 0; own < WRITERS; own++)
            for (int at = 0; at < PLACES; at++) {
                must(pread(fd, &number, sizeof number, place(own, at)) == sizeof number, "pread");
                failed += wrong(round, number);
                if (bytes) failed += wrong(round, *(int *)(bytes + place(own, at)));
            }
        if (bytes) munmap(bytes, LENGTH);
        close(fd);
        if (!removed) must(!unlink(path), "unlink");
    }
    printf("%d rounds, %d wrong\n", rounds, failed);
    return failed != 0;
}

int main(int count, char **words) {
    if (count == 3) return beside(words[2], words[1]);
    if (count == 4) return together(words[2], atoi(words[3]), !strcmp(words[1], "removed"));
    return 64;
}
