#include "supervisor/jobs/job_message.hpp"

#include "base/number.hpp"

namespace callgate::jobs {

// The number of words, then words and variables, each ended by a NUL.

std::optional<std::string> pack(const JobMessage& words) {
    std::string message = std::to_string(words.words.size()) + '\0';
    for (const std::vector<std::string>* const all : {&words.words, &words.variables}) {
        for (const std::string& one : *all) {
            if (one.find('\0') != std::string::npos || message.size() + one.size() >= max_message)
                return std::nullopt;
            message += one;
            message += '\0';
        }
    }
    return message;
}

std::optional<JobMessage> unpack(std::string_view message) {
    if (message.empty() || message.back() != '\0') return std::nullopt;
    std::vector<std::string> all;
    while (!message.empty()) {
        const std::size_t end = message.find('\0');
        all.emplace_back(message.substr(0, end));
        message.remove_prefix(end + 1);
    }
    const auto count = parse_number<std::size_t>(all.front());
    if (!count || *count >= all.size()) return std::nullopt;
    const auto first = all.begin() + 1, middle = first + static_cast<std::ptrdiff_t>(*count);
    return JobMessage{{std::make_move_iterator(first), std::make_move_iterator(middle)},
                     {std::make_move_iterator(middle), std::make_move_iterator(all.end())}};
}

}  // namespace callgate::jobs
