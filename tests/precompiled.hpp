// Headers that most unit tests include, compiled once (tests/CMakeLists.txt). Each test still includes what
// it uses.
#pragma once

#include <doctest/doctest.h>

#include "cmake/precompiled.hpp"
