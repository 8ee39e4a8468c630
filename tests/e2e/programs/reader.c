/* Reads from an inherited descriptor and says what it found there.
   reader N [LENGTH]      reads LENGTH bytes (7) from descriptor N
   reader dir N           reads some entries of the directory at N
   reader scm N           receives a descriptor over the socket N, and reads from that */
#include "probe.h"
#include <sys/socket.h>

int receive(int socket)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    ssize_t n = recvmsg(socket, &message, 0);
    if (n != 1)
        die("recvmsg");
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        die("no descriptor in the message");
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

int main(int argc, char **argv)
{
    char buffer[4096];
    int fd;
    size_t length = 7;
    if (argc > 2 && strcmp(argv[1], "dir") == 0) {
        int entries = 0;
        long n = syscall(SYS_getdents64, atoi(argv[2]), buffer, 1024);
        if (n < 0) {
            show("child getdents64", n);
            return 0;
        }
        for (long at = 0; at < n; at += *(unsigned short *)(buffer + at + 16))
            entries++;
        printf("child: entries %d\n", entries > 5);
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "scm") == 0)
        fd = receive(atoi(argv[2]));
    else {
        fd = atoi(argv[1]);
        if (argc > 2)
            length = atoi(argv[2]);
    }
    struct stat st;
    printf("child: fstat %s", fstat(fd, &st) == 0 ? "ok" : error_name(errno));
    printf(" offset %ld", (long)lseek(fd, 0, SEEK_CUR));
    ssize_t n = read(fd, buffer, length);
    if (n < 0)
        printf(" read %s\n", error_name(errno));
    else
        printf(" read '%.*s' offset %ld\n", (int)n, buffer, (long)lseek(fd, 0, SEEK_CUR));
    return 0;
}
