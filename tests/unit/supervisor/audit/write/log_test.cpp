#include "supervisor/audit/write/log.hpp"
#include "supervisor/audit/write/log_file.hpp"
#include "tests/unit/temporary_directory.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

using namespace callgate;
using namespace callgate::audit;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

using callgate::tests::TemporaryDirectory;

// The same decision is written many times: each has its record.
const Log::Options options{.run = "k3f9", .mode = Mode::enforce, .max_equal = UINT64_MAX};

Decision decision(std::string_view path = "/w/file") {
    Decision one;
    one.call = "openat";
    one.caller = {.pid = 1, .parent = 1, .start_time = 1, .executable = "/bin/x", .uid = 0};
    one.input.path = path;
    one.operations = rules::Operation::read;
    one.object = rules::FileObject{.path = path};
    one.verdict = {.action = rules::Action::deny, .error = EACCES};
    return one;
}

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<json> lines(const std::string& path) {
    std::vector<json> all;
    std::ifstream file(path, std::ios::binary);
    for (std::string line; std::getline(file, line);) all.push_back(json::parse(line));
    return all;
}

mode_t mode_of(const std::string& path) {
    struct stat status {};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    return status.st_mode & 07777;
}

/// errno of a factory that must fail.
template <typename Result>
int error_of(const Result& result) {
    return result ? 0 : result.error().value();
}

/// Puts the limit and the signal's disposition back.
struct FileSizeLimit {
    explicit FileSizeLimit(rlim_t bytes) : handler(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before);
        rlimit lowered = before;
        lowered.rlim_cur = bytes;
        ::setrlimit(RLIMIT_FSIZE, &lowered);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before);
        std::signal(SIGXFSZ, handler);
    }
    rlimit before{};
    void (*handler)(int);
};

}  // namespace

TEST_CASE("a log without a stated limit may take half of what is free, and always 1 GiB") {
    constexpr std::uint64_t gib = 1ULL << 30U;
    CHECK(default_log_limit(10 * gib) == 5 * gib);
    CHECK(default_log_limit(2 * gib + 2) == gib + 1);
    CHECK(default_log_limit(2 * gib) == gib);
    CHECK(default_log_limit(0) == gib);
}

TEST_CASE("a log in a directory is made with its parents, for nobody else") {
    const TemporaryDirectory base;
    auto log = Log::in_directory(base / "a/b/state", options);
    REQUIRE(log);
    REQUIRE((*log)->record(decision()));
    CHECK(mode_of(base / "a/b/state") == 0700);
    CHECK(mode_of(base / "a") == 0700);
    CHECK(mode_of((*log)->path()) == 0600);
    CHECK((*log)->path().ends_with("-k3f9.jsonl"));
    CHECK((::fcntl((*log)->descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl((*log)->descriptor(), F_GETFL) & O_APPEND) != 0);
    CHECK(lines((*log)->path()).size() == 1);
    CHECK((*log)->records() == 1);
    (*log)->sync();
}

TEST_CASE("a directory that others may write to, or a link to one, is refused") {
    const TemporaryDirectory base;
    fs::create_directory(base / "open");
    REQUIRE(::chmod((base / "open").c_str(), 0777) == 0);
    CHECK(error_of(Log::in_directory(base / "open", options)) == EPERM);
    fs::create_directory(base / "real");
    fs::create_directory_symlink(base / "real", base / "link");
    const int linked = error_of(Log::in_directory(base / "link", options));
    CHECK((linked == ENOTDIR || linked == ELOOP));
    const int slashed = error_of(Log::in_directory(base / "link/", options));
    CHECK((slashed == ENOTDIR || slashed == ELOOP));
    CHECK(fs::is_empty(base / "real"));
    write(base / "file", "x");
    CHECK(error_of(Log::in_directory(base / "file", options)) == ENOTDIR);
    CHECK(error_of(Log::in_directory(base / "real", {.run = "../x", .mode = Mode::enforce})) == EINVAL);
}

TEST_CASE("a directory that others may read becomes private") {
    const TemporaryDirectory base;
    fs::create_directory(base / "state");
    REQUIRE(::chmod((base / "state").c_str(), 0755) == 0);
    REQUIRE(Log::in_directory(base / "state", options));
    CHECK(mode_of(base / "state") == 0700);
}

TEST_CASE("a directory of another user is refused") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: a directory of another user is refused (needs root)");
        return;
    }
    const TemporaryDirectory base;
    fs::create_directory(base / "state");
    REQUIRE(::chown((base / "state").c_str(), 65534, 65534) == 0);
    CHECK(error_of(Log::in_directory(base / "state", options)) == EPERM);
}

