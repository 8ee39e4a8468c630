/* Signals and file operations. Usage: signals GROUP, with the tree `odd` as the working directory.
 * */
#include "probe.h"
#include <pthread.h>
#include <setjmp.h>
#include <ucontext.h>

static volatile sig_atomic_t count, inside_errors;
static volatile long handled_bytes;
static int fd_in_handler = -1;
static sigjmp_buf jump;

static void start_timer(long microseconds)
{
    struct itimerval every = { { 0, microseconds }, { 0, microseconds } };
    setitimer(ITIMER_REAL, &every, NULL);
}

static void stop_timer(void)
{
    struct itimerval off = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &off, NULL);
}

static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    sigemptyset(&action.sa_mask);
    if (sigaction(signal, &action, NULL) != 0)
        die("sigaction");
}

static void only_count(int signal)
{
    count++;
}

/* Reads on the very descriptor that the program is reading, and by path. */
static void read_in_handler(int signal)
{
    int saved = errno;
    char bytes[64];
    struct stat st;
    if (pread(fd_in_handler, bytes, sizeof bytes, 0) != sizeof bytes || memcmp(bytes, "line 1\nline 2\n", 14) != 0)
        inside_errors++;
    if (stat("dir/a.txt", &st) != 0 || st.st_size != 2)
        inside_errors++;
    int fd = open("hello.txt", O_RDONLY);
    if (fd < 0 || read(fd, bytes, 13) != 13 || close(fd) != 0)
        inside_errors++;
    count++;
    errno = saved;
}

/* Reads the whole of lines.txt many times while signals arrive; every byte must be right. */
static long read_under_fire(int rounds, int *wrong)
{
    static char first[20000], now[20000];
    int fd = must_open("lines.txt", O_RDONLY);
    long total = 0, length = 0, n;
    fd_in_handler = must_open("lines.txt", O_RDONLY);
    while ((n = read(fd, first + length, 100)) > 0)
        length += n;
    for (int round = 0; round < rounds || count < 50; round++) {
        lseek(fd, 0, SEEK_SET);
        long at = 0;
        while ((n = read(fd, now + at, 97)) > 0)
            at += n;
        if (n < 0 || at != length || memcmp(first, now, length) != 0)
            ++*wrong;
        struct stat st;
        if (stat("hello.txt", &st) != 0 || st.st_size != 13)
            ++*wrong;
        total += at;
    }
    close(fd);
    return total / length > 0;
}

static void group_counted(void)
{
    int wrong = 0;
    handle(SIGALRM, only_count, SA_RESTART);
    start_timer(300);
    read_under_fire(200, &wrong);
    stop_timer();
    printf("signals came %d, wrong reads %d\n", count >= 50, wrong);
}

static void group_handler_io(void)
{
    int wrong = 0;
    fd_in_handler = must_open("lines.txt", O_RDONLY);
    handle(SIGALRM, read_in_handler, SA_RESTART);
    start_timer(500);
    read_under_fire(200, &wrong);
    stop_timer();
    printf("signals came %d, wrong reads %d, errors in the handler %d\n", count >= 50, wrong, inside_errors);
}

static void leave(int signal)
{
    count++;
    siglongjmp(jump, 1);
}

static void group_siglongjmp(void)
{
    /* volatile: they live across the jumps. */
    volatile int jumps = 0;
    int fd = must_open("data.bin", O_RDONLY);
    static char bytes[300001], whole[300001];
    pread(fd, whole, sizeof whole, 0);
    handle(SIGALRM, leave, 0);
    if (sigsetjmp(jump, 1))
        jumps++;
    if (jumps < 200) {
        start_timer(200);
        for (;;) {
            struct stat st;
            pread(fd, bytes, sizeof bytes, 0);
            stat("links/dir/a.txt", &st);
            close(open("hello.txt", O_RDONLY));
        }
    }
    stop_timer();
    printf("jumped %d\n", jumps);
    /* No lock was lost, on this description or in the resolver. */
    printf("read %zd right %d\n", pread(fd, bytes, sizeof bytes, 0), memcmp(bytes, whole, sizeof whole) == 0);
    struct stat st;
    SHOW(stat("hello.txt", &st));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(fork() == 0 ? (_exit(0), 0) : wait(NULL) > 0);
}

static char *stack_low, *stack_high;
static volatile sig_atomic_t on_stack, elsewhere;

static void where(int signal)
{
    char here;
    if (&here >= stack_low && &here < stack_high)
        on_stack++;
    else
        elsewhere++;
    read_in_handler(signal);
}

