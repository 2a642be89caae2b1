#include "supervisor/kernel/acting_identity.hpp"

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervisor/kernel/target.hpp"
#include "tests/unit/in_child.hpp"

using namespace callgate;
using namespace callgate::kernel;

namespace {

constexpr uid_t nobody = 65534;

Credentials now() {
    auto found = credentials(static_cast<pid_t>(::syscall(SYS_gettid)));
    return found ? *found : Credentials{};
}

bool skipped() {
    if (::geteuid() == 0) return false;
    MESSAGE("skipped: an ordinary user becomes nobody else");
    return true;
}

Credentials other(const Credentials& own) {
    Credentials wanted = own;
    wanted.effective_uid = wanted.fs_uid = nobody;
    wanted.effective_gid = 7;
    wanted.fs_gid = 8;
    wanted.groups = "\t7 20 ";
    wanted.capabilities = capability(CAP_CHOWN);
    return wanted;
}

}  // namespace

TEST_CASE("an identity is taken as a whole, and the own one comes back as a whole") {
    if (skipped()) return;
    CHECK(tests::in_child([] {
              if (!begin_acting_with(all_capabilities)) return 1;
              const Credentials own = now(), wanted = other(own);
              {
                  const TakenIdentity taken(wanted);
                  if (!taken.taken() || !(now() == wanted) || taken_identity() == nullptr) return 2;
                  if (::getuid() != 0) return 3;  // the real one stays
              }
              return now() == own && taken_identity() == nullptr ? 0 : 4;
          }) == 0);
}

TEST_CASE("what reads callers is effective for the reading alone") {
    if (skipped()) return;
    CHECK(tests::in_child([] {
              if (!begin_acting_with(all_capabilities)) return 1;
              const Credentials wanted = other(now());
              const TakenIdentity taken(wanted);
              {
                  const ReadingCaller reading;
                  const ReadingCaller again;
                  if (now().capabilities != (wanted.capabilities | (for_reading & permitted_capabilities())))
                      return 2;
              }
              return now() == wanted ? 0 : 3;
          }) == 0);
}

TEST_CASE("a message is sent with the caller's real ids, and they are given back") {
    if (skipped()) return;
    CHECK(tests::in_child([] {
              if (!begin_acting_with(all_capabilities)) return 1;
              int ready[2];
              if (::pipe(ready) != 0) return 2;
              const pid_t caller = ::fork();
              if (caller == 0) {
                  char end = 0;
                  ::close(ready[1]);
                  if (::syscall(SYS_setresuid, 5, 6, 7) != 0) ::_exit(1);
                  static_cast<void>(::read(ready[0], &end, 1) == 0);
                  ::_exit(0);
              }
              for (auto seen = status(caller); seen && seen->saved_uid != 7;) seen = status(caller);
              const Credentials wanted = other(now());
              const TakenIdentity taken(wanted);
              {
                  const SendingAsCaller sending(caller);
                  if (!sending.ready() || ::getuid() != 5 || now().effective_uid != nobody) return 3;
                  if (now().fs_gid != 8) return 4;
              }
              return ::getuid() == 0 && now() == wanted ? 0 : 5;
          }) == 0);
}

TEST_CASE("what the kernel refuses is not taken, and nothing of it stays") {
    if (skipped()) return;
    CHECK(tests::in_child([] {
              if (!hold_only(capability(CAP_SETGID) | capability(CAP_CHOWN), all_capabilities)) return 1;
              if (!begin_acting_with(all_capabilities)) return 2;
              const Credentials own = now();
              const TakenIdentity user(other(own));
              if (user.taken() || !(now() == own)) return 3;
              Credentials more = own;
              more.capabilities |= capability(CAP_SYS_ADMIN);
              const TakenIdentity capable(more);
              return !capable.taken() && now() == own ? 0 : 4;
          }) == 0);
}

TEST_CASE("a thread begins with the identity of the run, whatever it inherited") {
    if (skipped()) return;
    CHECK(tests::in_child([] {
              const Credentials own = now();
              if (!begin_acting(own)) return 1;
              const TakenIdentity inherited(other(own));
              return begin_acting(own) && now() == own ? 0 : 2;
          }) == 0);
}
