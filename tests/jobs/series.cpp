// Series: the same messages are started and completed in one stream again and again, until something else comes
// between.
#include "support/job.hpp"

#include <algorithm>
#include <functional>
#include <memory>

namespace gpurun::test::series {

namespace {

constexpr int kTag = 1, kOther = 2;

enum class Form { kStartall, kRequests };

// Messages with the partner, all in one stream, and what each has sent and got in the round that is under way.
class Crossing {
  public:
    Crossing(Form form, Kind kind, size_t bytes, gpurun_stream stream, size_t messages = 2) // each way
        : form_(form), bytes_(bytes), stream_(stream), messages_(messages), requests_(2 * messages) {
        for (size_t i = 0; i < messages_; i++) {
            outgoing_.push_back(std::make_unique<Memory>(kind, bytes));
            incoming_.push_back(std::make_unique<Memory>(kind, bytes));
            contents_.emplace_back(bytes);
            got_.emplace_back(bytes);
            if (form_ == Form::kRequests)
                continue;
            REQUIRE_OK(gpurun_recv_init(incoming_[i]->get(), bytes, GPURUN_BYTE, partner(), kTag, kWorld, stream,
                                        &requests_[i]));
            REQUIRE_OK(gpurun_send_init(outgoing_[i]->get(), bytes, GPURUN_BYTE, partner(), kTag, kWorld, stream,
                                        &requests_[messages_ + i]));
        }
    }
    ~Crossing() {
        if (form_ == Form::kStartall)
            for (gpurun_request& each : requests_)
                CHECK(gpurun_request_free(&each) == GPURUN_OK);
    }

    // What is written in the stream before is sent.
    void write(int round) {
        round_ = round;
        for (size_t i = 0; i < messages_; i++) {
            contents_[i] = pattern(bytes_, seed_of(rank(), i));
            REQUIRE_OK(gpurun_memcpy(outgoing_[i]->get(), contents_[i].data(), bytes_, stream_));
            REQUIRE_OK(gpurun_memset(incoming_[i]->get(), 0x77, bytes_, stream_));
        }
    }
    void start() {
        if (form_ == Form::kStartall) {
            REQUIRE_OK(gpurun_startall(requests_.size(), requests_.data()));
            return;
        }
        for (size_t i = 0; i < messages_; i++)
            REQUIRE_OK(gpurun_irecv(incoming_[i]->get(), bytes_, GPURUN_BYTE, partner(), kTag, kWorld, stream_,
                                    &requests_[i]));
        for (size_t i = 0; i < messages_; i++)
            REQUIRE_OK(gpurun_isend(outgoing_[i]->get(), bytes_, GPURUN_BYTE, partner(), kTag, kWorld, stream_,
                                    &requests_[messages_ + i]));
    }
    void complete(gpurun_stream end) {
        std::vector<gpurun_message_status> statuses(requests_.size());
        REQUIRE_OK(gpurun_waitall(requests_.size(), requests_.data(), end, statuses.data()));
        for (size_t i = 0; i < messages_; i++) {
            CHECK(statuses[i].source == partner());
            CHECK(statuses[i].bytes == bytes_);
        }
    }
    // What follows in the stream of the completion finds what has come, and may write what was sent.
    void check(gpurun_stream end) {
        for (size_t i = 0; i < messages_; i++) {
            REQUIRE_OK(gpurun_memset(outgoing_[i]->get(), 0xff, bytes_, end));
            REQUIRE_OK(gpurun_memcpy(got_[i].data(), incoming_[i]->get(), bytes_, end));
        }
        synchronize(end);
        for (size_t i = 0; i < messages_; i++)
            CHECK(first_difference(got_[i], pattern(bytes_, seed_of(partner(), i))) == -1);
        synchronize(stream_);
    }
    std::vector<gpurun_request>& requests() { return requests_; }