TEST_CASE("a log at a file is new or continued, never through a link or into something special") {
    const TemporaryDirectory base;
    {
        auto log = Log::at_file(base / "log", options);
        REQUIRE(log);
        CHECK(mode_of(base / "log") == 0600);
        REQUIRE((*log)->record(decision()));
        CHECK(error_of(Log::at_file(base / "log", options)) == EWOULDBLOCK);  // one run at a time
    }
    auto log = Log::at_file(base / "log", {.run = "next", .mode = Mode::enforce});
    REQUIRE(log);
    REQUIRE((*log)->record(decision()));
    CHECK(lines(base / "log").size() == 2);

    write(base / "target", "{}\n");
    fs::create_symlink(base / "target", base / "link");
    fs::create_symlink(base / "nowhere", base / "dangling");
    CHECK(error_of(Log::at_file(base / "link", options)) == ELOOP);
    CHECK(error_of(Log::at_file(base / "dangling", options)) == ELOOP);
    CHECK_FALSE(fs::exists(base / "nowhere"));
    CHECK(content(base / "target") == "{}\n");
    REQUIRE(::mkfifo((base / "fifo").c_str(), 0600) == 0);
    CHECK(error_of(Log::at_file(base / "fifo", options)) == EINVAL);
    CHECK(error_of(Log::at_file(base.path, options)) == EINVAL);
    CHECK(error_of(Log::at_file("/dev/null", options)) == EINVAL);
    CHECK(error_of(Log::at_file(base / "no/such", options)) == ENOENT);
    write(base / "notes", "my notes\nlast line without end");
    CHECK(error_of(Log::at_file(base / "notes", options)) == EINVAL);
    CHECK(content(base / "notes") == "my notes\nlast line without end");
}

TEST_CASE("a torn last line is set aside and recorded as recovered") {
    const TemporaryDirectory base;
    write(base / "log", "{\"whole\":1}\n{\"torn\":\"ab");
    REQUIRE(::chmod((base / "log").c_str(), 0600) == 0);
    auto log = Log::at_file(base / "log", options);
    REQUIRE(log);
    REQUIRE((*log)->record(decision()));
    const std::vector<json> all = lines(base / "log");
    REQUIRE(all.size() == 3);
    CHECK(all[0]["whole"] == 1);
    CHECK(all[1]["event"]["action"] == "recovered");
    CHECK(all[1]["callgate"]["torn_bytes"] == 11);
    CHECK(all[1]["callgate"]["set_aside"] == base / "log.torn");
    CHECK(all[2]["event"]["sequence"] == 2);
    CHECK(content(base / "log.torn") == "{\"torn\":\"ab");
    CHECK(mode_of(base / "log.torn") == 0600);
}

