// main() of the tests that run on several ranks: joins the job, runs the selected doctest cases, leaves.
//
// A case that fails on one rank leaves the others waiting for it, so it ends the job; a failed REQUIRE does so on the
// spot, before destructors wait for streams that nobody will release. A case that hangs says on each rank which one
// it was. Failures print the settings with which they happened: with the seed, these replay them.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS // a rank that gpurun ends has not crashed
#include "support/job.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <unistd.h>

extern char** environ;

namespace {

constexpr unsigned kCaseSeconds = 150; // longer than any case takes under a sanitizer

int g_rank = -1;
char g_case[256]; // what the alarm prints; written before it is set

std::string settings() {
    std::string all;
    for (char** variable = environ; *variable != nullptr; variable++)
        if (std::strncmp(*variable, "GPURUN_", 7) == 0)
            all += std::string(*variable) + " ";
    return all;
}

void say_case_hangs(int) {
    const ssize_t ignored = write(STDERR_FILENO, g_case, std::strlen(g_case));
    (void)ignored;
    _exit(124);
}

class JobListener : public doctest::IReporter {
  public:
    explicit JobListener(const doctest::ContextOptions&) {}

    void test_case_start(const doctest::TestCaseData& data) override {
        name_ = data.m_name;
        std::snprintf(g_case, sizeof g_case, "rank %d: still in \"%s\" after %u s\n", g_rank, data.m_name,
                      kCaseSeconds);
        alarm(kCaseSeconds);
        // A rank that is ahead must not send into a wildcard receive of the case before.
        if (gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST) != GPURUN_OK)
            end_job();
    }
    void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
        alarm(0);
        if (!stats.testCaseSuccess)
            end_job();
    }
    void log_assert(const doctest::AssertData& data) override {
        if (!data.m_failed || (data.m_at & doctest::assertType::is_require) == 0)
            return;
        std::ostringstream text;
        for (int i = 0; i < get_num_active_contexts(); i++) {
            get_active_contexts()[i]->stringify(&text);
            text << '\n';
        }
        std::fprintf(stderr, "%s:%d: REQUIRE( %s ): %s\n%s", data.m_file, data.m_line, data.m_expr,
                     data.m_decomp.c_str(), text.str().c_str());
        end_job();
    }
    // A filter that selects nothing is a mistake in meson.build, not a success.
    void test_run_end(const doctest::TestRunStats& stats) override { ran_any = stats.numTestCasesPassingFilters > 0; }

    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}

    static inline bool ran_any = false;

  private:
    [[noreturn]] void end_job() const {
        std::fprintf(stderr, "rank %d: failed \"%s\" with %s\n", gpurun::test::rank(), name_, settings().c_str());
        std::fflush(stdout);
        gpurun_abort(1);
    }

    const char* name_ = "";
};

REGISTER_LISTENER("job", 1, JobListener);

} // namespace

int main(int argc, char** argv) {
    (void)gpurun_errors_set(GPURUN_ERRORS_RETURN, nullptr); // cases provoke errors, and say which came
    if (const gpurun_status joined = gpurun_init(); joined != GPURUN_OK) {
        std::fprintf(stderr, "gpurun_init: %s: %s\n", gpurun_status_string(joined), gpurun_error_detail());
        return 1;
    }
    (void)gpurun_comm_rank(GPURUN_COMM_WORLD, &g_rank); // a listener may assert in cases only
    std::signal(SIGALRM, say_case_hangs);

    doctest::Context context(argc, argv);
    context.setOption("minimal", true);
    if (std::getenv("NO_COLOR") != nullptr) // which doctest does not look at
        context.setOption("no-colors", true);
    const int failed = context.run();

    std::snprintf(g_case, sizeof g_case, "still in gpurun_finalize\n");
    alarm(kCaseSeconds);
    if (const gpurun_status left = gpurun_finalize(); left != GPURUN_OK) {
        std::fprintf(stderr, "gpurun_finalize: %s: %s\n", gpurun_status_string(left), gpurun_error_detail());
        return 1;
    }
    if (!JobListener::ran_any)
        std::fprintf(stderr, "the filter selects no test case\n");
    return failed != 0 || !JobListener::ran_any ? 1 : 0;
}
