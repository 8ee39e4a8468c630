/* A file of PLFS's, by its own library: plfs read PATH | write PATH OFFSET TEXT | trunc PATH SIZE.
 * PLFSRC names the configuration. "read" prints the size that PLFS says, a newline, the content. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <plfs.h>

static void ok(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "%s: PLFS error %d\n", what, error);
		exit(1);
	}
}

int main(int count, char **words)
{
	Plfs_fd *fd = NULL;
	pid_t pid = getpid();
	int references;
	if (count == 3 && !strcmp(words[1], "read")) {
		struct stat found;
		char bytes[4096];
		ssize_t read = 0;
		memset(&found, 0, sizeof found);
		ok(plfs_getattr(NULL, words[2], &found, 0), "getattr");
		printf("%lld\n", (long long)found.st_size);
		ok(plfs_open(&fd, words[2], O_RDONLY, pid, 0644, NULL), "open");
		for (off_t at = 0;; at += read) {
			ok(plfs_read(fd, bytes, sizeof bytes, at, &read), "read");
			if (read <= 0)
				break;
			fwrite(bytes, 1, read, stdout);
		}
		ok(plfs_close(fd, pid, getuid(), O_RDONLY, NULL, &references), "close");
		return 0;
	}
	if (count == 5 && !strcmp(words[1], "write")) {
		ssize_t written = 0;
		struct stat found;
		/* PLFS empties what it is to create. */
		int create = plfs_getattr(NULL, words[2], &found, 0) ? O_CREAT : 0;
		ok(plfs_open(&fd, words[2], O_WRONLY | create, pid, 0644, NULL), "open");
		ok(plfs_write(fd, words[4], strlen(words[4]), atoll(words[3]), pid, &written), "write");
		ok(plfs_close(fd, pid, getuid(), O_WRONLY, NULL, &references), "close");
		return written != (ssize_t)strlen(words[4]);
	}
	if (count == 4 && !strcmp(words[1], "trunc")) {
		ok(plfs_trunc(NULL, words[2], atoll(words[3]), 0), "trunc");
		return 0;
	}
	return 2;
}
