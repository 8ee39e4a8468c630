/* Does a child get what its parent had open? Usage: heritage SPAWN EXEC INHERIT FILE READER SPAWN
 * fork, vfork, posix_spawn, clone3, clone_vm (shares memory, as vfork, on a stack of its own),
 * thread EXEC     run (READER is executed), script (through a script of sh), none (the child itself
 * reads) INHERIT  plain, cloexec, dup2, stdin, close_range, cloexec_range, scm, dir The parent
 * reads before and after; where the offset is shared, both see it. */
#include "probe.h"
#include <linux/sched.h>
#include <pthread.h>
#include <spawn.h>

extern char **environ;
static const char *spawn, *exec_kind, *inherit, *path, *reader;
static int fd, sockets[2], child_fd;
static char number[16];
static char *arguments[8];

/* What happens between fork and exec. Only system calls: it also runs in a vfork child. */
static void prepare(void)
{
    if (strcmp(inherit, "dup2") == 0) {
        if (dup2(fd, 20) != 20)
            die("dup2");
        close(fd);
    } else if (strcmp(inherit, "stdin") == 0) {
        if (dup2(fd, 0) != 0)
            die("dup2");
        close(fd);
    } else if (strcmp(inherit, "close_range") == 0) {
        close_range(3, ~0u, 0);
    } else if (strcmp(inherit, "cloexec_range") == 0) {
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    }
}

/* The child without exec reads by itself. */
static void read_here(void)
{
    char buffer[4096];
    if (strcmp(inherit, "dir") == 0) {
        long n = syscall(SYS_getdents64, child_fd, buffer, 1024);
        printf("child: entries %d\n", n > 100);
    } else {
        ssize_t n = read(child_fd, buffer, 7);
        if (n < 0)
            printf("child: read %s\n", error_name(errno));
        else
            printf("child: read '%.*s' offset %ld\n", (int)n, buffer, (long)lseek(child_fd, 0, SEEK_CUR));
    }
    fflush(stdout);
}

static void child(void)
{
    prepare();
    if (strcmp(exec_kind, "none") == 0) {
        read_here();
        _exit(5);
    }
    execve(arguments[0], arguments, environ);
    _exit(127);
}

static int on_new_stack(void *unused)
{
    child();
    return 0;
}

static pid_t start(void)
{
    pid_t pid = -1;
    if (strcmp(spawn, "fork") == 0 || strcmp(spawn, "thread") == 0) {
        if ((pid = fork()) == 0)
            child();
    } else if (strcmp(spawn, "vfork") == 0) {
        if ((pid = vfork()) == 0)
            child();
    } else if (strcmp(spawn, "clone3") == 0) {
        struct clone_args how = { .exit_signal = SIGCHLD };
        if ((pid = syscall(SYS_clone3, &how, sizeof how)) == 0)
            child();
    } else if (strcmp(spawn, "clone_vm") == 0) {
        static char stack[1 << 16] __attribute__((aligned(16)));
        pid = clone(on_new_stack, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    } else {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        if (strcmp(inherit, "dup2") == 0) {
            posix_spawn_file_actions_adddup2(&actions, fd, 20);
            posix_spawn_file_actions_addclose(&actions, fd);
        } else if (strcmp(inherit, "stdin") == 0) {
            posix_spawn_file_actions_adddup2(&actions, fd, 0);
            posix_spawn_file_actions_addclose(&actions, fd);
        } else if (strcmp(inherit, "close_range") == 0) {
            posix_spawn_file_actions_addclosefrom_np(&actions, 3);
        } else if (strcmp(inherit, "cloexec_range") == 0) {
            /* posix_spawn's own way to the same descriptor: opened in the child. */
            posix_spawn_file_actions_addclose(&actions, fd);
            posix_spawn_file_actions_addopen(&actions, fd, path, O_RDONLY, 0);
        }
        int error = posix_spawn(&pid, arguments[0], &actions, NULL, arguments, environ);
        if (error) {
            errno = error;
            pid = -1;
        }
    }
    if (pid < 0)
        die("no child");
    return pid;
}

static void parent_reads(const char *when)
{
    char buffer[4096];
    if (strcmp(inherit, "dir") == 0) {
        long n = syscall(SYS_getdents64, fd, buffer, 1024);
        printf("%s: entries %d\n", when, n > 100);
        return;
    }
    ssize_t n = read(fd, buffer, 5);
    printf("%s: '%.*s' offset %ld\n", when, n > 0 ? (int)n : 0, buffer, (long)lseek(fd, 0, SEEK_CUR));
    fflush(stdout);
}

static void *body(void *unused)
{
    pid_t pid = start();
    int status;
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid");
    printf("child ended %x\n", status);
    /* The parent's own table is what it was. */
    printf("parent: close-on-exec %d, number 20 %s, input %s\n", fcntl(fd, F_GETFD), fcntl(20, F_GETFD) < 0 ? "free" : "TAKEN",
           lseek(0, 0, SEEK_CUR) < 0 ? error_name(errno) : "A FILE");
    parent_reads("parent after");
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    spawn = argv[1], exec_kind = argv[2], inherit = argv[3], path = argv[4], reader = argv[5];
    setvbuf(stdout, NULL, _IONBF, 0);
    fd = must_open(path, O_RDONLY | (strcmp(inherit, "cloexec") == 0 ? O_CLOEXEC : 0));
    parent_reads("parent before");
    child_fd = strcmp(inherit, "dup2") == 0 ? 20 : strcmp(inherit, "stdin") == 0 ? 0 : fd;
    int at = 0;
    if (strcmp(exec_kind, "script") == 0)
        arguments[at++] = "./script";
    else
        arguments[at++] = (char *)reader;
    if (strcmp(inherit, "scm") == 0) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
        send_descriptor(sockets[0], fd);
        child_fd = sockets[1];
        arguments[at++] = "scm";
    } else if (strcmp(inherit, "dir") == 0) {
        arguments[at++] = "dir";
    }
    sprintf(number, "%d", child_fd);
    arguments[at++] = number;
    if (strcmp(spawn, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, body, NULL);
        pthread_join(thread, NULL);
    } else {
        body(NULL);
    }
    return 0;
}
