/* Processes of MPI write one HDF5 file: a data set of which each has every so-many-th row, and one
 * that grows. hdf5_write FILE ROWS COLUMNS */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
	int rank, ranks;
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	hsize_t rows = atol(words[2]), columns = atol(words[3]);
	hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
	H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
	H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
	hid_t file = H5Fcreate(words[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
	hsize_t all[2] = {rows, columns}, own[2] = {rows / ranks, columns};
	hid_t space = H5Screate_simple(2, all, NULL), memory = H5Screate_simple(2, own, NULL);
	hid_t set = H5Dcreate2(file, "rows", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT,
			       H5P_DEFAULT);
	hsize_t start[2] = {rank, 0}, stride[2] = {ranks, 1};
	H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, own, NULL);
	int *values = malloc(own[0] * columns * sizeof *values);
	for (hsize_t at = 0; at < own[0] * columns; at++)
		values[at] = (int)((at / columns * ranks + rank) * columns + at % columns);
	int failed = H5Dwrite(set, H5T_NATIVE_INT, memory, space, transfer, values) < 0;
	failed |= H5Dclose(set) < 0 || H5Fclose(file) < 0;
	/* Each reads all of it. */
	file = H5Fopen(words[1], H5F_ACC_RDONLY, access);
	set = H5Dopen2(file, "rows", H5P_DEFAULT);
	values = realloc(values, rows * columns * sizeof *values);
	failed |= H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer, values) < 0;
	for (hsize_t at = 0; at < rows * columns; at++)
		failed |= values[at] != (int)at;
	failed |= H5Dclose(set) < 0 || H5Fclose(file) < 0;
	if (failed)
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (rank == 0)
		printf("%d processes, %llu rows\n", ranks, (unsigned long long)rows);
	MPI_Finalize();
	return 0;
}
