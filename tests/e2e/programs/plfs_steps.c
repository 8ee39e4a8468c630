/* Appends COUNT records of a name of its own to PATH; tells of each one on its output when it is
 * answered: plfs_steps PATH NAME COUNT [at]. With "at" records are written by pwrite(2), one behind
 * the other, to a file of its own. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
	char record[3000];
	int beside = count > 4;
	int fd = open(words[1], O_WRONLY | O_CREAT | (beside ? 0 : O_APPEND), 0644);
	if (fd < 0)
		return 1;
	for (int step = 0; step < atoi(words[3]); step++) {
		memset(record, 'x', sizeof record);
		int head = snprintf(record, sizeof record, "<%s %d ", words[2], step);
		record[head] = 'x';
		record[sizeof record - 1] = '>';
		ssize_t done = beside ? pwrite(fd, record, sizeof record, (off_t)step * sizeof record)
				      : write(fd, record, sizeof record);
		if (done != sizeof record)
			return 1;
		int length = snprintf(record, sizeof record, "%d\n", step);
		if (write(1, record, length) != length)
			return 1;
	}
	return fsync(fd) || close(fd);
}
