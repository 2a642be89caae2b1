// Headers of the standard library and of Boost that most sources include, compiled once (CMakeLists.txt).
//
// Sources do not rely on this file: each includes what it uses.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/system/result.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
