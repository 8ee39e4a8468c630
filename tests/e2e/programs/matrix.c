/* The process matrix: what a child can do with a descriptor of its parent, for every way of making
 * it a child, of executing, of handing the descriptor over and of using it. One line for each cell,
 * which holds all that both saw. Usage: matrix DIRECTORY SELF STATIC SCRIPT [WORD]...     the cells
 * whose name holds all the words matrix act ACTION NUMBER                          the executed
 * half of a cell SELF is this program, STATIC the same statically linked, SCRIPT executes it
 * through a shell. */
#include "probe.h"
#include <linux/sched.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>

enum spawn { FORK, VFORK, POSIX_SPAWN, CLONE3, THREAD, CLONE_FILES_ONLY, SPAWNS };
enum exec { DYNAMIC, STATIC, SCRIPT, NONE, EXECS };
enum inherit { INHERIT, CLOEXEC, DUP2, CLOSE_RANGE, SCM_RIGHTS_, INHERITS };
enum action { READ, WRITE, APPEND, POSIX_LOCK, OFD_LOCK, FLOCK, MAPPING, SHARED, PRIVATE, DIRECTORY, ACTIONS };

static const char *const spawns[] = { "fork", "vfork", "posix_spawn", "clone3", "thread", "clone_files" };
static const char *const execs[] = { "dynamic", "static", "script", "none" };
static const char *const inherits[] = { "inherit", "cloexec", "dup2", "close_range", "scm_rights" };
static const char *const actions[] = { "read", "write", "append", "posix_lock", "ofd_lock", "flock", "mapping", "shared", "private", "directory" };

extern char **environ;

/* The cell at work. Static: a vfork child shares it, a thread too. */
static enum spawn spawn;
static enum exec exec_kind;
static enum inherit inherit;
static enum action action;
static char name[100], path[PATH_MAX];
static int fd, received, sockets[2], real_output;
static char *arguments[6];
static char *mapped;

static const char content[] = "0123456789 the bytes of the file, in several words\nand a second line\n";

static struct flock range(short type, int start)
{
    return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 10 };
}

/* One buffer for all that a child says: a line in one write. */
struct said {
    char text[2000];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void say(struct said *said, const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    said->length += vsnprintf(said->text + said->length, sizeof said->text - said->length, format, rest);
    va_end(rest);
}

static void say_result(struct said *said, const char *what, long result)
{
    if (result == -1)
        say(said, " %s=%s", what, error_name(errno));
    else
        say(said, " %s=%ld", what, result);
}

/* Ten entries of a directory, or fewer at its end: all names are so short that each takes 24 bytes.
 * */
static void say_entries(struct said *said, int directory)
{
    char buffer[240];
    long n = syscall(SYS_getdents64, directory, buffer, sizeof buffer);
    say_result(said, "getdents", n);
    for (long at = 0; at < n;) {
        struct dirent64 *entry = (void *)(buffer + at);
        say(said, " <%s>", entry->d_name);
        at += entry->d_reclen;
    }
}

/* What the child does with descriptor `number`. Only system calls and formatting: it also runs in a
 * vfork child. */
static void act(enum action what, int number, struct said *said)
{
    char buffer[200] = "";
    struct flock lock;
    void *map;
    switch (what) {
    case READ:
        say_result(said, "read", read(number, buffer, 7));
        say(said, " '%.7s'", buffer);
        say_result(said, "offset", lseek(number, 0, SEEK_CUR));
        break;
    case WRITE:
        say_result(said, "write", write(number, "child", 5));
        say_result(said, "offset", lseek(number, 0, SEEK_CUR));
        break;
    case APPEND:
        say_result(said, "write", write(number, "CHILD\n", 6));
        say_result(said, "offset", lseek(number, 0, SEEK_CUR));
        break;
    case POSIX_LOCK:
        lock = range(F_WRLCK, 0);
        say_result(said, "getlk", fcntl(number, F_GETLK, &lock));
        say(said, " type %d", lock.l_type);
        lock = range(F_WRLCK, 0);
        say_result(said, "setlk-held", fcntl(number, F_SETLK, &lock));
        lock = range(F_WRLCK, 20);
        say_result(said, "setlk-free", fcntl(number, F_SETLK, &lock));
        break;
    case OFD_LOCK:
        lock = range(F_WRLCK, 0);
        say_result(said, "ofd-same", fcntl(number, F_OFD_SETLK, &lock));
        lock = range(F_WRLCK, 20);
        say_result(said, "ofd-more", fcntl(number, F_OFD_SETLK, &lock));
        lock = range(F_UNLCK, 0);
        say_result(said, "ofd-unlock", fcntl(number, F_OFD_SETLK, &lock));
        break;
    case FLOCK:
        say_result(said, "flock", flock(number, LOCK_EX | LOCK_NB));
        say_result(said, "unlock", flock(number, LOCK_UN));
        break;
    case MAPPING:
        map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, number, 0);
        say_result(said, "mmap", map == MAP_FAILED ? -1 : 0);
        if (map != MAP_FAILED)
            say(said, " %lx", (long)digest(map, 4096));
        break;
    case SHARED:
    case PRIVATE:
        map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, what == SHARED ? MAP_SHARED : MAP_PRIVATE, number, 0);
        say_result(said, "mmap", map == MAP_FAILED ? -1 : 0);
        if (map != MAP_FAILED) {
            say(said, " %lx", (long)digest(map, 4096));
            memcpy((char *)map + 50, "child", 5);
            say_result(said, "write", pwrite(number, "WW", 2, 5));
            say(said, " %lx", (long)digest(map, 4096));
            say_result(said, "read", pread(number, buffer, sizeof buffer, 0));
            say(said, " %lx", (long)digest(buffer, sizeof buffer));
            say_result(said, "munmap", munmap(map, 4096));
        }
        break;
    default:
        say_entries(said, number);
    }
    int flags = number < 0 ? 0 : fcntl(number, F_GETFL);
    /* Linux lets a flag of open(2) show here; an inherited directory that a driver lists has lost
     * it. */
    say_result(said, "flags", flags == -1 ? -1 : flags & ~O_DIRECTORY);
}

