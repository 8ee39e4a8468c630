/* Descriptors of files in the working directory, for those who see no mounts: they have another
 * root, or are static. given_away ROOT STATIC   ROOT: an empty directory; STATIC: this program,
 * linked statically given_away take N        receives descriptors over the socket N until its end,
 * and looks at each given_away hold N        looks at the inherited descriptor N given_away pass
 * FILE STATIC   passes FILE to STATIC given_away serve PATH    listens at PATH, and does the same
 * as `take` with who connects */
#include "probe.h"
#include <sys/socket.h>
#include <sys/un.h>

enum { LARGE = 300000 };

static int receive(int socket)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header;
    int fd;
    if (recvmsg(socket, &message, 0) != 1 || !(header = CMSG_FIRSTHDR(&message)))
        return -1;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

static int pass(int socket, int fd)
{
    char byte = 'd', control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr) { CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* All that can be said of the bytes; who may write writes. */
static void look_at(const char *who, int fd, int maps)
{
    static char bytes[LARGE];
    struct stat st;
    memset(bytes, 0, sizeof bytes);
    if (fstat(fd, &st) != 0)
        die("fstat");
    ssize_t all = pread(fd, bytes, sizeof bytes, 0);
    printf("%s: %ld bytes, %016lx", who, (long)all, (long)digest(bytes, all > 0 ? all : 0));
    memset(bytes, 0, sizeof bytes);
    printf(", at %ld", (long)lseek(fd, 0, SEEK_CUR));
    ssize_t some = read(fd, bytes, 6);
    printf(" '%.*s'", (int)(some > 0 ? some : 0), bytes);
    if (all > 0 && maps) {
        char *mapped = mmap(NULL, all, PROT_READ, MAP_PRIVATE, fd, 0);
        printf(", mapped %016lx", mapped == MAP_FAILED ? 0 : (long)digest(mapped, all));
        if (mapped != MAP_FAILED)
            munmap(mapped, all);
    }
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
        printf(", writes %ld", (long)pwrite(fd, "WRITTEN", 7, 100));
    printf("\n");
    fflush(stdout);
}

static void look(const char *who, int fd)
{
    look_at(who, fd, 1);
}

static void take(const char *who, int socket)
{
    /* Whoever it is, it is that by now. */
    if (write(socket, "r", 1) != 1)
        die("take");
    for (int fd; (fd = receive(socket)) >= 0;) {
        look(who, fd);
        /* It stays open: the sender waits until it was looked at, and asks for another look. */
        for (char order; write(socket, "l", 1) == 1 && read(socket, &order, 1) == 1 && order == 'a';)
            look(who, fd);
        close(fd);
    }
}

static void ask_again(int socket, const char *order)
{
    char byte;
    if (write(socket, order, 1) != 1 || (*order == 'a' && read(socket, &byte, 1) != 1))
        die("the receiver is gone");
}

static void make(const char *name, size_t size)
{
    static char bytes[LARGE];
    for (size_t i = 0; i < size; i++)
        bytes[i] = "a line of text that is repeated\n"[(i + i / 4096) % 32];
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd) != 0)
        die("make");
}

/* Another root: as an ordinary user, in a namespace of users. */
static void leave(const char *root)
{
    if (chroot(root) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(root) != 0)) {
        printf("no other root: %s\n", error_name(errno));
        exit(0);
    }
    if (chdir("/") != 0)
        die("chdir");
}

static const char *ROOT, *STATIC;

static void chrooted(int socket)
{
    leave(ROOT);
    take("chrooted", socket);
}

static int helper(void *unused)
{
    (void)unused;
    leave(ROOT);
    _exit(0);
}

/* Sandboxes change the root of a process by another one that shares it. */
static void helped(int socket)
{
    static char stack[65536] __attribute__((aligned(16)));
    if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0)
        exit(0);
    int status, child = clone(helper, stack + sizeof stack, CLONE_FS | SIGCHLD, NULL);
    waitpid(child, &status, 0);
    take("helped", socket);
}

static void executes(int socket)
{
    char number[12];
    sprintf(number, "%d", dup(socket));
    execl(STATIC, STATIC, "take", number, NULL);
    die("execl");
}

static void executes_elsewhere(int socket)
{
    char number[12];
    sprintf(number, "%d", dup(socket));
    leave(ROOT);
    execl("/static", "static", "take", number, NULL);
    die("execl below");
}

