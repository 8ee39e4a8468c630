// Splices a pipe into a file until the file takes no more: what it did not take is still in the
// pipe.
//
// usage: spliced FILE LIMIT [exact]      RLIMIT_FSIZE, 0: none; exact: says how much went where

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PIECE = 40000 };

static unsigned char nth(long at) {
    return (unsigned char)((at * 2654435761u) >> 13);
}

// How many of the bytes that `fd` has from now on are those from the `from`-th on; -1: one is
// another.
static long in_order(int fd, long from) {
    unsigned char bytes[4096];
    long count = 0;
    for (ssize_t got; (got = read(fd, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < got; i++, count++)
            if (bytes[i] != nth(from + count))
                return -1;
    return count;
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    signal(SIGXFSZ, SIG_IGN);
    long limit = atol(words[2]), put = 0;
    if (limit)
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)limit, RLIM_INFINITY});
    int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0644), ends[2];
    if (fd < 0 || pipe2(ends, O_NONBLOCK))
        return 1;
    for (int refused = 0; !refused;) {
        unsigned char bytes[PIECE];
        for (int i = 0; i < PIECE; i++)
            bytes[i] = nth(put + i);
        // In two: the pipe's buffers are then no whole pages.
        ssize_t first = write(ends[1], bytes, 777);
        put += first + write(ends[1], bytes + first, PIECE - (size_t)first);
        for (long left = PIECE; left;) {
            ssize_t moved = splice(ends[0], NULL, fd, NULL, (size_t)left, 0);
            if (moved <= 0) {
                printf("refused: %s\n", moved ? strerror(errno) : "nothing moved");
                refused = 1;
                break;
            }
            left -= moved;
        }
    }
    long length = lseek(fd, 0, SEEK_END), at = lseek(fd, 0, SEEK_SET) + in_order(fd, 0), left = in_order(ends[0], at);
    printf("%s, %s\n", at == length ? "in order" : "wrong bytes", at + left == put ? "nothing lost" : "bytes lost or twice");
    if (count > 3)
        printf("%ld in the file, %ld in the pipe\n", at, left);
    return at != length || at + left != put;
}
