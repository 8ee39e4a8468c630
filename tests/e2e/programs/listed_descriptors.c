// Lists the process's descriptors by every way to the directory, before and after chroot and
// pivot_root, and those of its parent: listed_descriptors DIRECTORY
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// By the call itself, with a buffer of `size` bytes.
static void tell(const char *what, int fd, size_t size) {
    int numbers[1024], count = 0;
    char buffer[4096];
    if (fd < 0) {
        printf("%s: %s\n", what, strerrorname_np(errno));
        return;
    }
    lseek(fd, 0, SEEK_SET);
    for (long got; (got = syscall(SYS_getdents64, fd, buffer, size)) != 0;) {
        if (got < 0) {
            printf("%s: %s\n", what, strerrorname_np(errno));
            return;
        }
        for (long at = 0; at < got;) {
            struct dirent64 *entry = (void *)(buffer + at);
            at += entry->d_reclen;
            if (entry->d_name[0] != '.' && count < 1024) numbers[count++] = atoi(entry->d_name);
        }
    }
    qsort(numbers, count, sizeof *numbers, by_number);
    printf("%s:", what);
    for (int i = 0; i < count; i++) printf(" %d", numbers[i]);
    puts("");
}

static void list(const char *what, int at, const char *path, int flags) {
    int fd = openat(at, path, flags);
    tell(what, fd, 4096);
    tell("  in small pieces", fd, 32);
    if (fd >= 0) close(fd);
}

static void ways(int proc, int self) {
    char path[64];
    list("/proc/self/fd", AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY);
    list("/proc/self/fd/", AT_FDCWD, "/proc/self/fd/", O_RDONLY);
    list("/dev/fd", AT_FDCWD, "/dev/fd", O_RDONLY | O_DIRECTORY);
    list("/proc/thread-self/fd", AT_FDCWD, "/proc/thread-self/fd", O_RDONLY | O_DIRECTORY);
    list("/proc//self/./fd", AT_FDCWD, "/proc//self/./fd/.", O_RDONLY);
    list("/proc/self/fdinfo", AT_FDCWD, "/proc/self/fdinfo", O_RDONLY | O_DIRECTORY);
    list("/proc/self/task/../fd", AT_FDCWD, "/proc/self/task/../fd", O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/fd", getpid());
    list("/proc/PID/fd", AT_FDCWD, path, O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/task/%d/fd", getpid(), getpid());
    list("/proc/PID/task/TID/fd", AT_FDCWD, path, O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/fd", getppid());
    list("of the parent", AT_FDCWD, path, O_RDONLY);
    list("self/fd below /proc", proc, "self/fd", O_RDONLY | O_DIRECTORY);
    list("self/fdinfo below /proc", proc, "self/fdinfo", O_RDONLY | O_DIRECTORY);
    list("fd below /proc/PID", self, "fd", O_RDONLY | O_DIRECTORY);
    list("by a link", AT_FDCWD, "link", O_RDONLY | O_DIRECTORY);
}

// A descriptor that came from another process, without a name here.
static void received(int proc) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) err(2, "socketpair");
    char path[64], byte = 0, room[CMSG_SPACE(sizeof(int))];
    snprintf(path, sizeof path, "%d/fd", getpid());
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    pid_t child = fork();
    if (!child) {
        int fd = openat(proc, path, O_RDONLY);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
        _exit(sendmsg(pair[1], &message, 0) != 1);
    }
    if (recvmsg(pair[0], &message, 0) != 1) err(2, "recvmsg");
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    waitpid(child, 0, 0);
    tell("received", fd, 4096);
    close(fd);
    close(pair[0]);
    close(pair[1]);
}

static void child(const char *title, const char *how, int proc, int self) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        printf("-- %s\n", title);
        char own[32];
        snprintf(own, sizeof own, "%d", getpid());
        self = openat(proc, own, O_RDONLY | O_DIRECTORY);
        if (!strcmp(how, "chroot")) {
            if (chroot(".") || chdir("/")) printf("chroot: %s\n", strerrorname_np(errno));
        } else if (!strcmp(how, "unshared")) {
            if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) printf("unshare: %s\n", strerrorname_np(errno));
            if (chroot(".") || chdir("/")) printf("chroot: %s\n", strerrorname_np(errno));
        } else if (!strcmp(how, "pivot")) {
            if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) printf("unshare: %s\n", strerrorname_np(errno));
            if (mount(".", ".", 0, MS_BIND | MS_REC, 0) || chdir("../root") || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
                printf("pivot_root: %s\n", strerrorname_np(errno));
        }
        ways(proc, self);
        if (*how == 'f') received(proc);
        fflush(stdout);
        _exit(0);
    }
    if (waitpid(pid, 0, 0) != pid) err(2, "wait");
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    char name[4096];
    snprintf(name, sizeof name, "%s/hello.txt", arguments[1]);
    int file = open(name, O_RDONLY), proc = open("/proc", O_RDONLY | O_DIRECTORY), self = open("/proc/self", O_RDONLY | O_DIRECTORY);
    struct stat found;
    if (file < 0 || fstat(file, &found)) err(2, "%s", name);
    char place[] = "/tmp/listed-XXXXXX";
    if (!mkdtemp(place) || chdir(place) || mkdir("root", 0755) || chdir("root") || symlink("/proc/self/fd", "link")) err(2, "%s", place);
    child("as it is", "fork", proc, self);
    child("after chroot", "chroot", proc, self);
    child("after chroot in namespaces of its own", "unshared", proc, self);
    child("after pivot_root", "pivot", proc, self);
    ways(proc, self);
    if (unlink("link") || chdir("..") || rmdir("root") || rmdir(place)) err(2, "%s", place);
    return 0;
}
