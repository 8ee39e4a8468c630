/* N threads that read files, start programs and load libraries all at once. Usage: threads N, with
 * the tree `odd` as the working directory. */
#include "probe.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>

static int errors, forked, loaded, read_right;
static pthread_barrier_t ready;

static void failed(const char *what)
{
    printf("%s: %s\n", what, error_name(errno));
    __atomic_add_fetch(&errors, 1, __ATOMIC_RELAXED);
}

static void *body(void *argument)
{
    long number = (long)argument;
    char bytes[64], path[64];
    static const char *const libraries[] = { "libm.so.6", "libdl.so.2", "librt.so.1", "libutil.so.1", "libresolv.so.2", "libanl.so.1", "libBrokenLocale.so.1", "libthread_db.so.1" };
    pthread_barrier_wait(&ready);
    for (int round = 0; round < 3; round++) {
        int n = snprintf(path, sizeof path, "many/f%04ld", (number * 7 + round) % 1500), fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            failed(path);
            continue;
        }
        n = read(fd, bytes, sizeof bytes - 1);
        bytes[n > 0 ? n : 0] = 0;
        if (atol(bytes) == (number * 7 + round) % 1500)
            __atomic_add_fetch(&read_right, 1, __ATOMIC_RELAXED);
        close(fd);
        if (number % 5 == 0) {
            void *library = dlopen(libraries[(number / 5 + round) % 8], RTLD_NOW);
            if (library) {
                __atomic_add_fetch(&loaded, 1, __ATOMIC_RELAXED);
                dlclose(library);
            } else {
                failed(dlerror());
            }
        }
        if (number % 11 == 0) {
            pid_t pid = fork();
            if (pid == 0) {
                struct stat st;
                int inner = open("hello.txt", O_RDONLY);
                _exit(stat("dir/a.txt", &st) == 0 && read(inner, bytes, 20) == 13 ? 0 : 1);
            }
            int status = 1;
            if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
                failed("child");
            __atomic_add_fetch(&forked, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int n = atoi(argv[1]);
    pthread_t *threads = calloc(n, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_barrier_init(&ready, NULL, n);
    for (long i = 0; i < n; i++)
        if ((errno = pthread_create(&threads[i], &attributes, body, (void *)i)) != 0)
            die("pthread_create");
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("read right %d forked %d loaded %d errors %d\n", read_right, forked, loaded, errors);
    return 0;
}
