// embed OUTPUT SCHEMA PROFILE...: the shipped profiles and the schema as one C++ source.
//
// Runs when callgate is built. The parser that reads users' files reads the profiles here. The source holds
// their text, their tree and their hash, so that no start of callgate reads them again.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "base/sha256.hpp"
#include "cmake/embed_text.hpp"
#include "rules/load/json_tree.hpp"

namespace {

using callgate::rules::JsonDocument;
using callgate::rules::JsonNode;
using embed::put_string;
using embed::read_file;

JsonDocument parse(const std::string& text, const std::string& path) {
    std::vector<callgate::rules::Diagnostic> found;
    callgate::rules::Findings findings(path, found);
    std::optional<JsonDocument> document = callgate::rules::parse_json(text, findings);
    if (!found.empty()) throw std::runtime_error(found.front().text());
    return std::move(*document);
}

void put_nodes(std::ostream& out, const std::vector<JsonNode>& nodes) {
    for (const JsonNode& node : nodes)
        out << "    {Kind(" << static_cast<int>(node.kind) << "), " << (node.boolean ? "true" : "false")
            << ", " << node.line << ", " << node.column << ", " << node.text << ", " << node.length << ", "
            << node.next << "},\n";
}

struct Profile {
    std::string name, text;
    JsonDocument document;
    std::string description;
};

Profile read_profile(const std::string& path) {
    Profile profile{std::filesystem::path(path).stem().string(), read_file(path), {}, {}};
    profile.document = parse(profile.text, path);
    const auto tree = profile.document.tree();
    const auto description = root(tree).member("description");
    if (!description || description->value.text().empty() ||
        description->value.text().find('\n') != std::string_view::npos)
        throw std::runtime_error(path + ": a shipped profile needs a description of one line");
    profile.description = description->value.text();
    return profile;
}

void put_profiles(std::ostream& out, const std::vector<Profile>& profiles) {
    for (std::size_t index = 0; index < profiles.size(); ++index) {
        out << "constexpr JsonNode nodes_" << index << "[] = {\n";
        put_nodes(out, profiles[index].document.nodes);
        out << "};\n\n";
    }
    out << "constexpr ShippedProfile profiles[] = {\n";
    for (std::size_t index = 0; index < profiles.size(); ++index) {
        const Profile& profile = profiles[index];
        out << "  {";
        put_string(out, profile.name);
        out << ",";
        put_string(out, profile.description);
        out << ",";
        put_string(out, profile.text);
        out << ",\n   {nodes_" << index << ",";
        put_string(out, profile.document.texts);
        out << "},\n   \"" << callgate::sha256_hex(canonical_json(profile.document.tree())) << "\"},\n";
    }
    out << "};\n\n";
}

void run(const std::vector<std::string>& words) {
    if (words.size() < 3) throw std::runtime_error("usage: embed OUTPUT SCHEMA PROFILE...");
    std::vector<Profile> profiles;
    for (std::size_t index = 2; index < words.size(); ++index) profiles.push_back(read_profile(words[index]));
    std::sort(profiles.begin(), profiles.end(),
              [](const Profile& one, const Profile& other) { return one.name < other.name; });
    std::ofstream out(words[0], std::ios::binary);
    out << "// Generated from rules/profiles and rules/rules.schema.json: do not edit.\n"
           "#include \"rules/load/shipped.hpp\"\n\n"
           "namespace callgate::rules {\nnamespace {\n\nusing Kind = JsonNode::Kind;\n\n";
    put_profiles(out, profiles);
    out << "constexpr std::string_view schema =";
    put_string(out, read_file(words[1]));
    out << ";\n\n}  // namespace\n\n"
           "std::span<const ShippedProfile> shipped_profiles() { return profiles; }\n"
           "std::string_view rules_schema() { return schema; }\n\n"
           "}  // namespace callgate::rules\n";
    if (!out.flush()) throw std::runtime_error(words[0] + ": cannot be written");
}

}  // namespace

int main(int count, char** words) {
    try {
        run({words + 1, words + count});
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "embed: " << error.what() << '\n';
        return 1;
    }
}
