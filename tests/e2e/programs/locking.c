/* Locks between processes. Usage: locking GROUP, in an empty directory. Parent and child take turns
 * by pipes: nothing depends on time. */
#include "probe.h"
#include <sys/file.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif

static const char *program;

static int made(const char *path, int flags, const char *text)
{
    int fd = open(path, flags | O_CREAT, 0644);
    if (fd < 0)
        die(path);
    if (text && write(fd, text, strlen(text)) != (long)strlen(text))
        die("write");
    return fd;
}

static long lock(int fd, int command, int type, int whence, long start, long length)
{
    struct flock l = { .l_type = type, .l_whence = whence, .l_start = start, .l_len = length };
    return fcntl(fd, command, &l);
}

/* Who stands in the way, as this process sees it. */
static void ask(int fd, int command, int type, int whence, long start, long length)
{
    struct flock l = { .l_type = type, .l_whence = whence, .l_start = start, .l_len = length, .l_pid = command == F_GETLK ? 77 : 0 };
    long result = fcntl(fd, command, &l);
    if (result == -1)
        printf("ask: %s\n", error_name(errno));
    else if (l.l_type == F_UNLCK)
        printf("ask: free, whence %d start %ld length %ld\n", l.l_whence, (long)l.l_start, (long)l.l_len);
    else
        printf("ask: type %d whence %d start %ld length %ld by %s\n", l.l_type, l.l_whence, (long)l.l_start, (long)l.l_len,
               l.l_pid == getppid() ? "parent" : l.l_pid == -1 ? "a description" : l.l_pid == getpid() ? "myself" : "another");
    fflush(stdout);
}

/* Runs `body` in a child and waits for it. */
#define IN_CHILD(...)                                                                                                  \
    do {                                                                                                               \
        fflush(stdout);                                                                                                \
        if (fork() == 0) {                                                                                             \
            __VA_ARGS__;                                                                                               \
            fflush(stdout);                                                                                            \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        int status_;                                                                                                   \
        wait(&status_);                                                                                                \
        if (status_)                                                                                                   \
            printf("child: %x\n", status_);                                                                            \
    } while (0)

static void group_record(void)
{
    int fd = made("f", O_RDWR, "0123456789"), reader = must_open("f", O_RDONLY), writer = must_open("f", O_WRONLY);
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 2));
    SHOW(lock(fd, F_SETLK, F_RDLCK, SEEK_CUR, 0, 5)); /* at 10 */
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_END, -5, 2));
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_END, 100, 0));
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 60, -5));
    SHOW(lock(reader, F_SETLK, F_WRLCK, SEEK_SET, 0, 1));
    SHOW(lock(writer, F_SETLK, F_RDLCK, SEEK_SET, 0, 1));
    SHOW(lock(fd, F_SETLK, 9, SEEK_SET, 0, 1));
    SHOW(lock(fd, F_SETLK, F_WRLCK, 9, 0, 1));
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, -1, 1));
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_END, LONG_MAX, 1));
    SHOW(fcntl(fd, F_SETLK, (struct flock *)16));
    ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0);
    IN_CHILD(int mine = must_open("f", O_RDWR); for (long at = 0; at < 116; at++) ask(mine, F_GETLK, F_RDLCK, SEEK_SET, at, 1);
             ask(mine, F_GETLK, F_WRLCK, SEEK_END, -2, 1); ask(fd, F_GETLK, F_WRLCK, SEEK_CUR, 0, 3);
             SHOW(lock(mine, F_SETLK, F_WRLCK, SEEK_SET, 0, 1)); SHOW(lock(mine, F_SETLK, F_RDLCK, SEEK_SET, 10, 1));
             SHOW(lock(mine, F_SETLK, F_UNLCK, SEEK_SET, 0, 0)));
    SHOW(lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 0, 2));
    IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 3));
    SHOW(lockf(fd, F_TLOCK, 3));
    SHOW(lockf(fd, F_TEST, 3));
    IN_CHILD(SHOW(lockf(fd, F_TEST, 3)); SHOW(lockf(fd, F_TLOCK, 3)));
}