/* The receiver is there before anything is sent. */
static void to(void (*receiver)(int))
{
    int pair[2], status, fd;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        die("socketpair");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        receiver(pair[1]);
        fflush(stdout);
        _exit(0);
    }
    close(pair[1]);
    char byte;
    (void)!read(pair[0], &byte, 1);
    make("small", 10);
    make("large", LARGE);
    for (int i = 0; i < 4; i++) {
        const char *name = i & 1 ? "large" : "small";
        fd = open(name, i & 2 ? O_RDWR : O_RDONLY);
        lseek(fd, 3, SEEK_SET);
        int passed = pass(pair[0], fd), error = errno;
        if (passed != 0 || read(pair[0], &byte, 1) != 1) {
            printf("not passed on: %s\n", error_name(error));
            break;
        }
        printf("then at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
        int other = open(name, O_RDWR);
        SHOW(pwrite(other, "changed", 7, 1));
        ask_again(pair[0], "a");
        SHOW(ftruncate(other, 200));
        ask_again(pair[0], "a");
        look("the sender", fd);
        close(other);
        ask_again(pair[0], "n");
        close(fd);
    }
    shutdown(pair[0], SHUT_WR);
    waitpid(child, &status, 0);
    SHOW(status);
    close(pair[0]);
}

/* A file that is there already. */
static void passes(const char *name)
{
    int pair[2], fd = open(name, O_RDONLY | O_CLOEXEC), status;
    char byte;
    if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        die(name);
    if (fork() == 0)
        executes(pair[1]);
    if (read(pair[0], &byte, 1) != 1)
        die("the receiver is gone");
    SHOW(pass(pair[0], fd));
    shutdown(pair[0], SHUT_WR);
    wait(&status);
}

/* What was open before. */
static void inherited(const char *name, int flags, int before)
{
    int status, kept = -1, fd;
    fflush(stdout);
    make(name, 5000);
    if (before)
        kept = open(name, flags);
    pid_t child = fork();
    if (child == 0) {
        char number[12];
        fd = before ? kept : open(name, flags);
        int own = open(name, flags | O_CLOEXEC);
        sprintf(number, "%d", fd);
        leave(ROOT);
        look_at("itself", fd, 0);
        look_at("closed by exec", own, 0);
        fflush(stdout);
        pid_t grandchild = fork();
        if (grandchild < 0)
            die("fork");
        if (grandchild == 0) {
            execl("/static", "static", "hold", number, NULL);
            SHOW(-1);
            _exit(1);
        }
        waitpid(grandchild, &status, 0);
        int pair[2];
        SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        if (SHOW(pass(pair[0], own)) != 0)
            _exit(1);
        look_at("sent to itself", receive(pair[1]), 0);
        _exit(0);
    }
    waitpid(child, &status, 0);
    SHOW(status);
    if (kept >= 0)
        close(kept);
    fd = open(name, O_RDONLY);
    look("its parent", fd);
    close(fd);
}

static void serve(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0)
        die("serve");
    take("the server", accept(listener, NULL, NULL));
}

/* Gives a file to whoever listens at `path`. */
static void client(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        usleep(1000);
    char byte;
    SHOW(read(fd, &byte, 1));
    for (int i = 0; i < 2; i++) {
        make("given", 5000);
        int file = open("given", i ? O_RDWR : O_RDONLY);
        int passed = pass(fd, file);
        if (read(fd, &byte, 1) != 1)
            die("the server is gone");
        SHOW(passed);
        look("the client", file);
        close(file);
        ask_again(fd, "n");
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "take") == 0)
        take("static", atoi(argv[2]));
    else if (strcmp(argv[1], "hold") == 0)
        look("executed", atoi(argv[2]));
    else if (strcmp(argv[1], "serve") == 0)
        serve(argv[2]);
    else if (strcmp(argv[1], "client") == 0)
        client(argv[2]);
    else if (strcmp(argv[1], "pass") == 0) {
        STATIC = argv[3];
        passes(argv[2]);
    } else {
        ROOT = argv[1];
        STATIC = argv[2];
        to(chrooted);
        to(helped);
        to(executes);
        to(executes_elsewhere);
        inherited("read", O_RDONLY, 1);
        inherited("written", O_RDWR, 1);
        inherited("read-late", O_RDONLY, 0);
        inherited("written-late", O_RDWR, 0);
    }
    return 0;
}
