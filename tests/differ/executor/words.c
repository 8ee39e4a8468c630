/* The words of a step: numbers and constants, descriptors, paths, buffers. */
#include "executor.h"
#include "constants.h"
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/xattr.h>

#define X(name) { #name, (long)name },
static const struct {
    const char *name;
    long value;
} constants[] = { CONSTANTS(X) };
#undef X

static long constant(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strlen(constants[i].name) == length && !memcmp(constants[i].name, word, length))
            return constants[i].value;
    char copy[64] = "", *end;
    if (length >= sizeof copy)
        length = sizeof copy - 1;
    memcpy(copy, word, length);
    errno = 0;
    long value = strtoll(copy, &end, 0);
    if (errno == ERANGE)
        value = (long)strtoull(copy, &end, 0);
    if (*end) {
        fprintf(stderr, "executor: no number: %s\n", copy);
        _exit(3);
    }
    return value;
}

long number(const char *word)
{
    long value = 0;
    for (;;) {
        size_t length = strcspn(word, "|");
        value |= constant(word, length);
        if (!word[length])
            return value;
        word += length + 1;
    }
}

int descriptor(const char *word)
{
    if (!strcmp(word, "cwd"))
        return AT_FDCWD;
    if (word[0] == '#')
        return (int)number(word + 1);
    if (word[0] >= 'a' && word[0] <= 'z' && !word[1])
        return slots[word[0] - 'a'];
    return -1;
}

void new_descriptor(const char *word, long fd)
{
    if (fd < 0)
        result(-1);
    else
        out(" fd=%ld", fd);
    if (fd >= 0 && word[0] >= 'a' && word[0] <= 'z' && !word[1])
        slots[word[0] - 'a'] = (int)fd;
}

/* {m} {o} {fd:a} {x:255} (the text before the colon, that many times); everything else is itself.
 * */
char *path(const char *word)
{
    if (!strcmp(word, "{null}"))
        return NULL;
    if (!strcmp(word, "{bad}"))
        return (char *)8;
    char *whole = NULL;
    size_t size;
    FILE *stream = open_memstream(&whole, &size);
    for (const char *at = word; *at; at++) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if (!end) {
            fputc(*at, stream);
            continue;
        }
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if (!strncmp(at, "{m}", 3)) {
            fputs(mount_path, stream);
        } else if (!strncmp(at, "{o}", 3)) {
            fputs(outside_path, stream);
        } else if (!strncmp(at, "{fd:", 4)) {
            char name[2] = { at[4], 0 };
            fprintf(stream, "%d", descriptor(name));
        } else if (colon) {
            for (long times = strtol(colon + 1, NULL, 10); times > 0; times--)
                fwrite(at + 1, 1, (size_t)(colon - at - 1), stream);
        }
        at = end;
    }
    fclose(stream);
    return whole;
}

char *buffer(long size, const char *kind)
{
    if (kind && !strcmp(kind, "bad"))
        return (char *)8;
    /* A real size only where the call may use it: absurd lengths get a small buffer, the kernel
     * answers before or at its end. */
    long page = 4096, usable = kind && !strncmp(kind, "edge:", 5) ? number(kind + 5) : size;
    if (usable < 0 || usable > (64 << 20))
        usable = page;
    long pages = (usable + page - 1) / page + 1;
    char *area = mmap(NULL, (size_t)((pages + 1) * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        _exit(3);
    mprotect(area + pages * page, (size_t)page, PROT_NONE);
    return area + pages * page - usable;
}

const char *word_or(struct step *s, int index, const char *otherwise)
{
    return index < s->words ? s->word[index] : otherwise;
}
