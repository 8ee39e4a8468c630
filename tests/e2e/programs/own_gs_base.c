// A program that uses the GS base itself, as compiled WebAssembly does: own_gs_base DIRECTORY
// Whatever it is, files on mounts are there, and the base stays what the program has made it, also
// over signals, threads and processes.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long base(void) {
    unsigned long value;
    asm volatile("rdgsbase %0" : "=r"(value));
    return value;
}
static void set_base(unsigned long value) { asm volatile("wrgsbase %0" ::"r"(value)); }

static long words[8] = {11, 22, 33};
static char *name;
static volatile int signals;
static int good = 1;

static void look(const char *what, unsigned long wanted) {
    int kept = base() == wanted;
    char text[6] = "";
    int fd = open(name, O_RDONLY);
    int after = base() == wanted;
    long got = read(fd, text, 5);
    close(fd);
    long word = 0;
    if (wanted == (unsigned long)words) asm volatile("movq %%gs:8, %0" : "=r"(word));
    printf("%s: %d %d %ld %s, word %ld, %d\n", what, kept, after, got, text, word, base() == wanted);
    good &= kept;
}

static void handler(int signal) {
    (void)signal;
    signals++;
    char text[6] = "";
    unsigned long before = base();
    int fd = open(name, O_RDONLY);
    if (read(fd, text, 5) != 5 || base() != before) good = 0;
    close(fd);
}

static void *thread(void *argument) {
    // A thread starts with its maker's.
    look("in a thread", (unsigned long)argument);
    set_base((unsigned long)(words + 1));
    look("in a thread with another", (unsigned long)(words + 1));
    return 0;
}

static void *loops(void *unused) {
    (void)unused;
    set_base((unsigned long)words);
    for (int i = 0; i < 20000; i++) {
        char byte;
        int fd = open(name, O_RDONLY);
        if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd) || base() != (unsigned long)words) good = 0;
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count != 2 || asprintf(&name, "%s/hello.txt", arguments[1]) < 0) return 2;
    unsigned long asked = 1;
    printf("at first: %ld", syscall(SYS_arch_prctl, ARCH_GET_GS, &asked));
    printf(" %ld\n", asked);
    set_base((unsigned long)words);
    look("set by itself", (unsigned long)words);
    // Readable by nobody, and none that an address can be.
    set_base(0x1000);
    look("unreadable", 0x1000);
    printf("set: %ld", syscall(SYS_arch_prctl, ARCH_SET_GS, words));
    printf(" %d", base() == (unsigned long)words);
    printf(" %ld", syscall(SYS_arch_prctl, ARCH_GET_GS, &asked));
    printf(" %d\n", asked == (unsigned long)words);
    look("set by the call", (unsigned long)words);
    printf("bad: %ld", syscall(SYS_arch_prctl, ARCH_SET_GS, -4096L));
    printf(" %s", strerrorname_np(errno));
    printf(" %ld", syscall(SYS_arch_prctl, ARCH_GET_GS, 8));
    printf(" %s\n", strerrorname_np(errno));

    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    look("after signals", (unsigned long)words);
    pthread_t made[3];
    pthread_create(made, 0, thread, words);
    pthread_join(*made, 0);
    look("after a thread", (unsigned long)words);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        look("in a child", (unsigned long)words);
        raise(SIGUSR1);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, 0, 0);
    look("after a child", (unsigned long)words);
    child = vfork();
    if (!child) {
        int fd = open(name, O_RDONLY);
        _exit(fd < 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("vfork: %d\n", status);
    look("after vfork", (unsigned long)words);
    for (int i = 0; i < 3; i++) pthread_create(made + i, 0, loops, 0);
    for (int i = 0; i < 300; i++) pthread_kill(made[i % 3], SIGUSR1);
    for (int i = 0; i < 3; i++) pthread_join(made[i], 0);
    printf("all good: %d, signals came: %d\n", good, signals > 2);
    set_base(0);
    printf("none: %d\n", open(name, O_RDONLY) >= 0);
    return 0;
}
