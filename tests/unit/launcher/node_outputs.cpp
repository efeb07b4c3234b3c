// What ranks of a node print, as its head gets it.
#include "node_outputs.hpp"
#include "support/unit.hpp"

#include <cstring>

namespace gpurun::test::node_outputs {

using namespace launcher;
using namespace platform;
using node_wire::Kind;

namespace {

// Two ranks, 4 and 5 of their job.
struct Node {
    Node() {
        for (uint32_t rank = 0; rank < 2; ++rank) {
            Pipe out = must(create_pipe());
            Pipe error = must(create_pipe());
            outputs.connect(rank, std::move(out.read_end), std::move(error.read_end), {});
            writers.push_back(std::move(out.write_end));
            writers.push_back(std::move(error.write_end));
        }
    }
    // As the head would note it: "4.0" for a rank and its stream, then what has happened.
    void note(Kind kind, std::string_view message) {
        if (kind == Kind::kSay) {
            said += message;
            return;
        }
        node_wire::OutputOf of;
        REQUIRE(message.size() >= sizeof of);
        std::memcpy(&of, message.data(), sizeof of);
        const std::string_view text = message.substr(sizeof of);
        bytes += text.size();
        heard += std::to_string(of.rank) + "." + std::to_string(of.stream) +
                 (kind == Kind::kOutputEnd ? " ends"
                  : text.size() > 20       ? " much"
                                           : ":" + std::string(text)) +
                 " ";
    }
    template <typename T>
    static std::string_view text_of(const T& message) {
        return {reinterpret_cast<const char*>(&message), sizeof message};
    }

    std::unique_ptr<EventLoop> loop = must(EventLoop::create());
    std::string heard;
    std::string said;
    size_t bytes = 0;
    NodeOutputs outputs{*loop, [this](Kind kind, std::string_view message) { note(kind, message); }, 4, {}, {}};
    std::vector<UniqueFd> writers;
};

} // namespace

TEST_SUITE_BEGIN("node outputs");

TEST_CASE("what ranks print arrives with their numbers in the job, and its end") {
    Node node;
    write_all(node.writers[0].get(), "a");
    write_all(node.writers[3].get(), "b\nlast\n");
    node.outputs.pump(0);
    node.outputs.pump(1);
    CHECK(node.heard == "4.0:a 5.1:b\nlast\n ");
    CHECK(node.outputs.last_error_line(1) == "last");
    CHECK(node.outputs.last_error_line(0) == "");
    node.writers[0].reset();
    node.outputs.pump(0);
    CHECK(node.heard.ends_with("4.0 ends "));
    CHECK_FALSE(node.outputs.passed());
    node.outputs.finish(); // even of those that somebody keeps open
    CHECK(node.outputs.passed());
    node.outputs.say("x");
    CHECK(node.said == "x");
}

TEST_CASE("no more is under way than the window, and nothing is lost") {
    Node node;
    const std::string piece(4096, 'x');
    const auto fill = [&] {
        while (write_now(node.writers[0].get(), piece).state == StreamState::kOpen) {
        }
    };
    fill();
    node.outputs.pump(0);
    CHECK(node.bytes == node_wire::kOutputWindow);
    fill();
    node.outputs.pump(0);
    CHECK(node.bytes == node_wire::kOutputWindow);
    node.outputs.finish();
    CHECK_FALSE(node.outputs.passed());
    CHECK(node.outputs.taken(Node::text_of(node_wire::OutputTaken{{4, 0}, 1000})));
    CHECK(node.bytes == node_wire::kOutputWindow + 1000);
    CHECK(node.outputs.taken(Node::text_of(node_wire::OutputTaken{{4, 0}, node_wire::kOutputWindow})));
    CHECK(node.bytes == 2 * size_t{node_wire::kOutputWindow});
    // The rest of the pipe was less than the window: so that was all, and the other streams were empty.
    CHECK(node.outputs.passed());
}

TEST_CASE("a rank whose reader has gone writes into a closed pipe") {
    Node node;
    CHECK(node.outputs.closed(Node::text_of(node_wire::OutputOf{5, 0})));
    CHECK(node.heard == "5.0 ends ");
    CHECK_FALSE(node.outputs.passed());
    node.outputs.close();
    CHECK(node.outputs.passed());
}

TEST_CASE("a head that says what it cannot know is not believed") {
    Node node;
    for (const node_wire::OutputTaken& wrong :
         {node_wire::OutputTaken{{4, 0}, 1}, {{3, 0}, 0}, {{6, 0}, 0}, {{4, 2}, 0}, {{UINT32_MAX, 0}, 0}})
        CHECK_FALSE(node.outputs.taken(Node::text_of(wrong)));
    CHECK_FALSE(node.outputs.taken(""));
    CHECK_FALSE(node.outputs.closed(Node::text_of(node_wire::OutputOf{4, 2})));
    CHECK_FALSE(node.outputs.closed("x"));
}

TEST_SUITE_END();

} // namespace gpurun::test::node_outputs
