// PMI-1 against a launcher whose answers are there before they are asked for.
#include "platform/pmi1.hpp"
#include "support/unit.hpp"

#include <string>
#include <sys/socket.h>
#include <unistd.h>

using namespace gpurun;
using base::Status;
using platform::ask_pmi1;
using platform::is_one_node;
using test::detail_of;
using test::must;

namespace {

class Launcher {
  public:
    explicit Launcher(const std::string& answers) {
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) == 0);
        REQUIRE(::send(ends_[0], answers.data(), answers.size(), 0) == static_cast<ssize_t>(answers.size()));
    }
    ~Launcher() {
        ::close(ends_[0]);
        ::close(ends_[1]);
    }
    Launcher(const Launcher&) = delete;

    int fd() const { return ends_[1]; }
    void say_no_more() const { ::shutdown(ends_[0], SHUT_WR); }
    // What nobody has read of the answers.
    std::string unread() const { return read(ends_[1]); }
    std::string questions() const { return read(ends_[0]); }

  private:
    static std::string read(int fd) {
        std::string text(4096, '\0');
        const ssize_t got = ::recv(fd, text.data(), text.size(), MSG_DONTWAIT);
        text.resize(got < 0 ? 0 : static_cast<size_t>(got));
        return text;
    }

    int ends_[2];
};

const std::string kInit = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
const std::string kSpace = "cmd=my_kvsname kvsname=kvs_7_0\n";
const std::string kMapping = "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n";
const std::string kEnd = "cmd=finalize_ack\n";

std::string told(const std::string& answers) {
    const Launcher launcher(answers);
    launcher.say_no_more();
    return detail_of(ask_pmi1(launcher.fd(), true));
}

} // namespace

TEST_SUITE_BEGIN("PMI-1");

TEST_CASE("the launcher is asked, and left where nobody else needs it") {
    const Launcher launcher(kInit + kSpace + kMapping + kEnd);
    const platform::Pmi1Job job = must(ask_pmi1(launcher.fd(), true));
    CHECK(job.name == "kvs_7_0");
    CHECK(job.mapping == "(vector,(0,1,2))");
    CHECK(launcher.questions() == "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n"
                                  "cmd=get kvsname=kvs_7_0 key=PMI_process_mapping\ncmd=finalize\n");
}

TEST_CASE("what an MPI library is to read stays there") {
    const std::string more = "cmd=barrier_out\n";
    const Launcher launcher(kInit + kSpace + kMapping + more);
    REQUIRE_OK(ask_pmi1(launcher.fd(), false));
    CHECK(launcher.unread() == more);
    CHECK(launcher.questions().find("finalize") == std::string::npos);
}

TEST_CASE("a launcher without a mapping, and one that writes fields in another order") {
    const Launcher without(kInit + kSpace + "cmd=get_result rc=-1 msg=key_not_found\n");
    CHECK(must(ask_pmi1(without.fd(), false)).mapping.empty());
    const Launcher other("rc=0 cmd=response_to_init\nrc=0 kvsname=3.0 cmd=my_kvsname\nvalue=(vector) cmd=get_result\n");
    CHECK(must(ask_pmi1(other.fd(), false)).name == "3.0");
}

TEST_CASE("answers that are none, and a launcher that ends, are errors") {
    CHECK(told("hello\n").find("'hello' to 'cmd=init") != std::string::npos);
    CHECK(told(kInit + kInit).find("which is not PMI-1") != std::string::npos);
    CHECK(told(std::string(5000, 'x')).find("which is not PMI-1") != std::string::npos);
    for (const std::string& part : {std::string(), kInit, kInit + "cmd=my_kvsname kvs", kInit + kSpace + kMapping})
        CHECK(told(part).find("PMI_FD, by which the launcher of this process is asked, is closed") !=
              std::string::npos);
    CHECK_STATUS(ask_pmi1(-1, true), Status::kLauncher);
    CHECK_STATUS(ask_pmi1(STDERR_FILENO, true), Status::kLauncher);
}

TEST_CASE("a mapping tells whether there is one node") {
    CHECK(is_one_node("(vector,(0,1,2))"));
    CHECK(is_one_node("(vector,(3,1,2),(3,1,1))"));
    CHECK(is_one_node(""));
    CHECK(is_one_node("(vector)"));
    CHECK(is_one_node("(vector,(x))"));
    CHECK(is_one_node("(vector,(0"));
    CHECK(is_one_node("(vector,(0,"));
    CHECK_FALSE(is_one_node("(vector,(0,2,1))"));
    CHECK_FALSE(is_one_node("(vector,(0,1,2),(1,1,2))"));
}
