/*
 * gpurun: message passing between GPU processes, ordered with their streams. The whole public API, C99.
 *
 * Every communication call takes an order domain as its `stream` argument: a stream of the rank's device, or
 * GPURUN_HOST, the calling thread. The operation happens after everything issued before it in its order domain,
 * and before everything issued after it there. Buffers are host or device memory in either domain.
 *
 * Every call that can fail returns a gpurun_status. Outputs are written only on success. The one exception is the
 * status of a truncated message, see gpurun_recv(). gpurun_error_detail() says what went wrong and what to do about it.
 * By default a line on standard error says so, too: gpurun_errors_set().
 *
 * Sizes are in bytes. A parameter named `count` is in elements. Any thread may make any call.
 * See gpurun(7) for the model and its guarantees.
 */
#ifndef GPURUN_H
#define GPURUN_H

#include <gpurun/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(GPURUN_BUILDING)
#define GPURUN_EXPORT __attribute__((visibility("default")))
#else
#define GPURUN_EXPORT
#endif

/* The compiler warns where a result is ignored. A cast to void says that this is meant: GCC heeds it only with
 * [[nodiscard]], which it knows before C23 and C++17, too. */
#if defined(__cplusplus) && (__cplusplus >= 201703L || (!defined(__clang__) && __GNUC__ >= 11))
#define GPURUN_NODISCARD [[nodiscard]]
#elif !defined(__cplusplus) && !defined(__clang__) && __GNUC__ >= 11
#define GPURUN_NODISCARD __extension__ [[nodiscard]]
#else
#define GPURUN_NODISCARD __attribute__((warn_unused_result))
#endif

/* What the library exports; with GPURUN_EXPORT alone, what gives no result. */
#define GPURUN_API GPURUN_NODISCARD GPURUN_EXPORT

/* ------------------------------------------------------------------------------------------------ results */

typedef enum gpurun_status {
    GPURUN_OK = 0,
    GPURUN_ERR_NOT_INITIALIZED = 1,     /* gpurun_init() has not been called */
    GPURUN_ERR_ALREADY_INITIALIZED = 2, /* gpurun_init() was called twice */
    GPURUN_ERR_FINALIZED = 3,           /* gpurun_finalize() has been called, here or by a rank that is needed */
    GPURUN_ERR_ARGUMENT = 4,            /* an argument that has no status of its own below */
    GPURUN_ERR_COMM = 5,                /* not a communicator */
    GPURUN_ERR_RANK = 6,                /* not a rank of the communicator */
    GPURUN_ERR_TAG = 7,                 /* negative, or a wildcard where none is allowed */
    GPURUN_ERR_COUNT = 8,               /* count times element size overflows; not a whole number of elements */
    GPURUN_ERR_TYPE = 9,                /* not a datatype */
    GPURUN_ERR_BUFFER = 10,             /* NULL, freed, unmapped or read-only memory, or too short */
    GPURUN_ERR_STREAM = 11,             /* not a stream of this rank's device */
    GPURUN_ERR_EVENT = 12,              /* not an event of this rank's device */
    GPURUN_ERR_TRUNCATED = 13,          /* the message is longer than the receive's buffer */
    GPURUN_ERR_PEER_LOST = 14,          /* a rank that the operation needs has died */
    GPURUN_ERR_DEVICE = 15,             /* the device failed or does not exist */
    GPURUN_ERR_MEMORY = 16,             /* no memory left, on the host or the device */
    GPURUN_ERR_VERSION = 17,            /* the versions of the ranks, or of gpurun, do not work together */
    GPURUN_ERR_SYSTEM = 18,             /* the operating system refused a call */
    GPURUN_ERR_SETTING = 19,            /* an environment variable has a value that cannot be used */
    GPURUN_ERR_LAUNCHER = 20,           /* the connection to gpurun was lost */
    GPURUN_ERR_UNSUPPORTED = 21,        /* this device or build does not support the call */
    GPURUN_ERR_INTERNAL = 22,           /* a bug in gpurun */
    GPURUN_ERR_REQUEST = 23,            /* not a request or a probed message, or one that has been completed */
    GPURUN_ERR_OP = 24,                 /* not an operation, or one that has no meaning for the datatype */
    GPURUN_ERR_COLLECTIVE = 25,         /* ranks have called a collective differently, or it has failed on one */
    GPURUN_ERR_LOAN = 26,               /* not a loan, a message that is none, or memory that is lent */
    GPURUN_ERR_TIMEOUT = 27             /* the time that a call was given is over */
} gpurun_status;

/**
 * The name of @p status, for example "GPURUN_ERR_RANK".
 *
 * Never NULL. A number that is not a status gives "GPURUN_ERR_?". The string is valid for ever.
 *
 * Threads: any, at any time, also before gpurun_init(). Since 0.1. See gpurun_error_detail(3).
 */
GPURUN_API const char *gpurun_status_string(gpurun_status status);

/**
 * One sentence about the calling thread's last failed call: what happened and what to do.
 *
 * Never NULL; "" before the first failure. A successful call does not change it. The string is valid until the
 * thread's next failed call.
 *
 * Threads: any, at any time. Since 0.1. See gpurun_error_detail(3).
 */
GPURUN_API const char *gpurun_error_detail(void);

typedef enum gpurun_errors {
    GPURUN_ERRORS_RETURN = 1, /* the call returns the error, as in the other modes */
    GPURUN_ERRORS_WARN = 2,   /* and a line on standard error tells it: the default */
    GPURUN_ERRORS_ABORT = 3   /* and the job ends, as by gpurun_abort() with the status's number */
} gpurun_errors;

/**
 * Set what happens on an error, besides the returned status, in calls of all threads of this process from now on.
 *
 * A process begins with what GPURUN_ERRORS says, see gpurun_environment(7); this call overrides it.
 *
 * @param[out] ret_previous  may be NULL; the mode until now
 * @retval GPURUN_OK            set
 * @retval GPURUN_ERR_ARGUMENT  @p mode is none; nothing was changed
 *
 * Threads: any, at any time, also before gpurun_init(). Since 0.1. See gpurun_errors_set(3).
 */
GPURUN_API gpurun_status gpurun_errors_set(gpurun_errors mode, gpurun_errors *ret_previous);

/* ------------------------------------------------------------------------------------------------ the job */

/**
 * Join the job: make this process one of its ranks.
 *
 * Selects the rank's device for the calling thread, as cudaSetDevice() does, and returns once every rank of the job
 * has called gpurun_init(). A process that gpurun did not start becomes the only rank of a job of its own. A child that
 * a rank forks is not a rank: in it, every call behaves as after gpurun_finalize().
 *
 * @retval GPURUN_OK                       joined
 * @retval GPURUN_ERR_ALREADY_INITIALIZED  this process has joined before
 * @retval GPURUN_ERR_FINALIZED            this process has left before; a process can join only once
 * @retval GPURUN_ERR_VERSION              the versions of gpurun and this library, or of two ranks, do not match
 * @retval GPURUN_ERR_DEVICE               the rank's device does not exist or cannot be used
 * @retval GPURUN_ERR_SETTING              an environment variable cannot be used
 * @retval GPURUN_ERR_LAUNCHER             gpurun ended while ranks were joining
 * @retval GPURUN_ERR_MEMORY, GPURUN_ERR_SYSTEM  set-up failed
 *
 * Threads: any, one at a time. Since 0.1. See gpurun_init(3).
 */
GPURUN_API gpurun_status gpurun_init(void);

/**
 * Join the job @p name as rank @p rank of @p size, in a process that gpurun did not start.
 *
 * All processes of this user on this machine that give the same @p name and @p size form the job. The first one starts
 * the gpurun program, which watches over them until the last has left. Otherwise as gpurun_init().
 *
 * @param name  1 to 64 letters, digits, '-', '_' and '.', the first of them no '.'
 * @retval GPURUN_OK                       joined
 * @retval GPURUN_ERR_ALREADY_INITIALIZED, GPURUN_ERR_FINALIZED  this process has joined before
 * @retval GPURUN_ERR_ARGUMENT             @p name is NULL
 * @retval GPURUN_ERR_RANK                 @p rank is not from 0 to @p size - 1
 * @retval GPURUN_ERR_SETTING              @p name cannot be a name, or an environment variable cannot be used
 * @retval GPURUN_ERR_LAUNCHER             gpurun started this process; the ranks do not fit together, or did not all
 *                                         come in time; or the gpurun program cannot be started
 * @retval GPURUN_ERR_VERSION              two ranks have versions that do not match
 * @retval GPURUN_ERR_PEER_LOST            another rank ended while it was joining
 * @retval GPURUN_ERR_DEVICE, GPURUN_ERR_MEMORY, GPURUN_ERR_SYSTEM  as gpurun_init()
 *
 * Threads: any, one at a time. Since 0.1. See gpurun_init(3).
 */
GPURUN_API gpurun_status gpurun_init_as(const char *name, int rank, int size);

/**
 * Leave the job. Waits until all ranks that are alive have called it, and until this rank's messages have moved.
 *
 * With GPURUN_REPORT=paths, prints which messages took which path. The program should release memory, streams and
 * events of the rank before; the rest is released when the process ends.
 *
 * @retval GPURUN_OK                   left; no call but gpurun_status_string(), gpurun_error_detail(),
 *                                     gpurun_initialized(), gpurun_finalized(), gpurun_version() and
 *                                     gpurun_wtime() may follow
 * @retval GPURUN_ERR_NOT_INITIALIZED  never joined
 * @retval GPURUN_ERR_FINALIZED        left before
 * @retval GPURUN_ERR_PEER_LOST        left, but a rank had died and a message with it did not complete
 *
 * Threads: any, while no other thread is in a call. Since 0.1. See gpurun_init(3).
 */
GPURUN_API gpurun_status gpurun_finalize(void);

/** 1 once gpurun_init() has succeeded, also after gpurun_finalize(); else 0. Any time. Since 0.1. */
GPURUN_API int gpurun_initialized(void);

/** 1 once gpurun_finalize() has returned; else 0. Any time. Since 0.1. */
GPURUN_API int gpurun_finalized(void);

/**
 * End the whole job with exit status @p code (its low 8 bits; 0 becomes 1). Does not return.
 *
 * Works in every state: outside gpurun, or before gpurun_init(), it ends this process.
 *
 * Threads: any. Since 0.1. See gpurun_abort(3).
 */
GPURUN_EXPORT void gpurun_abort(int code) __attribute__((noreturn));

/** Seconds since a fixed moment in the past, monotone, the same clock on all ranks of a node. Any time. Since 0.1. */
GPURUN_API double gpurun_wtime(void);

/** The version of the library that is running (the header's is GPURUN_VERSION_*). Each may be NULL. Since 0.1. */
GPURUN_EXPORT void gpurun_version(int *ret_major, int *ret_minor, int *ret_patch);

/* ------------------------------------------------------------------------------------------ communicators */

typedef struct gpurun_comm {
    uint64_t id;
} gpurun_comm;

/** All ranks of the job. */
#define GPURUN_COMM_WORLD (gpurun_make_comm(1))

/** This rank alone. */
#define GPURUN_COMM_SELF (gpurun_make_comm(2))

/** No communicator: what a rank gets that is in none of the new ones. */
#define GPURUN_COMM_NULL (gpurun_make_comm(0))

static inline gpurun_comm gpurun_make_comm(uint64_t id) {
    gpurun_comm comm;
    comm.id = id;
    return comm;
}

/**
 * This process's rank in @p comm, 0 to size - 1.
 *
 * @param[out] ret_rank  written only on success
 * @retval GPURUN_OK            done
 * @retval GPURUN_ERR_COMM      @p comm is not a communicator
 * @retval GPURUN_ERR_ARGUMENT  @p ret_rank is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_comm_rank(3).
 */
GPURUN_API gpurun_status gpurun_comm_rank(gpurun_comm comm, int *ret_rank);

/** The number of ranks in @p comm. Errors as gpurun_comm_rank(). Since 0.1. See gpurun_comm_rank(3). */
GPURUN_API gpurun_status gpurun_comm_size(gpurun_comm comm, int *ret_size);

/** No number: the colour of a rank that wants no communicator, the rank in a group of a process that is not in it, and
 * the index or count that gpurun_waitany() and the like return when no request is active. */
#define GPURUN_UNDEFINED (-3)

/** How two communicators, or two groups, compare. */
typedef enum gpurun_comparison {
    GPURUN_IDENT = 0,     /* the same processes at the same ranks; of communicators: the same one */
    GPURUN_CONGRUENT = 1, /* of communicators: the same processes at the same ranks, kept apart from each other */
    GPURUN_SIMILAR = 2,   /* the same processes at other ranks */
    GPURUN_UNEQUAL = 3
} gpurun_comparison;

/** Compare two communicators. Errors as gpurun_comm_rank(). Since 0.1. See gpurun_comm_rank(3). */
GPURUN_API gpurun_status gpurun_comm_compare(gpurun_comm one, gpurun_comm other, gpurun_comparison *ret_comparison);

