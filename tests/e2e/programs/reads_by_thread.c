/* Reads a file by a thread, for sanitizers. */
#include <pthread.h>
#include <stdio.h>

static void *reads(void *path) {
    char line[100];
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file)) fputs(line, stdout);
    return NULL;
}

int main(int count, char **words) {
    pthread_t thread;
    if (count < 2 || pthread_create(&thread, NULL, reads, words[1]) != 0) return 1;
    return pthread_join(thread, NULL);
}
