// A program whose library has thread-local variables of the initial-exec model: it uses them in
// threads with small stacks, and shows what it was given. cc -DLIBRARY=BYTES makes the library.
#ifdef LIBRARY
static __thread char block[LIBRARY] __attribute__((tls_model("initial-exec")));

char *place(int at) { return &block[at]; }

#else
#include <pthread.h>
#include <stdio.h>
#include <string.h>

extern char **environ;
char *place(int at);

static void *touch(void *unused) {
    memset(place(0), 1, 1000);
    return unused;
}

int main(int count, char **arguments) {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 56 << 10);
    *place(5) = 3;
    // As large a part of each stack is taken as natively.
    if (pthread_create(&thread, &small, touch, NULL) != 0 || pthread_join(thread, NULL) != 0)
        puts("no thread with a small stack");
    printf("%d:", *place(5));
    for (int i = 0; i < count; i++)
        printf(" [%s]", arguments[i]);
    char name[64] = "";
    FILE *file = fopen("/proc/self/comm", "r");
    if (file != NULL && fgets(name, sizeof name, file) != NULL)
        printf(" comm %s", name);
    for (char **entry = environ; *entry != NULL; entry++)
        if (strstr(*entry, "TUNABLES") || strstr(*entry, "AUDIT"))
            puts(*entry);
    return 0;
}
#endif
