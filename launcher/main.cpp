#include "command.hpp"

#include <unistd.h>

int main(int argc, char** argv) { return gpurun::launcher::run(argc, argv, environ); }
