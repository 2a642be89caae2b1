#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include "supervisor/calls/exec/script.hpp"
#include "supervisor/kernel/argument_list.hpp"
#include "supervisor/kernel/tracer.hpp"

using namespace callgate;
using namespace callgate::calls;
using Words = std::vector<std::string>;

TEST_SUITE("scripts") {
    std::string shown(std::string_view head) {
        const auto line = script_line(head);
        if (!line) return "none";
        return line->interpreter + (line->argument ? "|" + *line->argument : "");
    }

    TEST_CASE("the first line is read as the kernel reads it") {
        CHECK(shown("#!/bin/sh\n") == "/bin/sh");
        CHECK(shown("#!/bin/sh") == "/bin/sh");
        CHECK(shown("#! \t /bin/sh \t\n") == "/bin/sh");
        CHECK(shown("#!/bin/sh -e\n") == "/bin/sh|-e");
        CHECK(shown("#!/usr/bin/env  python3 -u \t\nrest") == "/usr/bin/env|python3 -u");
        CHECK(shown("#!sh\n") == "sh");
        CHECK(shown("#!/bin/sh\r\n") == "/bin/sh\r");
        CHECK(shown(std::string_view("#!/bin/sh\0x y\n", 15)) == "/bin/sh");
        CHECK(shown(std::string_view("#!/bin/sh a\0x y\n", 17)) == "/bin/sh|a");
    }

    TEST_CASE("what is no script for the kernel is none") {
        for (const char* head : {"", "#", "#!", "#! ", "#!\n", "#! \t\n", " #!/bin/sh\n",
                                 "\x7f"
                                 "ELF",
                                 "echo\n"}) {
            CAPTURE(head);
            // With nothing behind it, the kernel's buffer goes on with NULs: an empty name, which is not
            // found.
            const std::string found = shown(head);
            CHECK((found == "none" || found.empty()));
        }
        CHECK(shown("#!\n") == "none");
        CHECK(shown("\x7f"
                    "ELF") == "none");
    }

    TEST_CASE("a name that may have been cut off is not run, one that ends in time is") {
        const std::string name(head_size, 'x');
        CHECK(shown("#!/" + name) == "none");
        CHECK(shown("#!/" + name + "\n") == "none");
        CHECK(shown(("#!/" + name.substr(0, head_size - 4) + "\n").substr(0, head_size)) ==
              "/" + name.substr(0, head_size - 4));
        // The argument may be cut.
        CHECK(shown("#!/a " + name) == "/a|" + name.substr(0, head_size - 6));
    }

    TEST_CASE("an interpreter gets its argument, the script's name, and the rest") {
        CHECK(interpreter_arguments({"/i", "-x"}, "s", {"zero", "one"}) == Words{"/i", "-x", "s", "one"});
        CHECK(interpreter_arguments({"/i", std::nullopt}, "s", {"zero"}) == Words{"/i", "s"});
        CHECK(interpreter_arguments({"/i", std::nullopt}, "s", {}) == Words{"/i", "s"});
        CHECK(interpreter_arguments({"/j", std::nullopt}, "/i", {"/i", "-x", "s", "one"}) ==
              Words{"/j", "/i", "-x", "s", "one"});
    }
}

