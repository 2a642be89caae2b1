#include "supervisor/run/desktop.hpp"

#include "base/process/await_readable.hpp"
#include "base/process/spawn.hpp"
#include "base/reader_letters.hpp"
#include "supervisor/approval/terminal/prompt.hpp"
#include "supervisor/host/host.hpp"

namespace callgate {

namespace {

/// A name for a notification, in which some desktops read mark-up.
std::string bounded(std::string_view name) {
    constexpr std::size_t columns = 160;
    bool cut = false;
    std::string plain;
    for (const char one : approval::shortened(shown_name(name), columns, cut))
        plain += one == '<' ? "&lt;" : one == '>' ? "&gt;" : one == '&' ? "&amp;" : std::string(1, one);
    return plain;
}

}  // namespace

std::string find_busctl() { return system_program("busctl"); }

std::vector<std::string> notification_words(const std::string& run, const approval::Question& first,
                                            std::size_t count) {
    const std::string& program = first.subject.program;
    std::string body = std::string(rules::name(first.operation)) + ' ' +
                       bounded(first.subject.object.text()) + "\nby " +
                       bounded(program.substr(program.rfind('/') + 1));
    if (count > 1) body += "\nand " + std::to_string(count - 1) + " more";
    const std::string service = "org.freedesktop.Notifications";
    return {"busctl",
            "--user",
            "--timeout=5",
            "--",
            "call",
            service,
            "/org/freedesktop/Notifications",
            service,
            "Notify",
            "susssasa{sv}i",
            "callgate",
            "0",
            "",
            "callgate: run " + run + " asks",
            body,
            "0",
            "0",
            "-1"};
}

void Desktop::tell(const std::string& run, const approval::Question& first, std::size_t count) {
    if (sending_) return;
    const std::string program = find_busctl();
    if (program.empty()) return ended(false);
    auto child = spawn(program.c_str(), notification_words(run, first, count), current_environment(), {},
                       SignalState::current());
    if (!child) return ended(false);
    sending_.emplace(loop_, child->pidfd.release());
    await_readable(*sending_, [this, pid = child->pid](const auto& error) {
        if (!error) ended(reap(pid) == 0);
    });
}

void Desktop::ended(bool told) {
    sending_.reset();
    if (!told && failed_) std::exchange(failed_, {})();
}

}  // namespace callgate
