/* The stack that the first thread's hooks run on, and what lies below it: who goes on beyond its end
 * is ended by SIGSEGV, and changes nothing. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (256 << 10)

int main(void) {
    char line[4096], rights[5], before[5] = "";
    unsigned long start, end, last = 0, base = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3) continue;
        if (!strstr(line, "/libculvert.so\n")) continue;
        /* What is written comes right behind what is only read. */
        if (!strcmp(rights, "rw-p") && before[0] == 'r' && before[1] == '-' && last == start)
            base = start;
        last = end;
        strcpy(before, rights);
    }
    if (!base) {
        puts("nothing lies below what the library writes");
        return 1;
    }
    /* Hooks have run, so something lies at its upper end. */
    int used = 0;
    for (char *at = (char *)base + STACK - 8192; at < (char *)base + STACK; at++) used |= *at;
    puts(used ? "this is the stack" : "nobody uses it as a stack");
    fflush(stdout);
    volatile uintptr_t *written = mmap(NULL, sizeof *written, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (written == MAP_FAILED) return 1;
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        for (volatile char *at = (volatile char *)base + 4096;; at--) {
            *at = *at;
            *written = (uintptr_t)at;
        }
    }
    int status;
    if (waitpid(child, &status, 0) != child) return 1;
    printf("%s, %s\n",
           WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? "ended by SIGSEGV" : "it went on",
           *written == base ? "at its end" : "elsewhere");
    return 0;
}
