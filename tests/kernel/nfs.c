/* Writers of one file on several nodes, and what must be there afterwards.
 *
 *     nfs append FILE LETTER COUNT    records of the letter, 1 to 5,000 bytes, numbered
 *     nfs strided FILE FIRST STEP COUNT   1,000 bytes each, of letter A + FIRST, then fsync
 *     nfs count FILE COUNT            adds one to the number in FILE under a record lock
 *     nfs check FILE COUNT LETTERS    those records are there, in each writer's order, nothing else */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int size_of(char letter, int step) { return 20 + (letter * 31 + step * 977) % 5000; }

static void append(int fd, char letter, int count)
{
	static char record[6000];
	for (int step = 0; step < count; step++) {
		int size = size_of(letter, step), head = sprintf(record, "<%c %6d ", letter, step);
		memset(record + head, letter, size - head - 1);
		record[size - 1] = '>';
		if (write(fd, record, size) != size)
			err(1, "append");
	}
}

static void strided(int fd, int first, int step, int count)
{
	char block[1000];
	memset(block, 'A' + first, sizeof block);
	for (int at = 0; at < count; at++)
		if (pwrite(fd, block, sizeof block, ((off_t)at * step + first) * 1000) != sizeof block)
			err(1, "pwrite");
	if (fsync(fd))
		err(1, "fsync");
}

static void counts(int fd, int count)
{
	for (int at = 0; at < count; at++) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 8};
		char text[16] = "0";
		/* F_SETLKW asks again after 30 seconds, as without Culvert. */
		while (fcntl(fd, F_SETLK, &lock))
			if ((errno != EAGAIN && errno != EACCES) || usleep(5000))
				err(1, "lock");
		if (pread(fd, text, 8, 0) < 0)
			err(1, "pread");
		int number = atoi(text) + 1;
		sprintf(text, "%08d", number);
		if (pwrite(fd, text, 8, 0) != 8)
			err(1, "pwrite");
		lock.l_type = F_UNLCK;
		if (fcntl(fd, F_SETLK, &lock))
			err(1, "unlock");
	}
}

static void check(int fd, int count, const char *letters)
{
	int next[256] = {0};
	off_t size = lseek(fd, 0, SEEK_END), at = 0;
	char *bytes = malloc(size + 1);
	if (pread(fd, bytes, size, 0) != size)
		err(1, "pread of %ld", (long)size);
	while (at < size) {
		char letter;
		int step;
		/* A position that was given out and not written to, by a writer that was killed. */
		if (!bytes[at] && ++at)
			continue;
		bytes[size] = 0;
		if (sscanf(bytes + at, "<%c %6d ", &letter, &step) != 2 || step != next[(int)letter])
			errx(1, "at %ld: %.20s, not %d", (long)at, bytes + at, next[(int)letter]);
		int length = size_of(letter, step);
		for (int in = 10; in < length - 1; in++)
			if (bytes[at + in] != letter)
				errx(1, "at %ld: %d", (long)at + in, bytes[at + in]);
		at += length;
		next[(int)letter]++;
	}
	for (; *letters; letters++)
		if (next[(int)*letters] != count)
			errx(1, "%c: %d records of %d", *letters, next[(int)*letters], count);
	printf("%ld bytes\n", (long)size);
}

int main(int argc, char **argv)
{
	int flags = O_RDWR | O_CREAT | (strcmp(argv[1], "append") ? 0 : O_APPEND);
	int fd = argc > 3 ? open(argv[2], flags, 0666) : -1;
	if (fd < 0)
		err(1, "open");
	switch (argv[1][1]) {
	case 'p': append(fd, argv[3][0], atoi(argv[4])); break;
	case 't': strided(fd, atoi(argv[3]), atoi(argv[4]), atoi(argv[5])); break;
	case 'o': counts(fd, atoi(argv[3])); break;
	case 'h': check(fd, atoi(argv[3]), argv[4]); break;
	}
	return close(fd) ? 1 : 0;
}
