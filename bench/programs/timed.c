/*
 * What bench/extensions-timed times, the same each time; what is next is drawn by a fixed seed.
 *
 *     timed io FILE rr|sr|rw|sw SIZE THREADS OPERATIONS
 *         filebench's random and sequential reads and writes of one file, OPERATIONS by all threads
 *         together, each with the file open once; a sequential one goes round at the end
 *     timed stat FILE CALLS [forced]
 *         as many statx(2); forced: with AT_STATX_FORCE_SYNC, which asks the file system each time
 *     timed archive FILE MEMBERS
 *         as a game starts from an archive: the list at its end, then as many members of 4 to 60
 *         KiB in no order
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file, *kind;
static long size, operations;
static off_t whole;
static int threads;

static void failed(const char *what)
{
	fprintf(stderr, "%s %s: %s\n", what, file, strerror(errno));
	exit(1);
}

static unsigned int drawn(unsigned int *seed, unsigned int below)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 8) % below;
}

static int opened(int flags)
{
	int fd = open(file, flags);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		failed("open");
	whole = st.st_size;
	return fd;
}

static void *io(void *number)
{
	unsigned int seed = (long)number + 1;
	char *buffer = malloc(size);
	int writes = kind[1] == 'w', fd = opened(writes ? O_WRONLY : O_RDONLY);
	long blocks = whole / size, at = (long)number * blocks / threads, i;

	memset(buffer, 'x', size);
	for (i = 0; i < operations / threads; i++, at++) {
		off_t place = (kind[0] == 'r' ? drawn(&seed, blocks) : at % blocks) * size;

		if ((writes ? pwrite(fd, buffer, size, place) : pread(fd, buffer, size, place)) != size)
			failed("io");
	}
	close(fd);
	return NULL;
}

static void many(void)
{
	pthread_t of[64];
	long i;

	for (i = 0; i < threads; i++) {
		if (pthread_create(&of[i], NULL, io, (void *)i))
			failed("thread");
	}
	for (i = 0; i < threads; i++)
		pthread_join(of[i], NULL);
}

static void asked(long calls, int flags)
{
	struct statx st;

	while (calls--) {
		if (statx(AT_FDCWD, file, flags, STATX_BASIC_STATS, &st))
			failed("statx");
	}
}

static void archive(int members)
{
	static char buffer[1 << 16];
	unsigned int seed = 1;
	struct stat st;
	int fd, i;

	if (stat(file, &st))
		failed("stat");
	fd = opened(O_RDONLY);
	/* The list: some 64 bytes a member. */
	for (i = 0; i < members * 64; i += 4096) {
		if (pread(fd, buffer, 4096, whole - members * 64 + i) < 0)
			failed("list");
	}
	for (i = 0; i < members; i++) {
		off_t place = drawn(&seed, (whole - (1 << 17)) / 4096) * 4096L;
		int length = 4096 + drawn(&seed, 57344);

		/* The member's own head, then what is in it. */
		if (pread(fd, buffer, 30, place) != 30 ||
		    pread(fd, buffer, length, place + 30) != length)
			failed("member");
	}
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	file = argv[2];
	if (!strcmp(argv[1], "io") && argc == 7) {
		kind = argv[3];
		size = atol(argv[4]);
		threads = atoi(argv[5]);
		operations = atol(argv[6]);
		many();
	} else if (!strcmp(argv[1], "stat")) {
		asked(atol(argv[3]), argc > 4 ? AT_STATX_FORCE_SYNC : 0);
	} else if (!strcmp(argv[1], "archive")) {
		archive(atoi(argv[3]));
	} else {
		return 2;
	}
	return 0;
}
