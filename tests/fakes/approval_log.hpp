// A log of questions and answers that keeps its lines, and can refuse to be written.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "supervisor/approval/questions/approval_log.hpp"

namespace callgate::fakes {

class ApprovalLog final : public approval::ApprovalLog {
public:
    std::vector<std::string> lines;
    bool writable = true;

    bool shown(const approval::Question& question) override {
        return write("shown " + question.subject.object.name);
    }
    bool answered(const approval::Question& question, const approval::Answered& what) override {
        return write("answered " + question.subject.object.name + ' ' +
                     std::string(rules::name(what.reply.action)) + ' ' + std::string(name(what.reply.scope)) +
                     " by " + std::string(rules::name(what.reply.by)) + " x" + std::to_string(what.callers));
    }
    bool withdrawn(const approval::Question& question, std::string_view) override {
        return write("withdrawn " + question.subject.object.name);
    }
    bool revoked(std::uint64_t grant, const audit::Answerer&) override {
        return write("revoked " + std::to_string(grant));
    }

private:
    bool write(std::string line) {
        if (writable) lines.push_back(std::move(line));
        return writable;
    }
};

}  // namespace callgate::fakes