/* fcntl(2): all of a process's locks on a file go with any descriptor of it. */
static void group_close(void)
{
    for (int way = 0; way < 7; way++) {
        int fd = made("f", O_RDWR, "0123456789"), second = -1, other = must_open("/dev/null", O_RDONLY);
        if (way == 1)
            second = must_open("f", O_RDONLY);
        SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 5));
        if (way == 2)
            second = must_open("f", O_RDONLY);
        if (way == 6) /* O_PATH is no descriptor of the file in this */
            second = must_open("f", O_PATH);
        else if (way >= 3)
            second = dup(fd);
        printf("way %d\n", way);
        if (way == 4)
            SHOW(dup2(other, second) == second);
        else if (way == 5)
            SHOW(close_range(second, second, 0));
        else if (second >= 0)
            SHOW(close(second));
        IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0));
        /* Locking through a second description, and what it costs the first. */
        int third = must_open("f", O_RDWR);
        SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 5));
        SHOW(lock(third, F_SETLK, F_WRLCK, SEEK_SET, 20, 5));
        void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, third, 0);
        printf("mapped %d\n", map != MAP_FAILED);
        IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 10); ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 10, 0));
        SHOW(close(third));
        IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0));
        SHOW(close(fd));
        close(other);
        if (way >= 4)
            close(second);
    }
}

/* Opening a file on which the process has locks: the numbers are the lowest, and what is got is as
 * usual. */
static void group_numbers(void)
{
    char text[20];
    int fd = made("f", O_RDWR, "0123456789");
    made("g", O_RDWR, "other");
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 5));
    int second = must_open("f", O_RDWR | O_CLOEXEC | O_APPEND), third = must_open("g", O_RDONLY), fourth = must_open("f", O_RDONLY);
    printf("%d %d %d %d\n", fd, second, third, fourth);
    SHOW(fcntl(second, F_GETFL) & (O_ACCMODE | O_APPEND));
    SHOW(fcntl(second, F_GETFD));
    SHOW(fcntl(fourth, F_GETFD));
    SHOW(read(second, text, 4));
    SHOW(lseek(second, 0, SEEK_CUR));
    SHOW(write(second, "end", 3));
    SHOW(write(fourth, "end", 3));
    SHOW(pread(fourth, text, 20, 0));
    printf("%.*s\n", 13, text);
    SHOW(dup(second));
    IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0); SHOW(read(second, text, 4)));
    SHOW(close(third));
    SHOW(open("f", O_RDONLY));
    IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0));
    SHOW(close(second));
    IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0));
    SHOW(open("f", O_RDONLY));
}

static void group_descriptions(void)
{
    int fd = made("f", O_RDWR, "0123456789"), other = must_open("f", O_RDWR), twin = dup(fd);
    SHOW(lock(fd, F_OFD_SETLK, F_WRLCK, SEEK_END, -5, 3));
    ask(twin, F_OFD_GETLK, F_WRLCK, SEEK_SET, 0, 0);
    ask(other, F_OFD_GETLK, F_WRLCK, SEEK_SET, 0, 0);
    SHOW(lock(other, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 0));
    SHOW(lock(other, F_SETLK, F_WRLCK, SEEK_SET, 0, 0));
    IN_CHILD(SHOW(lock(fd, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 1)); ask(other, F_OFD_GETLK, F_WRLCK, SEEK_SET, 0, 0));
    SHOW(close(fd));
    ask(other, F_OFD_GETLK, F_WRLCK, SEEK_SET, 0, 0);
    SHOW(close(twin));
    ask(other, F_OFD_GETLK, F_WRLCK, SEEK_SET, 0, 0);

    fd = must_open("f", O_RDWR), twin = dup(fd);
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    SHOW(flock(twin, LOCK_EX | LOCK_NB));
    SHOW(flock(other, LOCK_SH | LOCK_NB));
    IN_CHILD(SHOW(flock(fd, LOCK_EX | LOCK_NB)); int mine = must_open("f", O_RDONLY); SHOW(flock(mine, LOCK_EX | LOCK_NB)));
    SHOW(close(fd));
    SHOW(flock(other, LOCK_SH | LOCK_NB));
    SHOW(flock(twin, LOCK_SH | LOCK_NB));
    SHOW(flock(other, LOCK_SH | LOCK_NB));
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    SHOW(flock(twin, LOCK_UN));
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    SHOW(flock(other, 77));
}

static void on_signal(int signal) { (void)signal; }

