#include "base/process/capabilities.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/unit/agent/guarded_run.hpp"
#include "tests/unit/in_child.hpp"

using namespace callgate;
using namespace callgate::agent;
using namespace callgate::agent::test;

namespace {

/// The errno of mkdir in an own directory without write permission; 0: it was made.
int make_in(const std::string& closed, const char* name) {
    return ::mkdir((closed + "/" + name).c_str(), 0700) == 0 ? 0 : errno;
}

bool skipped() {
    if (::geteuid() == 0) return false;
    MESSAGE("skipped: an ordinary user holds no capability that could be set aside");
    return true;
}

}  // namespace

TEST_CASE("what is set aside is used only where that is said, and can still be dropped") {
    if (skipped()) return;
    const TemporaryDirectory directory;
    const std::string closed = directory / "closed";
    REQUIRE(::mkdir(closed.c_str(), 0555) == 0);
    CHECK(tests::in_child([&] { return make_in(closed, "with-all"); }) == 0);
    CHECK(tests::in_child([&] { return set_override_aside() ? make_in(closed, "aside") : 200; }) == EACCES);
    CHECK(tests::in_child([&] {
              if (!set_override_aside()) return 200;
              {
                  const OverrideInUse override;
                  if (const int error = make_in(closed, "in-use"); error != 0) return error;
              }
              return make_in(closed, "afterwards") == EACCES ? 0 : 201;
          }) == 0);
    CHECK(tests::in_child([&] {
              if (!set_override_aside() || !drop_held_capabilities()) return 200;
              const OverrideInUse override;
              return make_in(closed, "dropped");
          }) == EACCES);
}

TEST_CASE("to use what was not set aside changes nothing") {
    if (skipped()) return;
    const TemporaryDirectory directory;
    const std::string closed = directory / "closed";
    REQUIRE(::mkdir(closed.c_str(), 0555) == 0);
    CHECK(tests::in_child([&] {
              { const OverrideInUse override; }
              return make_in(closed, "still-all");
          }) == 0);
}
