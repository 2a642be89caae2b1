// Every mediated call, decoded from memory that an attacker wrote: ./dev fuzz.
//
// An input is one call: its number (two bytes), which arguments point into the target's memory, flags, six
// arguments, and the memory. The handler of the table runs on it as on a receiving thread. The rules allow
// reading in one directory and everything in one beneath it, which each input finds empty. They allow
// connections where the fuzzer has a network of its own. So every read of memory by an act is reached, and
// nothing is done to this host. The fuzzer looks for memory errors and undefined behaviour (the sanitizers).
// It also looks for a call that is not answered exactly once, and for a descriptor that stays open.
//
// --calls=NAME,NAME leaves only those calls (tests/fuzz/families).
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "agent/created_ipc.hpp"
#include "base/clock.hpp"
#include "base/process/capabilities.hpp"
#include "base/process/remove_tree.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "supervisor/receive/dispatch.hpp"
#include "tests/fakes/notification_source.hpp"
#include "tests/fakes/run_needs.hpp"
#include "tests/fuzz/fake_target.hpp"

using namespace callgate;

namespace {

constexpr std::size_t head_size = 4 + 6 * sizeof(std::uint64_t);
constexpr std::uint8_t caller_is_gone = 1, memory_at_end = 2;

std::vector<std::string> wanted_calls;

class NeverBlocks final : public calls::Blocking {
public:
    bool enter() override { return false; }  // a call that would block is denied
    void leave() override {}
    bool expects_blocking() override { return false; }
    Interruption interruption() override { return Interruption::none; }
};

constexpr const char* writable = "made";

/// A network with nothing in it but its own loopback, and IPC objects of its own. False: not possible here.
bool leave_the_machine() {
    constexpr int spaces = CLONE_NEWNET | CLONE_NEWIPC;
    if (::unshare(spaces) != 0 && ::unshare(spaces | CLONE_NEWUSER) != 0) return false;
    const UniqueFd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    return ::ioctl(any.get(), SIOCSIFFLAGS, &loopback) == 0;
}

/// Directory with one of each kind, whose contents the rules allow to be read.
std::string make_directory() {
    std::string name = "/tmp/callgate-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr || ::chdir(name.c_str()) != 0) std::abort();
    const int file = ::open("file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || ::mkdir("folder", 0700) != 0 || ::mkdir(writable, 0700) != 0 ||
        ::symlink("file", "link") != 0 || ::symlink("/proc/self", "proc") != 0 || ::mkfifo("fifo", 0600) != 0)
        std::abort();
    ::close(file);
    return name;
}

rules::Rule allowed(const char* id, rules::OperationSet operations) {
    rules::Rule rule;
    rule.id = id;
    rule.action = rules::Action::allow;
    rule.operations = operations;
    return rule;
}

rules::RuleSet make_rules(const std::string& directory, bool own_network) {
    const auto path = [](const std::string& text) {
        return rules::Glob::compile(text, rules::GlobKind::path).value();
    };
    rules::Rule reading = allowed("reading", rules::Operation::read);
    reading.when.path.push_back(path(directory + "/**"));
    rules::Rule changing = allowed("changing", rules::file_operations);
    changing.when.path.push_back(path(directory + "/" + writable + "/**"));
    rules::Rule secret = allowed("secret", rules::file_operations);
    secret.action = rules::Action::deny;
    secret.when.path.push_back(path("/**/.env"));
    secret.when.program.push_back(path("/usr/**"));
    std::vector<rules::Rule> all = {reading, changing, secret};
    if (own_network) {
        rules::Rule connecting = allowed("connecting", rules::Operation::connect);
        connecting.when.protocol = {.tcp = true, .udp = true};
        all.push_back(connecting);
        rules::Rule sockets = allowed("sockets", rules::Operation::connect);
        sockets.when.unix_socket.push_back(path(directory + "/**"));
        sockets.when.protocol = {.stream = true, .datagram = true};
        all.push_back(sockets);
    }
    return rules::RuleSet(std::move(all), rules::Action::deny);
}

/// Everything that lives as long as the process.
struct World {
    bool own_network = leave_the_machine();
    std::string directory = make_directory();
    rules::RuleSet rules = make_rules(directory, own_network);
    rules::Plan plan = rules::make_plan(rules, {.landlock_abi = 7, .record = rules::RecordMode::contested});
    rules::StaticGrants grants{plan};
    rules::RenameCheck moves{rules, grants};
    const calls::Basis enforced{rules, grants, moves};
    std::unique_ptr<calls::CallerInfo> caller = std::make_unique<calls::CallerInfo>();
    calls::WorkerBuffers buffers;
    calls::StaticPaths static_paths;
    agent::SharedObjects made = agent::SharedObjects::make().value();
    std::unique_ptr<audit::Log> log;
    int lowest_free = -1;