/**
 * Make a communicator with the ranks of @p comm, in their order, and with its topology.
 *
 * Messages of different communicators never meet, whatever wildcards are posted. So a library that duplicates the
 * communicator that it is given cannot disturb its caller's messages.
 *
 * All ranks of @p comm make this call, and all collectives of @p comm in the same order. It waits for them in the order
 * of the calling thread. The new communicator has no name.
 *
 * @param[out] ret_comm  to be freed with gpurun_comm_free()
 * @retval GPURUN_OK            made
 * @retval GPURUN_ERR_COMM      @p comm is not a communicator
 * @retval GPURUN_ERR_ARGUMENT  @p ret_comm is NULL; or the ranks called different functions, and no rank got any
 * @retval GPURUN_ERR_MEMORY    a rank has too many communicators, see gpurun_comm_split(3); no rank of the new one got
 * it
 * @retval GPURUN_ERR_PEER_LOST a rank of @p comm has died
 * @retval GPURUN_ERR_UNSUPPORTED  called between gpurun_group_begin() and gpurun_group_end()
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any, but one at a time in a collective of a communicator. Since 0.1. See gpurun_comm_split(3).
 */
GPURUN_API gpurun_status gpurun_comm_dup(gpurun_comm comm, gpurun_comm *ret_comm);

/**
 * Make a communicator for each colour that ranks of @p comm give: all that give the same are in one.
 *
 * @param colour  not negative; GPURUN_UNDEFINED: this rank gets GPURUN_COMM_NULL
 * @param key     ranks of the new communicator are in the order of their keys; if these are equal, in that of @p comm
 * @param[out] ret_comm  that of this rank's colour
 * @retval GPURUN_ERR_ARGUMENT  also: @p colour is negative
 *
 * The rest is as with gpurun_comm_dup(). Since 0.1. See gpurun_comm_split(3).
 */
GPURUN_API gpurun_status gpurun_comm_split(gpurun_comm comm, int colour, int key, gpurun_comm *ret_comm);

/** What the ranks of a communicator of gpurun_comm_split_type() have in common. */
typedef enum gpurun_split_type {
    GPURUN_SPLIT_NONE = GPURUN_UNDEFINED, /* nothing: this rank gets GPURUN_COMM_NULL */
    GPURUN_SPLIT_NODE = 1,                /* the machine */
    GPURUN_SPLIT_GPU = 2,                 /* the GPU; on emulated devices, the device */
    GPURUN_SPLIT_NUMA_NODE = 3 /* the NUMA node of the calling thread's cores; if several, GPURUN_COMM_NULL */
} gpurun_split_type;

/**
 * Make a communicator for the ranks of @p comm that share a machine, a GPU or a NUMA node, for each of these.
 *
 * All ranks give the same @p type, or GPURUN_SPLIT_NONE. @p key is as in gpurun_comm_split().
 *
 * @retval GPURUN_ERR_ARGUMENT  also: @p type is none, or ranks gave different ones
 * @retval GPURUN_ERR_SYSTEM    the system did not say on which cores the thread may run
 *
 * The rest is as with gpurun_comm_dup(). Since 0.1. See gpurun_comm_split(3).
 */
GPURUN_API gpurun_status gpurun_comm_split_type(gpurun_comm comm, gpurun_split_type type, int key,
                                                gpurun_comm *ret_comm);

/**
 * Free a communicator of this rank. Its handle becomes GPURUN_COMM_NULL; a copy of it is an error from now on.
 *
 * Does not wait for other ranks. Exception: a communicator of gpurun_comm_accept() or gpurun_comm_connect(), which all
 * living ranks free together. What is under way in it completes as if it were there, and persistent requests can still
 * be started: it goes once the last request is complete or freed. Messages that nobody has received by then are
 * dropped.
 *
 * @retval GPURUN_OK            freed
 * @retval GPURUN_ERR_COMM      not a communicator, freed before, GPURUN_COMM_WORLD or GPURUN_COMM_SELF; that of a joint
 *                              job, and others that were made of it are there
 * @retval GPURUN_ERR_PEER_LOST that of a joint job: a message was cut short. It is freed
 * @retval GPURUN_ERR_ARGUMENT  @p comm is NULL
 * @retval GPURUN_ERR_UNSUPPORTED  called between gpurun_group_begin() and gpurun_group_end()
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any, but no other may be about to use it. Since 0.1. See gpurun_comm_split(3).
 */
GPURUN_API gpurun_status gpurun_comm_free(gpurun_comm *comm);

/**
 * Meet another job of this user on this machine, which connects under the same name: a communicator of the ranks of
 * both, first those of @p comm, in their order, then those of the other job.
 *
 * All ranks of @p comm make this call. Rank 0 waits for the other job, @p timeout_ms at most, and what it gives counts;
 * a negative time is no bound. The communicator is like any other, for messages, loans and collectives. What ranks of
 * it do in their own job goes on beside. If one of them dies, the others' calls that need it return
 * GPURUN_ERR_PEER_LOST; they free the communicator, and may meet again. It is freed by gpurun_comm_free(), by all of
 * its ranks, which waits for all of them that live.
 *
 * May wait for the device, as gpurun_free() does.
 *
 * @param name          what is allowed as the name of a job, see gpurun_init_as()
 * @param[out] ret_comm to be freed with gpurun_comm_free()
 * @retval GPURUN_OK            met
 * @retval GPURUN_ERR_TIMEOUT   no job has connected in time
 * @retval GPURUN_ERR_COMM      @p comm is not a communicator of this rank's own job
 * @retval GPURUN_ERR_ARGUMENT  a pointer is NULL; ranks of @p comm called accept and connect
 * @retval GPURUN_ERR_LAUNCHER  another process accepts under this name; ranks did not come to the joint job
 * @retval GPURUN_ERR_DEVICE    one job has GPUs and the other emulated devices
 * @retval GPURUN_ERR_SETTING   @p name cannot be used; one job orders streams by counters and the other by events
 * @retval GPURUN_ERR_MEMORY    this rank is in 15 joint jobs
 * @retval GPURUN_ERR_PEER_LOST a rank of either job has died
 * @retval GPURUN_ERR_UNSUPPORTED  @p comm has ranks on several nodes; GPURUN_PROGRESS=calls; too few hardware queues;
 *                              called between gpurun_group_begin() and gpurun_group_end()
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any, but one at a time in a collective of a communicator. Since 0.1. See gpurun_comm_accept(3).
 */
GPURUN_API gpurun_status gpurun_comm_accept(const char *name, int timeout_ms, gpurun_comm comm, gpurun_comm *ret_comm);

/**
 * The other side of gpurun_comm_accept(): meet the job that accepts under this name, or the next one that does.
 *
 * @retval GPURUN_ERR_TIMEOUT   no job has accepted in time
 * @retval GPURUN_ERR_LAUNCHER  also: the job that accepts is this one, speaks another version, or the two have more
 * than 256 ranks
 *
 * The rest is as with gpurun_comm_accept(). Since 0.1. See gpurun_comm_accept(3).
 */
GPURUN_API gpurun_status gpurun_comm_connect(const char *name, int timeout_ms, gpurun_comm comm, gpurun_comm *ret_comm);

/** Room for a communicator's name, and a NUL. */
#define GPURUN_MAX_OBJECT_NAME 64

/**
 * Name a communicator, for hang tables, traces and errors. Each rank does so for itself.
 *
 * @retval GPURUN_ERR_ARGUMENT  @p name is NULL, or has GPURUN_MAX_OBJECT_NAME bytes or more
 *
 * The other errors are those of gpurun_comm_rank(). Threads: any. Since 0.1. See gpurun_comm_set_name(3).
 */
GPURUN_API gpurun_status gpurun_comm_set_name(gpurun_comm comm, const char *name);

/**
 * The name of a communicator: "" until it gets one, and "GPURUN_COMM_WORLD".
 *
 * @param[out] ret_name    room for GPURUN_MAX_OBJECT_NAME bytes
 * @param[out] ret_length  may be NULL; without the NUL
 *
 * Errors as gpurun_comm_rank(). Threads: any. Since 0.1. See gpurun_comm_set_name(3).
 */
GPURUN_API gpurun_status gpurun_comm_get_name(gpurun_comm comm, char *ret_name, int *ret_length);

/**
 * Choose how a collective is made in a communicator, by the size of its buffer. All ranks of @p comm make this call,
 * with the same arguments. It counts for what they start from then on, and for communicators that are made of @p comm.
 *
 * @param collective  "allreduce", "reduce" or "bcast"
 * @param algorithms  as the value of GPURUN_ALLREDUCE, GPURUN_REDUCE and GPURUN_BCAST, such as "direct:64K,pieces" or
 *                    "auto", see gpurun_environment(7)
 * @retval GPURUN_OK            chosen
 * @retval GPURUN_ERR_ARGUMENT  there is no such collective or algorithm, or a pointer is NULL; ranks gave something
 *                              else, or called another function
 * @retval GPURUN_ERR_PEER_LOST  a rank has died
 * @retval GPURUN_ERR_FINALIZED  also: a rank has called gpurun_finalize()
 * @retval GPURUN_ERR_UNSUPPORTED  called between gpurun_group_begin() and gpurun_group_end()
 *
 * The other errors are those of gpurun_comm_dup(). Threads: any, but one at a time in a collective of a communicator.
 * Since 0.1. See gpurun_comm_set_algorithm(3).
 */
GPURUN_API gpurun_status gpurun_comm_set_algorithm(gpurun_comm comm, const char *collective, const char *algorithms);

/* ---------------------------------------------------------------------------------------------- topologies */

/**
 * Choose the dimensions of a grid of @p ranks ranks: as equal as can be, and in descending order.
 *
 * @param[in,out] dims  of @p ndims: those that are 0 are chosen, the others stay
 * @retval GPURUN_OK            chosen
 * @retval GPURUN_ERR_ARGUMENT  no grid has so many ranks and the dimensions that are given; @p ranks is not positive;
 *                              @p ndims is not 0 to 64; a dimension is negative; @p dims is NULL; nothing was changed
 *
 * Threads: any, at any time, also before gpurun_init(). Since 0.1. See gpurun_cart_create(3).
 */
GPURUN_API gpurun_status gpurun_dims_create(int ranks, int ndims, int *dims);

/**
 * Make a communicator whose ranks are the places of a grid, in the order of their coordinates: the last changes first.
 *
 * @param dims     of @p ndims, the ranks in each dimension; ranks of @p comm that have no place get GPURUN_COMM_NULL
 * @param periods  of @p ndims, 1 where the last rank of the dimension is next to the first one, else 0
 * @param reorder  ignored: ranks keep the order of @p comm
 * @param[out] ret_comm  to be freed with gpurun_comm_free(); a duplicate of it is a grid, too
 * @retval GPURUN_ERR_ARGUMENT  also: the grid has more ranks than @p comm; @p ndims is not 0 to 64; a dimension is not
 *                              positive; an array is NULL; or ranks gave different grids, and no rank got any
 *
 * The rest is as with gpurun_comm_dup(). Since 0.1. See gpurun_cart_create(3).
 */
GPURUN_API gpurun_status gpurun_cart_create(gpurun_comm comm, int ndims, const int *dims, const int *periods,
                                            int reorder, gpurun_comm *ret_comm);

/**
 * Make a grid of each part of a grid whose ranks have the same coordinates in the dimensions that do not remain.
 *
 * @param remain_dims  1 for each dimension of @p comm that the new ones have, else 0; the same on all ranks
 * @retval GPURUN_ERR_COMM      also: @p comm is no grid
 * @retval GPURUN_ERR_ARGUMENT  also: @p remain_dims is NULL; or ranks gave different ones, and no rank got any
 *
 * The rest is as with gpurun_comm_dup(). Since 0.1. See gpurun_cart_create(3).
 */
GPURUN_API gpurun_status gpurun_cart_sub(gpurun_comm comm, const int *remain_dims, gpurun_comm *ret_comm);

/**
 * The number of dimensions of a grid.
 *
 * @retval GPURUN_OK            done
 * @retval GPURUN_ERR_COMM      @p comm is not a communicator, or no grid
 * @retval GPURUN_ERR_ARGUMENT  @p ret_ndims is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_cart_create(3).
 */
GPURUN_API gpurun_status gpurun_cartdim_get(gpurun_comm comm, int *ret_ndims);

/** The dimensions and periods of a grid, and this rank's coordinates: arrays of @p maxdims, each of which may be NULL.
 * GPURUN_ERR_ARGUMENT if the grid has more dimensions. The other errors are those of gpurun_cartdim_get(). Since 0.1.
 * See gpurun_cart_create(3). */
GPURUN_API gpurun_status gpurun_cart_get(gpurun_comm comm, int maxdims, int *ret_dims, int *ret_periods,
                                         int *ret_coords);

/** The rank at @p coords. In periodic dimensions they go around; GPURUN_ERR_ARGUMENT where one is outside of another
 * dimension. The other errors are those of gpurun_cartdim_get(). Since 0.1. See gpurun_cart_create(3). */
GPURUN_API gpurun_status gpurun_cart_rank(gpurun_comm comm, const int *coords, int *ret_rank);

/** The coordinates of @p rank, in an array of @p maxdims. GPURUN_ERR_RANK if it is none, GPURUN_ERR_ARGUMENT if the
 * grid has more dimensions. The other errors are those of gpurun_cartdim_get(). Since 0.1. See gpurun_cart_create(3).
 */
GPURUN_API gpurun_status gpurun_cart_coords(gpurun_comm comm, int rank, int maxdims, int *ret_coords);

