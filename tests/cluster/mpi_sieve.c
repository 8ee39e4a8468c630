/* Processes of MPI write interleaved bytes of one file alone, by data sieving: each reads what lies
 * between its own bytes, and writes it again, under a record lock. mpi_sieve FILE BLOCKS */
#include "must.h"

int main(int count, char **words)
{
	enum { SIZE = 10 };
	int rank, ranks, blocks, wrong = 0;
	MPI_File file;
	MPI_Info info;
	MPI_Datatype stride;
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	blocks = atoi(words[2]);
	MPI_Info_create(&info);
	MPI_Info_set(info, "romio_ds_write", "enable");
	MPI_Type_vector(blocks, SIZE, ranks * SIZE, MPI_BYTE, &stride);
	MPI_Type_commit(&stride);
	char *bytes = malloc((size_t)blocks * SIZE * ranks);
	must(MPI_File_open(MPI_COMM_WORLD, words[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), "open");
	must(MPI_File_set_view(file, rank * SIZE, MPI_BYTE, stride, "native", info), "view");
	for (int turn = 0; turn < 5; turn++) {
		memset(bytes, 'a' + (rank + turn) % ranks, (size_t)blocks * SIZE);
		MPI_Barrier(MPI_COMM_WORLD);
		must(MPI_File_write_at(file, 0, bytes, blocks * SIZE, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		must(MPI_File_sync(file), "sync");
		MPI_Barrier(MPI_COMM_WORLD);
		must(MPI_File_sync(file), "sync");
		MPI_File whole;
		must(MPI_File_open(MPI_COMM_SELF, words[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &whole), "open");
		memset(bytes, 0, (size_t)blocks * SIZE * ranks);
		must(MPI_File_read_at(whole, 0, bytes, blocks * SIZE * ranks, MPI_BYTE, MPI_STATUS_IGNORE), "read");
		must(MPI_File_close(&whole), "close");
		for (int at = 0; at < blocks * SIZE * ranks; at++)
			wrong += bytes[at] != 'a' + (at / SIZE % ranks + turn) % ranks;
		MPI_Barrier(MPI_COMM_WORLD);
	}
	must(MPI_File_close(&file), "close");
	if (rank == 0)
		printf("%d processes by data sieving: %d bytes wrong\n", ranks, wrong);
	if (wrong)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return 0;
}
