// Starts its own file again by posix_spawn and by execve of /proc/self/exe; with a first argument
// `again` it only says so. `start_again by FILE NAME` executes NAME below the opened FILE by
// execveat, or FILE itself where NAME is empty.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **arguments) {
    char *again[] = {"x", "again", NULL};
    if (count > 1 && strcmp(arguments[1], "again") == 0) {
        puts("again");
        return 5;
    }
    if (count > 3 && strcmp(arguments[1], "by") == 0) {
        char *other[] = {"other", "X", NULL};
        char *variables[] = {"K=1", NULL};
        int file = open(arguments[2], O_PATH);
        syscall(SYS_execveat, file, arguments[3], other, variables, *arguments[3] ? 0 : AT_EMPTY_PATH);
        printf("execveat: %s\n", strerror(errno));
        return 1;
    }
    pid_t child;
    int status = 0;
    int error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, again, environ);
    if (error == 0)
        waitpid(child, &status, 0);
    printf("spawned: %s, %d\n", strerror(error), WEXITSTATUS(status));
    fflush(stdout);
    execv("/proc/self/exe", again);
    perror("execv");
    return 1;
}
