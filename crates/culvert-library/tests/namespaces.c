/* Why no library with a libc is loaded into programs: in a link namespace of its own (dlmopen(3)) it has
 * a libc of its own, but ld.so is one for all. A thread's first use of a thread-local variable of
 * the library allocates, by the malloc of the program. A signal handler that comes within that malloc
 * and uses the mount would take its lock twice.
 *
 * argv[1]: a library that defines touch(), which uses a thread-local variable. Exit status 3: malloc
 * was entered by a thread that was in it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char heap[1 << 24];
static size_t used;
static __thread volatile int inside;
static volatile int armed;
static int (*touch)(void);
static int woken[2];

static void handler(int number)
{
    (void)number;
    touch();
}

/* The program's malloc, with what every one has: a time in which it may not be entered again. */
void *malloc(size_t size)
{
    size_t at;
    if (inside)
        _exit(3);
    inside = 1;
    at = __atomic_fetch_add(&used, (size + 31) & ~15ul, __ATOMIC_SEQ_CST);
    *(size_t *)(heap + at) = size;
    if (armed) {
        armed = 0;
        raise(SIGUSR1);
    }
    inside = 0;
    return heap + at + 16;
}

void free(void *memory)
{
    (void)memory;
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size);
}

void *realloc(void *memory, size_t size)
{
    void *new = malloc(size);
    if (memory) {
        size_t old = ((size_t *)memory)[-2];
        memcpy(new, memory, old < size ? old : size);
    }
    return new;
}

static void *thread(void *none)
{
    char byte;
    (void)none;
    if (read(woken[0], &byte, 1) != 1)
        return NULL;
    armed = 1;
    return malloc(10);
}

int main(int count, char **words)
{
    pthread_t one;
    void *library;
    if (count < 2 || pipe(woken) || pthread_create(&one, NULL, thread, NULL))
        return 2;
    library = dlmopen(LM_ID_NEWLM, words[1], RTLD_NOW);
    touch = library ? (int (*)(void))dlsym(library, "touch") : NULL;
    signal(SIGUSR1, handler);
    if (!touch || write(woken[1], "x", 1) != 1)
        return 2;
    pthread_join(one, NULL);
    return 0;
}
