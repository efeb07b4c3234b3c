// A program that knows nothing of gpurun, and prints as such programs do: printing c|c++ LINES abort|kill|read|hang
// What follows the lines is its end, or that it reads standard input, or that it makes the file $PRINTED and hangs.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <unistd.h>

namespace {

void print(const char* language, int lines) {
    for (int line = 0; line < lines; ++line)
        if (std::strcmp(language, "c") == 0)
            std::printf("line %d\n", line);
        else
            std::cout << "line " << line << '\n';
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 4)
        return 2;
    print(argv[1], std::atoi(argv[2]));
    const char* end = argv[3];
    if (std::strcmp(end, "abort") == 0)
        std::abort();
    if (std::strcmp(end, "kill") == 0)
        ::kill(::getpid(), SIGKILL);
    if (std::strcmp(end, "hang") == 0) {
        std::FILE* told = std::fopen(std::getenv("PRINTED"), "w");
        if (told != nullptr)
            std::fclose(told);
        for (;;)
            ::pause();
    }
    return std::getchar() == 'x' ? 0 : 3;
}
