/* A baseline: what a program is compiled with that links to a library in place of a file system, as
 * Direct-FUSE has it: cc -include direct_fuse.h program.c direct_fuse.c */
#ifndef DIRECT_FUSE_H
#define DIRECT_FUSE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int linked_open(const char *path, int flags, ...);
int linked_close(int fd);
ssize_t linked_read(int fd, void *buffer, size_t size);
ssize_t linked_write(int fd, const void *buffer, size_t size);
ssize_t linked_pread(int fd, void *buffer, size_t size, off_t offset);
off_t linked_lseek(int fd, off_t offset, int whence);
int linked_unlink(const char *path);

#ifndef DIRECT_FUSE
#define open linked_open
#define close linked_close
#define read linked_read
#define write linked_write
#define pread linked_pread
#define lseek linked_lseek
#define unlink linked_unlink
#endif
#endif
