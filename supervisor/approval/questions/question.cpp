#include "supervisor/approval/questions/question.hpp"

#include "base/at_or_beneath.hpp"
#include "base/sha256.hpp"
#include "supervisor/audit/write/format.hpp"

namespace callgate::approval {

namespace {

std::string_view parent_of(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos || slash == 0 ? "/" : path.substr(0, slash);
}

bool beneath(std::string_view path, std::string_view directory) {
    return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

/// Length first, so that no two lists of fields give the same bytes.
void append(std::string& bytes, std::string_view field) {
    bytes += std::to_string(field.size()) + ':';
    bytes += field;
}

}  // namespace

std::string_view name(Scope scope) {
    constexpr std::string_view words[] = {"once", "object", "tree", "run"};
    return words[static_cast<std::size_t>(scope)];
}

std::optional<Scope> parse_scope(std::string_view word) {
    for (const Scope scope : {Scope::once, Scope::object, Scope::tree, Scope::run})
        if (name(scope) == word) return scope;
    return std::nullopt;
}

AskedObject::AskedObject(const rules::Object& object) {
    if (const auto* file = std::get_if<rules::FileObject>(&object)) {
        name = file->path;
    } else if (const auto* far = std::get_if<rules::Endpoint>(&object)) {
        kind = Kind::internet;
        endpoint = *far;
        names.assign(far->names.begin(), far->names.end());
        endpoint.names = {};
    } else if (const auto* local = std::get_if<rules::UnixObject>(&object)) {
        kind = Kind::unix_socket;
        name = local->name;
        unix_type = local->type;
    } else if (const auto* host = std::get_if<rules::HostName>(&object)) {
        kind = Kind::host;
        name = host->name;
    }
}

bool AskedObject::operator==(const AskedObject& other) const {
    return kind == other.kind && name == other.name && endpoint.address == other.endpoint.address &&
           endpoint.port == other.endpoint.port && endpoint.protocol == other.endpoint.protocol &&
           unix_type == other.unix_type;
}

rules::Object AskedObject::view() const {
    if (kind == Kind::internet) {
        rules::Endpoint whole = endpoint;
        whole.names = names;
        return whole;
    }
    if (kind == Kind::host) return rules::HostName{name};
    if (kind == Kind::unix_socket) return rules::UnixObject{name, unix_type};
    return rules::FileObject{name};
}

std::string AskedObject::text() const {
    if (kind != Kind::internet) return name;
    Buffer address(64);
    audit::append_address(address, endpoint.address);
    const std::string host(address.view());
    return (endpoint.address.v6 ? '[' + host + ']' : host) + ':' + std::to_string(endpoint.port) +
           (endpoint.protocol == rules::Protocol::udp ? "/udp" : "");
}

/// A grant is for a known program.
bool Question::offers(Scope scope) const {
    if (scope == Scope::once) return true;
    if (scope == Scope::run) return false;
    if (subject.program.empty() || subject.widens) return false;
    if (scope == Scope::object) return true;
    if (subject.object.kind == AskedObject::Kind::host) return own_zone;
    if (subject.object.kind != AskedObject::Kind::file || operation == rules::Operation::execute)
        return false;
    const std::string tree = directory_of_tree();
    return is_small_tree(tree, home) &&
           (subject.second_path.empty() || (subject.arguments.empty() && beneath(subject.second_path, tree)));
}

bool Question::offers_tree(const std::string& tree) const {
    if (!offers(Scope::tree)) return false;
    const std::string nearest = directory_of_tree();
    if (tree == nearest) return true;
    return subject.object.kind == AskedObject::Kind::file && beneath(nearest, tree) &&
           is_small_tree(tree, home);
}

std::string Question::widest_tree() const {
    if (!offers(Scope::tree) || subject.object.kind != AskedObject::Kind::file) return "";
    std::string widest = directory_of_tree();
    while (offers_tree(std::string(parent_of(widest)))) widest = parent_of(widest);
    return widest == directory_of_tree() ? "" : widest;
}

bool Question::offers_writing() const {
    const rules::OperationSet asked = subject.operations | subject.second_operations;
    return offers(Scope::tree) && subject.object.kind == AskedObject::Kind::file &&
           reading_and_writing.contains_all(asked) && !asked.contains_all(reading_and_writing);
}

std::string Question::directory_of_tree() const {
    if (subject.object.kind == AskedObject::Kind::host)
        return '*' + subject.object.name.substr(
                         std::min(subject.object.name.find('.'), subject.object.name.size()));
    if (directory) return subject.object.name;
    return std::string(parent_of(subject.object.name));
}

std::string key_of(const Subject& subject, std::string_view rule,
                   const std::optional<audit::FileIdentity>& identity) {
    std::string bytes = "callgate/question/1\n";
    append(bytes, rule);
    append(bytes, std::to_string(subject.operations.bits()) + ',' +
                      std::to_string(subject.second_operations.bits()));
    append(bytes, std::to_string(static_cast<int>(subject.object.kind)) + ',' +
                      std::to_string(static_cast<int>(subject.object.unix_type)));
    append(bytes, subject.object.text());
    append(bytes, subject.second_path);
    append(bytes, identity ? std::to_string(identity->device) + ',' + std::to_string(identity->inode) : "");
    append(bytes, subject.program);
    append(bytes, subject.widens ? "widens" : "");
    if (subject.any_program) append(bytes, "any program");
    if (subject.party) append(bytes, "party " + std::string(rules::name(*subject.party)));
    for (const std::string& argument : subject.arguments) append(bytes, argument);
    return "sha256:" + sha256_hex(bytes);
}

}  // namespace callgate::approval
