/* What a function of a driver's table costs, without any transport: table LIBRARY [OPTION]... prints
 * nanoseconds of each, the least of many batches, as other work on the machine only adds to it. */
#define _GNU_SOURCE
#include <culvert/driver.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { batches = 200, count = 2000 };

static const struct culvert_driver *driver;
static void *state, *file;
static char data[4096];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void check(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static void read_4k(long i)
{
    size_t done;
    check(driver->read(state, file, data, sizeof data, i % 1000 * 4096, &done), "read");
}

static void write_4k(long i)
{
    size_t done;
    check(driver->write(state, file, data, sizeof data, i % 1000 * 4096, &done), "write");
}

static void attributes(long i)
{
    (void)i;
    struct stat st;
    check(driver->getattr(state, "some-file", &st), "getattr");
}

static void absent(long i)
{
    (void)i;
    struct stat st;
    if (driver->getattr(state, "absent-file", &st) != ENOENT)
        check(EINVAL, "getattr");
}

static void opened(long i)
{
    (void)i;
    void *other;
    check(driver->open(state, "some-file", O_RDWR, 0, &other), "open");
    check(driver->close(state, other), "close");
}

static void moved(long i)
{
    const char *names[] = {"one-name", "another-name"};
    check(driver->rename(state, names[i % 2], names[(i + 1) % 2], 0), "rename");
}

static void mode(long i)
{
    (void)i;
    check(driver->chmod(state, "some-file", 0644), "chmod");
}

static void *measure(void *argument)
{
    static const struct {
        const char *name;
        void (*one)(long);
    } each[] = {{"read-4k", read_4k}, {"write-4k", write_4k}, {"getattr", attributes},
                {"getattr-absent", absent}, {"open-close", opened}, {"rename", moved},
                {"chmod", mode}};
    (void)argument;
    check(driver->open(state, "one-name", O_RDWR | O_CREAT, 0644, &file), "open");
    check(driver->close(state, file), "close");
    check(driver->open(state, "some-file", O_RDWR | O_CREAT, 0644, &file), "open");
    check(driver->ftruncate(state, file, 1000 * 4096), "ftruncate");
    for (size_t w = 0; w < sizeof each / sizeof *each; w++) {
        double least = 1e18, warm = now() + 1e9;
        long i = 0;
        while (now() < warm || i % 2)
            each[w].one(i++);
        for (int b = 0; b < batches; b++) {
            double start = now();
            for (int c = 0; c < count; c++)
                each[w].one(i++);
            double taken = (now() - start) / count;
            least = taken < least ? taken : least;
        }
        printf("%s %.1f\n", each[w].name, least);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static char why[512];
    const struct culvert_mount mount = {.source = "none", .target = "/mnt",
                                        .options = (const char *const *)argv + 2,
                                        .option_count = argc - 2, .reason = why,
                                        .reason_size = sizeof why};
    pthread_t thread;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (!library) {
        fprintf(stderr, "table LIBRARY [OPTION]...: %s\n", dlerror());
        return 2;
    }
    const struct culvert_driver *(*make)(const struct culvert_mount *) =
        dlsym(library, "culvert_driver_for");
    driver = make ? make(&mount) : dlsym(library, "culvert_driver");
    if (!driver || (driver->init && driver->init(&mount, &state))) {
        fprintf(stderr, "no driver: %s\n", why);
        return 1;
    }
    /* As a host's threads: not the one that has started Java. */
    pthread_create(&thread, NULL, measure, NULL);
    pthread_join(thread, NULL);
    fflush(stdout);
    _exit(0);
}
