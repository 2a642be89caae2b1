// embed_calls OUTPUT: names and numbers of system calls on both architectures, as one C++ header.
//
// Runs when callgate is built: what libseccomp knows is asked here, so that no start of callgate asks it
// again.
#include <seccomp.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

#include "supervisor/enforce/newer_calls.hpp"

namespace {

using callgate::enforce::NamedNumber;
using callgate::enforce::newest_call;

/// If both know a name or a number, newer_calls.hpp is right.
std::map<std::string, std::uint32_t> calls_of(std::uint32_t architecture, std::span<const NamedNumber> own) {
    std::map<std::string, std::uint32_t> calls;
    for (std::uint32_t number = 0; number <= newest_call; ++number) {
        char* const name = seccomp_syscall_resolve_num_arch(architecture, static_cast<int>(number));
        if (name != nullptr) calls.emplace(name, number);
        std::free(name);  // NOLINT: libseccomp hands over what strdup gave
    }
    const auto add = [&calls](const NamedNumber& call) {
        std::erase_if(calls, [&call](const auto& known) { return known.second == call.number; });
        calls[std::string(call.name)] = call.number;
    };
    for (const NamedNumber& call : callgate::enforce::newer_calls) add(call);
    for (const NamedNumber& call : own) add(call);
    return calls;
}

/// All names in one text: a pointer for each would be one more word that every start relocates.
void put(std::ostream& out, const std::string& architecture,
         const std::map<std::string, std::uint32_t>& calls) {
    out << "inline constexpr char names_" << architecture << "[] =\n";
    for (const auto& [name, number] : calls) out << "    \"" << name << "\"\n";
    out << "    ;\ninline constexpr KnownCall calls_" << architecture << "[] = {\n";
    std::size_t begin = 0;
    for (const auto& [name, number] : calls) {
        out << "    {" << begin << ", " << name.size() << ", " << number << "},\n";
        begin += name.size();
    }
    out << "};\n";
}

void run(const std::string& output) {
    std::ofstream out(output, std::ios::binary);
    out << "// Generated from libseccomp and supervisor/enforce/newer_calls.hpp: do not edit.\n#pragma "
           "once\n\n"
           "#include <cstdint>\n\nnamespace callgate::enforce {\n\n"
           "/// In the order of the names.\nstruct KnownCall {\n"
           "    std::uint16_t begin, length;  // of the name\n    std::uint16_t number;\n};\n\n";
    put(out, "x86_64", calls_of(SCMP_ARCH_X86_64, callgate::enforce::newer_calls_x86_64));
    put(out, "aarch64", calls_of(SCMP_ARCH_AARCH64, {}));
    out << "\n}  // namespace callgate::enforce\n";
    if (!out.flush()) throw std::runtime_error(output + ": cannot be written");
}

}  // namespace

int main(int count, char** words) {
    try {
        if (count != 2) throw std::runtime_error("usage: embed_calls OUTPUT");
        run(words[1]);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "embed_calls: " << error.what() << '\n';
        return 1;
    }
}
