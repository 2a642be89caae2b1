#include "rules/load/examples.hpp"

#include "rules/model/address.hpp"

namespace callgate::rules {
namespace {

constexpr std::string_view expected_line = "expected \"OPERATION OBJECT [by PROGRAM]\"";

bool is_path_text(std::string_view text) {
    return text.starts_with('/') || text.starts_with('~') || text.starts_with("${");
}

/// Expands variables, and resolves the name as the kernel would.
Expected<std::string> resolve_path(std::string_view text, PatternMaker& patterns) {
    Expected<std::string> path = patterns.expand_literal(text, true);
    if (!path) return path;
    while (path->size() > 1 && path->ends_with('/')) path->pop_back();
    if (!path->starts_with('/')) return Problem{in_quotes(text) + " is not an absolute path"};
    return patterns.canonical(*path);
}

/// The addresses that stand for a host: of localhost its own, else one that nobody uses (RFC 6666). An
/// untrusted author may have chosen the name, so it is not looked up.
std::vector<IpAddress> addresses_of_host(const std::string& host) {
    IpAddress six{.bytes = {}, .v6 = true};
    six.bytes[15] = 1;
    if (host == "localhost") return {{{127, 0, 0, 1}, false}, six};
    six.bytes[0] = 0x01;
    return {six};
}

struct Endpoints {
    std::vector<Endpoint> all;
    std::vector<std::string> names;  // of each
};

Expected<Endpoints> parse_endpoints(std::string_view text) {
    const Expected<Destination> destination = parse_destination(text);
    if (!destination) return destination.error();
    if (!destination->port) return Problem{"expected a port: HOST:PORT"};
    if (destination->port->first != destination->port->last) return Problem{"expected one port"};
    Endpoints found;
    std::vector<IpAddress> addresses;
    if (const auto* block = std::get_if<Cidr>(&destination->host)) {
        if (block->prefix != (block->address.v6 ? 128 : 32))
            return Problem{"expected one address, not a block"};
        addresses = {block->address};
    } else {
        const auto& host = std::get<HostPattern>(destination->host);
        if (host.suffix) return Problem{"expected one host, not a pattern"};
        addresses = addresses_of_host(host.text);
        found.names = {host.text};
    }
    for (const IpAddress& address : addresses)
        found.all.push_back(
            {address, destination->port->first, destination->protocol.value_or(Protocol::tcp)});
    return found;
}

std::string describe_decision(const Verdict& verdict) {
    std::string text(name(verdict.action));
    if (verdict.rule == nullptr) return text + " by default";
    const Source& source = verdict.rule->source;
    text += " by rule " + in_quotes(verdict.rule->id);
    if (source.file.empty()) return text;
    text += " (" + source.file;
    if (source.line > 0) text += ':' + std::to_string(source.line) + ':' + std::to_string(source.column);
    return text + ')';
}

}  // namespace

Expected<ExampleLine> ExampleLine::parse(std::string_view line, PatternMaker& patterns) {
    ExampleLine example;
    const std::size_t space = line.find(' ');
    const std::optional<OperationSet> operations = parse_operations(line.substr(0, space));
    if (!operations)
        return Problem{"unknown operation " + in_quotes(line.substr(0, space)) + ": " +
                       std::string(expected_line)};
    if (space == std::string_view::npos) return Problem{std::string(expected_line)};
    example.operations_ = *operations;
    std::string_view object = line.substr(space + 1);
    if (const std::size_t by = object.rfind(" by ");
        by != std::string_view::npos && is_path_text(object.substr(by + 4))) {
        Expected<std::string> program = resolve_path(object.substr(by + 4), patterns);
        if (!program) return program.error();
        example.program_ = std::move(*program);
        object = object.substr(0, by);
    }
    if (operations->intersects(network_operations) && !object.starts_with('@') && !is_path_text(object)) {
        Expected<Endpoints> endpoints = parse_endpoints(object);
        if (!endpoints) return endpoints.error();
        example.endpoints_ = std::move(endpoints->all);
        example.host_ = std::move(endpoints->names);
        return example;
    }
    if (operations->intersects(network_operations)) example.unix_type_ = UnixType::stream;
    const bool abstract = object.starts_with('@') && example.unix_type_;
    Expected<std::string> path =
        abstract ? Expected<std::string>(std::string(object)) : resolve_path(object, patterns);
    if (!path) return path.error();
    example.path_ = std::move(*path);
    if (operations->contains(Operation::execute)) example.arguments_.push_back(example.path_);
    return example;
}

std::vector<Request> ExampleLine::requests() const {
    std::vector<Request> all;
    const auto add = [&](Object object) { all.push_back({operations_, object, program_, arguments_}); };
    for (Endpoint endpoint : endpoints_) {
        endpoint.names = host_;
        add(endpoint);
    }
    if (!endpoints_.empty()) return all;
    if (unix_type_)
        add(UnixObject{path_, *unix_type_});
    else
        add(FileObject{path_, false});
    return all;
}

void run_examples(const std::vector<ParsedExample>& examples, const RuleSet& rules, PatternMaker& patterns,
                  Findings& findings) {
    for (const ParsedExample& example : examples) {
        const Expected<ExampleLine> line = ExampleLine::parse(example.text, patterns);
        if (!line) {
            findings.error(example.line, example.column,
                           "example " + in_quotes(example.text) + ": " + line.error().text);
            continue;
        }
        for (const Request& request : line->requests()) {
            const Verdict verdict = rules.evaluate(request);
            if (verdict.action == example.expected) continue;
            findings.error(example.line, example.column,
                           "example " + in_quotes(example.text) + " failed: it is " +
                               describe_decision(verdict) + ", expected " +
                               std::string(name(example.expected)));
            break;
        }
    }
}

}  // namespace callgate::rules