    World() {
        UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC | O_APPEND));
        log = audit::Log::on_descriptor(std::move(nowhere), {.run = "fuzz", .mode = Mode::enforce}).value();
        // As the threads that handle calls: what is sent to the kernel itself (netlink) must change nothing.
        if (!drop_capabilities()) std::abort();
    }
    ~World() { static_cast<void>(remove_tree(directory)); }

    /// Restores the state that the first input found.
    void tidy() {
        struct stat found {};
        const std::string made_here = directory + "/" + writable;
        if (::stat(made_here.c_str(), &found) != 0 || !same_time(found.st_ctim, made_at)) {
            if (!remove_tree(made_here) || ::mkdir(made_here.c_str(), 0700) != 0) std::abort();
            if (::stat(made_here.c_str(), &found) != 0) std::abort();
            made_at = found.st_ctim;
        }
        agent::remove_created_ipc(made.objects());
        for (auto& kind : made.objects().ids) kind.count = 0;
        for (auto& name : made.objects().message_queues) name.used = false;
    }

private:
    static bool same_time(const timespec& one, const timespec& other) {
        return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
    }
    timespec made_at{};
};

int next_descriptor() {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(fd);
    return fd;
}

World& world() {
    static World made;
    return made;
}

[[noreturn]] void broken(const enforce::CallEntry& entry, const char* what) {
    std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(entry.name.size()), entry.name.data(), what);
    std::abort();
}

void run_call(const enforce::CallEntry& entry, const kernel::Notification& notification, bool waits) {
    World& here = world();
    fuzz::open_descriptors();
    here.tidy();
    fakes::Sink sink;
    calls::DecideNeeds decide{.enforced = here.enforced,
                              .record_mode = here.plan.record,
                              .log = here.log.get(),
                              .sink = sink,
                              .guardian = 1,
                              .uid = ::geteuid(),
                              .kill_tree = [] {}};
    calls::NameLock names(-1);
    const calls::FileNeeds files{
        .plan = here.plan, .grants = here.grants, .moves = here.moves, .names = names, .guardian = 1};
    const calls::ExecNeeds exec{here.plan, here.grants, decide};
    calls::NetworkNeeds network{names};
    calls::IpcObjects ipc(here.made.objects());
    calls::OpaqueMemories opaque;
    const calls::ProcessNeeds processes{1, opaque};
    const Families families{files, exec, network, ipc, processes};
    fakes::NotificationSource kernel;
    kernel.nobody_waits = !waits;
    NeverBlocks blocking;
    {
        kernel::PendingCall call(kernel, notification);
        here.caller->forget();
        calls::Call context{{decide, call, *here.caller, entry, monotonic_ns()}, blocking, here.buffers};
        try {
            handler_of(entry)(context, families, here.static_paths);
        } catch (const std::exception&) {
            context.fail(EPERM);  // as a receiver does
        }
    }
    if (kernel.answers.size() != 1) broken(entry, "not answered exactly once");
    fuzz::close_descriptors();
    // The first calls open what is kept: handles on /proc of the caller, on our own descriptors.
    constexpr int first_calls = 64;
    static int calls = 0;
    if (++calls <= first_calls) {
        here.lowest_free = next_descriptor();
    } else if (const int now = next_descriptor(); now > here.lowest_free + 8) {
        broken(entry, "a descriptor stays open");
    }
}

bool is_wanted(const enforce::CallEntry& entry) {
    if (wanted_calls.empty()) return true;
    for (const std::string& name : wanted_calls)
        if (entry.name == name) return true;
    return false;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
    for (int index = 1; index < *count; ++index) {
        constexpr std::string_view option = "--calls=";
        const std::string_view word = (*words)[index];
        if (!word.starts_with(option)) continue;
        std::string_view rest = word.substr(option.size());
        while (!rest.empty()) {
            const std::size_t end = std::min(rest.find(','), rest.size());
            wanted_calls.emplace_back(rest.substr(0, end));
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    ::signal(SIGPIPE, SIG_IGN);  // a send on behalf passes it on to its caller, this process
    ::signal(SIGXFSZ, SIG_IGN);
    fuzz::map_memory();
    world();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < head_size) return -1;
    const std::uint32_t number = static_cast<std::uint32_t>(data[0]) | static_cast<std::uint32_t>(data[1])
                                                                           << 8U;
    const enforce::CallEntry* entry = enforce::find_call(number);
    if (entry == nullptr || !is_wanted(*entry)) return -1;
    kernel::Notification notification;
    notification.id = 1;
    notification.thread = ::getpid();
    notification.call = number;
    for (std::size_t index = 0; index < 6; ++index) {
        std::uint64_t& argument = notification.arguments[index];
        std::memcpy(&argument, data + 4 + index * sizeof argument, sizeof argument);
        if ((data[2] >> index & 1U) != 0 || fuzz::may_be_ours(argument))
            argument = fuzz::memory_begin + argument % fuzz::memory_size;
    }
    fuzz::fill_memory({data + head_size, size - head_size}, (data[3] & memory_at_end) != 0);
    run_call(*entry, notification, (data[3] & caller_is_gone) == 0);
    return 0;
}
