/* io_uring: what is refused as long as mounts are present, and what must not get past the look at a
 * request. Usage: rings_refused calls | attack, with OUTSIDE a directory beside the mount, in a
 * mount. */
#include "ring.h"
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/socket.h>

static void by_path(struct ring *r)
{
    static const struct { const char *name; int operation; } all[] = {
        { "openat", OPENAT }, { "openat2", OPENAT2 }, { "statx", STATX }, { "renameat", RENAMEAT }, { "unlinkat", UNLINKAT }, { "mkdirat", MKDIRAT },
        { "symlinkat", SYMLINKAT }, { "linkat", LINKAT }, { "setxattr", SETXATTR }, { "getxattr", GETXATTR }, { "files_update", 20 }, { "none", 200 },
    };
    struct { unsigned char last, count; unsigned short a; unsigned b[3]; struct { unsigned char op, a; unsigned short flags; unsigned b; } ops[256]; } probe = { 0 };
    WORKS(syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_PROBE, &probe, 256));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        show_result(all[i].name, ring_one(r, all[i].operation, AT_FDCWD, "file", 0, 0));
        if (probe.ops[all[i].operation].flags)
            puts("but the probe says it is there");
    }
    printf("read is there: %d\n", probe.ops[READ].flags);
}

static void on_files(struct ring *r, int fd)
{
    char a[4096];
    int pipes[2], pair[2], other = open("other", O_RDWR | O_CREAT, 0600);
    if (pipe(pipes) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || write(pipes[1], "bytes", 5) != 5)
        die("pipe");
    struct io_uring_sqe *sqe = ring_add(r, SPLICE, pipes[1], NULL, 4, -1);
    sqe->splice_fd_in = fd;
    sqe->splice_off_in = 0;
    ring_run(r, "splice out");
    sqe = ring_add(r, SPLICE, fd, NULL, 4, 0);
    sqe->splice_fd_in = pipes[0];
    sqe->splice_off_in = -1;
    ring_run(r, "splice in");
    ring_add(r, READ, pipes[0], a, 5, -1)->flags = LINK;
    ring_add(r, WRITE, fd, a, 5, 0)->flags = LINK;
    ring_add(r, FSYNC, fd, NULL, 0, 0);
    ring_run(r, "behind another's");
    ring_add(r, READ, fd, a, 3, 0)->flags = DRAIN;
    ring_run(r, "behind all others");
    struct iovec buffer = { a, sizeof a };
    WORKS(syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, &buffer, 1));
    show_result("into a registered buffer", ring_one(r, READ_FIXED, fd, a, 3, 0));
    WORKS(syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_FILES, &fd, 1));
    int none[2] = { -1, -1 };
    WORKS(syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_FILES, none, 2));
    struct io_uring_files_update update = { .fds = (uintptr_t)&fd };
    WORKS(syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_FILES_UPDATE, &update, 1));
    struct io_uring_rsrc_update2 update2 = { .data = (uintptr_t)&other, .nr = 1 };
    WORKS(syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_FILES_UPDATE2, &update2, sizeof update2));
    ring_add(r, READ, 0, a, 3, 0)->flags = FIXED;
    ring_run(r, "registered");
    struct { unsigned a, b; unsigned long long fd; } ring = { -1U, 0, r->fd };
    WORKS(syscall(SYS_io_uring_register, r->fd, 20 /* IORING_REGISTER_RING_FDS */, &ring, 1));
    char control[64];
    struct msghdr message = { .msg_control = control, .msg_controllen = sizeof control };
    show_result("recvmsg with room for descriptors", ring_one(r, RECVMSG, pair[0], &message, 1, 0));
    int passed = ring_one(r, MSG_RING, r->fd, (void *)1 /* IORING_MSG_SEND_FD */, 0, 0);
    show_result("a descriptor to a ring", passed);
}

/* No descriptor but the program's own. */
static void hidden(struct ring *r)
{
    char a[16];
    int found = 0;
    for (int fd = 3; fd < 70000; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        int result = ring_one(r, READ, fd, a, 1, 0), closed = ring_one(r, CLOSE, fd, NULL, 0, 0);
        if (result != -EBADF || closed != -EBADF)
            printf("descriptor %d: %d %d\n", fd, result, closed);
        found++;
    }
    printf("none of %s\n", found > 60000 ? "all" : "few");
}