/**
 * The ranks with which this one shifts data along a dimension, as gpurun_sendrecv() takes them.
 *
 * @param direction     the dimension, from 0 on
 * @param displacement  steps, to higher coordinates if it is positive
 * @param[out] ret_source  as many steps before this rank; GPURUN_PROC_NULL outside of a dimension that is not periodic
 * @param[out] ret_dest    as many steps behind it, or GPURUN_PROC_NULL
 * @retval GPURUN_ERR_ARGUMENT  @p direction is no dimension; a pointer is NULL
 *
 * The other errors are those of gpurun_cartdim_get(). Threads: any. Since 0.1. See gpurun_cart_create(3).
 */
GPURUN_API gpurun_status gpurun_cart_shift(gpurun_comm comm, int direction, int displacement, int *ret_source,
                                           int *ret_dest);

/**
 * Make a communicator with the ranks of @p comm, in their order, in which each has neighbours of its own.
 *
 * Each rank names those it gets something from and those it gives something to, for gpurun_neighbor_alltoall() and its
 * like. A rank can be named several times, and can name itself. There are no weights.
 *
 * @param sources       @p indegree ranks of @p comm
 * @param destinations  @p outdegree ranks of @p comm
 * @param reorder       ignored: ranks keep the order of @p comm
 * @param[out] ret_comm  to be freed with gpurun_comm_free(); a duplicate of it has the neighbours, too
 * @retval GPURUN_ERR_RANK      a neighbour is not a rank of @p comm
 * @retval GPURUN_ERR_ARGUMENT  also: a degree is negative; an array is NULL; a rank is named more than 1,024 times; or
 *                              a rank names a destination that does not name it as a source, and no rank got any
 *
 * The rest is as with gpurun_comm_dup(). Since 0.1. See gpurun_dist_graph_create_adjacent(3).
 */
GPURUN_API gpurun_status gpurun_dist_graph_create_adjacent(gpurun_comm comm, int indegree, const int *sources,
                                                           int outdegree, const int *destinations, int reorder,
                                                           gpurun_comm *ret_comm);

/**
 * How many neighbours this rank has in a graph.
 *
 * @retval GPURUN_OK            done
 * @retval GPURUN_ERR_COMM      @p comm is not a communicator, or has no graph
 * @retval GPURUN_ERR_ARGUMENT  a pointer is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_dist_graph_create_adjacent(3).
 */
GPURUN_API gpurun_status gpurun_dist_graph_neighbors_count(gpurun_comm comm, int *ret_indegree, int *ret_outdegree);

/** The neighbours of this rank in a graph, as it has named them: at most @p max_indegree and @p max_outdegree. The
 * errors are those of gpurun_dist_graph_neighbors_count(). Since 0.1. See gpurun_dist_graph_create_adjacent(3). */
GPURUN_API gpurun_status gpurun_dist_graph_neighbors(gpurun_comm comm, int max_indegree, int *ret_sources,
                                                     int max_outdegree, int *ret_destinations);

typedef enum gpurun_topology {
    GPURUN_TOPOLOGY_NONE = GPURUN_UNDEFINED,
    GPURUN_TOPOLOGY_CART = 1,      /* of gpurun_cart_create() or gpurun_cart_sub() */
    GPURUN_TOPOLOGY_DIST_GRAPH = 2 /* of gpurun_dist_graph_create_adjacent() */
} gpurun_topology;

/** Which topology a communicator has. Errors as gpurun_comm_rank(). Since 0.1. See
 * gpurun_dist_graph_create_adjacent(3). */
GPURUN_API gpurun_status gpurun_topo_test(gpurun_comm comm, gpurun_topology *ret_topology);

/* ----------------------------------------------------------------------------------------- groups of ranks */

/* Not to be confused with a group of calls, gpurun_group_begin(). */

/** Processes of the job in an order: rank i of a group is its i-th process. Local to this process. */
typedef struct gpurun_group {
    uint64_t id;
} gpurun_group;

static inline gpurun_group gpurun_make_group(uint64_t id) {
    gpurun_group group;
    group.id = id;
    return group;
}

/** No group. */
#define GPURUN_GROUP_NULL (gpurun_make_group(0))

/** The group of nobody. It is always there, also after it was freed. */
#define GPURUN_GROUP_EMPTY (gpurun_make_group(1))

/**
 * The group of the ranks of @p comm, in their order.
 *
 * @param[out] ret_group  to be freed with gpurun_group_free(); it does not go with the communicator
 *
 * Errors as gpurun_comm_rank(). Threads: any. Since 0.1. See gpurun_comm_group(3).
 */
GPURUN_API gpurun_status gpurun_comm_group(gpurun_comm comm, gpurun_group *ret_group);

/**
 * Make a communicator for the ranks of @p group. The other ranks of @p comm get GPURUN_COMM_NULL.
 *
 * All ranks of @p comm make this call. Those that are in a group give the same one, with members of @p comm only;
 * groups without a common member make a communicator each. The other ranks give any group that they are not in, for
 * example GPURUN_GROUP_EMPTY.
 *
 * @retval GPURUN_ERR_ARGUMENT  also: @p group is not a group, has members that are not in @p comm, or is not what its
 *                              other members gave
 *
 * The rest is as with gpurun_comm_dup(). Since 0.1. See gpurun_comm_split(3).
 */
GPURUN_API gpurun_status gpurun_comm_create(gpurun_comm comm, gpurun_group group, gpurun_comm *ret_comm);

/**
 * gpurun_comm_create() that only the members of @p group call, and that waits for these only.
 *
 * So it works when other ranks of @p comm are busy, or have died.
 *
 * @param tag  0 to 65535. Members that call it from several threads at the same time give each call its own; after a
 *             call that has failed because a member died, they give another one
 * @retval GPURUN_ERR_TAG        @p tag is another
 * @retval GPURUN_ERR_PEER_LOST  a member of @p group has died
 *
 * A rank that is not in @p group gets GPURUN_COMM_NULL at once. The rest is as with gpurun_comm_create(). Threads: any.
 * Since 0.1. See gpurun_comm_split(3).
 */
GPURUN_API gpurun_status gpurun_comm_create_group(gpurun_comm comm, gpurun_group group, int tag, gpurun_comm *ret_comm);

/**
 * The number of processes in @p group.
 *
 * @retval GPURUN_OK            done
 * @retval GPURUN_ERR_ARGUMENT  @p group is not a group, or was freed; or an output is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_comm_group(3).
 */
GPURUN_API gpurun_status gpurun_group_size(gpurun_group group, int *ret_size);

/** This process's rank in @p group; GPURUN_UNDEFINED if it is not in it. Errors as gpurun_group_size(). Since 0.1. See
 * gpurun_comm_group(3). */
GPURUN_API gpurun_status gpurun_group_rank(gpurun_group group, int *ret_rank);

/**
 * Which ranks of @p other the ranks of @p group are.
 *
 * @param ranks           @p count ranks of @p group, or GPURUN_PROC_NULL
 * @param[out] ret_ranks  room for @p count: GPURUN_UNDEFINED for one that is not in @p other, GPURUN_PROC_NULL for
 *                        GPURUN_PROC_NULL
 * @retval GPURUN_ERR_RANK  one is not a rank of @p group
 *
 * The other errors are those of gpurun_group_size(). Threads: any. Since 0.1. See gpurun_comm_group(3).
 */
GPURUN_API gpurun_status gpurun_group_translate_ranks(gpurun_group group, size_t count, const int *ranks,
                                                      gpurun_group other, int *ret_ranks);

/** Compare two groups: never GPURUN_CONGRUENT. Errors as gpurun_group_size(). Since 0.1. See gpurun_comm_group(3). */
GPURUN_API gpurun_status gpurun_group_compare(gpurun_group one, gpurun_group other, gpurun_comparison *ret_comparison);

/** The processes of @p one, then those of @p other that are not in it. Errors as gpurun_group_size(). Since 0.1. See
 * gpurun_comm_group(3). */
GPURUN_API gpurun_status gpurun_group_union(gpurun_group one, gpurun_group other, gpurun_group *ret_group);

/** The processes of @p one that are also in @p other, in the order of @p one. Errors as gpurun_group_size(). Since 0.1.
 * See gpurun_comm_group(3). */
GPURUN_API gpurun_status gpurun_group_intersection(gpurun_group one, gpurun_group other, gpurun_group *ret_group);

/** The processes of @p one that are not in @p other, in the order of @p one. Errors as gpurun_group_size(). Since 0.1.
 * See gpurun_comm_group(3). */
GPURUN_API gpurun_status gpurun_group_difference(gpurun_group one, gpurun_group other, gpurun_group *ret_group);

/**
 * The processes at @p count @p ranks of @p group, in the order of the array.
 *
 * @retval GPURUN_ERR_RANK  one is not a rank of @p group, or is there twice
 *
 * The other errors are those of gpurun_group_size(). Threads: any. Since 0.1. See gpurun_comm_group(3).
 */
GPURUN_API gpurun_status gpurun_group_incl(gpurun_group group, size_t count, const int *ranks, gpurun_group *ret_group);

/** All processes of @p group but those at @p count @p ranks. Errors as gpurun_group_incl(). Since 0.1. See
 * gpurun_comm_group(3). */
GPURUN_API gpurun_status gpurun_group_excl(gpurun_group group, size_t count, const int *ranks, gpurun_group *ret_group);

/**
 * gpurun_group_incl() with the ranks of @p count ranges: each has a first rank, a last rank and a stride.
 *
 * @retval GPURUN_ERR_ARGUMENT  also: a stride is 0
 *
 * The other errors are those of gpurun_group_incl(). Threads: any. Since 0.1. See gpurun_comm_group(3).
 */
GPURUN_API gpurun_status gpurun_group_range_incl(gpurun_group group, size_t count, const int ranges[][3],
                                                 gpurun_group *ret_group);

/** gpurun_group_excl() with ranges, see gpurun_group_range_incl(). Since 0.1. See gpurun_comm_group(3). */
GPURUN_API gpurun_status gpurun_group_range_excl(gpurun_group group, size_t count, const int ranges[][3],
                                                 gpurun_group *ret_group);

/** Free a group. It becomes GPURUN_GROUP_NULL. Errors as gpurun_group_size(). Since 0.1. See gpurun_comm_group(3). */
GPURUN_API gpurun_status gpurun_group_free(gpurun_group *group);

/* ----------------------------------------------------------------------------------- the device of a rank */

/* CUDA's own types: cudaStream_t (CUstream), cudaEvent_t (CUevent) and cudaGraphExec_t need no cast. */
typedef struct CUstream_st *gpurun_stream;
typedef struct CUevent_st *gpurun_event;
typedef struct CUgraphExec_st *gpurun_graph;

/**
 * The order domain of the calling thread: MPI's blocking semantics. Pass it where there is no stream. NULL is not the
 * same: it is CUDA's default stream, and the host may read a result only after gpurun_stream_synchronize(NULL).
 */
#define GPURUN_HOST ((gpurun_stream)(~(uintptr_t)0))

typedef enum gpurun_device_kind { GPURUN_DEVICE_CUDA = 1, GPURUN_DEVICE_EMULATED = 2 } gpurun_device_kind;

typedef struct gpurun_device_info {
    size_t size;             /* set by the caller: sizeof(gpurun_device_info) */
    gpurun_device_kind kind; /* a program launches CUDA kernels only on GPURUN_DEVICE_CUDA */
    int ordinal;             /* the device's number for cudaSetDevice(); on emulated devices 0 to their count - 1 */
    size_t memory_bytes;     /* the device's total memory */
    char name[96];           /* for people, for example "NVIDIA H200" */
    char uuid[48];           /* as nvidia-smi -L prints it; on emulated devices "EMU-..." */
    char pci_bus_id[16];     /* 0000:1b:00.0; "" on emulated devices */
} gpurun_device_info;

/**
 * Describe the rank's device.
 *
 * @param[in,out] ret_info  its size field is read, the rest is written only on success
 * @retval GPURUN_OK            done
 * @retval GPURUN_ERR_ARGUMENT  @p ret_info is NULL, or its size is not one that this library knows
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_device(3).
 */
GPURUN_API gpurun_status gpurun_device(gpurun_device_info *ret_info);

/**
 * Allocate @p size bytes on the rank's device (cudaMalloc on CUDA). 0 bytes give NULL.
 *
 * @retval GPURUN_OK            allocated
 * @retval GPURUN_ERR_MEMORY    the device does not have that much memory left
 * @retval GPURUN_ERR_ARGUMENT  @p ret_pointer is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_malloc(3).
 */
GPURUN_API gpurun_status gpurun_malloc(void **ret_pointer, size_t size);

/**
 * Free memory of gpurun_malloc() or gpurun_malloc_host(). NULL is allowed. May wait for the device.
 *
 * No message may be using the memory: first wait for the streams that send from it or receive into it.
 *
 * @retval GPURUN_OK          freed
 * @retval GPURUN_ERR_BUFFER  not the start of such an allocation, or freed before; nothing was freed
 * @retval GPURUN_ERR_LOAN    some of it is lent, or it is borrowed; nothing was freed
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_malloc(3).
 */
GPURUN_API gpurun_status gpurun_free(void *pointer);

/** Allocate @p size bytes of pinned host memory. Errors as gpurun_malloc(). Since 0.1. See gpurun_malloc(3). */
GPURUN_API gpurun_status gpurun_malloc_host(void **ret_pointer, size_t size);

