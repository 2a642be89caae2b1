#include <exception>

#include "relay/front.hpp"
#include "relay/protocol.hpp"
#include "supervisor/cli/build_info.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/jobs/http/front.hpp"
#include "supervisor/jobs/job_message.hpp"

#ifndef CALLGATE_VERSION
#define CALLGATE_VERSION "development"
#endif

namespace callgate::cli {

namespace {

[[noreturn]] void fail_unknown_verb(const std::string& word) {
    std::vector<std::string_view> names;
    for (const VerbSpec& verb : verbs()) names.push_back(verb.name);
    if (word.starts_with("-"))
        throw Failure("unknown option " + word + "; options follow a verb: callgate run " + word + " ...");
    const std::string near = suggestion(word, names, "callgate ");
    throw Failure("unknown verb " + word + near +
                  (near.empty() ? "; to run a command: callgate run " + word : ""));
}

int dispatch_words(std::vector<std::string> words) {
    if (words.empty()) throw Failure("a verb is missing, such as run; callgate --help lists them");
    const std::string word = words[0];
    words.erase(words.begin());
    if (word == "--version" || word == "version") {
        print("callgate " CALLGATE_VERSION " (" + std::string(build_info) + ")\n");
        return 0;
    }
    if (word == "--help" || word == "-h" || word == "help") {
        const bool named = word == "help" && !words.empty();
        const VerbSpec* verb = named ? find_verb(words[0]) : nullptr;
        if (named && verb == nullptr) fail_unknown_verb(words[0]);
        print(verb == nullptr ? help() : help(*verb));
        return 0;
    }
    if (word == jobs::warm_word) return run_warm();
    if (word == relay::front_word) return relay::run_front();
    if (word == jobs::http::front_word) return jobs::http::run_front();
    const VerbSpec* verb = find_verb(word);
    if (verb == nullptr) fail_unknown_verb(word);
    const Arguments arguments = parse(*verb, std::move(words));
    if (arguments.has("help")) {
        print(help(*verb));
        return 0;
    }
    return verb->run(arguments);
}

}  // namespace

int dispatch(std::vector<std::string> words) noexcept {
    try {
        return dispatch_words(std::move(words));
    } catch (const std::exception& error) {
        say(error.what());
    }
    return exit_failure;
}

}  // namespace callgate::cli
