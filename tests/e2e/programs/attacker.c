// What a hostile program finds that a run of root's has started as another user: in each descriptor
// that it inherited, by each way to open it anew, in shared memory and in the processes of the run.
// It says what it could read with the word in it, and what it could open for writing.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *word;
static int found;

static void look(const char *how, const char *path, int fd) {
    static char buffer[1 << 20];
    for (off_t at = 0;; at += sizeof buffer / 2) {
        ssize_t count = pread(fd, buffer, sizeof buffer, at);
        if (count <= 0) break;
        if (memmem(buffer, count, word, strlen(word))) {
            printf("%s of %s has the word\n", how, path);
            found++;
            return;
        }
    }
    struct stat is;
    if (fstat(fd, &is) == 0 && is.st_size > 0 && S_ISREG(is.st_mode)) {
        char *mapped = mmap(NULL, is.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED) {
            if (memmem(mapped, is.st_size, word, strlen(word))) {
                printf("mapping %s of %s has the word\n", how, path);
                found++;
            }
            munmap(mapped, is.st_size);
        }
    }
}

static int is_inherited_output(int fd) { return fd <= 2; }

// What lies below a directory, by its descriptor.
static void below(const char *path, int fd, int depth) {
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY);
    if (own < 0) return;
    printf("%s can be listed\n", path);
    found++;
    DIR *listing = fdopendir(own);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        char inner[5000];
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        int file = openat(fd, entry->d_name, O_RDONLY | O_NONBLOCK);
        if (file < 0) continue;
        look("opening", inner, file);
        if (depth < 4) below(inner, file, depth + 1);
        close(file);
    }
    if (listing) closedir(listing);
}

static void descriptors(const char *directory) {
    DIR *listing = opendir(directory);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_name[0] == '.') continue;
        char path[400], target[4096] = "";
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (readlink(path, target, sizeof target - 1) < 0) continue;
        int fd = atoi(entry->d_name);
        int mine = !strcmp(directory, "/proc/self/fd");
        if (mine && (is_inherited_output(fd) || fd == dirfd(listing))) continue;
        struct stat is;
        if (mine) {
            look("inherited", target, fd);
            if (fstat(fd, &is) == 0 && S_ISDIR(is.st_mode)) below(target, fd, 0);
            int flags = fcntl(fd, F_GETFL);
            int stored = fstat(fd, &is) == 0 && (S_ISREG(is.st_mode) || S_ISDIR(is.st_mode));
            if (stored && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH)) {
                printf("%s is open for writing\n", target);
                found++;
            }
        }
        int again = open(path, O_RDWR | O_NONBLOCK);
        if (again >= 0 && fstat(again, &is) == 0 && S_ISREG(is.st_mode)) {
            printf("%s can be opened for writing\n", target);
            found++;
            close(again);
        }
        again = open(path, O_RDONLY | O_NONBLOCK);
        if (again >= 0) {
            look("reopening", target, again);
            close(again);
        }
    }
    closedir(listing);
}

// The memory of another process.
static void memory(const char *pid) {
    char path[300];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%s", pid);
    // Its own user's are no prey.
    if (stat(path, &is) || is.st_uid == geteuid()) return;
    snprintf(path, sizeof path, "/proc/%s/mem", pid);
    int fd = open(path, O_RDONLY);
    if (fd >= 0) {
        printf("%s can be opened\n", path);
        found++;
        close(fd);
    }
    snprintf(path, sizeof path, "/proc/%s/map_files", pid);
    descriptors(path);
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    descriptors(path);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    // The word is given by halves: this program's own memory does not count.
    char *whole;
    if (asprintf(&whole, "%s%s", arguments[1], arguments[2]) < 0) return 2;
    word = whole;
    descriptors("/proc/self/fd");
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && atoi(entry->d_name) != getpid()) memory(entry->d_name);
    if (processes) closedir(processes);
    static const char *bases[] = {"/dev/shm", "/tmp/culvert-0"};
    for (int i = 0; i < 2; i++) {
        DIR *base = opendir(bases[i]);
        for (struct dirent *entry; base && (entry = readdir(base));) {
            if (strncmp(entry->d_name, "culvert-0", 9)) continue;
            char path[400];
            snprintf(path, sizeof path, "%s/%s", bases[i], entry->d_name);
            int fd = open(path, O_RDONLY | O_NONBLOCK);
            if (fd >= 0) printf("%s can be opened\n", path), found++;
            fd = open(path, O_PATH);
            if (fd >= 0 && fchdir(fd) == 0) printf("%s can be entered\n", path), found++;
        }
        if (base) closedir(base);
    }
    for (int i = 3; i < count; i++) {
        int fd = open(arguments[i], O_RDONLY);
        if (fd >= 0) {
            printf("%s can be opened\n", arguments[i]);
            found++;
        }
    }
    printf("user %u found %d\n", geteuid(), found);
    return found != 0;
}