static void calls(void)
{
    struct ring r;
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (write(fd, "contents", 8) != 8)
        die("file");
    WORKS(ring_make(&r, 8, IORING_SETUP_SQPOLL));
    WORKS(ring_make(&r, 8, 1 << 14 /* IORING_SETUP_NO_MMAP */));
    WORKS(ring_make(&r, 8, 0));
    by_path(&r);
    hidden(&r);
    on_files(&r, fd);
    /* Another ring: of that one requests wait for others now. */
    r = ring_must(8, 0);
    hidden(&r);
    char a[16] = "", number[16];
    printf("%d %s\n", ring_one(&r, READ, fd, a, 15, 0), a);
    /* A number that a request may look at later never is a file of a mount's. */
    int pipes[2], gone = dup(0);
    if (pipe(pipes) != 0)
        die("pipe");
    ring_add(&r, READ, pipes[0], a, 1, -1)->flags = LINK;
    ring_add(&r, READ, gone, a, 8, 0);
    WORKS(ring_enter(&r, 2, 0));
    close(gone);
    int opened = open("file", O_RDONLY), copied = dup(fd);
    if (opened == gone || copied == gone)
        puts("the number is a file's");
    WORKS(dup2(fd, gone));
    if (write(pipes[1], "x", 1) != 1)
        die("pipe");
    struct io_uring_cqe cqe;
    ring_enter(&r, 0, 2);
    for (int i = 0; i < 2 && ring_take(&r, &cqe); i++)
        show_result("end", cqe.res);
    snprintf(number, sizeof number, "%d", r.fd);
    fcntl(r.fd, F_SETFD, 0);
    fflush(stdout);
    execl("/proc/self/exe", "rings_refused", "inherited", number, (char *)NULL);
}

static void inherited(int fd)
{
    struct ring r = { .fd = fd };
    WORKS(mmap(NULL, 512, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES));
    WORKS(ring_enter(&r, 1, 0));
    WORKS(ring_enter(&r, 0, 0));
    puts("done");
}

static struct ring ring;
static int mine, others;
static volatile int stop;

/* Changes the request all the time, where the program has it and wherever else it can be found. */
static void *flip(void *nothing)
{
    unsigned i = 0;
    while (!stop) {
        for (int at = 0; at < 8; at++) {
            volatile struct io_uring_sqe *sqe = (volatile struct io_uring_sqe *)ring.sqes + at;
            sqe->fd = i & 1 ? mine : others;
            sqe->opcode = i % 5 == 0 ? OPENAT : i % 7 == 0 ? UNLINKAT : READ;
            ((volatile unsigned *)(ring.queue + ring.p.sq_off.array))[at] = (i + at) % 9;
            i++;
        }
        if (i % 64 == 0)
            sched_yield();
    }
    return nothing;
}

static void attack(void)
{
    static char bytes[8][4096];
    char path[200];
    snprintf(path, sizeof path, "%s/victim", getenv("OUTSIDE"));
    mine = open("victim", O_RDWR | O_CREAT | O_TRUNC, 0644);
    others = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    memset(bytes[0], 'M', 4096);
    if (write(mine, bytes[0], 4096) != 4096)
        die("victim");
    memset(bytes[0], 'O', 4096);
    if (write(others, bytes[0], 4096) != 4096)
        die(path);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    ring = ring_must(8, IORING_SETUP_SUBMIT_ALL);
    pthread_t thread;
    pthread_create(&thread, NULL, flip, NULL);
    long wrong = 0, right = 0;
    for (int round = 0; round < 4000; round++) {
        for (int i = 0; i < 8; i++) {
            memset(bytes[i], 'x', 4096);
            ring_add(&ring, READ, i & 1 ? mine : others, bytes[i], 4096, 0)->user_data = i;
        }
        int taken = ring_enter(&ring, 8, 0);
        if (taken < 0)
            die("io_uring_enter");
        /* What was not taken is given up: the queue begins anew. */
        struct io_uring_cqe cqe;
        while (*WORD(&ring, ring.p.sq_off.head) != *WORD(&ring, ring.p.sq_off.tail))
            if (ring_enter(&ring, 8, 0) <= 0)
                break;
        while (ring_take(&ring, &cqe))
            if (cqe.res == 4096)
                right++;
            else if (cqe.res != -EINVAL)
                wrong++, printf("result %d\n", cqe.res);
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < 4096; k++)
                if (bytes[i][k] != 'M' && bytes[i][k] != 'O' && bytes[i][k] != 'x') {
                    wrong++, printf("byte %d\n", bytes[i][k]);
                    break;
                }
    }
    stop = 1;
    pthread_join(thread, NULL);
    struct stat status;
    printf("wrong %ld, right %d, victims %d\n", wrong, right > 0, stat("victim", &status) == 0 && stat(path, &status) == 0);
    puts("done");
}

/* What a layer would not hear of: a file of its own that is registered. */
static void layered(void)
{
    char a[16];
    int fd = open("layered", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct ring r = ring_must(8, 0);
    if (fd < 0 || write(fd, "contents", 8) != 8)
        die("layered");
    show_result("before", ring_one(&r, FSYNC, fd, NULL, 0, 0));
    if (syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_FILES, &fd, 1) != 0)
        die("IORING_REGISTER_FILES");
    ring_add(&r, READ, 0, a, 8, 0)->flags = FIXED;
    ring_run(&r, "read");
    ring_add(&r, FSYNC, 0, NULL, 0, 0)->flags = FIXED;
    ring_run(&r, "fsync");
    show_result("by its descriptor", ring_one(&r, FSYNC, fd, NULL, 0, 0));
}

int main(int argc, char **argv)
{
    if (argc == 3)
        inherited(atoi(argv[2]));
    else if (strcmp(argv[1], "attack") == 0)
        attack();
    else if (strcmp(argv[1], "layered") == 0)
        layered();
    else
        calls();
    return 0;
}
