// A target must compile something: this one exists for cmake/precompiled.hpp.
