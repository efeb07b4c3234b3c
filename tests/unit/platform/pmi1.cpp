// PMI-1 against a launcher whose answers are there before they are asked for.
#include "platform/pmi1.hpp"
#include "support/unit.hpp"

#include <string>
#include <sys/socket.h>
#include <unistd.h>

using namespace gpurun;
using base::Status;
using platform::nodes_of_mapping;
using platform::Pmi1Client;
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
    auto client = Pmi1Client::start(launcher.fd());
    return client ? detail_of(client->leave()) : detail_of(client);
}

} // namespace

TEST_SUITE_BEGIN("PMI-1");

TEST_CASE("the launcher is asked, and left where nobody else needs it") {
    const Launcher launcher(kInit + kSpace + kMapping + kEnd);
    Pmi1Client client = must(Pmi1Client::start(launcher.fd()));
    REQUIRE_OK(client.leave());
    CHECK(client.job() == "kvs_7_0");
    CHECK(client.mapping() == "(vector,(0,1,2))");
    CHECK(launcher.questions() == "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n"
                                  "cmd=get kvsname=kvs_7_0 key=PMI_process_mapping\ncmd=finalize\n");
}

TEST_CASE("what an MPI library is to read stays there") {
    const std::string more = "cmd=barrier_out\n";
    const Launcher launcher(kInit + kSpace + kMapping + more);
    REQUIRE_OK(Pmi1Client::start(launcher.fd()));
    CHECK(launcher.unread() == more);
    CHECK(launcher.questions().find("finalize") == std::string::npos);
}

TEST_CASE("a launcher without a mapping, and one that writes fields in another order") {
    const Launcher without(kInit + kSpace + "cmd=get_result rc=-1 msg=key_not_found\n");
    CHECK(must(Pmi1Client::start(without.fd())).mapping().empty());
    const Launcher other("rc=0 cmd=response_to_init\nrc=0 kvsname=3.0 cmd=my_kvsname\nvalue=(vector) cmd=get_result\n");
    CHECK(must(Pmi1Client::start(other.fd())).job() == "3.0");
}

TEST_CASE("rank 0 gives a word, and all get it") {
    const std::string got = "cmd=get_result rc=0 msg=success value=10.0.0.1;2;f\n";
    for (const uint32_t rank : {0u, 1u}) {
        const Launcher launcher(
            kInit + kSpace + kMapping +
            (rank == 0 ? "cmd=put_result rc=0 msg=success\ncmd=barrier_out\n" : "cmd=barrier_out\n") + got);
        Pmi1Client client = must(Pmi1Client::start(launcher.fd()));
        CHECK(must(client.share(rank, "10.0.0.1;2;f", 5)) == "10.0.0.1;2;f");
        const std::string asked = launcher.questions();
        CHECK((asked.find("cmd=put kvsname=kvs_7_0 key=gpurun.meeting value=10.0.0.1;2;f\n") != std::string::npos) ==
              (rank == 0));
        CHECK(asked.find("cmd=barrier_in\ncmd=get kvsname=kvs_7_0 key=gpurun.meeting\n") != std::string::npos);
    }
}

TEST_CASE("a rank that does not come is an error") {
    const Launcher launcher(kInit + kSpace + kMapping);
    Pmi1Client client = must(Pmi1Client::start(launcher.fd()));
    const auto shared = client.share(1, "", 1);
    CHECK_STATUS(shared, Status::kLauncher);
    CHECK(detail_of(shared).find("another rank has not come; GPURUN_JOIN_TIMEOUT gives it more time") !=
          std::string::npos);
}

TEST_CASE("answers that are none, and a launcher that ends, are errors") {
    CHECK(told("hello\n").find("'hello' to 'cmd=init") != std::string::npos);
    CHECK(told(kInit + kInit).find("which is not PMI-1") != std::string::npos);
    CHECK(told(std::string(5000, 'x')).find("which is not PMI-1") != std::string::npos);
    for (const std::string& part : {std::string(), kInit, kInit + "cmd=my_kvsname kvs", kInit + kSpace + kMapping})
        CHECK(told(part).find("PMI_FD, by which the launcher of this process is asked, is closed") !=
              std::string::npos);
    CHECK_STATUS(Pmi1Client::start(-1), Status::kLauncher);
    CHECK_STATUS(Pmi1Client::start(STDERR_FILENO), Status::kLauncher);
}

TEST_CASE("a mapping tells the node of each rank") {
    using Nodes = std::vector<uint32_t>;
    CHECK(nodes_of_mapping("(vector,(0,1,2))", 2) == Nodes{0, 0});
    CHECK(nodes_of_mapping("(vector,(3,1,2),(3,1,1))", 3) == Nodes{3, 3, 3});
    CHECK(nodes_of_mapping("(vector,(0,2,1))", 2) == Nodes{0, 1});
    CHECK(nodes_of_mapping("(vector,(0,2,1))", 5) == Nodes{0, 1, 0, 1, 0});
    CHECK(nodes_of_mapping("(vector,(0,1,2),(1,1,4))", 4) == Nodes{0, 0, 1, 1});
    CHECK(nodes_of_mapping("(vector,(0,4000000000,4000000000))", 3) == Nodes{0, 0, 0});
    for (const char* each :
         {"", "(vector)", "(vector,(x))", "(vector,(0", "(vector,(0,", "(vector,(0,1)", "(vector,(0,0,1),(0,1,0))"})
        CHECK(nodes_of_mapping(each, 2).empty());
}