static void group_altstack(void)
{
    int wrong = 0;
    size_t size = 1 << 16;
    stack_low = malloc(size);
    stack_high = stack_low + size;
    stack_t stack = { .ss_sp = stack_low, .ss_size = size }, seen;
    SHOW(sigaltstack(&stack, NULL));
    SHOW(sigaltstack(NULL, &seen));
    printf("as set %d flags %d size %zu\n", seen.ss_sp == stack_low, seen.ss_flags, seen.ss_size);
    fd_in_handler = must_open("lines.txt", O_RDONLY);
    handle(SIGALRM, where, SA_RESTART | SA_ONSTACK);
    start_timer(500);
    read_under_fire(200, &wrong);
    stop_timer();
    printf("on the alternate stack %d, elsewhere %d, wrong %d, errors %d\n", on_stack >= 50, elsewhere, wrong, inside_errors);
    stack.ss_flags = SS_DISABLE;
    SHOW(sigaltstack(&stack, NULL));
    SHOW(sigaltstack(NULL, &seen));
    printf("flags %d\n", seen.ss_flags);
    stack.ss_flags = 0;
    stack.ss_size = 100;
    SHOW(sigaltstack(&stack, NULL));
    SHOW(sigaltstack((void *)8, NULL));
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    printf("handler: signal %d code %d address %lx\n", signal, info->si_code, (long)info->si_addr & 0xfff);
    fflush(stdout);
    siglongjmp(jump, 1);
}

/* What a program sees of its own signal state, and its own faults. */
static void group_state(void)
{
    struct sigaction action = { 0 }, old;
    static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGSYS, SIGALRM, SIGCHLD, SIGPIPE };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        SHOW(sigaction(signals[i], NULL, &old));
        printf("%d: default %d flags %x\n", signals[i], old.sa_handler == SIG_DFL, old.sa_flags);
    }
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    SHOW(sigaction(SIGSEGV, &action, &old));
    SHOW(sigaction(SIGBUS, &action, &old));
    SHOW(sigaction(SIGILL, &action, &old));
    SHOW(sigaction(SIGTRAP, &action, &old));
    SHOW(sigaction(SIGSEGV, NULL, &old));
    printf("as set %d flags %x mask %d\n", old.sa_sigaction == on_fault, old.sa_flags, sigismember(&old.sa_mask, SIGUSR1));
    if (sigsetjmp(jump, 1) == 0)
        *(volatile char *)0x1234 = 1;
    if (sigsetjmp(jump, 1) == 0)
        __asm__ volatile("ud2");
    if (sigsetjmp(jump, 1) == 0)
        __asm__ volatile("int3");
    SHOW(sigaction(SIGKILL, &action, NULL));
    SHOW(sigaction(SIGSTOP, &action, NULL));
    SHOW(sigaction(0, &action, NULL));
    SHOW(sigaction(65, &action, NULL));
    SHOW(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 4));
    SHOW(syscall(SYS_rt_sigaction, SIGUSR1, 8, NULL, 8));

    sigset_t all, seen;
    sigfillset(&all);
    SHOW(sigprocmask(SIG_SETMASK, &all, NULL));
    SHOW(sigprocmask(SIG_BLOCK, NULL, &seen));
    for (int signal = 1; signal < 65; signal++)
        putchar(sigismember(&seen, signal) == 1 ? '1' : '0');
    putchar('\n');
    /* With everything blocked, files still work, a bad pointer too. */
    struct stat st;
    SHOW(stat("hello.txt", &st));
    SHOW(stat((char *)8, &st));
    int fd = must_open("hello.txt", O_RDONLY);
    SHOW(read(fd, (void *)8, 1));
    SHOW(read(fd, &seen, 5));
    raise(SIGUSR2);
    SHOW(sigpending(&seen));
    printf("pending %d\n", sigismember(&seen, SIGUSR2));
    handle(SIGUSR2, only_count, 0);
    sigemptyset(&all);
    SHOW(sigprocmask(SIG_SETMASK, &all, NULL));
    printf("delivered %d\n", count);
    /* One shot, and no restart. */
    handle(SIGUSR2, only_count, SA_RESETHAND);
    raise(SIGUSR2);
    sigaction(SIGUSR2, NULL, &old);
    printf("delivered %d, default again %d\n", count, old.sa_handler == SIG_DFL);
    /* Ignored signals and masks survive exec; handlers do not. */
    signal(SIGUSR1, SIG_IGN);
    /* glibc's posix_spawn leaves its own two ignored, where a parent used them. */
    struct { void *handler; long flags; void *restorer; long mask; } none = { 0 };
    syscall(SYS_rt_sigaction, 32, &none, NULL, 8);
    syscall(SYS_rt_sigaction, 33, &none, NULL, 8);
    signal(SIGSEGV, SIG_IGN);
    handle(SIGUSR2, only_count, 0);
    sigemptyset(&all);
    sigaddset(&all, SIGWINCH);
    sigaddset(&all, SIGSEGV);
    sigprocmask(SIG_SETMASK, &all, NULL);
    fflush(stdout);
    if (fork() == 0) {
        /* A static program, so that what is seen is what came over exec and nothing else. */
        execlp("busybox", "busybox", "grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status", NULL);
        _exit(127);
    }
    wait(NULL);
}