/**
 * Allocate @p size bytes on the rank's device in the order of @p stream (cudaMallocAsync on CUDA).
 *
 * Other processes cannot map such memory: its messages take the bounce or the staged path.
 *
 * @retval GPURUN_OK               allocated; work that is ordered after this call may use it
 * @retval GPURUN_ERR_MEMORY       the device does not have that much memory left
 * @retval GPURUN_ERR_STREAM       not a stream of the rank's device (GPURUN_HOST is not one)
 * @retval GPURUN_ERR_UNSUPPORTED  the device has no stream-ordered memory: use gpurun_malloc()
 * @retval GPURUN_ERR_ARGUMENT     @p ret_pointer is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_malloc(3).
 */
GPURUN_API gpurun_status gpurun_malloc_async(void **ret_pointer, size_t size, gpurun_stream stream);

/** Free memory of gpurun_malloc_async() in the order of @p stream. Errors as gpurun_free(). Since 0.1. */
GPURUN_API gpurun_status gpurun_free_async(void *pointer, gpurun_stream stream);

/**
 * Copy @p size bytes between any two buffers of this rank, host or device, in the order of @p stream.
 *
 * On GPURUN_HOST the copy is complete on return.
 *
 * @retval GPURUN_OK               copied, or enqueued
 * @retval GPURUN_ERR_BUFFER       NULL (with size > 0), memory that was freed or is not this rank's, or shorter than
 *                                 @p size
 * @retval GPURUN_ERR_STREAM       not a stream of the rank's device
 * @retval GPURUN_ERR_UNSUPPORTED  @p stream is captured, and one of the buffers is pageable host memory
 * @retval GPURUN_ERR_DEVICE       the device failed
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_memcpy(3).
 */
GPURUN_API gpurun_status gpurun_memcpy(void *destination, const void *source, size_t size, gpurun_stream stream);

/** Set @p size bytes at @p pointer to @p value in the order of @p stream. Errors as gpurun_memcpy(). Since 0.1. */
GPURUN_API gpurun_status gpurun_memset(void *pointer, int value, size_t size, gpurun_stream stream);

/** Create a stream of the rank's device (non-blocking, as cudaStreamNonBlocking). Since 0.1. See
 * gpurun_stream_create(3). */
GPURUN_API gpurun_status gpurun_stream_create(gpurun_stream *ret_stream);

/** Wait for the work of a stream of gpurun_stream_create() and destroy it. Else GPURUN_ERR_STREAM. Since 0.1. */
GPURUN_API gpurun_status gpurun_stream_destroy(gpurun_stream stream);

/**
 * Wait until everything issued in @p stream is done.
 *
 * @retval GPURUN_OK             done
 * @retval GPURUN_ERR_PEER_LOST  done, but a peer died before its message with this rank was complete
 * @retval GPURUN_ERR_STREAM     not a stream of the rank's device
 * @retval GPURUN_ERR_DEVICE     the device failed
 *
 * Threads: any. Since 0.1. See gpurun_stream_create(3).
 */
GPURUN_API gpurun_status gpurun_stream_synchronize(gpurun_stream stream);

/** Whether everything issued in @p stream is done. @p ret_done is 1 or 0. Since 0.1. See gpurun_stream_create(3). */
GPURUN_API gpurun_status gpurun_stream_query(gpurun_stream stream, int *ret_done);

/** Make what follows in @p stream wait for @p event as last recorded. Since 0.1. See gpurun_event_create(3). */
GPURUN_API gpurun_status gpurun_stream_wait_event(gpurun_stream stream, gpurun_event event);

/**
 * Call @p function(@p argument) on a host thread in the order of @p stream.
 *
 * On emulated devices, whose memory a host thread can read and write, a program runs its kernels with this function.
 * @p function must not make gpurun or CUDA calls.
 *
 * Threads: any. Since 0.1. See gpurun_stream_create(3).
 */
GPURUN_API gpurun_status gpurun_launch_host(gpurun_stream stream, void (*function)(void *argument), void *argument);

/** Create an event of the rank's device (without timing). Since 0.1. See gpurun_event_create(3). */
GPURUN_API gpurun_status gpurun_event_create(gpurun_event *ret_event);

/** Destroy an event of gpurun_event_create(). GPURUN_ERR_EVENT if it is not one. Since 0.1. */
GPURUN_API gpurun_status gpurun_event_destroy(gpurun_event event);

/** Record @p event in @p stream: it completes when everything issued there before is done. Since 0.1. */
GPURUN_API gpurun_status gpurun_event_record(gpurun_event event, gpurun_stream stream);

/** Wait until @p event, as last recorded, has completed. Returns at once if it was never recorded. Since 0.1. */
GPURUN_API gpurun_status gpurun_event_synchronize(gpurun_event event);

/** Whether @p event, as last recorded, has completed. @p ret_done is 1 or 0. Since 0.1. */
GPURUN_API gpurun_status gpurun_event_query(gpurun_event event, int *ret_done);

/* ------------------------------------------------------------------------------------------------ graphs */

/**
 * Begin to capture @p stream: what is enqueued in it from now on does not run, but becomes a graph.
 *
 * On CUDA, cudaStreamBeginCapture() may be used instead; this function also works on emulated devices.
 * Communication calls may be captured. Each is matched during the capture, with a captured call of its peer, and its
 * message moves whenever both graphs run. gpurun_capture_begin(3) has the rules, and what cannot be captured.
 *
 * @retval GPURUN_OK               begun
 * @retval GPURUN_ERR_STREAM       not a stream that can be captured: GPURUN_HOST, or a stream of another device
 * @retval GPURUN_ERR_UNSUPPORTED  it is being captured already, or the device has no graphs
 *
 * Threads: any; the same thread must end the capture. Since 0.1. See gpurun_capture_begin(3).
 */
GPURUN_API gpurun_status gpurun_capture_begin(gpurun_stream stream);

/**
 * End the capture of @p stream, and return what was captured as a graph that can be launched.
 *
 * @param[out] ret_graph  written only on success; destroy it with gpurun_graph_destroy()
 * @retval GPURUN_OK          made
 * @retval GPURUN_ERR_STREAM  @p stream is not being captured, or its capture has failed
 *
 * Threads: the one that called gpurun_capture_begin(). Since 0.1. See gpurun_capture_begin(3).
 */
GPURUN_API gpurun_status gpurun_capture_end(gpurun_stream stream, gpurun_graph *ret_graph);

/**
 * Enqueue everything in @p graph in @p stream, as often as wanted. Does not wait for the device.
 *
 * @retval GPURUN_OK            enqueued
 * @retval GPURUN_ERR_ARGUMENT  not a graph
 * @retval GPURUN_ERR_STREAM    not a stream of the rank's device
 *
 * Threads: any. Since 0.1. See gpurun_capture_begin(3).
 */
GPURUN_API gpurun_status gpurun_graph_launch(gpurun_graph graph, gpurun_stream stream);

/** Destroy a graph of gpurun_capture_end(). Runs that are already enqueued still complete. NULL does nothing.
 * GPURUN_ERR_ARGUMENT if it is not such a graph. Since 0.1. See gpurun_capture_begin(3). */
GPURUN_API gpurun_status gpurun_graph_destroy(gpurun_graph graph);

/* -------------------------------------------------------------------------------------------------- data */

typedef enum gpurun_datatype {
    GPURUN_BYTE = 1,
    GPURUN_CHAR = 2,
    GPURUN_INT8 = 3,
    GPURUN_UINT8 = 4,
    GPURUN_INT16 = 5,
    GPURUN_UINT16 = 6,
    GPURUN_INT32 = 7,
    GPURUN_UINT32 = 8,
    GPURUN_INT64 = 9,
    GPURUN_UINT64 = 10,
    GPURUN_FLOAT16 = 11,  /* IEEE half */
    GPURUN_BFLOAT16 = 12, /* the upper half of a float */
    GPURUN_FLOAT = 13,
    GPURUN_DOUBLE = 14,
    GPURUN_COMPLEX_FLOAT = 15,
    GPURUN_COMPLEX_DOUBLE = 16,
    GPURUN_BOOL = 17, /* C's _Bool, one byte */

    /* A value and an int, as C lays out a struct of them: for GPURUN_MINLOC and GPURUN_MAXLOC. */
    GPURUN_SHORT_INT = 18,
    GPURUN_2INT = 19,
    GPURUN_LONG_INT = 20,
    GPURUN_FLOAT_INT = 21,
    GPURUN_DOUBLE_INT = 22,

    /* C's names for these, on Linux on x86-64. */
    GPURUN_SIGNED_CHAR = GPURUN_INT8,
    GPURUN_UNSIGNED_CHAR = GPURUN_UINT8,
    GPURUN_SHORT = GPURUN_INT16,
    GPURUN_UNSIGNED_SHORT = GPURUN_UINT16,
    GPURUN_INT = GPURUN_INT32,
    GPURUN_UNSIGNED = GPURUN_UINT32,
    GPURUN_LONG = GPURUN_INT64,
    GPURUN_UNSIGNED_LONG = GPURUN_UINT64,
    GPURUN_LONG_LONG = GPURUN_INT64,
    GPURUN_UNSIGNED_LONG_LONG = GPURUN_UINT64,
    GPURUN_SIZE_T = GPURUN_UINT64
} gpurun_datatype;

/** The size of one element of @p type, in bytes. GPURUN_ERR_TYPE if it is not a datatype. Any time. Since 0.1. */
GPURUN_API gpurun_status gpurun_type_size(gpurun_datatype type, size_t *ret_size);

/** An operation of a reduction. */
typedef struct gpurun_op {
    uint64_t id;
} gpurun_op;

static inline gpurun_op gpurun_make_op(uint64_t id) {
    gpurun_op op;
    op.id = id;
    return op;
}

/* For which types each has a meaning, see gpurun_allreduce(3). */
#define GPURUN_SUM (gpurun_make_op(1))
#define GPURUN_PROD (gpurun_make_op(2))
#define GPURUN_MIN (gpurun_make_op(3))
#define GPURUN_MAX (gpurun_make_op(4))
#define GPURUN_LAND (gpurun_make_op(5)) /* logical: 0 is false, all else is true; two values give 0 or 1 */
#define GPURUN_LOR (gpurun_make_op(6))
#define GPURUN_LXOR (gpurun_make_op(7))
#define GPURUN_BAND (gpurun_make_op(8)) /* bitwise */
#define GPURUN_BOR (gpurun_make_op(9))
#define GPURUN_BXOR (gpurun_make_op(10))
#define GPURUN_MINLOC (gpurun_make_op(11)) /* of pairs: the smallest value, and the smallest index that has it */
#define GPURUN_MAXLOC (gpurun_make_op(12))
#define GPURUN_AVG (gpurun_make_op(13)) /* the sum, divided by the number of ranks that contribute */

#define GPURUN_OP_NULL (gpurun_make_op(0)) /* none */

/** Combines elements: inout[i] becomes in[i] (of lower ranks) by inout[i], for all i. See gpurun_op_create(). */
typedef void gpurun_op_function(const void *in, void *inout, size_t count, gpurun_datatype type);

/**
 * Make an operation of the program's own, for reductions of host memory on GPURUN_HOST.
 *
 * @p function is associative. It is called with parts of the elements, under a lock of the library's, by the thread
 * that makes a call or by one of the library's: it makes no calls of gpurun. Each rank makes its own, of one meaning.
 *
 * @param commutes     whether in and inout could be exchanged; elements are combined in the order of the ranks anyway
 * @param[out] ret_op  to be freed with gpurun_op_free()
 * @retval GPURUN_OK            made
 * @retval GPURUN_ERR_ARGUMENT  @p function or @p ret_op is NULL
 *
 * Threads: any. Since 0.1. See gpurun_op_create(3).
 */
GPURUN_API gpurun_status gpurun_op_create(gpurun_op_function *function, int commutes, gpurun_op *ret_op);

/** Free it; @p op becomes GPURUN_OP_NULL. What was started with it goes on. GPURUN_ERR_OP if it is none, or one of the
 * library's own. Threads: any. Since 0.1. See gpurun_op_create(3). */
GPURUN_API gpurun_status gpurun_op_free(gpurun_op *op);

/** Instead of a buffer of a collective: what this rank gives, or gets, is in its other buffer already. */
#define GPURUN_IN_PLACE ((void *)(~(uintptr_t)0))

/* ---------------------------------------------------------------------------------------- point to point */

#define GPURUN_ANY_SOURCE (-1) /* receive from any rank */
#define GPURUN_PROC_NULL (-2)  /* no rank: the call checks its arguments, does nothing, and succeeds */
#define GPURUN_ANY_TAG (-1)    /* receive with any tag */
#define GPURUN_ALL_RANKS (-4)  /* all other ranks: of gpurun_lend() */
#define GPURUN_TAG_MAX 2147483647

typedef struct gpurun_message_status {
    int source;          /* rank in the communicator; GPURUN_PROC_NULL after a receive from GPURUN_PROC_NULL */
    int tag;             /* GPURUN_ANY_TAG after a receive from GPURUN_PROC_NULL */
    size_t count;        /* whole elements of the receive's type in the message; after a probe: bytes */
    size_t bytes;        /* the message's true length, also when it was truncated */
    gpurun_status error; /* of this message alone; gpurun_waitall() and the like return the first error of all */
    int cancelled;       /* 1 if it is a receive or a loan that gpurun_cancel() cancelled */
} gpurun_message_status;

