// A thread waits in a driver, until somebody writes to a FIFO; others make processes meanwhile:
// slow_driver DIRECTORY FIFO read|pread|shared|list|divide
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { PATIENCE = 50, HALF = 8 };

static const char *mode;
static int slow;
static atomic_int done;
static char bytes[64];

static void must(int good, const char *what) {
    if (!good) err(2, "%s", what);
}

// What takes until the FIFO is written to.
static void *waits(void *unused) {
    (void)unused;
    if (!strcmp(mode, "list")) {
        DIR *listing = fdopendir(dup(slow));
        int entries = 0;
        while (listing && readdir(listing)) entries++;
        must(entries > 2, "the listing");
    } else if (!strcmp(mode, "pread")) {
        must(pread(slow, bytes, HALF, 0) == HALF, "pread");
    } else {
        must(read(slow, bytes, HALF) == HALF, "read");
    }
    done = 1;
    return NULL;
}

static int ended(pid_t child) {
    int status;
    must(child > 0 && waitpid(child, &status, 0) == child, "wait");
    return status;
}

// What a child does: all of it works while the parent's thread waits.
static int works(void) {
    char read_now[64] = "", other[400] = "other";
    int fd = open(other, O_RDONLY);
    must(fd >= 0 && read(fd, read_now, 5) == 5 && !memcmp(read_now, "other", 5) && close(fd) == 0, "another file");
    must((fd = open("new", O_RDWR | O_CREAT | O_TRUNC, 0644)) >= 0 && write(fd, "new", 3) == 3 && close(fd) == 0, "a new file");
    if (strcmp(mode, "list")) {
        must((fd = open("slow", O_RDONLY)) >= 0 && read(fd, read_now, HALF) == HALF && close(fd) == 0, "the same file");
        must(!memcmp(read_now, "01234567", HALF), "its bytes");
        must(pread(slow, read_now, HALF, HALF) == HALF && !memcmp(read_now, "89abcdef", HALF), "the same descriptor");
    }
    struct stat found;
    must(fstat(slow, &found) == 0 && stat("slow", &found) == 0, "stat");
    must((fd = dup(slow)) >= 0 && close(fd) == 0, "dup");
    pthread_t thread;
    done = 1;
    // Threads of its own do not meet those of its parent.
    must(pthread_create(&thread, NULL, (void *(*)(void *))pthread_self, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    must(close(slow) == 0, "close");
    return 0;
}

static char state_of(pid_t process) {
    char path[64], line[400] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return 0;
    must(read(fd, line, sizeof line - 1) > 0 && close(fd) == 0, path);
    char *end = strrchr(line, ')');
    return end ? end[2] : 0;
}

int main(int count, char **words) {
    if (count != 4 || chdir(words[1])) err(64, "slow_driver DIRECTORY FIFO MODE");
    mode = words[3];
    alarm(PATIENCE);
    int divide = !strcmp(mode, "divide");
    slow = open(!strcmp(mode, "list") ? "." : "slow", O_RDONLY);
    must(slow >= 0, "slow");
    if (!strcmp(mode, "shared")) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        must(ended(child) == 0, "a child");
    }
    pthread_t thread;
    must(pthread_create(&thread, NULL, waits, NULL) == 0, "a thread");
    // Until the thread is in the driver.
    int fifo = open(words[2], O_WRONLY | O_CLOEXEC), ends[2];
    must(fifo >= 0 && pipe(ends) == 0, words[2]);
    pid_t child = fork();
    if (child == 0 && divide) {
        // As natively, it waits for the read that is under way at the same offset.
        char next[HALF];
        close(ends[0]);
        close(fifo);
        must(close(ends[1]) == 0 && read(slow, next, HALF) == HALF, "read");
        _exit(!memcmp(next, "89abcdef", HALF) ? 0 : 3);
    }
    if (child == 0) _exit(works());
    if (divide) {
        char word, state;
        must(close(ends[1]) == 0 && read(ends[0], &word, 1) == 0, "the child begins");
        while ((state = state_of(child)) != 'S' && state != 'Z') sched_yield();
    } else {
        printf("child of fork: %x\n", ended(child));
        char *argv[] = {"sh", "-c", "cat other && cat slow && echo", NULL};
        fflush(stdout);
        must(posix_spawnp(&child, "sh", NULL, NULL, argv, environ) == 0, "posix_spawn");
        printf("child of posix_spawn: %x\n", ended(child));
        // Twice: what was shared for the first child is.
        if ((child = fork()) == 0) _exit(works());
        printf("child of fork: %x\n", ended(child));
    }
    printf("the thread %s\n", done ? "did not wait" : "waits");
    must(write(fifo, "x", 1) == 1 && close(fifo) == 0, "the FIFO");
    must(pthread_join(thread, NULL) == 0, "join");
    if (divide) printf("child: %x\n", ended(child));
    printf("%.*s at %d\n", HALF, bytes, strcmp(mode, "list") ? (int)lseek(slow, 0, SEEK_CUR) : 0);
    if ((child = fork()) == 0) _exit(!divide && strcmp(mode, "list") && (read(slow, bytes, HALF) != HALF || memcmp(bytes, strcmp(mode, "pread") ? "89abcdef" : "01234567", HALF)));
    printf("the offset is the child's: %x\n", ended(child));
    return 0;
}