  private:
    uint64_t seed_of(int from, size_t message) const {
        return static_cast<uint64_t>(from * 100'000 + round_) * 10 + message;
    }

    const Form form_;
    const size_t bytes_;
    const gpurun_stream stream_;
    const size_t messages_;
    int round_ = 0;
    std::vector<std::unique_ptr<Memory>> outgoing_, incoming_;
    std::vector<Bytes> contents_, got_;
    std::vector<gpurun_request> requests_;
};

// Rounds until the next is held, whatever there was before; and a last one, in which `surprise` completes the requests.
struct Rounds {
    Crossing& crossing;
    gpurun_stream stream;
    int number = 0;

    void run(int direct, const std::function<gpurun_stream()>& surprise) {
        for (int i = 0; i <= direct; i++) {
            crossing.write(++number);
            crossing.start();
            gpurun_stream end = stream;
            if (i < direct)
                crossing.complete(stream);
            else
                end = surprise();
            crossing.check(end);
        }
    }
};

void run_surprises(Crossing& crossing, gpurun_stream stream, int most_direct) {
    const Stream second;
    Rounds rounds{crossing, stream};
    std::vector<gpurun_request>& all = crossing.requests();
    Memory scratch(Kind::kDevice, 64);
    const std::function<gpurun_stream()> surprises[] = {
        [&] { // something of the program's stands behind the start
            delay(stream, 300);
            crossing.complete(stream);
            return stream;
        },
        [&] {
            crossing.complete(GPURUN_HOST);
            return gpurun_stream(GPURUN_HOST);
        },
        [&] {
            crossing.complete(second);
            return static_cast<gpurun_stream>(second);
        },
        [&] { // one by one, the last one first
            for (size_t i = all.size(); i-- > 0;)
                REQUIRE_OK(gpurun_wait(&all[i], stream, nullptr));
            return stream;
        },
        [&] {
            int done = 0;
            while (done == 0)
                REQUIRE_OK(gpurun_testall(all.size(), all.data(), GPURUN_HOST, &done, nullptr));
            return gpurun_stream(GPURUN_HOST);
        },
        [&] { // other messages with the same rank: behind those that were started
            REQUIRE_OK(gpurun_sendrecv(scratch.get(), 32, GPURUN_BYTE, partner(), kOther, scratch.at(32), 32,
                                       GPURUN_BYTE, partner(), kOther, kWorld, stream, nullptr));
            crossing.complete(stream);
            return stream;
        },
        [&] { // nobody completes them for long: they move all the same
            delay(GPURUN_HOST, 3000);
            crossing.complete(stream);
            return stream;
        },
    };
    int direct = 3;
    for (const auto& each : surprises) {
        rounds.run(direct, each);
        direct = std::min(2 * direct, most_direct);
    }
    rounds.run(direct, surprises[0]);
}

} // namespace

TEST_SUITE_BEGIN("series");

TEST_CASE("what is started and completed in one stream again and again keeps the order rule, also when that changes") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const Form form : {Form::kStartall, Form::kRequests})
        for (const size_t bytes :
             {size_t{0}, size_t{64}, size_t{4097}, size_t{70'000}, size_t{300'000}, size_t{3'000'000}})
            for (const Kind kind : {Kind::kDevice, Kind::kOrdered, Kind::kPageable}) {
                CAPTURE(bytes);
                CAPTURE(name(kind));
                CAPTURE((form == Form::kStartall));
                if (kind != Kind::kDevice && bytes > 70'000)
                    continue;
                Crossing crossing(form, kind, bytes, stream);
                run_surprises(crossing, stream, bytes <= 4097 ? 40 : 6);
            }
}

TEST_CASE("a long series, parts of which begin before its completion, keeps the order rule, also when that changes") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const size_t bytes : {size_t{64}, size_t{70'000}, size_t{600'000}}) {
        CAPTURE(bytes);
        Crossing crossing(Form::kRequests, Kind::kDevice, bytes, stream, bytes < 600'000 ? 40 : 20);
        run_surprises(crossing, stream, 3);
    }
}

