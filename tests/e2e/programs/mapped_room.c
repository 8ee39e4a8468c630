// Files that are larger than the memory for them.
// usage: mapped_room make FILE MEGABYTES | scan FILE [PASSES] | store FILE | each FILE... | both FILE FILE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L

static uint64_t word(uint64_t at) { return (at + 1) * 0x9e3779b97f4a7c15u; }

static char *map(const char *path, int protection, long *size) {
    int fd = open(path, protection & PROT_WRITE ? O_RDWR : O_RDONLY);
    struct stat found;
    if (fd < 0 || fstat(fd, &found)) { perror(path); exit(1); }
    *size = found.st_size;
    char *at = mmap(NULL, *size, protection, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) printf("mmap: %s\n", strerrorname_np(errno));
    return at == MAP_FAILED ? NULL : at;
}

static long wrong(const char *at, long size, int backwards) {
    long count = 0;
    for (long i = 0; i < size; i += PAGE) {
        long page = backwards ? size - PAGE - i : i;
        if (*(uint64_t *)(at + page) != word(page) || *(uint64_t *)(at + page + PAGE - 8) != word(page + PAGE - 8)) count++;
    }
    return count;
}

// Megabytes that are in use where run directories are.
static long used(void) {
    struct statvfs found;
    return statvfs("/dev/shm", &found) ? -1 : (long)(found.f_blocks - found.f_bfree) * (long)found.f_frsize >> 20;
}

static sigjmp_buf fault;
static void on_fault(int number) { siglongjmp(fault, number); }

int main(int count, char **words) {
    long size;
    if (count >= 4 && !strcmp(words[1], "make")) {
        int fd = open(words[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
        uint64_t bytes[PAGE / 8];
        for (long at = 0; at < atol(words[3]) << 20; at += PAGE) {
            for (long i = 0; i < PAGE / 8; i++) bytes[i] = word(at + i * 8);
            if (write(fd, bytes, PAGE) != PAGE) { perror("write"); return 1; }
        }
        return 0;
    }
    if (count >= 3 && !strcmp(words[1], "scan")) {
        char *at = map(words[2], PROT_READ, &size);
        if (!at) return 0;
        for (int pass = 0; pass < (count > 3 ? atoi(words[3]) : 2); pass++) {
            printf("%ld wrong\n", wrong(at, size, pass % 2));
            fprintf(stderr, "used %ld\n", used());
        }
        fflush(stdout);
        // Two at once, in two directions.
        pid_t pid = fork();
        long found = wrong(at, size, pid == 0);
        if (!pid) _exit(found != 0);
        int status;
        waitpid(pid, &status, 0);
        printf("%ld wrong, child %x\n", found, status);
        return 0;
    }
    if (count == 3 && !strcmp(words[1], "store")) {
        char *at = map(words[2], PROT_READ | PROT_WRITE, &size);
        signal(SIGBUS, on_fault);
        int number = sigsetjmp(fault, 1);
        if (!number) for (long page = 0; page < size; page += PAGE) at[page + 8] = 1;
        printf("%s\n", number == SIGBUS ? "BUS" : "all stored");
        return 0;
    }
    if (!strcmp(words[1], "each")) {
        for (int i = 2; i < count; i++) {
            char *at = map(words[i], PROT_READ, &size);
            if (!at) continue;
            printf("%ld wrong\n", wrong(at, size, 0));
            munmap(at, size);
        }
        return 0;
    }
    if (count == 4 && !strcmp(words[1], "both")) {
        char *at = map(words[2], PROT_READ, &size);
        map(words[3], PROT_READ, &size);
        printf("%ld wrong\n", wrong(at, size, 0));
        return 0;
    }
    return 2;
}