TEST_SUITE("arguments of an execve") {
    std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

    /// Two pages; the second cannot be read.
    struct Edge {
        static constexpr std::size_t page = 4096;
        char* start = static_cast<char*>(
            ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        Edge() { ::mprotect(start + page, page, PROT_NONE); }
        ~Edge() { ::munmap(start, 2 * page); }
        char* before_end(const std::string& bytes) const {
            return static_cast<char*>(std::memcpy(start + page - bytes.size(), bytes.data(), bytes.size()));
        }
    };

    TEST_CASE("they are read as they stand, and none is one empty string") {
        const char* list[] = {"git", "", "push", nullptr};
        CHECK(*kernel::read_arguments(::getpid(), address(list)) == Words{"git", "", "push"});
        CHECK(*kernel::read_arguments(::getpid(), 0) == Words{""});
        CHECK(*kernel::read_arguments(::getpid(), address(list + 3)) == Words{""});
    }

    TEST_CASE("lists and strings may end at the end of a page, not behind it") {
        const Edge strings, lists;
        const char* text = strings.before_end(std::string("last\0", 5));
        const std::uint64_t pointers[] = {address(text), 0};
        const std::string bytes(reinterpret_cast<const char*>(pointers), sizeof pointers);
        CHECK(*kernel::read_arguments(::getpid(), address(lists.before_end(bytes))) == Words{"last"});
        const char* endless = strings.before_end("endless");
        const char* list[] = {endless, nullptr};
        CHECK(kernel::read_arguments(::getpid(), address(list)).error().value() == EFAULT);
        const std::string unended(reinterpret_cast<const char*>(pointers), sizeof pointers / 2);
        CHECK(kernel::read_arguments(::getpid(), address(lists.before_end(unended))).error().value() ==
              EFAULT);
        CHECK(kernel::read_arguments(::getpid(), 1).error().value() == EFAULT);
    }

    TEST_CASE("a string of 128 KiB is too long, and so are 6 MiB together") {
        const std::string longest((128 << 10) - 1, 'x');
        std::vector<const char*> list{longest.c_str(), nullptr};
        CHECK((*kernel::read_arguments(::getpid(), address(list.data())))[0] == longest);
        const std::string longer = longest + "x";
        list[0] = longer.c_str();
        CHECK(kernel::read_arguments(::getpid(), address(list.data())).error().value() == E2BIG);
        list.assign(48, longest.c_str());
        list.push_back(nullptr);
        CHECK(kernel::read_arguments(::getpid(), address(list.data())).error().value() == E2BIG);
        list.erase(list.begin(), list.begin() + 2);
        CHECK(kernel::read_arguments(::getpid(), address(list.data()))->size() == 46);
    }

    TEST_CASE("what a program has is compared whole, or as far as it is known") {
        const Words own = *kernel::arguments_of(::getpid());
        REQUIRE_FALSE(own.empty());
        const auto matches = [](const Words& words, bool whole) {
            return kernel::ExpectedArguments(words, whole).are_those_of(::getpid());
        };
        CHECK(matches(own, true));
        CHECK(matches(own, false));
        CHECK(kernel::ExpectedArguments().are_those_of(::getpid()));
        Words more = own;
        more.emplace_back("more");
        CHECK_FALSE(matches(more, true));
        CHECK_FALSE(matches(more, false));
        CHECK_FALSE(matches({own[0] + "x"}, false));
        CHECK(matches({own[0]}, false));
        CHECK(matches({own[0]}, true) == (own.size() == 1));
        CHECK_FALSE(kernel::ExpectedArguments(own, true).are_those_of(-1));
    }
}

TEST_SUITE("tracer") {
    /// A child that obeys commands of one byte.
    struct Child {
        int order[2] = {-1, -1};
        pid_t pid = -1;
        template <typename Act>
        explicit Child(Act act) {
            REQUIRE(::pipe(order) == 0);
            pid = ::fork();
            if (pid != 0) return;
            char byte = 0;
            if (::read(order[0], &byte, 1) == 1) act();
            ::_exit(1);
        }
        void go() const { CHECK(::write(order[1], "x", 1) == 1); }
        int status() const {
            int status = 0;
            CHECK(::waitpid(pid, &status, 0) == pid);
            return status;
        }
        ~Child() {
            ::close(order[0]);
            ::close(order[1]);
        }
    };

    TEST_CASE("a thread that is already traced, or gone, cannot be seized") {
        const Child child([] { ::_exit(0); });
        auto tracer = kernel::Tracer::seize(child.pid);
        REQUIRE(tracer.has_value());
        CHECK(kernel::traced_by(child.pid) == ::getpid());
        int second = 0;
        std::thread([&] { second = kernel::Tracer::seize(child.pid).error().value(); }).join();
        CHECK(second == EPERM);
        CHECK(tracer->wait() == kernel::Tracer::Stop::returned);
        tracer->let_go();
        CHECK(kernel::traced_by(child.pid) == 0);
        child.go();
        const int status = child.status();
        CHECK(WIFEXITED(status));
        CHECK(kernel::Tracer::seize(child.pid).error().value() == ESRCH);
    }

    TEST_CASE("what is held and not let go is killed") {
        const Child child([] { ::_exit(0); });
        { CHECK(kernel::Tracer::seize(child.pid).has_value()); }
        // Its tracer is its parent here and has reaped it.
        CHECK(::waitpid(child.pid, nullptr, 0) == -1);
    }
}
