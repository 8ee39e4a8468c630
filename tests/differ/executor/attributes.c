/* Attributes: stat and its family, modes, owners, times, extended attributes. */
#include "executor.h"
#include "arguments.h"
#include <sys/time.h>
#include <sys/xattr.h>

static long look(int at, const char *path, int flags, unsigned mask, struct statx *stat)
{
    memset(stat, 0, sizeof *stat);
    return syscall(SYS_statx, at, path, flags, mask, stat);
}

/* struct stat in statx's form. */
static struct statx converted(const struct stat *from)
{
    struct statx to = { .stx_mode = (uint16_t)from->st_mode, .stx_nlink = (uint32_t)from->st_nlink, .stx_uid = from->st_uid };
    to.stx_gid = from->st_gid;
    to.stx_ino = from->st_ino;
    to.stx_size = (uint64_t)from->st_size;
    to.stx_dev_major = (uint32_t)(from->st_dev >> 8 & 0xfff);
    to.stx_dev_minor = (uint32_t)((from->st_dev & 0xff) | (from->st_dev >> 12 & 0xfff00));
    to.stx_rdev_major = (uint32_t)(from->st_rdev >> 8 & 0xfff);
    to.stx_rdev_minor = (uint32_t)((from->st_rdev & 0xff) | (from->st_rdev >> 12 & 0xfff00));
    return to;
}

static void show_stat(long done, const struct stat *stat)
{
    struct statx shown = converted(stat);
    if (result(done) == 0)
        out_stat(&shown);
}

static bool looking(struct step *s, int at)
{
    struct stat stat = { 0 };
    struct statx statx;
    if (IS("stat", 1)) {
        show_stat(syscall(SYS_stat, P(1), &stat), &stat);
    } else if (IS("lstat", 1)) {
        show_stat(lstat(P(1), &stat), &stat);
    } else if (IS("fstat", 1)) {
        show_stat(fstat(F(1), &stat), &stat);
    } else if (IS("fstatat", 3)) {
        show_stat(syscall(SYS_newfstatat, F(1), P(2), &stat, (int)N(3)), &stat);
    } else if (IS("statx", 4)) {
        if (result(look(F(1), P(2), (int)N(3), (unsigned)N(4), &statx)) == 0)
            out_stat(&statx);
    } else if (IS("times", 3)) {
        if (result(look(F(1), P(2), (int)N(3), STATX_BASIC_STATS, &statx)) == 0)
            out_times(&statx);
    } else if (IS("same", 4)) {
        /* Whether two names mean one file. */
        struct statx other;
        if (result(look(F(1), P(2), AT_EMPTY_PATH, STATX_BASIC_STATS, &statx)) == 0 &&
            result(look(F(3), P(4), AT_EMPTY_PATH, STATX_BASIC_STATS, &other)) == 0)
            out(statx.stx_ino == other.stx_ino && statx.stx_dev_minor == other.stx_dev_minor ? " same" : " different");
    } else if (IS("access", 2)) {
        result(access(P(1), (int)N(2)));
    } else if (IS("faccessat2", 4)) {
        result(syscall(SYS_faccessat2, F(1), P(2), (int)N(3), (int)N(4)));
    } else {
        return false;
    }
    return true;
}

static struct timespec moment(const char *word)
{
    if (!strcmp(word, "now"))
        return (struct timespec){ 0, UTIME_NOW };
    if (!strcmp(word, "omit"))
        return (struct timespec){ 0, UTIME_OMIT };
    if (!strcmp(word, "invalid"))
        return (struct timespec){ 0, 1000000000 };
    return (struct timespec){ number(word), number(word) % 1000 * 1000 };
}

static bool changing(struct step *s, int at)
{
    if (IS("chmod", 2)) {
        result(chmod(P(1), (mode_t)N(2)));
    } else if (IS("fchmod", 2)) {
        result(fchmod(F(1), (mode_t)N(2)));
    } else if (IS("fchmodat", 3)) {
        result(syscall(SYS_fchmodat, F(1), P(2), (mode_t)N(3)));
    } else if (IS("fchmodat2", 4)) {
        result(syscall(452, F(1), P(2), (mode_t)N(3), (int)N(4)));
    } else if (IS("chown", 5)) {
        result(syscall(SYS_fchownat, F(1), P(2), (uid_t)N(3), (gid_t)N(4), (int)N(5)));
    } else if (IS("fchown", 3)) {
        result(fchown(F(1), (uid_t)N(2), (gid_t)N(3)));
    } else if (IS("utimens", 5)) {
        struct timespec times[2] = { moment(W(3)), moment(W(4)) };
        result(syscall(SYS_utimensat, F(1), P(2), times, (int)N(5)));
    } else if (IS("futimens", 3)) {
        struct timespec times[2] = { moment(W(2)), moment(W(3)) };
        result(futimens(F(1), times));
    } else if (IS("utimes", 1)) {
        result(utimes(P(1), NULL));
    } else {
        return false;
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of a list, sorted: their order is the file system's own. The security module's own
 * attribute is not the program's. */
static void show_names(char *names, long size)
{
    char *found[64];
    size_t count = 0;
    for (char *at = names; at < names + size && count < 64; at += strlen(at) + 1)
        if (strcmp(at, "security.selinux"))
            found[count++] = at;
    qsort(found, count, sizeof *found, by_name);
    for (size_t i = 0; i < count; i++) {
        out(" ");
        out_name(found[i]);
    }
}

static bool extended(struct step *s, int at)
{
    if (IS("setxattr", 4)) {
        char *value = buffer(N(3), NULL);
        memset(value, 'A' + s->number % 26, (size_t)N(3));
        result(setxattr(P(1), P(2), value, (size_t)N(3), (int)N(4)));
    } else if (IS("fsetxattr", 4)) {
        char *value = buffer(N(3), NULL);
        memset(value, 'A' + s->number % 26, (size_t)N(3));
        result(fsetxattr(F(1), P(2), value, (size_t)N(3), (int)N(4)));
    } else if (IS("getxattr", 3) || IS("lgetxattr", 3) || IS("fgetxattr", 3)) {
        char *value = buffer(N(3), NULL);
        long got = W(0)[0] == 'g' ? getxattr(P(1), P(2), value, (size_t)N(3))
                 : W(0)[0] == 'l' ? lgetxattr(P(1), P(2), value, (size_t)N(3))
                                  : fgetxattr(F(1), P(2), value, (size_t)N(3));
        if (result(got) > 0 && N(3) > 0)
            out_bytes(value, got);
    } else if (IS("listxattr", 2) || IS("flistxattr", 2)) {
        char *names = buffer(N(2), NULL);
        long got = W(0)[0] == 'l' ? llistxattr(P(1), names, (size_t)N(2)) : flistxattr(F(1), names, (size_t)N(2));
        if (result(got) > 0 && N(2) > 0)
            show_names(names, got);
    } else if (IS("removexattr", 2)) {
        result(removexattr(P(1), P(2)));
    } else if (IS("fremovexattr", 2)) {
        result(fremovexattr(F(1), P(2)));
    } else {
        return false;
    }
    return true;
}

bool attribute_operation(struct step *s, int at)
{
    return looking(s, at) || changing(s, at) || extended(s, at);
}
