"""A rank of an MPI job and of a gpurun job in one process: a barrier in each. Prints how many ranks both have.

with_mpi.py LIBGPURUN LIBMPI COMM_WORLD ORDER, where ORDER is "mpi gpurun" or "gpurun mpi".
"""
import ctypes
import sys


def check(status):
    if status != 0:
        sys.exit(f"status {status}: {GPURUN.gpurun_error_detail().decode()}")


def size(function, comm):
    number = ctypes.c_int()
    check(function(comm, ctypes.byref(number)))
    return number.value


GPURUN = ctypes.CDLL(sys.argv[1])
GPURUN.gpurun_error_detail.restype = ctypes.c_char_p
MPI = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
ALL = ctypes.c_uint64(1)  # GPURUN_COMM_WORLD
HOST = ctypes.c_void_p(-1)  # GPURUN_HOST
# A number in MPICH, the address of an object in Open MPI.
MPI_ALL = (ctypes.c_int(int(sys.argv[3], 0)) if sys.argv[3].startswith("0x") else
           ctypes.byref(ctypes.c_int.in_dll(MPI, sys.argv[3])))
START = {"mpi": lambda: MPI.MPI_Init(None, None), "gpurun": GPURUN.gpurun_init}
for word in sys.argv[4].split():
    check(START[word]())
check(MPI.MPI_Barrier(MPI_ALL))
check(GPURUN.gpurun_barrier(ALL, HOST))
ranks = {size(MPI.MPI_Comm_size, MPI_ALL), size(GPURUN.gpurun_comm_size, ALL)}
check(GPURUN.gpurun_finalize())
check(MPI.MPI_Finalize())
print(f"{' and '.join(map(str, ranks))} of both\n", end="", flush=True)  # in one piece, between those of others
