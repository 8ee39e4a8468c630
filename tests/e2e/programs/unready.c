/* unready UNREADY READY: waits for a file that never becomes ready, and for one that is ready to be
 * read, in all ways. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IS(what) ((what) ? (void)0 : fails(#what, __LINE__))
#define FAILS(call, error) IS((call) == -1 && errno == (error))

static volatile sig_atomic_t signals;

static void fails(const char *what, int line)
{
    fprintf(stderr, "%d: not %s (errno %d)\n", line, what, errno);
    exit(1);
}

static void handler(int signal)
{
    (void)signal;
    signals++;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

enum { TIME = 30 };

/* The ways of waiting for `fd` to be read, `time` milliseconds or for ever. */
static int by_poll(int fd, int time, const sigset_t *mask)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    struct timespec limit = {.tv_nsec = time * 1000000L};
    int count = mask == NULL ? poll(&one, 1, time) : ppoll(&one, 1, time < 0 ? NULL : &limit, mask);
    IS(count <= 0 || one.revents == POLLIN);
    return count;
}

static int by_select(int fd, int time, const sigset_t *mask)
{
    fd_set set, out;
    struct timeval limit = {.tv_usec = time * 1000};
    struct timespec finer = {.tv_nsec = time * 1000000L};
    FD_ZERO(&set);
    FD_ZERO(&out);
    FD_SET(fd, &set);
    int count = mask == NULL ? select(fd + 1, &set, &out, NULL, time < 0 ? NULL : &limit)
                             : pselect(fd + 1, &set, &out, NULL, time < 0 ? NULL : &finer, mask);
    IS(count < 0 || count == !!FD_ISSET(fd, &set));
    IS(count != 0 || mask != NULL || time < 0 || limit.tv_sec + limit.tv_usec == 0);
    return count;
}

static int by_epoll(int fd, int time, const sigset_t *mask)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77};
    int list = epoll_create1(EPOLL_CLOEXEC);
    IS(epoll_ctl(list, EPOLL_CTL_ADD, fd, &event) == 0);
    event.data.u64 = event.events = 0;
    int count = epoll_pwait(list, &event, 1, time, mask), error = errno;
    IS(count <= 0 || (event.events == EPOLLIN && event.data.u64 == 77));
    close(list);
    errno = error;
    return count;
}

static int (*const ways[])(int, int, const sigset_t *) = {by_poll, by_select, by_epoll};

static void instances(int unready, int ready)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1}, found[4];
    int list = epoll_create1(EPOLL_CLOEXEC);
    IS(epoll_ctl(list, EPOLL_CTL_ADD, unready, &event) == 0);
    FAILS(epoll_ctl(list, EPOLL_CTL_ADD, unready, &event), EEXIST);
    FAILS(epoll_ctl(list, EPOLL_CTL_MOD, ready, &event), ENOENT);
    FAILS(epoll_ctl(list, EPOLL_CTL_DEL, ready, NULL), ENOENT);
    event.data.u64 = 2;
    IS(epoll_ctl(list, EPOLL_CTL_ADD, ready, &event) == 0);
    for (int i = 0; i < 3; i++)
        IS(epoll_wait(list, found, 4, -1) == 1 && found[0].data.u64 == 2);
    /* Once, and again when it is asked for. */
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.u64 = 3;
    for (int i = 0; i < 2; i++) {
        IS(epoll_ctl(list, EPOLL_CTL_MOD, ready, &event) == 0);
        IS(epoll_wait(list, found, 4, -1) == 1 && found[0].data.u64 == 3);
        IS(epoll_wait(list, found, 4, 0) == 0);
    }
    /* What is not wanted is not told. */
    event.events = EPOLLPRI;
    IS(epoll_ctl(list, EPOLL_CTL_MOD, ready, &event) == 0 && epoll_wait(list, found, 4, 0) == 0);
    event.events = EPOLLIN;
    IS(epoll_ctl(list, EPOLL_CTL_MOD, ready, &event) == 0);
    /* Another descriptor of the instance, and of the file; a pipe beside them. */
    int other = dup(list), again = dup(ready), ends[2];
    IS(close(list) == 0 && epoll_wait(other, found, 4, -1) == 1 && found[0].data.u64 == 3);
    event.data.u64 = 4;
    IS(epoll_ctl(other, EPOLL_CTL_ADD, again, &event) == 0 && epoll_wait(other, found, 4, -1) == 2);
    IS(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    IS(epoll_ctl(other, EPOLL_CTL_ADD, ends[0], &event) == 0 && epoll_wait(other, found, 4, -1) == 3);
    IS(epoll_ctl(other, EPOLL_CTL_DEL, again, NULL) == 0 && epoll_wait(other, found, 4, -1) == 2);
    /* The child of a fork has the same instance. */
    pid_t child = fork();
    if (child == 0)
        _exit(epoll_wait(other, found, 4, -1) == 2 ? 0 : 1);
    int status;
    IS(waitpid(child, &status, 0) == child && status == 0);
    IS(epoll_wait(other, found, 4, -1) == 2);
    IS(epoll_ctl(other, EPOLL_CTL_DEL, ready, NULL) == 0);
    IS(epoll_wait(other, found, 4, -1) == 1 && found[0].data.u64 == 4);
    close(other);
    /* Its number is another's. */
    IS(dup2(ends[0], other) == other);
    FAILS(epoll_ctl(other, EPOLL_CTL_ADD, ready, &event), EINVAL);
    close(again);
    close(other);
}

