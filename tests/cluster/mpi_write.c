/* Processes of MPI write one file by MPI-IO (ROMIO): in strides, together and each alone, and behind
 * each other; then each reads what the next one wrote. mpi_write FILE BLOCKS SIZE */
#include "must.h"

static void expect(const char *bytes, int size, char want, const char *what)
{
	for (int at = 0; at < size; at++)
		if (bytes[at] != want) {
			fprintf(stderr, "%s: byte %d is %d, not %d\n", what, at, bytes[at], want);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

int main(int count, char **words)
{
	int rank, ranks, blocks, size;
	MPI_File file;
	MPI_Offset length;
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	blocks = atoi(words[2]), size = atoi(words[3]);
	char *bytes = malloc(size);
	memset(bytes, 'a' + rank, size);
	int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
	must(MPI_File_open(MPI_COMM_WORLD, words[1], mode, MPI_INFO_NULL, &file), "open");
	for (int block = 0; block < blocks; block++) {
		MPI_Offset at = ((MPI_Offset)block * ranks + rank) * size;
		must(block % 2 ? MPI_File_write_at(file, at, bytes, size, MPI_BYTE, MPI_STATUS_IGNORE)
			       : MPI_File_write_at_all(file, at, bytes, size, MPI_BYTE,
						       MPI_STATUS_IGNORE),
		     "write");
	}
	must(MPI_File_sync(file), "sync");
	MPI_Barrier(MPI_COMM_WORLD);
	must(MPI_File_sync(file), "sync");
	must(MPI_File_get_size(file, &length), "size");
	if (length != (MPI_Offset)blocks * ranks * size) {
		fprintf(stderr, "%lld bytes\n", (long long)length);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int block = 0; block < blocks; block++) {
		MPI_Offset at = ((MPI_Offset)block * ranks + (rank + 1) % ranks) * size;
		must(MPI_File_read_at(file, at, bytes, size, MPI_BYTE, MPI_STATUS_IGNORE), "read");
		expect(bytes, size, 'a' + (rank + 1) % ranks, "read");
	}
	must(MPI_File_close(&file), "close");
	if (rank == 0)
		printf("%d processes, %lld bytes\n", ranks, (long long)length);
	MPI_Finalize();
	return 0;
}
