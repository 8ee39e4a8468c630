/* Tables of descriptors that two processes or threads share in unusual ways. Usage: tables
 * DIRECTORY GROUP */
#include "probe.h"
#include <linux/close_range.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sys/file.h>

static const char *directory;
static char place[PATH_MAX];

static const char *at(const char *name)
{
    snprintf(place, sizeof place, "%s/%s", directory, name);
    return place;
}

/* Opens a new file, which says its own name. */
static int named(const char *name)
{
    int fd = open(at(name), O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (fd >= 0 && write(fd, name, strlen(name)) < 0)
        return -1;
    return fd;
}

/* What a descriptor is, by its bytes. */
static void tell(const char *who, int fd)
{
    char bytes[40] = "";
    ssize_t n = pread(fd, bytes, sizeof bytes - 1, 0);
    struct stat found = { 0 };
    printf("%s: %d is %s, offset %s, length %ld\n", who, fd, n < 0 ? error_name(errno) : bytes,
           lseek(fd, 0, SEEK_CUR) < 0 ? "none" : "there", fstat(fd, &found) < 0 ? -1L : (long)found.st_size);
    fflush(stdout);
}

/* Two processes by turns: each step is done by one of them, the other waits. */
static int turns[2][2];

static void give(int to)
{
    if (write(turns[to][1], "x", 1) != 1)
        _exit(90);
}

static void wait_turn(int me)
{
    char byte;
    if (read(turns[me][0], &byte, 1) != 1)
        _exit(91);
}

static pid_t sharing(unsigned long flags)
{
    fflush(stdout);
    return syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

static void ended(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    printf("child ended with %x\n", status);
    fflush(stdout);
}

static void process_group(void)
{
    int a = named("a"), b = named("b"), c;
    if (pipe(turns[0]) != 0 || pipe(turns[1]) != 0)
        die("pipe");
    pid_t pid = sharing(CLONE_FILES);
    if (pid == 0) {
        tell("child", a);
        c = named("c");
        show("child opens", c);
        give(0);
        wait_turn(1);
        tell("child, the parent's", c + 1);
        tell("child, closed by the parent", b);
        show("dup2", dup2(a, b));
        show("dup", dup(a));
        give(0);
        wait_turn(1);
        tell("child, after the parent's dup2", a);
        show("write", write(c, "more", 4));
        show("flags", fcntl(c, F_SETFL, O_APPEND));
        show("unlink", unlink(at("b2")));
        show("flock", flock(c, LOCK_EX));
        give(0);
        wait_turn(1);
        show("close", close(c));
        give(0);
        wait_turn(1);
        /* From here on its own. */
        show("unshare", unshare(CLONE_FILES));
        show("close", close(a));
        show("open", named("e"));
        tell("child, its own", a);
        give(0);
        wait_turn(1);
        tell("child, its own", a);
        _exit(7);
    }
    wait_turn(0);
    tell("parent, the child's", b + 5);
    show("parent opens", named("d"));
    show("parent closes", close(b));
    give(1);
    wait_turn(0);
    tell("parent, after the child's dup2", b);
    show("write", write(b, "ZZ", 2));
    show("dup2", dup2(b + 6, a));
    show("open", named("b2"));
    give(1);
    wait_turn(0);
    c = b + 5;
    tell("parent", c);
    show("flags", fcntl(c, F_GETFL) & O_APPEND);
    show("offset", lseek(c, 0, SEEK_CUR));
    int other = open(at("c"), O_RDWR);
    works("flock of another", flock(other, LOCK_EX | LOCK_NB));
    give(1);
    wait_turn(0);
    tell("parent, closed by the child", c);
    works("flock of another", flock(other, LOCK_EX | LOCK_NB));
    show("lowest", open("/dev/null", O_RDONLY));
    tell("parent, no file of the mount", c);
    int ends[2];
    show("pipe", pipe(ends));
    printf("%d %d\n", ends[0], ends[1]);
    fflush(stdout);
    give(1);
    wait_turn(0);
    tell("parent, the child has unshared", a);
    show("close", close(a));
    show("open", named("f"));
    give(1);
    ended(pid);
    tell("parent", a);
    /* A child like any other, and one that is executed. */
    if ((pid = sharing(0)) == 0) {
        tell("forked", a);
        show("close", close(a));
        _exit(0);
    }
    ended(pid);
    tell("parent", a);
}

/* A process is killed while it has what another shares. */
static void killed_group(void)
{
    int a = named("a");
    if (pipe(turns[0]) != 0)
        die("pipe");
    for (int i = 0; i < 20; i++) {
        pid_t pid = sharing(CLONE_FILES);
        if (pid == 0) {
            for (int n = 0;; n++) {
                char bytes[3000];
                memset(bytes, 'a' + n % 26, sizeof bytes);
                if (pwrite(a, bytes, sizeof bytes, 0) != sizeof bytes)
                    _exit(1);
                close(open(at("made"), O_CREAT | O_RDWR, 0600));
                unlink(at("made"));
                lseek(a, 0, SEEK_SET);
                if (write(a, bytes, 1) != 1)
                    _exit(2);
                if (n == 20 + i)
                    give(0);
            }
        }
        wait_turn(0);
        kill(pid, SIGKILL);
        ended(pid);
        works("write", pwrite(a, "own", 3, 0));
        works("at the offset", write(a, "own", 3));
        works("make", open(at("made"), O_CREAT | O_RDWR, 0600));
        works("unlink", unlink(at("made")));
        char bytes[3000];
        show("read", pread(a, bytes, sizeof bytes, 0));
    }
}

/* Threads by turns. */
static int common, thread_s;
static pthread_barrier_t barrier;

static void step(void)
{
    pthread_barrier_wait(&barrier);
}

static void *second_of_own(void *unused)
{
    tell("a thread of the thread", thread_s);
    show("close", close(thread_s));
    return unused;
}

static void *with_own(void *how)
{
    step();
    if (how)
        show("close_range", close_range(common + 1, ~0U, CLOSE_RANGE_UNSHARE));
    else
        show("unshare", unshare(CLONE_FILES));
    thread_s = named("thread");
    show("thread opens", thread_s);
    tell("thread", common);
    step();
    step();
    tell("thread, closed by main", common);
    tell("thread, another file for main", thread_s);
    show("close", close(common));
    show("dup2", dup2(thread_s, common));
    tell("thread", common);
    pthread_t second;
    pthread_create(&second, NULL, second_of_own, NULL);
    pthread_join(second, NULL);
    tell("thread, closed by its own", thread_s);
    pid_t pid = fork();
    if (pid == 0) {
        tell("child of the thread", common);
        tell("child of the thread", thread_s);
        show("open", named("child"));
        execl("/bin/sh", "sh", "-c", "cat /proc/self/fd/3 >/dev/null; echo executed; exit 5", NULL);
    }
    ended(pid);
    if ((pid = vfork()) == 0) {
        dup2(common, 0);
        execl("/bin/cat", "cat", NULL);
        _exit(1);
    }
    ended(pid);
    puts("");
    fflush(stdout);
    step();
    return NULL;
}

static void thread_group(void *how)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    common = named("common");
    pthread_create(&thread, NULL, with_own, how);
    step();
    step();
    tell("main", common);
    int own = named("main");
    show("main opens", own);
    tell("main", own);
    show("close", close(common));
    step();
    step();
    tell("main", common);
    tell("main", own);
    show("open", named("late"));
    pthread_join(thread, NULL);
    tell("main", own);
    pid_t pid = fork();
    if (pid == 0) {
        tell("child of main", own);
        _exit(0);
    }
    ended(pid);
}

/* One memory: with a table of its own, and with its parent's while that waits. */
static int of_child;

static int in_child(void *unused)
{
    tell("child", common);
    of_child = named("child");
    show("child opens", of_child);
    show("close", close(common));
    _exit(0);
    return unused != NULL;
}

static void memory_group(unsigned long flags)
{
    static char stack[1 << 18] __attribute__((aligned(16)));
    common = named("common");
    pid_t pid = clone(in_child, stack + sizeof stack, (int)flags | SIGCHLD, NULL);
    ended(pid);
    tell("parent", common);
    tell("parent", of_child);
    show("open", named("late"));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    directory = argv[1];
    alarm(50);
    if (strcmp(argv[2], "processes") == 0)
        process_group();
    else if (strcmp(argv[2], "killed") == 0)
        killed_group();
    else if (strcmp(argv[2], "unshare") == 0)
        thread_group(NULL);
    else if (strcmp(argv[2], "close_range") == 0)
        thread_group("close_range");
    else if (strcmp(argv[2], "memory") == 0)
        memory_group(CLONE_VM);
    else if (strcmp(argv[2], "vfork") == 0)
        memory_group(CLONE_VM | CLONE_VFORK | CLONE_FILES);
    else
        return 2;
    return 0;
}
