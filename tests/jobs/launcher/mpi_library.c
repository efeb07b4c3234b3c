/* Stands for a library of MPI: only its name counts. */
int mpi_library(void);

int mpi_library(void) { return 0; }