TEST_CASE("a torn line longer than any block is set aside whole, and not through a planted link") {
    const TemporaryDirectory base;
    const std::string torn = "{" + std::string(300'000, 'x');
    write(base / "log", torn);
    REQUIRE(::chmod((base / "log").c_str(), 0600) == 0);
    write(base / "victim", "");
    fs::create_symlink(base / "victim", base / "log.torn");
    CHECK(error_of(Log::at_file(base / "log", options)) == ELOOP);
    CHECK(content(base / "log") == torn);
    CHECK(content(base / "victim").empty());
    fs::remove(base / "log.torn");
    REQUIRE(Log::at_file(base / "log", options));
    CHECK(content(base / "log.torn") == torn);
    CHECK(lines(base / "log").size() == 1);
}

TEST_CASE("eight threads write whole lines with numbers in file order while another syncs") {
    const TemporaryDirectory base;
    auto log = Log::in_directory(base / "state", options);
    REQUIRE(log);
    constexpr int threads = 8, each = 1000;
    std::atomic<bool> done = false;
    std::atomic<int> failures = 0;
    std::thread syncing([&] {
        while (!done) (*log)->sync();
    });
    std::vector<std::thread> writers;
    for (int thread = 0; thread < threads; ++thread) {
        writers.emplace_back([&, thread] {
            // Lines of different lengths, so that a mixture would show.
            const std::string path =
                "/" + std::string(static_cast<std::size_t>(1 + 97 * thread), static_cast<char>('a' + thread));
            for (int index = 0; index < each; ++index) failures += (*log)->record(decision(path)) ? 0 : 1;
        });
    }
    for (std::thread& writer : writers) writer.join();
    done = true;
    syncing.join();
    CHECK(failures == 0);
    std::uint64_t expected = 0, decisions = 0;
    std::size_t bad = 0;
    for (const json& record : lines((*log)->path())) {
        if (record["event"]["action"] == "checkpoint") {
            ++expected;
            continue;
        }
        ++decisions;
        const auto path = record["file"]["path"].get<std::string>();
        if (path.find_first_not_of(path[1], 1) != std::string::npos) ++bad;
        if (record["event"]["sequence"] != ++expected) ++bad;
    }
    CHECK(bad == 0);
    CHECK(decisions == threads * each);
    CHECK((*log)->records() == expected);
}

TEST_CASE("a full segment is followed by the next, and numbers go on") {
    const TemporaryDirectory base;
    auto log =
        Log::in_directory(base / "state", {.run = "k3f9", .mode = Mode::enforce, .segment_bytes = 2000});
    REQUIRE(log);
    for (int index = 0; index < 10; ++index) {
        REQUIRE((*log)->record(decision()));
        if (index == 6) (*log)->sync();
    }
    (*log)->sync();
    const std::string stem = (*log)->path().substr(0, (*log)->path().size() - 6);
    std::uint64_t expected = 0;
    int segments = 0;
    for (std::string path = (*log)->path(); fs::exists(path);
         path = stem + "." + std::to_string(segments + 1) + ".jsonl") {
        CHECK(fs::file_size(path) <= 2000);
        CHECK(mode_of(path) == 0600);
        for (const json& record : lines(path)) CHECK(record["event"]["sequence"] == ++expected);
        ++segments;
    }
    CHECK(segments > 2);
    CHECK(expected == 10);
}

TEST_CASE("a thread that acts as another user begins no segment") {
    if (::geteuid() != 0) return;  // only root becomes another user
    const TemporaryDirectory base;
    auto log =
        Log::in_directory(base / "state", {.run = "k3f9", .mode = Mode::enforce, .segment_bytes = 2000});
    REQUIRE(log);
    const std::string first = (*log)->path(), second = first.substr(0, first.size() - 6) + ".2.jsonl";
    ::setfsuid(65534);
    for (int index = 0; index < 5; ++index) CHECK((*log)->record(decision()));
    ::setfsuid(0);
    ::prctl(PR_SET_DUMPABLE, 1);  // the change has taken it
    CHECK(fs::file_size(first) > 2000);
    CHECK_FALSE(fs::exists(second));
    CHECK((*log)->record(decision()));
    CHECK(lines(first).size() == 5);
    CHECK(lines(second).size() == 1);
}

TEST_CASE("beyond RLIMIT_FSIZE a record fails with EFBIG and only whole lines are left") {
    const TemporaryDirectory base;
    auto log = Log::at_file(base / "log", options);
    REQUIRE(log);
    REQUIRE((*log)->record(decision()));
    const auto one = fs::file_size(base / "log");
    {
        const FileSizeLimit limit(static_cast<rlim_t>(one * 5 / 2));
        REQUIRE((*log)->record(decision()));
        for (int index = 0; index < 3; ++index) CHECK(error_of((*log)->record(decision())) == EFBIG);
        CHECK(fs::file_size(base / "log") == one * 2);
    }
    const auto after = (*log)->record(decision());
    REQUIRE(after);
    CHECK(*after == 3);  // no number is lost to a failure
    CHECK(lines(base / "log").size() == 3);
}

TEST_CASE("on a full disk a record fails with ENOSPC and only whole lines are left") {
    const TemporaryDirectory base;
    if (::mount("tmpfs", base.path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=16k") != 0) {
        MESSAGE("skipped: on a full disk a record fails with ENOSPC (cannot mount a tmpfs here)");
        return;
    }
    struct Unmount {
        const std::string& path;
        ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
    } unmount{base.path};
    auto log = Log::at_file(base / "log", options);
    REQUIRE(log);
    std::size_t good = 0;
    boost::system::result<std::uint64_t> last = 0U;
    while (good < 1000 && (last = (*log)->record(decision()))) ++good;
    CHECK(error_of(last) == ENOSPC);
    CHECK(good > 10);
    CHECK(lines(base / "log").size() == good);
}

TEST_CASE("a record that no reader would take is refused, not cut") {
    const TemporaryDirectory base;
    auto log = Log::at_file(base / "log", options);
    REQUIRE(log);
    const std::string endless(2 << 20, 'x');
    CHECK(error_of((*log)->record(decision(endless))) == EMSGSIZE);
    CHECK(content(base / "log").empty());
}

TEST_CASE("a descriptor is appended to, and refused where it cannot be written") {
    const TemporaryDirectory base;
    write(base / "file", "{}\n");
    UniqueFd fd(::open((base / "file").c_str(), O_WRONLY | O_CLOEXEC));
    auto log = Log::on_descriptor(std::move(fd), options);
    REQUIRE(log);
    REQUIRE((*log)->record(decision()));
    CHECK((*log)->path().empty());
    CHECK(lines(base / "file").size() == 2);
    CHECK(error_of(Log::on_descriptor(UniqueFd(::open((base / "file").c_str(), O_RDONLY | O_CLOEXEC)),
                                      options)) == EBADF);
    CHECK(error_of(Log::on_descriptor(UniqueFd(), options)) == EBADF);
}

TEST_CASE("a line that a full pipe tore is ended before the next one") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    const UniqueFd reader(ends[0]);
    REQUIRE(::fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
    auto log = Log::on_descriptor(UniqueFd(ends[1]), options);
    REQUIRE(log);
    (*log)->limit_waiting(std::chrono::milliseconds(0));  // a slow reader is waited for otherwise
    const std::string path = "/" + std::string(6000, 'x');
    CHECK(error_of((*log)->record(decision(path))) == ETIMEDOUT);
    std::string text(65536, '\0');
    const auto drain = [&] {
        return std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(
                                            0, ::read(reader.get(), text.data(), text.size()))));
    };
    const std::string torn = drain();
    CHECK(torn.size() == 4096);
    const auto next = (*log)->record(decision());
    REQUIRE(next);
    CHECK(*next == 1);
    const std::string after = drain();
    CHECK(after.front() == '\n');
    CHECK(json::parse(after)["event"]["sequence"] == 1);
}
