#include "command.hpp"

int main(int argc, char** argv, char** environment) { return gpurun::launcher::run(argc, argv, environment); }