TEST_CASE("messages to itself, and to several ranks, are completed directly") {
    const Stream stream;
    std::vector<gpurun_request> requests;
    constexpr size_t kBytes = 1000;
    Memory outgoing(Kind::kDevice, kBytes * static_cast<size_t>(size()));
    Memory incoming(Kind::kDevice, kBytes * static_cast<size_t>(size()));
    for (int other = 0; other < size() && other < 8; other++) {
        const size_t at = kBytes * static_cast<size_t>(other);
        REQUIRE_OK(gpurun_send_init(outgoing.at(at), kBytes, GPURUN_BYTE, other, kTag, kWorld, stream,
                                    &requests.emplace_back()));
        REQUIRE_OK(gpurun_recv_init(incoming.at(at), kBytes, GPURUN_BYTE, other, kTag, kWorld, stream,
                                    &requests.emplace_back()));
    }
    if (rank() < 8) {
        for (int round = 0; round < 30; round++) {
            Bytes sent(outgoing.size()), expected(incoming.size()), got(incoming.size());
            for (int other = 0; other < size(); other++) {
                const Bytes to = pattern(kBytes, static_cast<uint64_t>((round * 100 + rank()) * 100 + other));
                const Bytes from = pattern(kBytes, static_cast<uint64_t>((round * 100 + other) * 100 + rank()));
                std::copy(to.begin(), to.end(), sent.begin() + static_cast<ptrdiff_t>(kBytes) * other);
                std::copy(from.begin(), from.end(), expected.begin() + static_cast<ptrdiff_t>(kBytes) * other);
            }
            const size_t used = kBytes * static_cast<size_t>(std::min(size(), 8));
            REQUIRE_OK(gpurun_memcpy(outgoing.get(), sent.data(), used, stream));
            REQUIRE_OK(gpurun_startall(requests.size(), requests.data()));
            REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), stream, nullptr));
            REQUIRE_OK(gpurun_memcpy(got.data(), incoming.get(), used, stream));
            synchronize(stream);
            CHECK(first_difference(got.data(), expected.data(), used) == -1);
        }
    }
    for (gpurun_request& each : requests)
        REQUIRE_OK(gpurun_request_free(&each));
}

TEST_CASE("a message that is too long for its buffer is named, and all others of the series arrive") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    Memory outgoing(Kind::kDevice, 200), incoming(Kind::kDevice, 200);
    for (int round = 0; round < 10; round++) {
        const size_t room = round < 6 ? 100 : 50;
        gpurun_request requests[4];
        gpurun_message_status statuses[4]{};
        const Bytes content = pattern(200, static_cast<uint64_t>(1000 * rank() + round));
        Bytes got(200);
        REQUIRE_OK(gpurun_memcpy(outgoing.get(), content.data(), 200, stream));
        REQUIRE_OK(gpurun_irecv(incoming.get(), room, GPURUN_BYTE, partner(), 1, kWorld, stream, &requests[0]));
        REQUIRE_OK(gpurun_irecv(incoming.at(100), 100, GPURUN_BYTE, partner(), 2, kWorld, stream, &requests[1]));
        REQUIRE_OK(gpurun_isend(outgoing.get(), 100, GPURUN_BYTE, partner(), 1, kWorld, stream, &requests[2]));
        REQUIRE_OK(gpurun_isend(outgoing.at(100), 100, GPURUN_BYTE, partner(), 2, kWorld, stream, &requests[3]));
        const gpurun_status all = gpurun_waitall(4, requests, stream, statuses);
        CHECK(all == (room == 100 ? GPURUN_OK : GPURUN_ERR_TRUNCATED));
        CHECK(statuses[0].bytes == 100);
        CHECK(statuses[1].bytes == 100);
        REQUIRE_OK(gpurun_memcpy(got.data(), incoming.get(), 200, stream));
        synchronize(stream);
        const Bytes expected = pattern(200, static_cast<uint64_t>(1000 * partner() + round));
        CHECK(first_difference(got.data(), expected.data(), room) == -1);
        CHECK(first_difference(got.data() + 100, expected.data() + 100, 100) == -1);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::series