static void put(const struct said *said)
{
    if (write(1, said->text, said->length) != (ssize_t)said->length)
        _exit(98);
}

static int receive(int socket)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    int got = -1;
    if (recvmsg(socket, &message, MSG_DONTWAIT) == 1 && message.msg_controllen >= sizeof(struct cmsghdr))
        memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    return got;
}

/* Its table of descriptors is the parent's own. */
static int shares_table(void)
{
    return spawn == CLONE_FILES_ONLY || (spawn == THREAD && exec_kind == NONE);
}

/* The number under which the child finds the descriptor. */
static int child_number(void)
{
    return inherit == DUP2 ? 20 : inherit == SCM_RIGHTS_ ? sockets[1] : fd;
}

/* In the child, before it executes or acts. */
static void prepare(void)
{
    if (inherit == DUP2 && dup2(fd, 20) != 20)
        _exit(97);
    /* In a shared table everything else is still needed. */
    if (inherit == CLOSE_RANGE)
        close_range(shares_table() ? (unsigned)fd : 3u, shares_table() ? (unsigned)fd : ~0u, 0);
}

static void child(void)
{
    prepare();
    if (exec_kind != NONE) {
        execve(arguments[0], arguments, environ);
        _exit(96);
    }
    struct said said = { .length = 0 };
    int number = child_number();
    if (inherit == SCM_RIGHTS_)
        number = received = receive(sockets[1]);
    act(action, number, &said);
    /* The mapping that the parent made is the child's too. */
    if (mapped) {
        say(&said, " inherited %lx", (long)digest(mapped, 4096));
        if (action != MAPPING)
            memcpy(mapped + 40, "CHILD", 5);
    }
    put(&said);
}

static void *in_thread(void *unused)
{
    child();
    return NULL;
}