/**
 * How many elements of @p type the message has that @p status describes, of a receive, a completion or a probe.
 *
 * A message that was truncated is counted with its true length.
 *
 * @param[out] ret_count  written only on success
 * @retval GPURUN_OK            counted
 * @retval GPURUN_ERR_COUNT     the message is not a whole number of them (MPI_UNDEFINED): an answer, of which no line
 *                              on standard error tells, and which ends no job
 * @retval GPURUN_ERR_TYPE      @p type is not a datatype
 * @retval GPURUN_ERR_ARGUMENT  @p status or @p ret_count is NULL
 *
 * Threads: any, at any time. Since 0.1. See gpurun_get_count(3).
 */
GPURUN_API gpurun_status gpurun_get_count(const gpurun_message_status *status, gpurun_datatype type, size_t *ret_count);

/**
 * Send @p count elements of @p type to rank @p dest of @p comm.
 *
 * On a stream: the buffer is read in the order of @p stream, and the call never waits for the device. On GPURUN_HOST:
 * the buffer may be reused on return. On both, the call may wait on the host until the message is matched. Small
 * (eager) messages do not wait while there is buffer space. Messages from one rank match in the order in which they
 * were sent.
 *
 * @param buffer  memory of any kind, on the host or on a device, see gpurun(7); NULL only if @p count is 0
 * @param dest    a rank of @p comm, also this one, or GPURUN_PROC_NULL
 * @param tag     0 to GPURUN_TAG_MAX
 * @retval GPURUN_OK             sent, or enqueued
 * @retval GPURUN_ERR_BUFFER     NULL, freed or unmapped memory, or shorter than the message. Nothing was sent
 * @retval GPURUN_ERR_COUNT, GPURUN_ERR_TYPE, GPURUN_ERR_RANK, GPURUN_ERR_TAG, GPURUN_ERR_COMM,
 *         GPURUN_ERR_STREAM     that argument cannot be used. Nothing was sent
 * @retval GPURUN_ERR_PEER_LOST  @p dest has died
 * @retval GPURUN_ERR_DEVICE     the device failed
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_send(3).
 */
GPURUN_API gpurun_status gpurun_send(const void *buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                     gpurun_comm comm, gpurun_stream stream);

/**
 * Receive a message of at most @p count elements of @p type.
 *
 * Waits on the host until the message is matched, and returns with @p ret_status written. On a stream, the data is
 * written in the order of @p stream. On GPURUN_HOST, it is in the buffer on return.
 *
 * @param source           a rank of @p comm, also this one, GPURUN_ANY_SOURCE or GPURUN_PROC_NULL
 * @param tag              0 to GPURUN_TAG_MAX, or GPURUN_ANY_TAG
 * @param[out] ret_status  may be NULL; written on success and with GPURUN_ERR_TRUNCATED
 * @retval GPURUN_OK             received, or matched and enqueued
 * @retval GPURUN_ERR_TRUNCATED  the message was longer than the buffer: its first @p count elements are delivered, the
 *                               rest is dropped, and ret_status->bytes is the true length of the message
 * @retval GPURUN_ERR_PEER_LOST  @p source has died (with GPURUN_ANY_SOURCE: every other rank has died)
 *
 * The other errors are those of gpurun_send(). GPURUN_ERR_BUFFER also for memory that is mapped read-only. Threads:
 * any. Since 0.1. See gpurun_recv(3).
 */
GPURUN_API gpurun_status gpurun_recv(void *buffer, size_t count, gpurun_datatype type, int source, int tag,
                                     gpurun_comm comm, gpurun_stream stream, gpurun_message_status *ret_status);

/**
 * Send one message and receive another at the same time. Never deadlocks with a peer that does the same.
 *
 * The two buffers must not overlap. Parameters and errors are those of gpurun_send() and gpurun_recv(). If an
 * argument cannot be used, nothing was sent or received.
 *
 * Threads: any. Since 0.1. See gpurun_sendrecv(3).
 */
GPURUN_API gpurun_status gpurun_sendrecv(const void *send_buffer, size_t send_count, gpurun_datatype send_type,
                                         int dest, int send_tag, void *recv_buffer, size_t recv_count,
                                         gpurun_datatype recv_type, int source, int recv_tag, gpurun_comm comm,
                                         gpurun_stream stream, gpurun_message_status *ret_status);

/**
 * gpurun_send() that does not complete before the message is matched.
 *
 * On return a receive has matched the message. On GPURUN_HOST the buffer may be reused then.
 *
 * Parameters and errors are those of gpurun_send(). Threads: any. Since 0.1. See gpurun_send(3).
 */
GPURUN_API gpurun_status gpurun_ssend(const void *buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                      gpurun_comm comm, gpurun_stream stream);

/**
 * Send @p buffer and replace its contents by the message received.
 *
 * @param[in,out] buffer  @p count elements are sent from it and at most as many received into it
 * @retval GPURUN_ERR_MEMORY  no memory for a copy of the buffer. Nothing was sent or received
 *
 * The other parameters and errors are those of gpurun_sendrecv(). Threads: any. Since 0.1. See gpurun_sendrecv(3).
 */
GPURUN_API gpurun_status gpurun_sendrecv_replace(void *buffer, size_t count, gpurun_datatype type, int dest,
                                                 int send_tag, int source, int recv_tag, gpurun_comm comm,
                                                 gpurun_stream stream, gpurun_message_status *ret_status);

/* ------------------------------------------------------------------------------------------------ groups */

/**
 * Begin a group: the calls of this thread up to gpurun_group_end() are started together when the group ends.
 *
 * In a group, gpurun_send(), gpurun_ssend(), gpurun_recv(), gpurun_sendrecv(), gpurun_mrecv(), the blocking collectives
 * (gpurun_bcast(), gpurun_allreduce(), gpurun_gather() and all others, gpurun_barrier() among them), and the calls that
 * start a message, check their arguments and return; buffers and the variables for statuses have to stay until
 * gpurun_group_end(). Collectives that return a request start at once. Calls that wait for messages, test for them or
 * probe give GPURUN_ERR_UNSUPPORTED, as do gpurun_sendrecv_replace(), gpurun_cancel(), gpurun_request_free() and
 * gpurun_finalize(). Groups may be nested: the outermost one counts.
 *
 * @retval GPURUN_OK                   the group is open
 * @retval GPURUN_ERR_NOT_INITIALIZED  gpurun_init() was not called
 * @retval GPURUN_ERR_FINALIZED        gpurun_finalize() was called
 *
 * Threads: any; a group is its thread's own. Since 0.1. See gpurun_group_begin(3).
 */
GPURUN_API gpurun_status gpurun_group_begin(void);

/**
 * End a group: start all of its calls, and complete the blocking ones, each in its own order domain.
 *
 * None of the calls waits for another, so ranks that send to each other before they receive do not deadlock. Each is
 * ordered with what else is in its order domain as if it were called here. Sends match in the order of their calls, and
 * so do receives. The requests that the group has started are completed by gpurun_wait() and its kin. The end of an
 * inner group does nothing.
 *
 * @retval GPURUN_OK            all messages are sent and received; on a stream, matched and enqueued
 * @retval GPURUN_ERR_ARGUMENT  no group is open in this thread; before gpurun_init() and after gpurun_finalize(), the
 *                              errors of gpurun_group_begin()
 *
 * Else the first error of a call, as that call returns it outside of groups; gpurun_error_detail() names the call. Each
 * receive's status, if asked for, has its own error. Threads: any. Since 0.1. See gpurun_group_begin(3).
 */
GPURUN_API gpurun_status gpurun_group_end(void);

/* ---------------------------------------------------------------------------------------------- requests */

/** A send or a receive that was started and has not been waited for. */
typedef struct gpurun_request {
    uint64_t id;
} gpurun_request;

static inline gpurun_request gpurun_make_request(uint64_t id) {
    gpurun_request request;
    request.id = id;
    return request;
}

/** No request: waiting for it returns at once. */
#define GPURUN_REQUEST_NULL (gpurun_make_request(0))

/**
 * Start sending @p count elements of @p type to rank @p dest of @p comm.
 *
 * Returns at once. The buffer is read after everything issued before in @p stream (on GPURUN_HOST: from now on), and
 * must not be modified before the request is completed. What is issued later in @p stream does not wait for the
 * message. Messages match in the order in which they were started, blocking or not.
 *
 * @param[out] ret_request  written only on success; complete it with gpurun_wait() or another wait or test call
 * @retval GPURUN_OK            started
 * @retval GPURUN_ERR_ARGUMENT  @p ret_request is NULL
 *
 * The other parameters and errors are those of gpurun_send(). With an error, nothing was started. If @p dest has died,
 * the call that completes the request says so. Threads: any. Since 0.1. See gpurun_isend(3).
 */