/* A fault in a program without a handler kills it, with the right signal. */
static void group_killed(void)
{
    static const char *const how[] = { "SIGSEGV", "SIGILL", "SIGTRAP", "SIGBUS", "SIGFPE", "SIGABRT", "SIGTERM" };
    for (int i = 0; i < 7; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int fd = must_open("hello.txt", O_RDONLY);
            char byte;
            read(fd, &byte, 1);
            if (i == 0)
                *(volatile char *)0x10 = 1;
            else if (i == 1)
                __asm__ volatile("ud2");
            else if (i == 2)
                __asm__ volatile("int3");
            else if (i == 3)
                raise(SIGBUS);
            else if (i == 4)
                raise(SIGFPE);
            else if (i == 5)
                abort();
            else
                kill(getpid(), SIGTERM);
            _exit(1);
        }
        int status;
        waitpid(pid, &status, 0);
        printf("%s: signal %d\n", how[i], WTERMSIG(status));
    }
}

/* One line: how a call ends that waits. The signal comes again until it does, for the first one may
 * be there before the call. */
#define UNTIL_SIGNALLED(call)                                             \
    do {                                                                  \
        count = 0;                                                        \
        start_timer(20000);                                               \
        errno = 0;                                                        \
        long result = (call);                                             \
        int error = errno;                                                \
        stop_timer();                                                     \
        errno = error;                                                    \
        show(#call, result);                                              \
        printf("handled %d\n", count > 0);                                \
    } while (0)

/* Waiting calls end with EINTR, or go on, as the handler says. */
static void group_waiting(void)
{
    int ends[2];
    char byte;
    pipe(ends);
    handle(SIGALRM, only_count, 0);
    UNTIL_SIGNALLED(read(ends[0], &byte, 1));
    struct timespec long_time = { 50, 0 };
    UNTIL_SIGNALLED(nanosleep(&long_time, &long_time));
    UNTIL_SIGNALLED(pause());
    sigset_t empty;
    sigemptyset(&empty);
    UNTIL_SIGNALLED(sigsuspend(&empty));
    /* A lock that somebody else holds. */
    int held = must_open("hello.txt", O_RDONLY), wanted = must_open("hello.txt", O_RDONLY);
    SHOW(syscall(SYS_flock, held, 2));
    UNTIL_SIGNALLED(syscall(SYS_flock, wanted, 2));
    SHOW(syscall(SYS_flock, held, 8));
    SHOW(syscall(SYS_flock, wanted, 2));
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm_only, NULL);
    start_timer(20000);
    int number = 0;
    SHOW(sigwait(&alarm_only, &number));
    stop_timer();
    printf("waited for %d\n", number);
}

/* Several threads read while others send them signals. */
static pthread_t readers[4];
static volatile int stop, thread_errors;

static void *reading(void *unused)
{
    char bytes[14];
    int fd = must_open("lines.txt", O_RDONLY);
    while (!stop) {
        if (pread(fd, bytes, 14, 0) != 14 || memcmp(bytes, "line 1\nline 2\n", 14) != 0)
            thread_errors++;
        struct stat st;
        if (stat("links/dir/a.txt", &st) != 0)
            thread_errors++;
    }
    close(fd);
    return NULL;
}

static void group_threads(void)
{
    fd_in_handler = must_open("lines.txt", O_RDONLY);
    handle(SIGUSR1, read_in_handler, SA_RESTART);
    for (int i = 0; i < 4; i++)
        pthread_create(&readers[i], NULL, reading, NULL);
    for (int i = 0; i < 4000; i++) {
        pthread_kill(readers[i % 4], SIGUSR1);
        if (i % 64 == 0)
            sched_yield();
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(readers[i], NULL);
    printf("signals came %d, errors %d, in handlers %d\n", count > 0, thread_errors, inside_errors);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        { "counted", group_counted }, { "handler_io", group_handler_io }, { "siglongjmp", group_siglongjmp },
        { "altstack", group_altstack }, { "state", group_state }, { "killed", group_killed }, { "waiting", group_waiting },
        { "threads", group_threads },
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    return RUN_GROUP(groups, argv[1]);
}
