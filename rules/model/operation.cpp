#include "rules/model/operation.hpp"

#include <array>

namespace callgate::rules {

namespace {
constexpr std::array<std::string_view, operation_count> words = {"read",     "modify",  "create",  "delete",
                                                                 "metadata", "execute", "connect", "bind"};
}

std::string_view name(Operation operation) { return words[static_cast<std::size_t>(operation)]; }

std::string names(OperationSet set) {
    std::string text;
    const auto append = [&text](std::string_view word) {
        if (!text.empty()) text += ',';
        text += word;
    };
    const bool whole_write = set.contains_all(write_operations);
    for (const Operation operation : set) {
        if (whole_write && write_operations.contains(operation)) {
            if (operation == Operation::modify) append("write");
            continue;
        }
        append(name(operation));
    }
    return text;
}

std::optional<OperationSet> parse_operations(std::string_view word) {
    if (word == "write") return write_operations;
    for (int index = 0; index < operation_count; ++index) {
        const auto operation = static_cast<Operation>(index);
        if (word == name(operation)) return OperationSet{operation};
    }
    return std::nullopt;
}

}  // namespace callgate::rules
