# Configured, built by two jobs, tested, installed beneath the work directory, built again after a change.
set -eu
cmake -S . -B build -G Ninja -DCMAKE_INSTALL_PREFIX="$PWD/installed"
cmake --build build -j 2
(cd build && ctest --output-on-failure)
cmake --install build
installed/bin/answer 21
touch lib.cpp
cmake --build build
cmake --build build
