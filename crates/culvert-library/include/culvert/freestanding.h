/* For drivers that run in the programs themselves (CULVERT_STATELESS): there is no libc. A library
 * may need, and gets, only
 *
 *     memcpy memmove memset memcmp bcmp memchr
 *     strlen strcmp strncmp strchr strrchr strcpy
 *     malloc calloc realloc aligned_alloc free abort
 *
 * and what is here. What needs anything else runs in a host, where these are libc's. No errno, no
 * thread-local storage, no threads, no signal handlers; initialisers (constructors) run at the first use
 * of the mount. The code is for any x86-64: wider vector registers are the program's.
 *
 *     cc -O2 -shared -fPIC -o libmine.so mine.c
 *
 * A system call of the library's is the kernel's own: it is never taken for one of the program. While a
 * function runs, no handler of the program does, and no other thread forks. The stack has 256 KiB.
 */
#ifndef CULVERT_FREESTANDING_H
#define CULVERT_FREESTANDING_H

#include <culvert/driver.h>
#include <sys/syscall.h>

#ifdef __AVX__
#error "a driver in other people's programs is compiled without -march=native or -mavx"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A system call: its result, or an errno, negative. */
static inline long culvert_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Descriptors that a driver keeps between calls. In a program they must be out of its way: it counts
 * on the lowest numbers, and may close all that it does not know. */
struct culvert_kept;

__attribute__((weak)) struct culvert_kept *culvert_keep_descriptor(int fd);
__attribute__((weak)) int culvert_kept_number(const struct culvert_kept *kept);
__attribute__((weak)) void culvert_drop_descriptor(struct culvert_kept *kept);

/* Keeps fd, which is not the caller's any more. Never null. */
static inline struct culvert_kept *culvert_keep(int fd)
{
    if (culvert_keep_descriptor)
        return culvert_keep_descriptor(fd);
    return (struct culvert_kept *)((char *)0 + fd + 1);
}

/* Its number as it is now, for the next system call: it may be another one later. */
static inline int culvert_number(const struct culvert_kept *kept)
{
    if (culvert_kept_number)
        return culvert_kept_number(kept);
    return (int)((const char *)kept - (char *)0) - 1;
}

/* Closes it. */
static inline void culvert_drop(struct culvert_kept *kept)
{
    if (culvert_drop_descriptor)
        culvert_drop_descriptor(kept);
    else
        culvert_syscall(SYS_close, (int)((char *)kept - (char *)0) - 1, 0, 0, 0, 0, 0);
}

#ifdef __cplusplus
}
#endif
#endif