static int shared;
static volatile pid_t waiter;

static void *waits(void *found)
{
    waiter = gettid();
    return (void *)(long)(epoll_wait(shared, found, 1, -1));
}

/* Returns when the waiter is in its call, or after so many looks, where nobody says so. */
static void until_it_waits(void)
{
    char path[64], call[16];
    for (int looks = 0; looks < 20000; looks++) {
        sched_yield();
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)waiter);
        FILE *file = waiter == 0 ? NULL : fopen(path, "r");
        int number = 0;
        if (file != NULL && fgets(call, sizeof call, file) != NULL)
            number = atoi(call);
        if (file != NULL)
            fclose(file);
        if (number == SYS_epoll_wait || number == SYS_epoll_pwait)
            return;
    }
}

/* One waits already in an instance that has no such file yet: the data are the program's. */
static void added_while_another_waits(int ready)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = UINT64_MAX - 1}, found = {0};
    pthread_t thread;
    void *count;
    shared = epoll_create1(EPOLL_CLOEXEC);
    IS(pthread_create(&thread, NULL, waits, &found) == 0);
    until_it_waits();
    IS(epoll_ctl(shared, EPOLL_CTL_ADD, ready, &event) == 0);
    IS(pthread_join(thread, &count) == 0 && (long)count == 1);
    IS(found.events & EPOLLIN && found.data.u64 == UINT64_MAX - 1);
    IS(epoll_wait(shared, &found, 1, -1) == 1);
    IS(found.events == EPOLLIN && found.data.u64 == UINT64_MAX - 1);
    close(shared);
}

static int ends_well(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

/* A child of a fork has the same instance, also for what comes after: what it takes out is out, and
 * what it has closed is in it for its parent. */
static void shared_with_a_child(int ready)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5}, found[4];
    int list = epoll_create1(EPOLL_CLOEXEC);
    pid_t before = fork();
    if (before == 0)
        _exit(epoll_wait(list, found, 4, -1) == 1 && found[0].data.u64 == 5 ? 0 : 1);
    IS(epoll_ctl(list, EPOLL_CTL_ADD, ready, &event) == 0 && ends_well(before));
    IS(epoll_wait(list, found, 4, -1) == 1 && found[0].data.u64 == 5);
    pid_t closes = fork();
    if (closes == 0) {
        close(ready);
        int count = epoll_wait(list, found, 4, 0);
        _exit(count <= 0 || found[0].data.u64 == 5 ? 0 : 1);
    }
    IS(ends_well(closes));
    IS(epoll_wait(list, found, 4, -1) == 1 && found[0].data.u64 == 5);
    pid_t removes = fork();
    if (removes == 0) {
        IS(epoll_ctl(list, EPOLL_CTL_DEL, ready, NULL) == 0);
        IS(epoll_wait(list, found, 4, 0) == 0);
        _exit(0);
    }
    IS(ends_well(removes));
    IS(epoll_wait(list, found, 4, 0) == 0);
    FAILS(epoll_ctl(list, EPOLL_CTL_MOD, ready, &event), ENOENT);
    event.data.u64 = 6;
    IS(epoll_ctl(list, EPOLL_CTL_ADD, ready, &event) == 0);
    IS(epoll_wait(list, found, 4, -1) == 1 && found[0].data.u64 == 6);
    FAILS(epoll_ctl(list, EPOLL_CTL_ADD, ready, &event), EEXIST);
    close(list);
}

/* An entry is of number and file, and several may have the same data. */
static void numbers_and_data(int unready, int ready)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 9}, found[4];
    int list = epoll_create1(EPOLL_CLOEXEC), number = dup(ready), ends[2];
    IS(epoll_ctl(list, EPOLL_CTL_ADD, number, &event) == 0 && dup2(unready, number) == number);
    FAILS(epoll_ctl(list, EPOLL_CTL_DEL, number, NULL), ENOENT);
    IS(epoll_ctl(list, EPOLL_CTL_ADD, number, &event) == 0);
    FAILS(epoll_ctl(list, EPOLL_CTL_ADD, number, &event), EEXIST);
    /* A file that is ready, one that is not, and a pipe, once each: in one call or in two. */
    IS(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    event.events = EPOLLIN | EPOLLET;
    IS(epoll_ctl(list, EPOLL_CTL_ADD, ends[0], &event) == 0);
    IS(epoll_wait(list, found, 4, -1) == 2);
    IS(found[0].data.u64 == 9 && found[0].events == EPOLLIN && found[1].events == EPOLLIN);
    IS(epoll_wait(list, found, 4, -1) == 1);
    IS(epoll_ctl(list, EPOLL_CTL_DEL, number, NULL) == 0);
    IS(epoll_wait(list, found, 4, -1) == 1 && found[0].data.u64 == 9);
    close(list);
    close(number);
    close(ends[0]);
    close(ends[1]);
}

