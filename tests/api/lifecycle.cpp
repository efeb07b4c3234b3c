// A process's life, in one process that gpurun did not start: before gpurun_init(), as the one rank of its own job,
// after gpurun_finalize(). The cases run in this order and each needs the one before.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "support/job.hpp"

#include <cstring>

using namespace gpurun::test;

namespace {

// Requests and probes, likewise.
void expect_all_of_requests(gpurun_status expected) {
    const gpurun_stream stream = GPURUN_HOST;
    int number = 41, done = 41;
    gpurun_request request = gpurun_make_request(41);
    gpurun_message message = gpurun_make_message(41);
    gpurun_message_status status{41, 41, 41, 41};

    CHECK(gpurun_ssend(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream) == expected);
    CHECK(gpurun_sendrecv_replace(&number, 1, GPURUN_INT32, 0, 0, 0, 0, kWorld, stream, &status) == expected);
    CHECK(gpurun_isend(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_issend(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_irecv(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_send_init(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_ssend_init(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_recv_init(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_start(&request) == expected);
    CHECK(gpurun_startall(1, &request) == expected);
    CHECK(gpurun_wait(&request, stream, &status) == expected);
    CHECK(gpurun_waitall(1, &request, stream, &status) == expected);
    CHECK(gpurun_waitany(1, &request, stream, &number, &status) == expected);
    CHECK(gpurun_waitsome(1, &request, stream, &done, &number, &status) == expected);
    CHECK(gpurun_test(&request, stream, &done, &status) == expected);
    CHECK(gpurun_testall(1, &request, stream, &done, &status) == expected);
    CHECK(gpurun_testany(1, &request, stream, &number, &done, &status) == expected);
    CHECK(gpurun_testsome(1, &request, stream, &done, &number, &status) == expected);
    CHECK(gpurun_cancel(&request) == expected);
    CHECK(gpurun_request_free(&request) == expected);
    CHECK(gpurun_probe(0, 0, kWorld, &status) == expected);
    CHECK(gpurun_iprobe(0, 0, kWorld, &done, &status) == expected);
    CHECK(gpurun_mprobe(0, 0, kWorld, &message, &status) == expected);
    CHECK(gpurun_improbe(0, 0, kWorld, &done, &message, &status) == expected);
    gpurun_loan loan = gpurun_make_loan(41);
    void* lent = nullptr;
    CHECK(gpurun_lend(&number, 4, GPURUN_LOAN_SHARED, 0, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_borrow(0, 0, kWorld, stream, &loan, &status) == expected);
    CHECK(gpurun_loan_buffer(loan, &lent, nullptr, nullptr) == expected);
    CHECK(gpurun_give_back(&loan, stream) == expected);
    CHECK(gpurun_unregister(&number, 0) == expected);
    const DLTensor* tensors = nullptr;
    const void* metadata = nullptr;
    size_t many = 0;
    CHECK(gpurun_lend_tensors(nullptr, nullptr, 0, nullptr, 0, GPURUN_LOAN_SHARED, 0, 0, kWorld, stream, &request) ==
          expected);
    CHECK(gpurun_loan_tensors(loan, &tensors, nullptr, &many) == expected);
    CHECK(gpurun_loan_metadata(loan, &metadata, &many) == expected);
    CHECK(gpurun_ibcast(&number, 1, GPURUN_INT32, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_ibarrier(kWorld, stream, &request) == expected);
    const gpurun_op sum = GPURUN_SUM;
    const auto type = GPURUN_INT32;
    const size_t counts[] = {1};
    int* const n = &number;
    CHECK(gpurun_iallreduce(n, n, 1, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_ireduce(n, n, 1, type, sum, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_ireduce_scatter_block(n, n, 1, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_ireduce_scatter(n, n, counts, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_iscan(n, n, 1, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_iexscan(n, n, 1, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_igather(n, 1, type, n, 1, type, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_igatherv(n, 1, type, n, counts, nullptr, type, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_iscatter(n, 1, type, n, 1, type, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_iscatterv(n, counts, nullptr, type, n, 1, type, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_iallgather(n, 1, type, n, 1, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_iallgatherv(n, 1, type, n, counts, nullptr, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_ialltoall(n, 1, type, n, 1, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_ialltoallv(n, counts, nullptr, type, n, counts, nullptr, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_ineighbor_allgather(n, 1, type, n, 1, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_ineighbor_allgatherv(n, 1, type, n, counts, nullptr, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_ineighbor_alltoall(n, 1, type, n, 1, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_ineighbor_alltoallv(n, counts, nullptr, type, n, counts, nullptr, type, kWorld, stream, &request) ==
          expected);
    CHECK(gpurun_bcast_init(&number, 1, GPURUN_INT32, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_barrier_init(kWorld, stream, &request) == expected);
    CHECK(gpurun_allreduce_init(n, n, 1, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_reduce_init(n, n, 1, type, sum, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_reduce_scatter_block_init(n, n, 1, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_reduce_scatter_init(n, n, counts, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_scan_init(n, n, 1, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_exscan_init(n, n, 1, type, sum, kWorld, stream, &request) == expected);
    CHECK(gpurun_gather_init(n, 1, type, n, 1, type, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_gatherv_init(n, 1, type, n, counts, nullptr, type, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_scatter_init(n, 1, type, n, 1, type, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_scatterv_init(n, counts, nullptr, type, n, 1, type, 0, kWorld, stream, &request) == expected);
    CHECK(gpurun_allgather_init(n, 1, type, n, 1, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_allgatherv_init(n, 1, type, n, counts, nullptr, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_alltoall_init(n, 1, type, n, 1, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_alltoallv_init(n, counts, nullptr, type, n, counts, nullptr, type, kWorld, stream, &request) ==
          expected);
    CHECK(gpurun_neighbor_allgather_init(n, 1, type, n, 1, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_neighbor_allgatherv_init(n, 1, type, n, counts, nullptr, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_neighbor_alltoall_init(n, 1, type, n, 1, type, kWorld, stream, &request) == expected);
    CHECK(gpurun_neighbor_alltoallv_init(n, counts, nullptr, type, n, counts, nullptr, type, kWorld, stream,
                                         &request) == expected);
    gpurun_op op = sum;
    CHECK(gpurun_op_create([](const void*, void*, size_t, gpurun_datatype) {}, 1, &op) == expected);
    CHECK(gpurun_op_free(&op) == expected);
    CHECK(op.id == sum.id);
    CHECK(gpurun_mrecv(&number, 1, GPURUN_INT32, &message, stream, &status) == expected);
    CHECK(gpurun_imrecv(&number, 1, GPURUN_INT32, &message, stream, &request) == expected);

    CHECK(number == 41);
    CHECK(done == 41);
    CHECK(request.id == 41);
    CHECK(message.id == 41);
    CHECK(status.bytes == 41);
}

void check_communicators(gpurun_status expected) {
    int number = 41;
    char name[GPURUN_MAX_OBJECT_NAME] = "before";
    gpurun_comm comm = gpurun_make_comm(41);
    gpurun_comparison comparison = GPURUN_SIMILAR;
    CHECK(gpurun_comm_compare(kWorld, kWorld, &comparison) == expected);
    CHECK(gpurun_comm_dup(kWorld, &comm) == expected);
    CHECK(gpurun_comm_split(kWorld, 0, 0, &comm) == expected);
    CHECK(gpurun_comm_accept("meet", 0, kWorld, &comm) == expected);
    CHECK(gpurun_comm_connect("meet", 0, kWorld, &comm) == expected);
    CHECK(gpurun_comm_split_type(kWorld, GPURUN_SPLIT_NODE, 0, &comm) == expected);
    CHECK(gpurun_comm_create(kWorld, GPURUN_GROUP_EMPTY, &comm) == expected);
    CHECK(gpurun_comm_create_group(kWorld, GPURUN_GROUP_EMPTY, 0, &comm) == expected);
    CHECK(gpurun_comm_free(&comm) == expected);
    CHECK(gpurun_comm_set_name(kWorld, "all") == expected);
    CHECK(gpurun_comm_set_algorithm(kWorld, "bcast", "auto") == expected);
    CHECK(gpurun_comm_get_name(kWorld, name, &number) == expected);

    const int dims[] = {1};
    gpurun_topology topology = GPURUN_TOPOLOGY_NONE;
    CHECK(gpurun_cart_create(kWorld, 1, dims, dims, 0, &comm) == expected);
    CHECK(gpurun_cart_sub(kWorld, dims, &comm) == expected);
    CHECK(gpurun_cartdim_get(kWorld, &number) == expected);
    CHECK(gpurun_cart_get(kWorld, 1, &number, &number, &number) == expected);
    CHECK(gpurun_cart_rank(kWorld, dims, &number) == expected);
    CHECK(gpurun_cart_coords(kWorld, 0, 1, &number) == expected);
    CHECK(gpurun_cart_shift(kWorld, 0, 1, &number, &number) == expected);
    CHECK(gpurun_dist_graph_create_adjacent(kWorld, 0, nullptr, 0, nullptr, 0, &comm) == expected);
    CHECK(gpurun_dist_graph_neighbors_count(kWorld, &number, &number) == expected);
    CHECK(gpurun_dist_graph_neighbors(kWorld, 1, &number, 1, &number) == expected);
    CHECK(gpurun_topo_test(kWorld, &topology) == expected);

    gpurun_group group = gpurun_make_group(41);
    const gpurun_group empty = GPURUN_GROUP_EMPTY;
    const int ranks[] = {0};
    const int ranges[][3] = {{0, 0, 1}};
    CHECK(gpurun_comm_group(kWorld, &group) == expected);
    CHECK(gpurun_group_size(empty, &number) == expected);
    CHECK(gpurun_group_rank(empty, &number) == expected);
    CHECK(gpurun_group_translate_ranks(empty, 1, ranks, empty, &number) == expected);
    CHECK(gpurun_group_compare(empty, empty, &comparison) == expected);
    CHECK(gpurun_group_union(empty, empty, &group) == expected);
    CHECK(gpurun_group_intersection(empty, empty, &group) == expected);
    CHECK(gpurun_group_difference(empty, empty, &group) == expected);
    CHECK(gpurun_group_incl(empty, 1, ranks, &group) == expected);
    CHECK(gpurun_group_excl(empty, 1, ranks, &group) == expected);
    CHECK(gpurun_group_range_incl(empty, 1, ranges, &group) == expected);
    CHECK(gpurun_group_range_excl(empty, 1, ranges, &group) == expected);
    CHECK(gpurun_group_free(&group) == expected);

    CHECK(number == 41);
    CHECK(std::strcmp(name, "before") == 0);
    CHECK(comm.id == 41);
    CHECK(group.id == 41);
    CHECK(comparison == GPURUN_SIMILAR);
}

// Every call that needs a job, with arguments that would be right in one. Outputs must stay as they are.
void expect_all(gpurun_status expected) {
    const gpurun_stream stream = GPURUN_HOST;
    int number = 41;
    void* pointer = &number;
    gpurun_stream created = GPURUN_HOST;
    gpurun_event event = nullptr;
    gpurun_graph graph = nullptr;
    gpurun_device_info info{};
    info.size = sizeof info;

    CHECK(gpurun_comm_rank(kWorld, &number) == expected);
    CHECK(gpurun_comm_size(kWorld, &number) == expected);
    check_communicators(expected);
    CHECK(gpurun_device(&info) == expected);
    CHECK(gpurun_malloc(&pointer, 8) == expected);
    CHECK(gpurun_malloc_host(&pointer, 8) == expected);
    CHECK(gpurun_malloc_async(&pointer, 8, stream) == expected);
    CHECK(gpurun_free(pointer) == expected);
    CHECK(gpurun_free_async(pointer, stream) == expected);
    CHECK(gpurun_memcpy(&number, &number, 0, stream) == expected);
    CHECK(gpurun_memset(&number, 0, sizeof number, stream) == expected);
    CHECK(gpurun_stream_create(&created) == expected);
    CHECK(gpurun_stream_destroy(nullptr) == expected);
    CHECK(gpurun_stream_synchronize(nullptr) == expected);
    CHECK(gpurun_stream_query(nullptr, &number) == expected);
    CHECK(gpurun_stream_wait_event(nullptr, nullptr) == expected);
    CHECK(gpurun_launch_host(
              nullptr, [](void*) {}, nullptr) == expected);
    CHECK(gpurun_event_create(&event) == expected);
    CHECK(gpurun_event_destroy(nullptr) == expected);
    CHECK(gpurun_event_record(nullptr, nullptr) == expected);
    CHECK(gpurun_event_synchronize(nullptr) == expected);
    CHECK(gpurun_event_query(nullptr, &number) == expected);
    CHECK(gpurun_send(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream) == expected);
    CHECK(gpurun_recv(&number, 1, GPURUN_INT32, 0, 0, kWorld, stream, nullptr) == expected);
    CHECK(gpurun_sendrecv(&number, 0, GPURUN_INT32, 0, 0, &number, 0, GPURUN_INT32, 0, 0, kWorld, stream, nullptr) ==
          expected);
    CHECK(gpurun_bcast(&number, 1, GPURUN_INT32, 0, kWorld, stream) == expected);
    CHECK(gpurun_barrier(kWorld, stream) == expected);
    const gpurun_op sum = GPURUN_SUM;
    const auto type = GPURUN_INT32;
    const size_t counts[] = {1};
    int* const n = &number;
    CHECK(gpurun_allreduce(n, n, 1, type, sum, kWorld, stream) == expected);
    CHECK(gpurun_reduce(n, n, 1, type, sum, 0, kWorld, stream) == expected);
    CHECK(gpurun_reduce_scatter_block(n, n, 1, type, sum, kWorld, stream) == expected);
    CHECK(gpurun_reduce_scatter(n, n, counts, type, sum, kWorld, stream) == expected);
    CHECK(gpurun_scan(n, n, 1, type, sum, kWorld, stream) == expected);
    CHECK(gpurun_exscan(n, n, 1, type, sum, kWorld, stream) == expected);
    CHECK(gpurun_gather(n, 1, type, n, 1, type, 0, kWorld, stream) == expected);
    CHECK(gpurun_gatherv(n, 1, type, n, counts, nullptr, type, 0, kWorld, stream) == expected);
    CHECK(gpurun_scatter(n, 1, type, n, 1, type, 0, kWorld, stream) == expected);
    CHECK(gpurun_scatterv(n, counts, nullptr, type, n, 1, type, 0, kWorld, stream) == expected);
    CHECK(gpurun_allgather(n, 1, type, n, 1, type, kWorld, stream) == expected);
    CHECK(gpurun_allgatherv(n, 1, type, n, counts, nullptr, type, kWorld, stream) == expected);
    CHECK(gpurun_alltoall(n, 1, type, n, 1, type, kWorld, stream) == expected);
    CHECK(gpurun_alltoallv(n, counts, nullptr, type, n, counts, nullptr, type, kWorld, stream) == expected);
    CHECK(gpurun_neighbor_allgather(n, 1, type, n, 1, type, kWorld, stream) == expected);
    CHECK(gpurun_neighbor_allgatherv(n, 1, type, n, counts, nullptr, type, kWorld, stream) == expected);
    CHECK(gpurun_neighbor_alltoall(n, 1, type, n, 1, type, kWorld, stream) == expected);
    CHECK(gpurun_neighbor_alltoallv(n, counts, nullptr, type, n, counts, nullptr, type, kWorld, stream) == expected);
    CHECK(gpurun_capture_begin(nullptr) == expected);
    CHECK(gpurun_capture_end(nullptr, &graph) == expected);
    CHECK(gpurun_group_begin() == expected);
    CHECK(gpurun_group_end() == expected);
    CHECK(gpurun_graph_launch(nullptr, nullptr) == expected);
    CHECK(gpurun_graph_destroy(nullptr) == expected);

    CHECK(std::strlen(gpurun_error_detail()) > 0);
    CHECK(number == 41);
    CHECK(pointer == &number);
    CHECK(created == GPURUN_HOST);
    CHECK(event == nullptr);
    CHECK(graph == nullptr);
    CHECK(info.kind == 0);
}

} // namespace

TEST_CASE("before gpurun_init every call says that it is missing") {
    CHECK(std::strcmp(gpurun_error_detail(), "") == 0);
    CHECK(gpurun_initialized() == 0);
    expect_all(GPURUN_ERR_NOT_INITIALIZED);
    expect_all_of_requests(GPURUN_ERR_NOT_INITIALIZED);
    CHECK(gpurun_finalize() == GPURUN_ERR_NOT_INITIALIZED);
    CHECK(gpurun_finalized() == 0);
    CHECK(gpurun_init_as(nullptr, 0, 1) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_init_as("job", 1, 1) == GPURUN_ERR_RANK);
    CHECK(gpurun_init_as("a/b", 0, 1) == GPURUN_ERR_SETTING);
    CHECK(gpurun_initialized() == 0);
}

TEST_CASE("a process that gpurun did not start joins a job of its own") {
    REQUIRE_OK(gpurun_init());
    CHECK(gpurun_initialized() == 1);
    CHECK(gpurun_finalized() == 0);
    CHECK(rank() == 0);
    CHECK(size() == 1);
    gpurun_device_info info{};
    info.size = sizeof info;
    REQUIRE_OK(gpurun_device(&info));
    CHECK((info.kind == GPURUN_DEVICE_CUDA || info.kind == GPURUN_DEVICE_EMULATED));
    CHECK(info.memory_bytes > 0);
    CHECK(std::strlen(info.name) > 0);
}

TEST_CASE("a second gpurun_init is refused and changes nothing") {
    CHECK(gpurun_init() == GPURUN_ERR_ALREADY_INITIALIZED);
    CHECK(gpurun_init_as("job", 0, 1) == GPURUN_ERR_ALREADY_INITIALIZED);
    CHECK(std::strlen(gpurun_error_detail()) > 0);
    CHECK(size() == 1);
}

TEST_CASE("a job of one rank sends to itself, broadcasts and passes barriers") {
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        const Bytes content = pattern(300000, 4);
        Memory outgoing(Kind::kDevice, content.size());
        Memory incoming(Kind::kDevice, content.size());
        outgoing.write(content);
        REQUIRE_OK(gpurun_send(outgoing.get(), 100, GPURUN_BYTE, 0, 1, kWorld, domain));
        REQUIRE_OK(gpurun_recv(incoming.get(), 100, GPURUN_BYTE, 0, 1, kWorld, domain, nullptr));
        REQUIRE_OK(gpurun_sendrecv(outgoing.get(), content.size(), GPURUN_BYTE, 0, 1, incoming.get(), content.size(),
                                   GPURUN_BYTE, 0, 1, kWorld, domain, nullptr));
        REQUIRE_OK(gpurun_bcast(incoming.get(), content.size(), GPURUN_BYTE, 0, kWorld, domain));
        REQUIRE_OK(gpurun_barrier(kWorld, domain));
        synchronize(domain);
        CHECK(first_difference(incoming.read(), content) == -1);
    }
}

TEST_CASE("after gpurun_finalize every call says that the job is over") {
    REQUIRE_OK(gpurun_finalize());
    CHECK(gpurun_initialized() == 1);
    CHECK(gpurun_finalized() == 1);
    expect_all(GPURUN_ERR_FINALIZED);
    expect_all_of_requests(GPURUN_ERR_FINALIZED);
    CHECK(gpurun_finalize() == GPURUN_ERR_FINALIZED);
    CHECK(gpurun_init() == GPURUN_ERR_FINALIZED);
    CHECK(gpurun_init_as("job", 0, 1) == GPURUN_ERR_FINALIZED);
    CHECK(std::strlen(gpurun_error_detail()) > 0);
}

TEST_CASE("what needs no job works at any time") {
    size_t bytes = 0;
    CHECK(gpurun_type_size(GPURUN_DOUBLE, &bytes) == GPURUN_OK);
    CHECK(bytes == 8);
    CHECK(gpurun_type_size(static_cast<gpurun_datatype>(0), &bytes) == GPURUN_ERR_TYPE);
    CHECK(bytes == 8);
    gpurun_message_status status{};
    size_t count = 41;
    CHECK(gpurun_get_count(nullptr, GPURUN_INT32, &count) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_get_count(&status, GPURUN_INT32, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_get_count(&status, static_cast<gpurun_datatype>(0), &count) == GPURUN_ERR_TYPE);
    CHECK(count == 41);
    gpurun_errors previous = GPURUN_ERRORS_ABORT;
    int dims[] = {0, 0};
    CHECK(gpurun_dims_create(6, 2, dims) == GPURUN_OK);
    CHECK(dims[0] == 3);
    CHECK(gpurun_dims_create(6, 2, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_errors_set(static_cast<gpurun_errors>(0), &previous) == GPURUN_ERR_ARGUMENT);
    CHECK(previous == GPURUN_ERRORS_ABORT);
    const double before = gpurun_wtime();
    CHECK(before > 0);
    CHECK(before <= gpurun_wtime());
    CHECK(std::strcmp(gpurun_status_string(GPURUN_ERR_FINALIZED), "GPURUN_ERR_FINALIZED") == 0);
    CHECK(std::strcmp(gpurun_status_string(static_cast<gpurun_status>(999)), "GPURUN_ERR_?") == 0);
}
