/* Mappings that live from step to step: each has a name, `m0` to `m7`, and a part of the address
 * space of its own, far from where the kernel puts anything, so that what is not mapped stays so.
 * Faults are results. */
#include "executor.h"
#include "arguments.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { PLACES = 8 };

/* Room for the longest mapping of a program, many times. */
static const unsigned long first_place = 1ul << 44, place_size = 1ul << 28;

/* Whether something was mapped there by its name: forgotten by exec, as the mappings are. */
static bool used[PLACES];

/* Which file is mapped in each page, and from where, where stores must stay within its length
 * (`storewithin`); 0: none, or a private copy. */
enum { PAGE = 4096, PAGES = 1100 };
static struct {
    uint64_t inode;
    long offset;
} pages[PLACES][PAGES];

static _Thread_local sigjmp_buf guarded;
static _Thread_local volatile sig_atomic_t guarding;

static void fault(int signal)
{
    if (guarding)
        siglongjmp(guarded, signal);
    /* The executor's own: it dies of the same access again. */
    struct sigaction action = { .sa_handler = SIG_DFL };
    sigaction(signal, &action, NULL);
}

void handle_faults(void)
{
    struct sigaction action = { .sa_handler = fault };
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

static int place_number(const char *word)
{
    return word[0] == 'm' && word[1] >= '0' && word[1] < '0' + PLACES && !word[2] ? word[1] - '0' : -1;
}

static char *place(const char *word)
{
    int number_of_place = place_number(word);
    if (number_of_place < 0) {
        fprintf(stderr, "executor: no mapping: %s\n", word);
        _exit(3);
    }
    return (char *)(first_place + (unsigned long)number_of_place * place_size);
}

static const char *name_of(int signal)
{
    return signal == SIGBUS ? " SIGBUS" : " SIGSEGV";
}

/* Copies byte by byte until the end or the first fault; how many bytes, and which signal (0: none).
 * */
static long copy(volatile char *to, const volatile char *from, long size, int *signal)
{
    volatile long done = 0;
    *signal = sigsetjmp(guarded, 1);
    if (*signal == 0) {
        guarding = 1;
        for (; done < size; done++)
            to[done] = from[done];
    }
    guarding = 0;
    return done;
}

static void load(const char *at, long size)
{
    int signal;
    char *bytes = buffer(size, NULL);
    long got = result(copy(bytes, at, size, &signal));
    if (got > 0)
        out_bytes(bytes, got);
    if (signal)
        out("%s", name_of(signal));
}

/* The length of the file with that inode, which is open by one of the program's descriptors; -1: it
 * is not. */
static long length_of(uint64_t inode)
{
    for (int i = 0; i < SLOTS; i++) {
        struct stat found;
        if (slots[i] >= 0 && fstat(slots[i], &found) == 0 && S_ISREG(found.st_mode) && found.st_ino == inode)
            return found.st_size;
    }
    return -1;
}

/* How many of the bytes lie before the end of their file, as far as that ends within a page: what
 * is stored behind it, in its last page, may be gone when it is looked at again (mmap(2)). What
 * lies in pages behind the end, where stores fault, counts. */
static long within(int which, long at, long size)
{
    for (long done = 0; done < size; done += PAGE - ((at + done) & (PAGE - 1))) {
        long page = (at + done) / PAGE;
        if (page < 0 || page >= PAGES || !pages[which][page].inode)
            continue;
        long length = length_of(pages[which][page].inode), from = pages[which][page].offset;
        if (length < 0)
            return done;
        if (length > from && length < from + PAGE) {
            long end = page * PAGE + (length - from);
            return end < at ? 0 : end < at + size ? end - at : size;
        }
    }
    return size;
}

static void note_pages(int which, long length, uint64_t inode, long offset)
{
    for (long page = 0; which >= 0 && page < PAGES && page * PAGE < length; page++) {
        pages[which][page].inode = inode;
        pages[which][page].offset = offset + page * PAGE;
    }
}

static void store(char *at, long size, int step)
{
    int signal;
    char *bytes = buffer(size, NULL);
    memset(bytes, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[step % 52], (size_t)size);
    result(copy(at, bytes, size, &signal));
    if (signal)
        out("%s", name_of(signal));
}

/* Whether a call may use all of these bytes: how much is done of one that meets a fault in between
 * is the file system's own affair. */
static bool accessible(char *at, long size, bool to_store)
{
    int signal;
    char byte;
    for (long done = 0; done < size; done += 4096 - ((long)(at + done) & 4095))
        if (copy(&byte, at + done, 1, &signal) != 1 || (to_store && copy(at + done, &byte, 1, &signal) != 1)) {
            out("%s", name_of(signal));
            return false;
        }
    return true;
}

/* Whether some of the bytes are those that `fd` is to be written from `offset` on: which of them
 * are copied first is the processor's own affair. */
static bool overlap(int which, long at, long size, int fd, long offset)
{
    struct stat found;
    if (fstat(fd, &found) != 0)
        return false;
    for (long done = 0; done < size; done += PAGE - ((at + done) & (PAGE - 1))) {
        long page = (at + done) / PAGE, from = page < PAGES ? pages[which][page].offset : 0;
        if (page < PAGES && pages[which][page].inode == found.st_ino && from < offset + size && offset < from + PAGE) {
            out(" overlaps");
            return true;
        }
    }
    return false;
}

static void map(struct step *s, int at)
{
    int which = place_number(W(1));
    char *want = place(W(1));
    /* Over what is there, else where there is nothing. */
    int fixed = which >= 0 && used[which] ? MAP_FIXED : 0;
    char *area = mmap(want, (size_t)N(6), (int)N(3), (int)N(4) | fixed, F(2), N(5));
    outcome(area == MAP_FAILED ? -1 : 0);
    struct stat found;
    if (area == want) {
        used[which] = true;
        bool shared = (N(4) & MAP_TYPE) != MAP_PRIVATE && fstat(F(2), &found) == 0;
        note_pages(which, N(6), shared ? found.st_ino : 0, N(5));
    } else if (area != MAP_FAILED)
        out(" elsewhere");
}

/* In its place, or at the start of another one's. */
static void remap(struct step *s, int at)
{
    char *from = place(W(1)) + N(2);
    int flags = (int)N(5);
    char *to = flags & MREMAP_FIXED ? place(W(6)) : from;
    char *area = mremap(from, (size_t)N(3), (size_t)N(4), flags, to);
    outcome(area == MAP_FAILED ? -1 : 0);
    if (area == MAP_FAILED)
        return;
    int which = place_number(W(1)), target = which;
    if (flags & MREMAP_FIXED) {
        target = place_number(W(6));
        used[target] = true;
    }
    /* Longer than before, or in another place: its pages follow those that were there. */
    long first = N(2) / PAGE;
    if (first >= 0 && first < PAGES)
        note_pages(target, target == which ? N(2) + N(4) : N(4), pages[which][first].inode,
                   pages[which][first].offset - (target == which ? first * PAGE : 0));
    if (area != to) {
        /* Where it is now depends on the process: nothing more is done with it. */
        out(" moved");
        munmap(area, (size_t)N(4));
    }
}

bool mapping_operation(struct step *s, int at)
{
    if (IS("map", 6)) {
        map(s, at);
    } else if (IS("load", 3)) {
        load(place(W(1)) + N(2), N(3));
    } else if (IS("store", 3)) {
        store(place(W(1)) + N(2), N(3), s->number);
    } else if (IS("storewithin", 3)) {
        store(place(W(1)) + N(2), within(place_number(W(1)), N(2), N(3)), s->number);
    } else if (IS("unmap", 3)) {
        result(munmap(place(W(1)) + N(2), (size_t)N(3)));
    } else if (IS("remap", 5) && (!(N(5) & MREMAP_FIXED) || IS("remap", 6))) {
        remap(s, at);
    } else if (IS("protect", 4)) {
        result(mprotect(place(W(1)) + N(2), (size_t)N(3), (int)N(4)));
    } else if (IS("advise", 4)) {
        result(madvise(place(W(1)) + N(2), (size_t)N(3), (int)N(4)));
    } else if (IS("msync", 4)) {
        result(msync(place(W(1)) + N(2), (size_t)N(3), (int)N(4)));
    } else if (IS("writefrom", 5)) {
        /* The mapping as a call's buffer, for a file that may be the mapped one. */
        char *bytes = place(W(1)) + N(2);
        if (!overlap(place_number(W(1)), N(2), N(3), F(4), N(5)) && accessible(bytes, N(3), false))
            result(pwrite(F(4), bytes, (size_t)N(3), N(5)));
    } else if (IS("readinto", 5) || IS("readwithin", 5)) {
        char *bytes = place(W(1)) + N(2);
        long size = IS("readinto", 5) ? N(3) : within(place_number(W(1)), N(2), N(3));
        if (accessible(bytes, size, true))
            result(pread(F(4), bytes, (size_t)size, N(5)));
    } else {
        return false;
    }
    return true;
}
