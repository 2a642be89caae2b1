#include "supervisor/jobs/http/sandbox_fusion.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "supervisor/jobs/http/fusion_languages.hpp"
#include "supervisor/jobs/http/fusion_script.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

namespace {

using nlohmann::json;

/// Prints "MARK STATUS MILLISECONDS STDOUT STDERR", and goes on where the compiler succeeded.
std::string compilation(const FusionLanguage& language, const FusionJob& made) {
    return "began=$(date +%s%3N)\ntimeout -s KILL " + in_seconds(made.compile_ms) + ' ' +
           std::string(language.compile) + " > .compiled 2> .errors < /dev/null\nstatus=$?\nprintf '" +
           made.mark +
           " %s %s %s %s\\n' \"$status\" $(($(date +%s%3N) - began)) \"$(base64 -w0 .compiled)\" "
           "\"$(base64 -w0 .errors)\"\nrm -f .compiled .errors\n[ \"$status\" = 0 ] || exit \"$status\"\n";
}

/// A program that is alone in its job ends by the job's own limit. Else timeout(1) ends it, and the job's
/// limit holds what timeout(1) does not reach.
FusionJob job_of(const json& request, const FusionLanguage& language, std::string mark) {
    FusionJob made;
    made.compiled = !language.compile.empty();
    made.compile_ms = made.compiled ? milliseconds_of(request, "compile_timeout") : 0;
    made.run_ms = milliseconds_of(request, "run_timeout");
    made.fetched = fetched(request);
    const bool alone = !made.compiled && made.fetched.empty();
    if (!alone) made.mark = std::move(mark);
    std::string code = text_of(request, "code");
    if (language.name == "php" && code.find("<?php") == std::string::npos) code.insert(0, "<?php\n");
    std::string script = std::string(entering) + files_written(request) + "printf %s " + word(code) + " > " +
                         std::string(language.source) + " || exit 125\n";
    if (made.compiled) script += compilation(language, made);
    script += (alone ? "exec " : "timeout -s KILL " + in_seconds(made.run_ms) + ' ') +
              std::string(language.run) + '\n';
    if (!made.fetched.empty()) script += fetching(made);
    json job = {
        {"language", "sh"},
        {"code", std::move(script)},
        {"timeout", std::to_string(alone ? made.run_ms : made.compile_ms + made.run_ms + surplus_ms) + "ms"}};
    const json input = given(request, "stdin", "");
    if (!input.is_string()) throw InvalidRequest{"stdin: expected a text"};
    job["stdin"] = input;
    const json memory = given(request, "memory_limit_MB", -1);
    if (!memory.is_number()) throw InvalidRequest{"memory_limit_MB: expected a number"};
    if (memory.get<double>() >= 1)
        job["memory"] = std::to_string(static_cast<std::int64_t>(std::min(memory.get<double>(), 1e9))) + "M";
    made.job = job.dump();
    return made;
}

}  // namespace

std::vector<std::string_view> fusion_programs() {
    std::vector<std::string_view> programs{"ipython"};
    for (const FusionLanguage& language : fusion_languages) programs.push_back(language.program);
    return programs;
}

std::variant<Refused, FusionJob> fusion_job(std::string_view body, std::string mark,
                                            bool (*has)(std::string_view program)) {
    try {
        const json request = parse_strictly(body);
        if (!request.contains("code") || !request.contains("language"))
            throw InvalidRequest{"code and language are needed"};
        const std::string name = text_of(request, "language");
        const auto* const language = std::ranges::find(fusion_languages, name, &FusionLanguage::name);
        if (language == std::end(fusion_languages))
            return Refused{501, "the language " + json_string(name) + " is not offered here"};
        if (!has(language->program))
            return Refused{501, "the language " + name + " needs the program " +
                                    std::string(language->program) + ", which this machine does not have"};
        return job_of(request, *language, std::move(mark));
    } catch (const InvalidRequest& wrong) {
        return Refused{400, wrong.why};
    }
}

}  // namespace callgate::jobs::http
