// Where nodes meet, as a word that launchers pass on.
#include "platform/node_meeting.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using platform::as_word;
using platform::NodeMeeting;
using platform::parse_meeting;
using test::must;

TEST_SUITE_BEGIN("node meeting");

TEST_CASE("a meeting is told in one word") {
    NodeMeeting meeting{{"10.0.0.1", "fd00::1:2"}, 4711, {}};
    for (size_t i = 0; i < meeting.key.size(); ++i)
        meeting.key[i] = static_cast<std::byte>(i * 37);
    const std::string word = as_word(meeting);
    CHECK(word.find_first_not_of("0123456789abcdef.:;,") == std::string::npos);
    const auto read = parse_meeting(word);
    REQUIRE(read.has_value());
    CHECK(read->addresses == meeting.addresses);
    CHECK(read->port == meeting.port);
    CHECK(read->key == meeting.key);
    const NodeMeeting longest{std::vector<std::string>(16, std::string(45, 'f')), 65535, {}};
    CHECK(as_word(longest).size() <= platform::kLongestMeeting);
}

TEST_CASE("an open one listens, and each has a key of its own") {
    const platform::OpenMeeting one = must(platform::open_meeting());
    const platform::OpenMeeting other = must(platform::open_meeting());
    CHECK(one.meeting.key != other.meeting.key);
    CHECK(one.meeting.port != other.meeting.port);
    CHECK(parse_meeting(as_word(one.meeting)).has_value());
    CHECK(must(platform::call_tcp("127.0.0.1", one.meeting.port)));
}

TEST_CASE("what is none is not taken for one") {
    const std::string key(64, 'a');
    CHECK(parse_meeting("10.0.0.1;1;" + key).has_value());
    for (const std::string& each :
         {std::string(), std::string("10.0.0.1"), std::string("10.0.0.1;1"), ";1;" + key, "10.0.0.1;;" + key,
          "10.0.0.1;65536;" + key, "10.0.0.1;x;" + key, "10.0.0.1;1;" + key.substr(1), "10.0.0.1;1;" + key + "0",
          "10.0.0.1;1;" + key.substr(1) + "g"})
        CHECK_FALSE(parse_meeting(each).has_value());
}