/* Starts the child; for a thread without exec, runs it to its end and returns 0. */
static pid_t start(void)
{
    pid_t pid = -1;
    pthread_t thread;
    struct clone_args how = { .exit_signal = SIGCHLD };
    posix_spawn_file_actions_t changes;
    switch (spawn) {
    case FORK:
        pid = fork();
        break;
    case VFORK:
        if ((pid = vfork()) == 0) {
            child();
            _exit(5);
        }
        return pid;
    case CLONE3:
        pid = syscall(SYS_clone3, &how, sizeof how);
        break;
    case CLONE_FILES_ONLY:
        pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
        break;
    case THREAD:
        /* A thread that executes takes its process with it: that is a child made for it. */
        if (exec_kind != NONE && (pid = fork()) != 0)
            return pid;
        if (pthread_create(&thread, NULL, in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
            _exit(95);
        return 0;
    default:
        posix_spawn_file_actions_init(&changes);
        if (inherit == DUP2)
            posix_spawn_file_actions_adddup2(&changes, fd, 20);
        else if (inherit == CLOSE_RANGE)
            posix_spawn_file_actions_addclosefrom_np(&changes, 3);
        errno = posix_spawn(&pid, arguments[0], &changes, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&changes);
        return pid;
    }
    if (pid == 0) {
        child();
        _exit(5);
    }
    return pid;
}

/* What somebody else finds: a process that opens the file anew. */
static void say_locks(struct said *said)
{
    fflush(stdout);
    int ends[2];
    if (pipe(ends) != 0)
        die("pipe");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        struct said found = { .length = 0 };
        int other = open(path, O_RDWR);
        for (int start = 0; start <= 20 && action != FLOCK; start += 20) {
            struct flock lock = range(F_WRLCK, start);
            say_result(&found, "held", fcntl(other, F_GETLK, &lock));
            say(&found, " %d: type %d by %s", start, lock.l_type,
                lock.l_type == F_UNLCK ? "nobody" : lock.l_pid == parent ? "the parent" : lock.l_pid == -1 ? "a description" : "another");
        }
        if (action == FLOCK)
            say_result(&found, "other", flock(other, LOCK_EX | LOCK_NB));
        if (write(ends[1], found.text, found.length) < 0)
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    waitpid(pid, NULL, 0);
    ssize_t n = read(ends[0], said->text + said->length, sizeof said->text - said->length - 1);
    if (n > 0)
        said->length += n;
    close(ends[0]);
}

/* Makes the file or directory of a cell and does what the parent does first. */
static void begin(struct said *said)
{
    char entry[PATH_MAX + 8], buffer[10];
    if (action == DIRECTORY) {
        if (mkdir(path, 0700) != 0)
            die(path);
        for (int i = 0; i < 25; i++) {
            snprintf(entry, sizeof entry, "%s/e%02d", path, i);
            close(open(entry, O_CREAT | O_WRONLY, 0600));
        }
        fd = open(path, O_RDONLY | O_DIRECTORY);
    } else {
        fd = open(path, O_CREAT | O_EXCL | O_RDWR | (action == APPEND ? O_APPEND : 0), 0600);
    }
    if (fd < 0)
        die(path);
    if (inherit == CLOEXEC)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (action == DIRECTORY) {
        say_entries(said, fd);
        return;
    }
    if (write(fd, content, sizeof content - 1) != sizeof content - 1 || lseek(fd, 0, SEEK_SET) != 0)
        die("content");
    say_result(said, "read", read(fd, buffer, 5));
    struct flock lock = range(F_WRLCK, 0);
    if (action == POSIX_LOCK)
        say_result(said, "setlk", fcntl(fd, F_SETLK, &lock));
    if (action == OFD_LOCK)
        say_result(said, "setlk", fcntl(fd, F_OFD_SETLK, &lock));
    if (action == FLOCK)
        say_result(said, "flock", flock(fd, LOCK_EX));
    if (action == MAPPING) {
        void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        mapped = map == MAP_FAILED ? NULL : map;
        say_result(said, "mmap", mapped ? 0 : -1);
    }
    if (action == SHARED || action == PRIVATE) {
        void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, action == SHARED ? MAP_SHARED : MAP_PRIVATE, fd, 0);
        mapped = map == MAP_FAILED ? NULL : map;
        say_result(said, "mmap", mapped ? 0 : -1);
        if (mapped)
            memcpy(mapped + 30, "parent", 6);
    }
}

/* What the parent finds when the child has ended. */
static void end(struct said *said)
{
    char buffer[200];
    say_result(said, "fdflags", fcntl(fd, F_GETFD));
    if (!shares_table())
        say_result(said, "20", fcntl(20, F_GETFD));
    if (action == DIRECTORY) {
        say_entries(said, fd);
        say_entries(said, fd);
        return;
    }
    if (action == POSIX_LOCK || action == OFD_LOCK || action == FLOCK)
        say_locks(said);
    if (mapped && action != MAPPING) {
        say(said, " mapped %lx", (long)digest(mapped, 4096));
        memcpy(mapped + 60, "after", 5);
    }
    if (action == APPEND || action == WRITE)
        say_result(said, "write", write(fd, "parent", 6));
    else
        say_result(said, "read", read(fd, buffer, 4));
    say_result(said, "offset", lseek(fd, 0, SEEK_CUR));
    if (mapped)
        say(said, " mapped %lx", (long)digest(mapped, 4096));
    int other = open(path, O_RDONLY);
    ssize_t n = read(other, buffer, sizeof buffer);
    say(said, " size %ld", (long)lseek(other, 0, SEEK_END));
    say(said, " content %lx", n < 0 ? -1L : (long)digest(buffer, n));
    close(other);
}

/* The names of a directory come in the order that the file system likes: each must have come once,
 * whoever got it. */
static void settle_names(char *line)
{
    int seen[25] = { 0 }, dots = 0;
    char *to = line, *from = line;
    while (*from) {
        if (*from != '<') {
            *to++ = *from++;
            continue;
        }
        if (from[1] == 'e')
            seen[(atoi(from + 2)) % 25]++;
        else
            dots++;
        from = strchr(from, '>') + 1;
    }
    *to = 0;
    int missing = 0, twice = 0;
    for (int i = 0; i < 25; i++)
        missing += seen[i] == 0, twice += seen[i] > 1;
    /* Closed by a child with the same table, it could not be read to its end. */
    if (shares_table() && inherit == CLOSE_RANGE)
        sprintf(to, " twice %d", twice);
    else
        sprintf(to, " dots %d missing %d twice %d", dots, missing, twice);
}

static void hung(int signal)
{
    dprintf(real_output, "%s: HUNG\n", name);
    _exit(3);
}

static void cell(char **programs)
{
    static struct said before, after;
    static char line[8000], number[16];
    char output[2000] = "";
    int pipe_ends[2];
    before.length = after.length = 0;
    before.text[0] = after.text[0] = 0;
    received = -1, mapped = NULL;
    alarm(100);
    begin(&before);
    if (inherit == SCM_RIGHTS_) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
            die("socketpair");
        send_descriptor(sockets[0], fd);
    }
    sprintf(number, "%d", child_number());
    arguments[0] = programs[exec_kind == NONE ? 0 : exec_kind];
    arguments[1] = "act";
    arguments[2] = (char *)actions[action];
    arguments[3] = number;
    arguments[4] = inherit == SCM_RIGHTS_ ? "received" : NULL;
    /* The child's standard output is a pipe for a while. */
    if (pipe2(pipe_ends, O_CLOEXEC) != 0 || dup2(pipe_ends[1], 1) != 1)
        die("pipe");
    pid_t pid = start();
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) != pid)
        die("waitpid");
    if (pid < 0)
        snprintf(output, sizeof output, "NOT STARTED %s", error_name(errno));
    dup2(real_output, 1);
    close(pipe_ends[1]);
    for (ssize_t n, at = strlen(output); (n = read(pipe_ends[0], output + at, sizeof output - 1 - at)) > 0; at += n)
        output[at + n] = 0;
    close(pipe_ends[0]);
    end(&after);
    snprintf(line, sizeof line, "before%s; child%s status %x; after%s", before.text, output, status, after.text);
    if (action == DIRECTORY)
        settle_names(line);
    dprintf(real_output, "%s: %s\n", name, line);
    alarm(0);
    if (mapped)
        munmap(mapped, 4096);
    close(fd);
    if (shares_table())
        close(20);
    if (received >= 0)
        close(received);
    if (inherit == SCM_RIGHTS_)
        close(sockets[0]), close(sockets[1]);
}