GPURUN_API gpurun_status gpurun_isend(const void *buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                      gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** gpurun_isend() whose request completes only after the message is matched. Since 0.1. See gpurun_isend(3). */
GPURUN_API gpurun_status gpurun_issend(const void *buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                       gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/**
 * Start receiving a message of at most @p count elements of @p type.
 *
 * Returns at once. The buffer is written after everything issued before in @p stream (on GPURUN_HOST: from now on). It
 * must not be read or modified before the request is completed. The status of the call that completes the request has
 * the message's source, tag and length.
 *
 * @param[out] ret_request  written only on success; complete it with gpurun_wait() or another wait or test call
 * @retval GPURUN_OK            started
 * @retval GPURUN_ERR_ARGUMENT  @p ret_request is NULL
 *
 * The other parameters and errors are those of gpurun_recv(). With an error, nothing was started.
 * Threads: any. Since 0.1. See gpurun_isend(3).
 */
GPURUN_API gpurun_status gpurun_irecv(void *buffer, size_t count, gpurun_datatype type, int source, int tag,
                                      gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/**
 * Complete @p request into an order domain.
 *
 * On GPURUN_HOST: returns when the message has moved. On a stream, which need not be the one that the request was
 * started in: returns once the message is matched and enqueued, and what is issued afterwards in @p stream starts when
 * the message has moved. The request becomes GPURUN_REQUEST_NULL, or inactive if it is persistent.
 *
 * @param[in,out] request  GPURUN_REQUEST_NULL and inactive requests count as complete
 * @param[out] ret_status  may be NULL; of a receive: source, tag and length; also written with the next two errors
 * @retval GPURUN_OK             complete
 * @retval GPURUN_ERR_TRUNCATED  complete, but the message was longer than the buffer, see gpurun_recv()
 * @retval GPURUN_ERR_PEER_LOST  complete, but the peer died before the message had moved
 * @retval GPURUN_ERR_REQUEST    not a request, or one that was completed or freed before
 * @retval GPURUN_ERR_STREAM     not a stream of the rank's device; the request was not changed
 * @retval GPURUN_ERR_DEVICE     the device failed
 * @retval GPURUN_ERR_ARGUMENT   @p request is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any, but one at a time for one request. Since 0.1. See gpurun_wait(3).
 */
GPURUN_API gpurun_status gpurun_wait(gpurun_request *request, gpurun_stream stream, gpurun_message_status *ret_status);

/**
 * Complete all @p count requests into an order domain, each as gpurun_wait() does.
 *
 * @param[out] ret_statuses  @p count statuses, or NULL; each has its own `error`
 * @retval GPURUN_OK  all are complete, without an error
 * @retval others     the first error of a message, in the order of the array; all are complete. GPURUN_ERR_REQUEST and
 *                    GPURUN_ERR_STREAM: an argument cannot be used, and no request was changed
 *
 * Threads: any, but one at a time for one request. Since 0.1. See gpurun_wait(3).
 */
GPURUN_API gpurun_status gpurun_waitall(size_t count, gpurun_request *requests, gpurun_stream stream,
                                        gpurun_message_status *ret_statuses);

/**
 * Complete one of @p count requests into an order domain: the first one that can be completed.
 *
 * @param[out] ret_index  which one; GPURUN_UNDEFINED if none is active
 *
 * The other parameters and errors are those of gpurun_wait(). Since 0.1. See gpurun_wait(3).
 */
GPURUN_API gpurun_status gpurun_waitany(size_t count, gpurun_request *requests, gpurun_stream stream, int *ret_index,
                                        gpurun_message_status *ret_status);

/**
 * Complete at least one of @p count requests into an order domain, and all others that need no waiting.
 *
 * @param[out] ret_count     how many; GPURUN_UNDEFINED if none is active
 * @param[out] ret_indices   room for @p count: which ones, in ascending order
 * @param[out] ret_statuses  room for @p count, or NULL: their statuses, in the order of @p ret_indices
 *
 * The other parameters and errors are those of gpurun_waitall(). Since 0.1. See gpurun_wait(3).
 */
GPURUN_API gpurun_status gpurun_waitsome(size_t count, gpurun_request *requests, gpurun_stream stream, int *ret_count,
                                         int *ret_indices, gpurun_message_status *ret_statuses);

/**
 * Complete @p request into an order domain if that needs no waiting.
 *
 * @param[out] ret_done  1: completed, as by gpurun_wait(); 0: not complete yet, and the request was not changed
 *
 * Also makes progress on all messages of the rank. The other parameters and errors are those of gpurun_wait().
 * Since 0.1. See gpurun_wait(3).
 */
GPURUN_API gpurun_status gpurun_test(gpurun_request *request, gpurun_stream stream, int *ret_done,
                                     gpurun_message_status *ret_status);

/** gpurun_waitall() if that needs no waiting (@p ret_done 1). Else does nothing (0). Since 0.1. See gpurun_wait(3). */
GPURUN_API gpurun_status gpurun_testall(size_t count, gpurun_request *requests, gpurun_stream stream, int *ret_done,
                                        gpurun_message_status *ret_statuses);

/** gpurun_waitany() if that needs no waiting (@p ret_done 1, also when none is active). Else does nothing (0).
 * Since 0.1. See gpurun_wait(3). */
GPURUN_API gpurun_status gpurun_testany(size_t count, gpurun_request *requests, gpurun_stream stream, int *ret_index,
                                        int *ret_done, gpurun_message_status *ret_status);

/** gpurun_waitsome() if that needs no waiting. Else completes none (@p ret_count 0). Since 0.1. See
 * gpurun_wait(3). */
GPURUN_API gpurun_status gpurun_testsome(size_t count, gpurun_request *requests, gpurun_stream stream, int *ret_count,
                                         int *ret_indices, gpurun_message_status *ret_statuses);

/**
 * Cancel a receive or a loan that has not been matched. One that has been matched is not changed.
 *
 * The request must still be completed. `cancelled` in its status says which of the two happened.
 *
 * @retval GPURUN_OK               cancelled, or matched before
 * @retval GPURUN_ERR_UNSUPPORTED  a send or a collective, which cannot be cancelled
 * @retval GPURUN_ERR_REQUEST      not an active request
 * @retval GPURUN_ERR_ARGUMENT     @p request is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_cancel(3).
 */
GPURUN_API gpurun_status gpurun_cancel(gpurun_request *request);

/**
 * Free a request. An active one completes by itself, but nobody can wait for it. Becomes GPURUN_REQUEST_NULL.
 *
 * Its buffer must not be modified or freed until the message has moved. Only an answer of the peer, by another message,
 * can tell when that is.
 *
 * @retval GPURUN_OK            freed
 * @retval GPURUN_ERR_REQUEST   not a request, or one that was completed or freed before
 * @retval GPURUN_ERR_ARGUMENT  @p request is NULL
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_cancel(3).
 */
GPURUN_API gpurun_status gpurun_request_free(gpurun_request *request);

/* ------------------------------------------------------------------------------------------------- loans */

/** Memory that another rank has lent to this one. */
typedef struct gpurun_loan {
    uint64_t id;
} gpurun_loan;

static inline gpurun_loan gpurun_make_loan(uint64_t id) {
    gpurun_loan loan;
    loan.id = id;
    return loan;
}

/** No loan: giving it back does nothing. */
#define GPURUN_LOAN_NULL (gpurun_make_loan(0))

/** What the two sides may do with lent memory until it is given back. */
typedef enum gpurun_loan_kind {
    GPURUN_LOAN_READ_ONLY = 1,    /* all read */
    GPURUN_LOAN_EXCLUSIVE = 2,    /* only the borrower reads and writes */
    GPURUN_LOAN_SHARED = 3,       /* all read and write, without any order between them */
    GPURUN_LOAN_READ_OR_COPY = 4, /* all read, and who cannot map the memory gets a copy */
    GPURUN_LOAN_COPY = 5          /* of a borrowed loan: what this rank reads is a copy. No loan is lent so */
} gpurun_loan_kind;

/**
 * Lend @p bytes of device memory, or of pinned host memory, to rank @p dest of @p comm, where they are.
 *
 * A loan is matched as a message is: by gpurun_borrow(), or by a receive, which gets a copy. Returns at once. The
 * borrower's stream comes after everything issued before in @p stream. The request is complete when the loan has been
 * given back: what follows its completion, in the order domain of the call that completes it, comes after everything
 * that the borrower has done. Until then the memory must not be freed. A loan that nobody has matched is taken back by
 * gpurun_cancel().
 *
 * @param buffer            memory that can be exported, of gpurun_malloc(), gpurun_malloc_host() or cudaMalloc(), or
 *                          borrowed; any part of it. To the rank itself: memory of any kind
 * @param dest              a rank of @p comm, also this one, or GPURUN_PROC_NULL: the request is complete at once. Or
 *                          GPURUN_ALL_RANKS: all others borrow it, and the request is complete when all have given
 *                          it back; not with GPURUN_LOAN_EXCLUSIVE
 * @param[out] ret_request  written only on success; complete it with gpurun_wait() or another wait or test call
 * @retval GPURUN_OK               lent
 * @retval GPURUN_ERR_UNSUPPORTED  this memory cannot be lent; gpurun_error_detail() says why, and what to do. Or the
 *                                 stream is captured, or a group is open
 * @retval GPURUN_ERR_ARGUMENT     @p kind is none, or @p ret_request is NULL
 *
 * The other errors are those of gpurun_isend(). Threads: any. Since 0.1. See gpurun_lend(3).
 */
GPURUN_API gpurun_status gpurun_lend(void *buffer, size_t bytes, gpurun_loan_kind kind, int dest, int tag,
                                     gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** A tensor as DLPack describes it, of <dlpack/dlpack.h>. */
struct DLTensor;

#define GPURUN_LOAN_TENSORS_MAX 100000 /* of a loan */
#define GPURUN_LOAN_METADATA_MAX 65536 /* bytes of a loan */

/**
 * Lend @p count tensors, of one or several allocations, as one loan.
 *
 * As gpurun_lend(). Shapes, strides, types, names and metadata travel with the loan. A receive that meets it gets a
 * copy of a single tensor without gaps; of others it gets nothing but the order, and the message has a length of 0.
 *
 * @param tensors         device memory that can be lent; tensors without elements may be anywhere. Copied, as are
 * @param names           @p count of them, each of which may be NULL, or NULL
 * @param metadata        @p metadata_bytes of the program's own; NULL if there are none
 * @retval GPURUN_ERR_COUNT  too many tensors or bytes, or a shape that cannot be
 *
 * The other parameters and errors are those of gpurun_lend(). Threads: any. Since 0.1. See gpurun_lend(3).
 */
GPURUN_API gpurun_status gpurun_lend_tensors(const struct DLTensor *tensors, const char *const *names, size_t count,
                                             const void *metadata, size_t metadata_bytes, gpurun_loan_kind kind,
                                             int dest, int tag, gpurun_comm comm, gpurun_stream stream,
                                             gpurun_request *ret_request);

/**
 * Borrow the memory that the next message with this source and tag lends.
 *
 * Waits on the host for that message. On a stream, what follows there comes after what the lender's stream did before
 * gpurun_lend(); on GPURUN_HOST, that is over on return. With an error, the message is left to be received.
 *
 * @param source           a rank of @p comm, also this one, GPURUN_ANY_SOURCE, or GPURUN_PROC_NULL: GPURUN_LOAN_NULL
 * @param tag              0 to GPURUN_TAG_MAX, or GPURUN_ANY_TAG
 * @param[out] ret_loan    written only on success; give it back with gpurun_give_back()
 * @param[out] ret_status  may be NULL; the loan's source, tag and length; written only on success
 * @retval GPURUN_OK               borrowed
 * @retval GPURUN_ERR_LOAN         the message is no loan
 * @retval GPURUN_ERR_UNSUPPORTED  this rank's device cannot reach that memory: receive it. Or the stream is captured,
 * or a group is open
 * @retval GPURUN_ERR_DEVICE       the memory could not be mapped: receive it; or the device failed
 * @retval GPURUN_ERR_PEER_LOST    the lender has died (with GPURUN_ANY_SOURCE: every other rank has died)
 *
 * The other errors are those of gpurun_probe(). Threads: any. Since 0.1. See gpurun_lend(3).
 */
GPURUN_API gpurun_status gpurun_borrow(int source, int tag, gpurun_comm comm, gpurun_stream stream,
                                       gpurun_loan *ret_loan, gpurun_message_status *ret_status);

/**
 * Where a borrowed loan lies in this process, until it is given back.
 *
 * @param[out] ret_buffer  the memory; NULL if it has no bytes. The outputs are written only on success
 * @param[out] ret_bytes   may be NULL
 * @param[out] ret_kind    may be NULL; of a loan of GPURUN_LOAN_READ_OR_COPY it is GPURUN_LOAN_READ_ONLY or
 *                         GPURUN_LOAN_COPY
 * @retval GPURUN_OK            there
 * @retval GPURUN_ERR_LOAN      not a loan that this rank has
 * @retval GPURUN_ERR_ARGUMENT  @p ret_buffer is NULL
 *
 * Threads: any. Since 0.1. See gpurun_lend(3).
 */
GPURUN_API gpurun_status gpurun_loan_buffer(gpurun_loan loan, void **ret_buffer, size_t *ret_bytes,
                                            gpurun_loan_kind *ret_kind);

/**
 * The tensors of a borrowed loan, where they lie in this process, until it is given back.
 *
 * @param[out] ret_tensors  @p ret_count of them, in the lender's order. The outputs are written only on success
 * @param[out] ret_names    may be NULL; as many names, "" where the lender gave none
 * @param[out] ret_count    how many; 0 of a loan of gpurun_lend()
 * @retval GPURUN_OK            there
 * @retval GPURUN_ERR_LOAN      not a loan that this rank has
 * @retval GPURUN_ERR_ARGUMENT  @p ret_tensors or @p ret_count is NULL
 *
 * Threads: any. Since 0.1. See gpurun_lend(3).
 */
GPURUN_API gpurun_status gpurun_loan_tensors(gpurun_loan loan, const struct DLTensor **ret_tensors,
                                             const char *const **ret_names, size_t *ret_count);

/**
 * The metadata that the lender has sent with a loan of tensors, until it is given back.
 *
 * @param[out] ret_metadata  NULL if there is none. The outputs are written only on success
 * @param[out] ret_bytes     how many bytes
 * @retval GPURUN_OK            there
 * @retval GPURUN_ERR_LOAN      not a loan that this rank has
 * @retval GPURUN_ERR_ARGUMENT  @p ret_metadata or @p ret_bytes is NULL
 *
 * Threads: any. Since 0.1. See gpurun_lend(3).
 */
GPURUN_API gpurun_status gpurun_loan_metadata(gpurun_loan loan, const void **ret_metadata, size_t *ret_bytes);

/**
 * Give a loan back to its lender, after everything issued before in @p stream.
 *
 * Returns at once. On GPURUN_HOST, nothing of this rank's may use the memory any more. @p loan becomes
 * GPURUN_LOAN_NULL.
 *
 * @retval GPURUN_OK               given back, or GPURUN_LOAN_NULL
 * @retval GPURUN_ERR_PEER_LOST    given back, but the lender has died
 * @retval GPURUN_ERR_LOAN         not a loan that this rank has; or it is lent on, and was not given back
 * @retval GPURUN_ERR_STREAM       not a stream of the rank's device; the loan was not given back
 * @retval GPURUN_ERR_UNSUPPORTED  the stream is captured; the loan was not given back
 * @retval GPURUN_ERR_ARGUMENT     @p loan is NULL
 *
 * Threads: any, but one at a time for one loan. Since 0.1. See gpurun_lend(3).
 */
GPURUN_API gpurun_status gpurun_give_back(gpurun_loan *loan, gpurun_stream stream);

/**
 * Wait until no other rank has the allocation mapped that @p pointer lies in.
 *
 * Ranks that have borrowed memory, or received from it, keep it mapped, so that the device has it in use even when it
 * has been freed. They are asked to unmap it, and do as soon as their work with it is over. The memory stays this
 * rank's, and can be lent and sent again: then it is mapped again. No message may be using it during the call.
 *
 * @param pointer     any address of the allocation; NULL: the call does nothing
 * @param timeout_ms  0 to ask only; negative to wait for as long as it takes
 * @retval GPURUN_OK           no other rank has it mapped
 * @retval GPURUN_ERR_TIMEOUT  some have; gpurun_error_detail() names them. They have been asked, and may be asked again
 * @retval GPURUN_ERR_LOAN     some of it is lent, or it is borrowed; nothing was done
 * @retval GPURUN_ERR_BUFFER   no memory of a device, freed, or pageable memory of the host
 * @retval GPURUN_ERR_NOT_INITIALIZED, GPURUN_ERR_FINALIZED  before gpurun_init() or after gpurun_finalize()
 *
 * Threads: any. Since 0.1. See gpurun_unregister(3).
 */
GPURUN_API gpurun_status gpurun_unregister(const void *pointer, int timeout_ms);

/* ---------------------------------------------------------------------------------- persistent requests */

/**
 * Prepare a send that will be started many times. Nothing is sent.
 *
 * @param[out] ret_request  inactive. Start it with gpurun_start(), wait for it, start it again and so on. Free it with
 *                          gpurun_request_free()
 *
 * Parameters and errors are those of gpurun_isend(). Since 0.1. See gpurun_send_init(3).
 */
GPURUN_API gpurun_status gpurun_send_init(const void *buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                          gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** gpurun_send_init() for a send like gpurun_issend(). Since 0.1. See gpurun_send_init(3). */
GPURUN_API gpurun_status gpurun_ssend_init(const void *buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                           gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a receive that will be started many times, see gpurun_send_init(). Since 0.1. */
GPURUN_API gpurun_status gpurun_recv_init(void *buffer, size_t count, gpurun_datatype type, int source, int tag,
                                          gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/**
 * Start an inactive persistent request, as gpurun_isend(), gpurun_irecv() or, of a collective, gpurun_ibcast() would.
 *
 * @retval GPURUN_OK           started
 * @retval GPURUN_ERR_REQUEST  not a persistent request, or the request is active: wait for it first
 * @retval GPURUN_ERR_BUFFER   the memory of its buffer was freed after the request was made
 *
 * Threads: any, but one at a time for one request. Since 0.1. See gpurun_send_init(3).
 */
GPURUN_API gpurun_status gpurun_start(gpurun_request *request);

/** gpurun_start() for each of @p count requests, in order, up to the first that fails. Since 0.1. See
 * gpurun_send_init(3). */
GPURUN_API gpurun_status gpurun_startall(size_t count, gpurun_request *requests);

/* ------------------------------------------------------------------------------------------------ probing */

/** A message that a matched probe has reserved, for gpurun_mrecv(). */
typedef struct gpurun_message {
    uint64_t id;
} gpurun_message;

static inline gpurun_message gpurun_make_message(uint64_t id) {
    gpurun_message message;
    message.id = id;
    return message;
}

#define GPURUN_MESSAGE_NULL (gpurun_make_message(0))

/** The message of a matched probe of GPURUN_PROC_NULL: receiving it is receiving from GPURUN_PROC_NULL. */
#define GPURUN_MESSAGE_NO_PROC (gpurun_make_message(1))

/**
 * Wait until there is a message that gpurun_recv() with these arguments would match, and describe it.
 *
 * @param[out] ret_status  may be NULL; its `count` is in bytes (in elements: gpurun_get_count())
 *
 * The message stays in the unexpected queue. The errors are those of gpurun_recv(). Since 0.1. See gpurun_probe(3).
 */
GPURUN_API gpurun_status gpurun_probe(int source, int tag, gpurun_comm comm, gpurun_message_status *ret_status);

/** gpurun_probe() that does not wait: @p ret_found is 1 or 0. Also makes progress on all messages of the rank.
 * Since 0.1. See gpurun_probe(3). */
GPURUN_API gpurun_status gpurun_iprobe(int source, int tag, gpurun_comm comm, int *ret_found,
                                       gpurun_message_status *ret_status);

/**
 * gpurun_probe() that reserves the message: no other receive or probe can match it.
 *
 * @param[out] ret_message  must be received with gpurun_mrecv() or gpurun_imrecv()
 *
 * Since 0.1. See gpurun_probe(3).
 */
GPURUN_API gpurun_status gpurun_mprobe(int source, int tag, gpurun_comm comm, gpurun_message *ret_message,
                                       gpurun_message_status *ret_status);

/** gpurun_mprobe() that does not wait: @p ret_found is 1 or 0. Since 0.1. See gpurun_probe(3). */
GPURUN_API gpurun_status gpurun_improbe(int source, int tag, gpurun_comm comm, int *ret_found,
                                        gpurun_message *ret_message, gpurun_message_status *ret_status);

/**
 * Receive the message of a matched probe, as gpurun_recv() would. Its handle becomes GPURUN_MESSAGE_NULL.
 *
 * @retval GPURUN_ERR_REQUEST  not a probed message, or one that was received before
 *
 * The other errors are those of gpurun_recv(). Since 0.1. See gpurun_probe(3).
 */
GPURUN_API gpurun_status gpurun_mrecv(void *buffer, size_t count, gpurun_datatype type, gpurun_message *message,
                                      gpurun_stream stream, gpurun_message_status *ret_status);

/** Start receiving the message of a matched probe, as gpurun_irecv() would. Since 0.1. See gpurun_probe(3). */
GPURUN_API gpurun_status gpurun_imrecv(void *buffer, size_t count, gpurun_datatype type, gpurun_message *message,
                                       gpurun_stream stream, gpurun_request *ret_request);

/* ------------------------------------------------------------------------------------------- collectives */

/**
 * Broadcast @p count elements of @p type from rank @p root of @p comm to all its ranks.
 *
 * All ranks of @p comm call it with the same root and the same number of bytes, and call all collectives of @p comm in
 * the same order. Each rank chooses its kind of buffer and its order domain.
 *
 * @retval GPURUN_OK             done, or enqueued
 * @retval GPURUN_ERR_COLLECTIVE  a rank called another collective, or this one with another root or length, or it has
 * failed on a rank; the contents of @p buffer are undefined. A rank whose part is over when it is notified gets
 * this error from the collective of @p comm that is under way then, or else from the next
 * @retval GPURUN_ERR_PEER_LOST  a rank of @p comm has died
 *
 * The other errors are those of gpurun_send(). Threads: any, but one at a time in a collective of a communicator.
 * Since 0.1. See gpurun_bcast(3).
 */
GPURUN_API gpurun_status gpurun_bcast(void *buffer, size_t count, gpurun_datatype type, int root, gpurun_comm comm,
                                      gpurun_stream stream);

/**
 * No rank passes before all ranks of @p comm have reached it.
 *
 * On a stream: what follows in @p stream starts after every rank's order domain has reached the barrier. The call
 * waits until every rank has made it. Ranks may use different order domains.
 *
 * @retval GPURUN_OK             passed, or enqueued
 * @retval GPURUN_ERR_PEER_LOST  a rank of @p comm has died
 *
 * The other errors are those of gpurun_bcast(). Since 0.1. See gpurun_barrier(3).
 */
GPURUN_API gpurun_status gpurun_barrier(gpurun_comm comm, gpurun_stream stream);

/**
 * Start a broadcast like gpurun_bcast(), and return at once. gpurun_wait() or another wait or test call completes it.
 *
 * The broadcast happens after what was issued in @p stream before. What is issued there later does not wait for it.
 * Several collectives of a communicator may be under way, if all its ranks start them in the same order.
 *
 * @retval GPURUN_ERR_UNSUPPORTED  @p stream is being captured: use gpurun_bcast(), which can be part of a graph
 *
 * The other errors are those of gpurun_bcast() and gpurun_isend(). The call that completes the request returns
 * GPURUN_ERR_COLLECTIVE. Since 0.1. See gpurun_bcast(3).
 */
GPURUN_API gpurun_status gpurun_ibcast(void *buffer, size_t count, gpurun_datatype type, int root, gpurun_comm comm,
                                       gpurun_stream stream, gpurun_request *ret_request);

/**
 * Start a barrier, and return at once. The request completes once all ranks of @p comm have started the barrier and, on
 * streams, have reached it in their order domains.
 *
 * The errors are those of gpurun_ibcast(). Since 0.1. See gpurun_barrier(3).
 */
GPURUN_API gpurun_status gpurun_ibarrier(gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/**
 * Combine the @p count elements of all ranks of @p comm, one by one, by @p op, and give every rank the result.
 *
 * The result has the same bits on every rank, and from run to run, see gpurun_allreduce(3). Values of half precision
 * are combined in float.
 *
 * @param send  this rank's elements; GPURUN_IN_PLACE: they are in @p recv
 * @param recv  where the result comes; does not overlap @p send
 * @retval GPURUN_OK             done, or enqueued
 * @retval GPURUN_ERR_OP         not an operation, or @p op has no meaning for @p type
 * @retval GPURUN_ERR_BUFFER     as gpurun_send(), or the buffers overlap
 * @retval GPURUN_ERR_UNSUPPORTED  @p stream is being captured, and the device cannot reduce this memory itself; or
 *                                 @p op is of gpurun_op_create(), and a buffer is device memory or @p stream a stream
 *
 * The other errors are those of gpurun_bcast(). Since 0.1. See gpurun_allreduce(3).
 */
GPURUN_API gpurun_status gpurun_allreduce(const void *send, void *recv, size_t count, gpurun_datatype type,
                                          gpurun_op op, gpurun_comm comm, gpurun_stream stream);

/** gpurun_allreduce() that gives the result to rank @p root only: @p recv is used there alone, and only there may
 * @p send be GPURUN_IN_PLACE. GPURUN_ERR_RANK if @p root is no rank. Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_reduce(const void *send, void *recv, size_t count, gpurun_datatype type, gpurun_op op,
                                       int root, gpurun_comm comm, gpurun_stream stream);

/**
 * Combine the elements of all ranks, and give each rank a block of the result: rank i the i-th @p recv_count elements.
 *
 * @param send  @p recv_count elements for each rank of @p comm; GPURUN_IN_PLACE: they are in @p recv, at the beginning
 *              of which the result comes
 *
 * The errors are those of gpurun_allreduce(). Since 0.1. See gpurun_allreduce(3).
 */
GPURUN_API gpurun_status gpurun_reduce_scatter_block(const void *send, void *recv, size_t recv_count,
                                                     gpurun_datatype type, gpurun_op op, gpurun_comm comm,
                                                     gpurun_stream stream);

/** gpurun_reduce_scatter_block() with blocks of different lengths: rank i gets @p recv_counts[i] elements. All ranks
 * pass the same counts. Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_reduce_scatter(const void *send, void *recv, const size_t *recv_counts,
                                               gpurun_datatype type, gpurun_op op, gpurun_comm comm,
                                               gpurun_stream stream);

/** gpurun_allreduce() that gives each rank the combination of what the ranks up to it contribute, itself included.
 * Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_scan(const void *send, void *recv, size_t count, gpurun_datatype type, gpurun_op op,
                                     gpurun_comm comm, gpurun_stream stream);

/** gpurun_scan() without what the rank itself contributes. On rank 0, @p recv is not touched. Since 0.1. See
 * gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_exscan(const void *send, void *recv, size_t count, gpurun_datatype type, gpurun_op op,
                                       gpurun_comm comm, gpurun_stream stream);

/**
 * Collect @p send_count elements of every rank of @p comm on rank @p root: those of rank i are its i-th block.
 *
 * @param send        GPURUN_IN_PLACE on the root: its own elements are in their place in @p recv
 * @param recv        room for @p recv_count elements of each rank; used on the root alone, as the next two
 * @param recv_count  of each rank, as many bytes as that rank sends
 * @retval GPURUN_OK             done, or enqueued
 * @retval GPURUN_ERR_TRUNCATED, GPURUN_ERR_COUNT  the rank sends itself more, or less, than it expects
 * @retval GPURUN_ERR_BUFFER     as gpurun_send(), or the buffers overlap
 *
 * The other errors are those of gpurun_bcast(). Since 0.1. See gpurun_gather(3).
 */
GPURUN_API gpurun_status gpurun_gather(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                       size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                                       gpurun_stream stream);

/**
 * gpurun_gather() with blocks of different lengths.
 *
 * @param recv_counts    elements of each rank; used on the root alone
 * @param displacements  where the block of each rank begins, in elements of @p recv_type from @p recv; NULL: the blocks
 *                       are behind each other
 *
 * @retval GPURUN_ERR_ARGUMENT  @p recv_counts is NULL
 *
 * The other errors are those of gpurun_gather(). Since 0.1. See gpurun_gather(3).
 */
GPURUN_API gpurun_status gpurun_gatherv(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                        const size_t *recv_counts, const size_t *displacements,
                                        gpurun_datatype recv_type, int root, gpurun_comm comm, gpurun_stream stream);

/** Give every rank of @p comm its block of rank @p root's elements: rank i the i-th @p send_count. GPURUN_IN_PLACE as
 * @p recv on the root: its own block stays where it is. The errors are those of gpurun_gather(). Since 0.1. See
 * gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_scatter(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                        size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                                        gpurun_stream stream);

/** gpurun_scatter() with blocks of different lengths, see gpurun_gatherv(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_scatterv(const void *send, const size_t *send_counts, const size_t *displacements,
                                         gpurun_datatype send_type, void *recv, size_t recv_count,
                                         gpurun_datatype recv_type, int root, gpurun_comm comm, gpurun_stream stream);

/** gpurun_gather() that gives every rank all blocks. Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_allgather(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                          size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                          gpurun_stream stream);

/** gpurun_allgather() with blocks of different lengths, see gpurun_gatherv(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_allgatherv(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                           const size_t *recv_counts, const size_t *displacements,
                                           gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream);

/** Send every rank of @p comm a block, the i-th to rank i, and receive one of each. GPURUN_IN_PLACE as @p send: the
 * blocks are in @p recv, and are replaced. The errors are those of gpurun_gather(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_alltoall(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                         size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                         gpurun_stream stream);

/** gpurun_alltoall() with blocks of different lengths, see gpurun_gatherv(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_alltoallv(const void *send, const size_t *send_counts, const size_t *send_displacements,
                                          gpurun_datatype send_type, void *recv, const size_t *recv_counts,
                                          const size_t *recv_displacements, gpurun_datatype recv_type, gpurun_comm comm,
                                          gpurun_stream stream);

/* The same, started: each returns at once, and its request is complete when the collective is. The buffers must not be
 * used until then; arrays of counts and displacements are read in the call. The errors are those of the blocking call,
 * of which the call that completes the request returns GPURUN_ERR_COLLECTIVE, and of gpurun_ibcast(). */

/** Start a gpurun_allreduce(), see gpurun_ibcast(). Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_iallreduce(const void *send, void *recv, size_t count, gpurun_datatype type,
                                           gpurun_op op, gpurun_comm comm, gpurun_stream stream,
                                           gpurun_request *ret_request);

/** Start a gpurun_reduce(), see gpurun_ibcast(). Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_ireduce(const void *send, void *recv, size_t count, gpurun_datatype type, gpurun_op op,
                                        int root, gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_reduce_scatter_block(), see gpurun_ibcast(). Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_ireduce_scatter_block(const void *send, void *recv, size_t recv_count,
                                                      gpurun_datatype type, gpurun_op op, gpurun_comm comm,
                                                      gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_reduce_scatter(), see gpurun_ibcast(). Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_ireduce_scatter(const void *send, void *recv, const size_t *recv_counts,
                                                gpurun_datatype type, gpurun_op op, gpurun_comm comm,
                                                gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_scan(), see gpurun_ibcast(). Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_iscan(const void *send, void *recv, size_t count, gpurun_datatype type, gpurun_op op,
                                      gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_exscan(), see gpurun_ibcast(). Since 0.1. See gpurun_allreduce(3). */
GPURUN_API gpurun_status gpurun_iexscan(const void *send, void *recv, size_t count, gpurun_datatype type, gpurun_op op,
                                        gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_gather(), see gpurun_ibcast(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_igather(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                        size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                                        gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_gatherv(), see gpurun_ibcast(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_igatherv(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                         const size_t *recv_counts, const size_t *displacements,
                                         gpurun_datatype recv_type, int root, gpurun_comm comm, gpurun_stream stream,
                                         gpurun_request *ret_request);

/** Start a gpurun_scatter(), see gpurun_ibcast(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_iscatter(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                         size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                                         gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_scatterv(), see gpurun_ibcast(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_iscatterv(const void *send, const size_t *send_counts, const size_t *displacements,
                                          gpurun_datatype send_type, void *recv, size_t recv_count,
                                          gpurun_datatype recv_type, int root, gpurun_comm comm, gpurun_stream stream,
                                          gpurun_request *ret_request);

/** Start a gpurun_allgather(), see gpurun_ibcast(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_iallgather(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                           size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                           gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_allgatherv(), see gpurun_ibcast(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_iallgatherv(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                            const size_t *recv_counts, const size_t *displacements,
                                            gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                            gpurun_request *ret_request);

/** Start a gpurun_alltoall(), see gpurun_ibcast(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_ialltoall(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                          size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                          gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_alltoallv(), see gpurun_ibcast(). Since 0.1. See gpurun_gather(3). */
GPURUN_API gpurun_status gpurun_ialltoallv(const void *send, const size_t *send_counts,
                                           const size_t *send_displacements, gpurun_datatype send_type, void *recv,
                                           const size_t *recv_counts, const size_t *recv_displacements,
                                           gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                           gpurun_request *ret_request);

/* ------------------------------------------------------------------------------- exchanges with neighbours */

/**
 * Send the same elements to each destination of this rank, and receive one block from each of its sources.
 *
 * @p comm is a grid (gpurun_cart_create()) or has a graph (gpurun_dist_graph_create_adjacent()). On a grid, a rank's
 * sources and destinations are its neighbours: of each dimension that before it, then that behind it. Blocks are in
 * the order of the neighbours. Where a grid ends there is none: its block is not touched.
 *
 * @param recv        room for @p recv_count elements of each source
 * @param recv_count  as many bytes as each source sends
 * @retval GPURUN_OK             done, or enqueued
 * @retval GPURUN_ERR_COMM       @p comm is not a communicator, or has no topology
 * @retval GPURUN_ERR_COLLECTIVE  a source sends more, or less, or a rank called another collective
 * @retval GPURUN_ERR_TRUNCATED, GPURUN_ERR_COUNT  the rank sends itself more, or less, than it expects
 * @retval GPURUN_ERR_BUFFER     as gpurun_send(), or the buffers overlap; GPURUN_IN_PLACE is not possible
 *
 * The other errors are those of gpurun_bcast(). Since 0.1. See gpurun_neighbor_alltoall(3).
 */
GPURUN_API gpurun_status gpurun_neighbor_allgather(const void *send, size_t send_count, gpurun_datatype send_type,
                                                   void *recv, size_t recv_count, gpurun_datatype recv_type,
                                                   gpurun_comm comm, gpurun_stream stream);

/** gpurun_neighbor_allgather() with blocks of different lengths, see gpurun_gatherv(): counts and displacements are of
 * the sources. Since 0.1. See gpurun_neighbor_alltoall(3). */
GPURUN_API gpurun_status gpurun_neighbor_allgatherv(const void *send, size_t send_count, gpurun_datatype send_type,
                                                    void *recv, const size_t *recv_counts, const size_t *displacements,
                                                    gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream);

/**
 * Send a block to each destination of this rank, and receive one from each of its sources.
 *
 * What a rank of a grid sends to the neighbour before it, that one receives as the block of the neighbour behind it,
 * also where both are the same rank, in a periodic dimension of two ranks or one.
 *
 * @param send  @p send_count elements for each destination
 *
 * The rest is as with gpurun_neighbor_allgather(). Since 0.1. See gpurun_neighbor_alltoall(3).
 */
GPURUN_API gpurun_status gpurun_neighbor_alltoall(const void *send, size_t send_count, gpurun_datatype send_type,
                                                  void *recv, size_t recv_count, gpurun_datatype recv_type,
                                                  gpurun_comm comm, gpurun_stream stream);

/** gpurun_neighbor_alltoall() with blocks of different lengths, see gpurun_gatherv(). Since 0.1. See
 * gpurun_neighbor_alltoall(3). */
GPURUN_API gpurun_status gpurun_neighbor_alltoallv(const void *send, const size_t *send_counts,
                                                   const size_t *send_displacements, gpurun_datatype send_type,
                                                   void *recv, const size_t *recv_counts,
                                                   const size_t *recv_displacements, gpurun_datatype recv_type,
                                                   gpurun_comm comm, gpurun_stream stream);

/** Start a gpurun_neighbor_allgather(), see gpurun_ibcast(). Since 0.1. See gpurun_neighbor_alltoall(3). */
GPURUN_API gpurun_status gpurun_ineighbor_allgather(const void *send, size_t send_count, gpurun_datatype send_type,
                                                    void *recv, size_t recv_count, gpurun_datatype recv_type,
                                                    gpurun_comm comm, gpurun_stream stream,
                                                    gpurun_request *ret_request);

/** Start a gpurun_neighbor_allgatherv(), see gpurun_ibcast(). Since 0.1. See gpurun_neighbor_alltoall(3). */
GPURUN_API gpurun_status gpurun_ineighbor_allgatherv(const void *send, size_t send_count, gpurun_datatype send_type,
                                                     void *recv, const size_t *recv_counts, const size_t *displacements,
                                                     gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                                     gpurun_request *ret_request);

/** Start a gpurun_neighbor_alltoall(), see gpurun_ibcast(). Since 0.1. See gpurun_neighbor_alltoall(3). */
GPURUN_API gpurun_status gpurun_ineighbor_alltoall(const void *send, size_t send_count, gpurun_datatype send_type,
                                                   void *recv, size_t recv_count, gpurun_datatype recv_type,
                                                   gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** Start a gpurun_neighbor_alltoallv(), see gpurun_ibcast(). Since 0.1. See gpurun_neighbor_alltoall(3). */
GPURUN_API gpurun_status gpurun_ineighbor_alltoallv(const void *send, const size_t *send_counts,
                                                    const size_t *send_displacements, gpurun_datatype send_type,
                                                    void *recv, const size_t *recv_counts,
                                                    const size_t *recv_displacements, gpurun_datatype recv_type,
                                                    gpurun_comm comm, gpurun_stream stream,
                                                    gpurun_request *ret_request);

/* The same, persistent: each prepares a collective that is started any number of times by gpurun_start(), and completed
 * by a wait or test call after each start. All ranks start their persistent collectives, and make their other ones, in
 * the same order. Arrays of counts and displacements are read at each start, and stay as they are until the request is
 * freed, as in MPI. The errors are those of the function without _init; what can only be known then, gpurun_start()
 * returns. */

/** Prepare a gpurun_bcast(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_bcast_init(void *buffer, size_t count, gpurun_datatype type, int root, gpurun_comm comm,
                                           gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_barrier(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_barrier_init(gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_allreduce(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_allreduce_init(const void *send, void *recv, size_t count, gpurun_datatype type,
                                               gpurun_op op, gpurun_comm comm, gpurun_stream stream,
                                               gpurun_request *ret_request);

/** Prepare a gpurun_reduce(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_reduce_init(const void *send, void *recv, size_t count, gpurun_datatype type,
                                            gpurun_op op, int root, gpurun_comm comm, gpurun_stream stream,
                                            gpurun_request *ret_request);

/** Prepare a gpurun_reduce_scatter_block(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_reduce_scatter_block_init(const void *send, void *recv, size_t recv_count,
                                                          gpurun_datatype type, gpurun_op op, gpurun_comm comm,
                                                          gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_reduce_scatter(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_reduce_scatter_init(const void *send, void *recv, const size_t *recv_counts,
                                                    gpurun_datatype type, gpurun_op op, gpurun_comm comm,
                                                    gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_scan(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_scan_init(const void *send, void *recv, size_t count, gpurun_datatype type,
                                          gpurun_op op, gpurun_comm comm, gpurun_stream stream,
                                          gpurun_request *ret_request);

/** Prepare a gpurun_exscan(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_exscan_init(const void *send, void *recv, size_t count, gpurun_datatype type,
                                            gpurun_op op, gpurun_comm comm, gpurun_stream stream,
                                            gpurun_request *ret_request);

/** Prepare a gpurun_gather(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_gather_init(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                            size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                                            gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_gatherv(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_gatherv_init(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                             const size_t *recv_counts, const size_t *displacements,
                                             gpurun_datatype recv_type, int root, gpurun_comm comm,
                                             gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_scatter(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_scatter_init(const void *send, size_t send_count, gpurun_datatype send_type, void *recv,
                                             size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                                             gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_scatterv(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_scatterv_init(const void *send, const size_t *send_counts, const size_t *displacements,
                                              gpurun_datatype send_type, void *recv, size_t recv_count,
                                              gpurun_datatype recv_type, int root, gpurun_comm comm,
                                              gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_allgather(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_allgather_init(const void *send, size_t send_count, gpurun_datatype send_type,
                                               void *recv, size_t recv_count, gpurun_datatype recv_type,
                                               gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_allgatherv(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_allgatherv_init(const void *send, size_t send_count, gpurun_datatype send_type,
                                                void *recv, const size_t *recv_counts, const size_t *displacements,
                                                gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                                gpurun_request *ret_request);

/** Prepare a gpurun_alltoall(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_alltoall_init(const void *send, size_t send_count, gpurun_datatype send_type,
                                              void *recv, size_t recv_count, gpurun_datatype recv_type,
                                              gpurun_comm comm, gpurun_stream stream, gpurun_request *ret_request);

/** Prepare a gpurun_alltoallv(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_alltoallv_init(const void *send, const size_t *send_counts,
                                               const size_t *send_displacements, gpurun_datatype send_type, void *recv,
                                               const size_t *recv_counts, const size_t *recv_displacements,
                                               gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                               gpurun_request *ret_request);

/** Prepare a gpurun_neighbor_allgather(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_neighbor_allgather_init(const void *send, size_t send_count, gpurun_datatype send_type,
                                                        void *recv, size_t recv_count, gpurun_datatype recv_type,
                                                        gpurun_comm comm, gpurun_stream stream,
                                                        gpurun_request *ret_request);

/** Prepare a gpurun_neighbor_allgatherv(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_neighbor_allgatherv_init(const void *send, size_t send_count, gpurun_datatype send_type,
                                                         void *recv, const size_t *recv_counts,
                                                         const size_t *displacements, gpurun_datatype recv_type,
                                                         gpurun_comm comm, gpurun_stream stream,
                                                         gpurun_request *ret_request);

/** Prepare a gpurun_neighbor_alltoall(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_neighbor_alltoall_init(const void *send, size_t send_count, gpurun_datatype send_type,
                                                       void *recv, size_t recv_count, gpurun_datatype recv_type,
                                                       gpurun_comm comm, gpurun_stream stream,
                                                       gpurun_request *ret_request);

/** Prepare a gpurun_neighbor_alltoallv(). Since 0.1. See gpurun_barrier_init(3). */
GPURUN_API gpurun_status gpurun_neighbor_alltoallv_init(const void *send, const size_t *send_counts,
                                                        const size_t *send_displacements, gpurun_datatype send_type,
                                                        void *recv, const size_t *recv_counts,
                                                        const size_t *recv_displacements, gpurun_datatype recv_type,
                                                        gpurun_comm comm, gpurun_stream stream,
                                                        gpurun_request *ret_request);

#ifdef __cplusplus
}

/* gpurun_malloc() and its kin for a pointer of any type, without a cast, as cudaMalloc() in C++. Sizes are bytes. */
extern "C++" {

template <typename T>
GPURUN_NODISCARD inline gpurun_status gpurun_malloc(T **ret_pointer, size_t size) {
    void *pointer = nullptr;
    const gpurun_status status = gpurun_malloc(ret_pointer == nullptr ? nullptr : &pointer, size);
    if (status == GPURUN_OK)
        *ret_pointer = static_cast<T *>(pointer);
    return status;
}

template <typename T>
GPURUN_NODISCARD inline gpurun_status gpurun_malloc_host(T **ret_pointer, size_t size) {
    void *pointer = nullptr;
    const gpurun_status status = gpurun_malloc_host(ret_pointer == nullptr ? nullptr : &pointer, size);
    if (status == GPURUN_OK)
        *ret_pointer = static_cast<T *>(pointer);
    return status;
}

template <typename T>
GPURUN_NODISCARD inline gpurun_status gpurun_malloc_async(T **ret_pointer, size_t size, gpurun_stream stream) {
    void *pointer = nullptr;
    const gpurun_status status = gpurun_malloc_async(ret_pointer == nullptr ? nullptr : &pointer, size, stream);
    if (status == GPURUN_OK)
        *ret_pointer = static_cast<T *>(pointer);
    return status;
}

} // extern "C++"
#endif

#endif
