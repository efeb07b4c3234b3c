// A rank that speaks nonsense to gpurun, and then ends somehow: all of it follows from a seed.
#pragma once

#include "base/settings.hpp"

// Returns the rank's exit status, if it does not end otherwise.
int speak_nonsense(const gpurun::base::Settings& settings, unsigned seed);