static int wanted(char **words)
{
    for (; *words; words++)
        if (!strstr(name, *words))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "act") == 0) {
        struct said said = { .length = 0 };
        int number = atoi(argv[3]), which = 0;
        while (which < ACTIONS - 1 && strcmp(actions[which], argv[2]) != 0)
            which++;
        act(which, argc > 4 ? receive(number) : number, &said);
        put(&said);
        return 5;
    }
    if (argc < 5)
        return 2;
    real_output = fcntl(1, F_DUPFD_CLOEXEC, 50);
    signal(SIGALRM, hung);
    int count = 0;
    for (spawn = 0; spawn < SPAWNS; spawn++)
        for (exec_kind = 0; exec_kind < EXECS; exec_kind++)
            for (inherit = 0; inherit < INHERITS; inherit++)
                for (action = 0; action < ACTIONS; action++) {
                    /* posix_spawn always executes. */
                    if (spawn == POSIX_SPAWN && exec_kind == NONE)
                        continue;
                    snprintf(name, sizeof name, "%s/%s/%s/%s", spawns[spawn], execs[exec_kind], inherits[inherit], actions[action]);
                    snprintf(path, sizeof path, "%s/%d", argv[1], count);
                    if (wanted(argv + 5))
                        cell(argv + 2);
                    count++;
                }
    return 0;
}