static void group_wait(void)
{
    int fd = made("f", O_RDWR, "0123456789"), go[2], done[2];
    char byte;
    if (pipe(go) || pipe(done))
        die("pipe");
    struct sigaction action = { .sa_handler = on_signal };
    for (int restart = 0; restart < 2; restart++) {
        action.sa_flags = restart ? SA_RESTART : 0;
        SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 0));
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            sigaction(SIGUSR1, &action, NULL);
            write(done[1], "", 1);
            SHOW(lock(fd, F_SETLKW, F_WRLCK, SEEK_SET, 0, 0));
            SHOW(lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 0, 0));
            _exit(0);
        }
        read(done[0], &byte, 1);
        /* The signal must find the child asleep, which it is nowhere else. */
        char path[64], state = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", child);
        while (state != 'S') {
            char line[256] = "";
            int stat = must_open(path, O_RDONLY);
            read(stat, line, sizeof line - 1);
            close(stat);
            char *end = strrchr(line, ')');
            state = end ? end[2] : 0;
            sched_yield();
        }
        kill(child, SIGUSR1);
        if (restart)
            lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 0, 0);
        wait(NULL);
    }
    /* Two that wait for each other. */
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 1));
    fflush(stdout);
    if (fork() == 0) {
        lock(fd, F_SETLKW, F_WRLCK, SEEK_SET, 1, 1);
        write(done[1], "", 1);
        long result = lock(fd, F_SETLKW, F_WRLCK, SEEK_SET, 0, 1);
        _exit(result == 0 ? 0 : errno == EDEADLK ? 1 : 2);
    }
    read(done[0], &byte, 1);
    long result = lock(fd, F_SETLKW, F_WRLCK, SEEK_SET, 1, 1);
    int mine = result == -1 && errno == EDEADLK, status;
    SHOW(lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 0, 0));
    wait(&status);
    printf("one of the two was refused: %d\n", mine + (WEXITSTATUS(status) == 1));
    /* The kernel frees what a killed process held. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        lock(fd, F_SETLKW, F_WRLCK, SEEK_SET, 0, 0);
        flock(must_open("f", O_RDONLY), LOCK_EX);
        write(done[1], "", 1);
        pause();
    }
    read(done[0], &byte, 1);
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 0));
    kill(child, SIGKILL);
    SHOW(lock(fd, F_SETLKW, F_WRLCK, SEEK_SET, 0, 0));
    SHOW(flock(must_open("f", O_RDONLY), LOCK_EX));
    wait(NULL);
}

static void group_exec(void)
{
    int fd = made("f", O_RDWR, "0123456789");
    SHOW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 2, 3));
    int again = must_open("f", O_RDWR), locked = made("g", O_RDWR, "0123456789");
    IN_CHILD(ask(again, F_GETLK, F_WRLCK, SEEK_SET, 0, 0));
    SHOW(flock(locked, LOCK_EX));
    SHOW(lock(locked, F_OFD_SETLK, F_WRLCK, SEEK_SET, 8, 1));
    char number[16], other[16];
    sprintf(number, "%d", fd);
    sprintf(other, "%d", locked);
    execl(program, program, "after-exec", number, other, NULL);
    die("exec");
}

static void after_exec(int fd, int locked)
{
    /* Before anything else is asked of the file that was inherited. */
    must_open("f", O_RDWR);
    IN_CHILD(ask(must_open("f", O_RDWR), F_GETLK, F_WRLCK, SEEK_SET, 0, 0));
    ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0);
    IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0); ask(locked, F_GETLK, F_WRLCK, SEEK_SET, 0, 0);
             SHOW(flock(must_open("g", O_RDONLY), LOCK_EX | LOCK_NB)); SHOW(flock(locked, LOCK_EX | LOCK_NB)));
    SHOW(write(fd, "after", 5));
    SHOW(pread(locked, (char[32]){ 0 }, 32, 0));
    SHOW(close(locked));
    IN_CHILD(ask(fd, F_GETLK, F_WRLCK, SEEK_SET, 0, 0); int g = must_open("g", O_RDONLY); ask(g, F_OFD_GETLK, F_RDLCK, SEEK_SET, 0, 0);
             SHOW(flock(g, LOCK_EX | LOCK_NB)));
    SHOW(close(fd));
    IN_CHILD(ask(must_open("f", O_RDWR), F_GETLK, F_WRLCK, SEEK_SET, 0, 0));
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        { "record", group_record }, { "close", group_close }, { "numbers", group_numbers }, { "descriptions", group_descriptions },
        { "wait", group_wait }, { "exec", group_exec },
    };
    program = argv[0];
    if (argc == 4 && !strcmp(argv[1], "after-exec")) {
        after_exec(atoi(argv[2]), atoi(argv[3]));
        return 0;
    }
    return RUN_GROUP(groups, argv[1]);
}
