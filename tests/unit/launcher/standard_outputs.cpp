// Where ranks print, and what they are told of it.
#include "standard_outputs.hpp"
#include "support/unit.hpp"

#include <algorithm>

namespace gpurun::test::standard_outputs {

using namespace launcher;

namespace {

using Words = std::vector<std::string>;

// In the order of the alphabet.
Words described(Words environment, bool has_colours, std::vector<Variable> chosen = {}) {
    describe_terminal(environment, chosen, has_colours);
    std::sort(environment.begin(), environment.end());
    return environment;
}

const Words kUsers = {"COLORTERM=truecolor", "GIT_PAGER=less", "PAGER=less", "TERM=xterm", "TERMINFO=/x"};

} // namespace

TEST_SUITE_BEGIN("standard outputs");

TEST_CASE("a terminal with colours has those of gpurun's, and no pager") {
    CHECK(described(kUsers, true) ==
          Words{"COLORTERM=truecolor", "GIT_PAGER=cat", "PAGER=cat", "TERM=xterm", "TERMINFO=/x"});
    CHECK(described({}, true) == Words{"GIT_PAGER=cat", "PAGER=cat"});
}

TEST_CASE("a terminal without colours is a dumb one") {
    CHECK(described(kUsers, false) == Words{"GIT_PAGER=cat", "NO_COLOR=1", "PAGER=cat", "TERM=dumb", "TERMINFO=/x"});
    CHECK(described({}, false) == Words{"GIT_PAGER=cat", "NO_COLOR=1", "PAGER=cat", "TERM=dumb"});
}

TEST_CASE("whoever forces colours gets them everywhere") {
    for (const std::string forced : {"CLICOLOR_FORCE=1", "FORCE_COLOR=3"})
        CHECK(described({forced, "TERM=xterm"}, false) == Words{forced, "GIT_PAGER=cat", "PAGER=cat", "TERM=xterm"});
    for (const std::string not_forced : {"CLICOLOR_FORCE=0", "FORCE_COLOR="})
        CHECK(described({not_forced, "TERM=xterm"}, false) ==
              Words{not_forced, "GIT_PAGER=cat", "NO_COLOR=1", "PAGER=cat", "TERM=dumb"});
}

TEST_CASE("what was chosen for a rank stays") {
    CHECK(described({"COLORTERM=x", "PAGER=most", "TERM=vt100"}, false,
                    {{"COLORTERM", "x"}, {"PAGER", "most"}, {"TERM", "vt100"}}) ==
          Words{"COLORTERM=x", "GIT_PAGER=cat", "NO_COLOR=1", "PAGER=most", "TERM=vt100"});
}

TEST_SUITE_END();

} // namespace gpurun::test::standard_outputs
