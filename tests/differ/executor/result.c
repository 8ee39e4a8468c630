/* What a step prints: results, contents, attributes, all in a form in which two runs can be
 * compared. */
#include "executor.h"
#include <stdarg.h>
#include <time.h>

_Thread_local char *deferred;

void out(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (deferred) {
        size_t used = strlen(deferred);
        vsnprintf(deferred + used, sizeof control->actors[0].deferred - used, format, arguments);
    } else {
        size_t room = sizeof control->output - control->used;
        int length = vsnprintf(control->output + control->used, room, format, arguments);
        if (length > 0 && (size_t)length < room)
            control->used += (uint32_t)length;
    }
    va_end(arguments);
}

static const char *error_name(int error)
{
    static _Thread_local char text[16];
    const char *name = strerrorname_np(error);
    if (name)
        return name;
    snprintf(text, sizeof text, "E%d", error);
    return text;
}

static bool perturbed(void)
{
    return (uint32_t)now == control->perturbed;
}

long result(long value)
{
    int error = errno;
    if (perturbed())
        out(" %ld", value + 1);
    else if (value == -1)
        out(" -%s", error_name(error));
    else
        out(" %ld", value);
    errno = error;
    return value;
}

long outcome(long value)
{
    int error = errno;
    out(value == -1 ? " -%s" : perturbed() ? " OK" : " ok", error_name(error));
    errno = error;
    return value;
}

/* Runs of equal bytes: steps write runs of one letter, so that this stays short, and shows holes
 * and torn writes. */
void out_bytes(const char *bytes, long size)
{
    uint64_t hash = 14695981039346656037u;
    for (long i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * 1099511628211u;
    int runs = 0;
    out(" [");
    for (long i = 0; i < size;) {
        long end = i;
        while (end < size && bytes[end] == bytes[i])
            end++;
        if (++runs > 24) {
            out(" ... %016lx", hash);
            break;
        }
        uint8_t byte = (uint8_t)bytes[i];
        const char *gap = i ? " " : "";
        if (byte > ' ' && byte < 127)
            out("%s%c", gap, byte);
        else
            out("%s\\%02x", gap, byte);
        if (end - i > 1)
            out("*%ld", end - i);
        i = end;
    }
    out("]");
}

void out_name(const char *name)
{
    for (size_t i = 0; name[i];) {
        size_t end = i;
        while (name[end] == name[i])
            end++;
        if (end - i > 8) {
            out("%c{%zu}", name[i], end - i);
            i = end;
        } else {
            out(name[i] > ' ' && name[i] < 127 ? "%c" : "\\%02x", (unsigned char)name[i]);
            i++;
        }
    }
}

static char type_letter(unsigned mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return '-';
    case S_IFDIR: return 'd';
    case S_IFLNK: return 'l';
    case S_IFIFO: return 'p';
    case S_IFSOCK: return 's';
    case S_IFCHR: return 'c';
    case S_IFBLK: return 'b';
    default: return '?';
    }
}

int identity_of(uint64_t device, uint64_t inode)
{
    for (uint32_t i = 0; i < control->identities; i++)
        if (control->identity[i].device == device && control->identity[i].inode == inode)
            return (int)i;
    if (control->identities == IDENTITIES)
        return -1;
    uint32_t new = control->identities++;
    control->identity[new].device = device;
    control->identity[new].inode = inode;
    return (int)new;
}

static int identity(const struct statx *stat)
{
    return identity_of((uint64_t)stat->stx_dev_major << 32 | stat->stx_dev_minor, stat->stx_ino);
}

void out_stat(const struct statx *stat)
{
    out(" %c%04o nlink=%u uid=%u gid=%u", type_letter(stat->stx_mode), stat->stx_mode & 07777u, stat->stx_nlink, stat->stx_uid, stat->stx_gid);
    out(" %ssize=%llu", S_ISDIR(stat->stx_mode) ? "d" : "", (unsigned long long)stat->stx_size);
    if (S_ISCHR(stat->stx_mode) || S_ISBLK(stat->stx_mode))
        out(" rdev=%u,%u", stat->stx_rdev_major, stat->stx_rdev_minor);
    if (control->show_identity)
        out(" id=%d", identity(stat));
}

static void out_time(const char *name, struct statx_timestamp time, int64_t *before, bool timed, int64_t latest)
{
    if (time.tv_sec < control->began - 1000 || time.tv_sec > latest + 1000)
        out(" %s=%lld.%09u", name, (long long)time.tv_sec, time.tv_nsec);
    else
        out(" %s:%s", name, !timed ? "new" : before[0] == time.tv_sec && before[1] == time.tv_nsec ? "same" : "changed");
    before[0] = time.tv_sec;
    before[1] = time.tv_nsec;
}

/* Times that somebody has set far from now are shown; others only as relations to what the same
 * file had when it was looked at last. */
void out_times(const struct statx *stat)
{
    int found = identity(stat);
    if (found < 0)
        return;
    struct timespec latest;
    clock_gettime(CLOCK_REALTIME, &latest);
    int64_t(*times)[2] = control->identity[found].times;
    bool timed = control->identity[found].timed;
    out_time("a", stat->stx_atime, times[0], timed, latest.tv_sec);
    out_time("m", stat->stx_mtime, times[1], timed, latest.tv_sec);
    out_time("c", stat->stx_ctime, times[2], timed, latest.tv_sec);
    control->identity[found].timed = true;
}

void touch(const char *path)
{
    if (!path || path == (char *)8 || control->touched == TOUCHED)
        return;
    size_t end = strlen(path);
    while (end && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start && path[start - 1] != '/')
        start--;
    if (end - start >= sizeof control->touch[0].name)
        return;
    uint32_t slot = control->touched++;
    control->touch[slot].step = (uint32_t)now;
    snprintf(control->touch[slot].name, sizeof control->touch[slot].name, "%.*s", (int)(end - start), path + start);
}

/* File times come from the coarse clock: what happens after this has another time than what
 * happened before. */
void wait_for_tick(void)
{
    struct timespec before, after, pause = { 0, 500000 };
    clock_gettime(CLOCK_REALTIME_COARSE, &before);
    do {
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &after);
    } while (before.tv_sec == after.tv_sec && before.tv_nsec == after.tv_nsec);
}
