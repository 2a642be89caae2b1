// `callgate profiles`: the rule sets that -p can name.

#include <algorithm>

#include "base/directory.hpp"
#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "rules/load/loader.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

namespace {

constexpr std::size_t profile_limit = 8 << 20;

int list(const std::string& directory, bool json) {
    std::string text;
    Buffer out;
    JsonWriter objects(out);
    objects.begin_list();
    const auto add = [&](std::string_view name, std::string_view description, std::string_view origin) {
        std::string line = terminal_safe(name);
        line.append(line.size() < 12 ? 12 - line.size() : 1, ' ');
        text += line + terminal_safe(description) + "\n";
        objects.begin_object()
            .member("name", name)
            .member("description", description)
            .member("origin", origin)
            .end_object();
    };
    for (const rules::ShippedProfile& profile : rules::shipped_profiles())
        add(profile.name, profile.description, "shipped");
    for (const std::string& name : own_profiles(directory)) add(name, "your own, in " + directory, "user");
    objects.end_list();
    print(json ? std::string(out.view()) + "\n" : text);
    return 0;
}

}  // namespace

std::vector<std::string> own_profiles(const std::string& directory) {
    std::vector<std::string> names;
    const Directory stream(::opendir(directory.c_str()));
    if (!stream) return names;
    for (const dirent* found = ::readdir(stream.get()); found != nullptr; found = ::readdir(stream.get())) {
        const std::string_view name = found->d_name;
        if (name.size() > 5 && name.ends_with(".json")) names.emplace_back(name.substr(0, name.size() - 5));
    }
    std::sort(names.begin(), names.end());
    return names;
}

int profiles(const Arguments& arguments) {
    const std::string directory = find_places().config + "/profiles";
    if (arguments.rest().empty()) return list(directory, arguments.has("json"));
    const std::string& name = arguments.rest()[0];
    std::vector<std::string_view> known;
    for (const rules::ShippedProfile& profile : rules::shipped_profiles()) {
        known.push_back(profile.name);
        if (profile.name != name) continue;
        print(profile.json);
        if (!profile.json.ends_with('\n')) print("\n");
        return 0;
    }
    if (name.find('/') == std::string::npos) {
        const auto text = read_regular_file(directory + "/" + name + ".json", profile_limit);
        if (text) {
            print(*text);
            return 0;
        }
    }
    const std::string near = suggestion(name, known);
    throw Failure("unknown profile " + name + (near.empty() ? "; callgate profiles lists them" : near));
}

}  // namespace callgate::cli
