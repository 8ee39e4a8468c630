/* What programs of MPI owe: a call that fails ends all of them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int result, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int length;
	if (result == MPI_SUCCESS)
		return;
	MPI_Error_string(result, text, &length);
	fprintf(stderr, "%s: %s\n", what, text);
	MPI_Abort(MPI_COMM_WORLD, 1);
}
