// Maps the programs that it is told so that they can only be read: mapped_executed PROGRAM...
// Runs a program, and maps it meanwhile: mapped_executed -r PROGRAM
// The first line that it reads is what it waits for: mapped_executed -w
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void look(const char *path) {
    struct stat found;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &found)) err(2, "%s", path);
    char *bytes = malloc(found.st_size);
    if (pread(fd, bytes, found.st_size, 0) != found.st_size) err(2, "pread");
    static const int kinds[] = {MAP_SHARED, MAP_PRIVATE};
    for (int i = 0; i < 2; i++) {
        char *at = mmap(0, found.st_size, PROT_READ, kinds[i], fd, 0);
        if (at == MAP_FAILED) err(2, "mmap %d", kinds[i]);
        printf("%.3s %s\n", at + 1, memcmp(at, bytes, found.st_size) ? "differs" : "same");
        munmap(at, found.st_size);
    }
    free(bytes);
    close(fd);
}

// What is mapped from a program that runs follows its file when it has ended.
static void beside(char *path) {
    int to[2], from[2];
    char byte;
    if (pipe(to) || pipe(from)) err(2, "pipe");
    pid_t child = fork();
    if (!child) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        execl(path, path, "-w", (char *)0);
        err(2, "%s", path);
    }
    if (read(from[0], &byte, 1) != 1) errx(1, "it does not run");
    look(path);
    int fd = open(path, O_RDONLY);
    char *at = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) err(2, "mmap");
    printf("open for writing: %d\n", open(path, O_WRONLY) >= 0);
    write(to[1], "", 1);
    int status;
    waitpid(child, &status, 0);
    int writer = open(path, O_WRONLY);
    if (writer < 0 || pwrite(writer, "new", 3, 1) != 3) err(2, "write");
    printf("%x %.3s\n", status, at + 1);
}

int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "-w")) {
        char byte;
        write(1, "", 1);
        return read(0, &byte, 1) != 1;
    }
    if (count == 3 && !strcmp(words[1], "-r")) beside(words[2]);
    else for (int i = 1; i < count; i++) look(words[i]);
    return 0;
}