/* A signal that comes while a file is asked throws no other event away. */
static void signals_keep_events(int ready)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1}, found[4];
    int list = epoll_create1(EPOLL_CLOEXEC), ends[2];
    IS(pipe(ends) == 0 && epoll_ctl(list, EPOLL_CTL_ADD, ready, &event) == 0);
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = 2;
    IS(epoll_ctl(list, EPOLL_CTL_ADD, ends[0], &event) == 0);
    for (int i = 1; i <= 200; i++) {
        struct itimerval soon = {.it_value.tv_usec = i};
        IS(write(ends[1], "x", 1) == 1 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
        int count, is_told = 0;
        do
            count = epoll_wait(list, found, 4, -1);
        while (count == -1 && errno == EINTR);
        while (count-- > 0)
            is_told |= found[count].data.u64 == 2;
        IS(is_told);
    }
    IS(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
    close(list);
    close(ends[0]);
    close(ends[1]);
}

int main(int count, char **words)
{
    int unready = open(words[1], O_RDWR), ready = open(words[2], O_RDWR), ends[2];
    sigset_t user, none, before;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    IS(count == 3 && unready >= 0 && ready >= 0 && pipe(ends) == 0);
    sigemptyset(&none);
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    IS(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
    for (int way = 0; way < 3; way++) {
        for (int masked = 0; masked < 2; masked++) {
            const sigset_t *mask = masked ? &none : NULL;
            int64_t began = now();
            IS(ways[way](unready, 0, mask) == 0);
            IS(ways[way](unready, TIME, mask) == 0 && now() - began >= TIME * 1000000LL);
            IS(ways[way](ready, 0, mask) == 1 && ways[way](ready, -1, mask) == 1);
            /* A signal ends the wait, also with SA_RESTART. */
            struct itimerval soon = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000};
            signals = 0;
            IS(setitimer(ITIMER_REAL, &soon, NULL) == 0);
            FAILS(ways[way](unready, -1, mask), EINTR);
            IS(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0 && signals >= 1);
        }
        /* One that only the mask lets in: pending before, or sent meanwhile. */
        IS(sigprocmask(SIG_BLOCK, &user, &before) == 0);
        signals = 0;
        IS(raise(SIGUSR1) == 0 && signals == 0);
        FAILS(ways[way](unready, -1, &none), EINTR);
        IS(signals == 1);
        pid_t parent = getpid(), child = fork();
        if (child == 0)
            _exit(kill(parent, SIGUSR1));
        FAILS(ways[way](unready, -1, &none), EINTR);
        IS(signals == 2 && waitpid(child, NULL, 0) == child);
        /* One that it keeps out. */
        IS(raise(SIGUSR1) == 0 && ways[way](unready, TIME, &user) == 0 && signals == 2);
        IS(sigprocmask(SIG_SETMASK, &before, NULL) == 0 && signals == 3);
    }
    /* Beside a pipe, which is ready to be written. */
    struct pollfd all[] = {{unready, POLLIN, 0}, {-1, POLLIN, 0}, {ends[1], POLLOUT, 0}, {ready, POLLIN | POLLPRI, 0}};
    IS(poll(all, 4, -1) == 2);
    IS(all[0].revents == 0 && all[1].revents == 0 && all[2].revents == POLLOUT && all[3].revents == POLLIN);
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(unready, &in);
    FD_SET(ready, &in);
    FD_SET(ends[1], &out);
    FD_SET(unready, &out);
    IS(select(64, &in, &out, NULL, NULL) == 2);
    IS(FD_ISSET(ready, &in) && !FD_ISSET(unready, &in) && FD_ISSET(ends[1], &out) && !FD_ISSET(unready, &out));
    FD_SET(60, &in);
    FD_SET(unready, &in);
    FAILS(select(64, &in, NULL, NULL, NULL), EBADF);
    struct pollfd closed[] = {{60, POLLIN, 0}, {unready, POLLIN, 0}};
    IS(poll(closed, 2, -1) == 1 && closed[0].revents == POLLNVAL);
    FAILS((int)syscall(SYS_ppoll, closed, 2, &(struct timespec){0, 1000000000}, NULL, 8), EINVAL);
    FAILS((int)syscall(SYS_ppoll, NULL, 2, NULL, NULL, 8), EFAULT);
    instances(unready, ready);
    numbers_and_data(unready, ready);
    shared_with_a_child(ready);
    signals_keep_events(ready);
    added_while_another_waits(ready);
    return 0;
}
