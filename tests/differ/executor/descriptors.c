/* Descriptors, their flags, and locks. */
#include "executor.h"
#include "arguments.h"
#include <linux/close_range.h>
#include <sys/file.h>

/* The actor whose process holds a lock, as far as one does. */
static void out_holder(pid_t holder)
{
    for (int i = 0; i < ACTORS; i++)
        if (control->actors[i].tgid == holder) {
            out(" by=%d", control->actors[i].tgid ? i : -1);
            return;
        }
    out(" by=%d", holder < 0 ? holder : 99);
}

static void lock(struct step *s, int at)
{
    int command = (int)N(2);
    struct flock want = { .l_type = (short)N(3), .l_whence = SEEK_SET, .l_start = N(4), .l_len = N(5) };
    if (s->words > at + 6)
        want.l_whence = (short)N(6);
    long done = result(fcntl(F(1), command, &want));
    if (done == 0 && (command == F_GETLK || command == F_OFD_GETLK)) {
        out(" type=%d", want.l_type);
        if (want.l_type != F_UNLCK) {
            out(" start=%ld len=%ld", (long)want.l_start, (long)want.l_len);
            out_holder(want.l_pid);
        }
    }
}

bool descriptor_operation(struct step *s, int at)
{
    if (IS("dup", 2))
        new_descriptor(W(1), dup(F(2)));
    else if (IS("dup2", 3))
        new_descriptor(W(1), syscall(SYS_dup2, F(2), F(3)));
    else if (IS("dup3", 4))
        new_descriptor(W(1), dup3(F(2), F(3), (int)N(4)));
    else if (IS("dupfd", 4))
        new_descriptor(W(1), fcntl(F(2), N(4) ? F_DUPFD_CLOEXEC : F_DUPFD, (int)N(3)));
    else if (IS("close", 1))
        result(close(F(1)));
    else if (IS("closerange", 3))
        result(syscall(SYS_close_range, (unsigned)F(1), (unsigned)F(2), (unsigned)N(3)));
    else if (IS("getfl", 1))
        result(fcntl(F(1), F_GETFL));
    else if (IS("setfl", 2))
        result(fcntl(F(1), F_SETFL, (int)N(2)));
    else if (IS("getfd", 1))
        result(fcntl(F(1), F_GETFD));
    else if (IS("setfd", 2))
        result(fcntl(F(1), F_SETFD, (int)N(2)));
    else if (IS("lock", 5))
        lock(s, at);
    else if (IS("flock", 2))
        result(flock(F(1), (int)N(2)));
    else
        return false;
    return true;
}
