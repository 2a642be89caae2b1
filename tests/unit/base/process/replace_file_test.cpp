#include "base/process/replace_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/unit/temporary_directory.hpp"

namespace callgate {

namespace {

std::string contents(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

std::ptrdiff_t entries(const std::filesystem::path& directory) {
    return std::distance(std::filesystem::directory_iterator(directory), {});
}

}  // namespace

TEST_CASE("a file is replaced as a whole, with the mode that was asked for, and nothing is left beside it") {
    const tests::TemporaryDirectory temporary;
    const std::filesystem::path directory = temporary.path;
    const std::filesystem::path file = directory / "file";
    REQUIRE(replace_file(file, "first", 0644));
    const int reader = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    const std::string longer(3'000'000, 'x');
    REQUIRE(replace_file(file, longer, 0640));
    CHECK(contents(file) == longer);
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0640);
    char old[8] = {};
    CHECK(::read(reader, old, sizeof old) == 5);  // an open descriptor still reads the old file
    ::close(reader);
    CHECK(entries(directory) == 1);
}

TEST_CASE("what cannot be replaced says why, and nothing of the new file is left") {
    const tests::TemporaryDirectory temporary;
    const std::filesystem::path directory = temporary.path;
    const std::filesystem::path in_the_way = directory / "directory";
    std::filesystem::create_directory(in_the_way);
    CHECK_FALSE(replace_file(in_the_way, "text", 0600));
    CHECK(errno == EISDIR);
    CHECK(entries(directory) == 1);
    CHECK_FALSE(replace_file(directory / "missing" / "file", "text", 0600));
    CHECK(errno == ENOENT);
}

}  // namespace callgate
