/* What the test programs share: one line per call, with its result or its error by name. */
#ifndef PROBE_H
#define PROBE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static inline const char *error_name(int error)
{
    static _Thread_local char number[16];
    const char *name = strerrorname_np(error);
    if (name)
        return name;
    snprintf(number, sizeof number, "errno-%d", error);
    return number;
}

/* One line: the call and its result. Keeps errno. */
static inline long show(const char *what, long result)
{
    int error = errno;
    if (result == -1)
        printf("%s = -1 %s\n", what, error_name(error));
    else
        printf("%s = %ld\n", what, result);
    fflush(stdout);
    errno = error;
    return result;
}

/* One line: the call and only whether it worked, where the number itself means nothing. */
static inline long works(const char *what, long result)
{
    int error = errno;
    printf("%s: %s\n", what, result == -1 ? error_name(error) : "ok");
    fflush(stdout);
    errno = error;
    return result;
}

#define SHOW(call) (errno = 0, show(#call, (long)(call)))
#define WORKS(call) (errno = 0, works(#call, (long)(call)))

/* FNV-1a. */
static inline uint64_t digest(const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

/* Everything about a file that a copy of the tree keeps. The size and the link count of a
 * directory, block counts and block sizes are the file system's own business; a recent time is that
 * of a directory beside the tree, in which other tests are at work. */
static inline void show_stat(const char *what, int result, const struct stat *st)
{
    int error = errno;
    if (result != 0) {
        printf("%s = %d %s\n", what, result, error_name(error));
    } else {
        int directory = S_ISDIR(st->st_mode);
        printf("%s = mode %o uid %u gid %u links %ld size %lld mtime ", what, st->st_mode, st->st_uid, st->st_gid,
               directory ? -1L : (long)st->st_nlink, directory ? -1LL : (long long)st->st_size);
        if (st->st_mtim.tv_sec > 1700000000 && st->st_mtim.tv_sec < 4000000000)
            puts("recent");
        else
            printf("%lld.%09ld\n", (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    }
    fflush(stdout);
    errno = error;
}

static inline void die(const char *what)
{
    printf("FAILED %s: %s\n", what, error_name(errno));
    fflush(stdout);
    _exit(99);
}

/* Sends `sent` to who reads `socket` (unix(7), SCM_RIGHTS). */
static inline void send_descriptor(int socket, int sent)
{
    char byte = 'x', control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec part = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &sent, sizeof sent);
    if (sendmsg(socket, &message, 0) != 1)
        die("sendmsg");
}

static inline int must_open(const char *path, int flags)
{
    int fd = open(path, flags);
    if (fd < 0)
        die(path);
    return fd;
}

/* A part of a program, by the name that its user gives. */
struct group {
    const char *name;
    void (*run)(void);
};

/* Runs the group called `name`: 0, or 2 where there is none. */
static inline int run_group(const struct group *groups, size_t count, const char *name)
{
    for (size_t i = 0; name && i < count; i++)
        if (strcmp(groups[i].name, name) == 0) {
            groups[i].run();
            puts("done");
            return 0;
        }
    fputs("no such group\n", stderr);
    return 2;
}
#define RUN_GROUP(groups, name) run_group(groups, sizeof(groups) / sizeof *(groups), name)

#endif
