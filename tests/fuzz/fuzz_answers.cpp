// Fuzzes what a client that answers questions sends, before and after it has authenticated itself: ./dev
// fuzz.
//
// An input is what the client sends, line by line. Besides memory errors and undefined behaviour two things
// are checked. A refused message has a reason. A reply is one line that shows nothing on a terminal but
// itself.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/escape.hpp"
#include "supervisor/approval/protocol/wire.hpp"

using namespace callgate;

namespace {

void check_said(std::string_view said) {
    if (said.ends_with('\n')) said.remove_suffix(1);
    if (terminal_safe(said) == said) return;
    std::fprintf(stderr, "text that a terminal would obey: %s\n", terminal_safe(said).c_str());
    std::abort();
}

void parse_line(std::string_view line) {
    const approval::Message message = approval::parse_message(line);
    if (const auto* const nonsense = std::get_if<approval::Nonsense>(&message)) {
        if (nonsense->why.empty()) std::abort();
        check_said(approval::error_message(nonsense->why));
    } else if (const auto* const decision = std::get_if<approval::DecisionMessage>(&message)) {
        check_said(approval::ack_message(decision->id, decision->wrong.empty(), decision->wrong));
    }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view rest(reinterpret_cast<const char*>(data), size);
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        parse_line(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return 0;
}
