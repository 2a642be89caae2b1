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

Expected<std::vector<IpAddress>> resolve_addresses(const Destination& destination,
                                                   const ExampleContext& context) {
    if (const auto* block = std::get_if<Cidr>(&destination.host)) {
        if (block->prefix != (block->address.v6 ? 128 : 32))
            return Problem{"expected one address, not a block"};
        return std::vector<IpAddress>{block->address};
    }
    const auto& host = std::get<HostPattern>(destination.host);
    if (host.suffix) return Problem{"expected one host, not a pattern"};
    std::vector<IpAddress> addresses = context.resolve(host.text);
    if (addresses.empty()) return Problem{in_quotes(host.text) + " has no address here"};
    return addresses;
}

Expected<std::vector<Endpoint>> resolve_endpoints(std::string_view text, const ExampleContext& context) {
    const Expected<Destination> destination = parse_destination(text);
    if (!destination) return destination.error();
    if (!destination->port) return Problem{"expected a port: HOST:PORT"};
    if (destination->port->first != destination->port->last) return Problem{"expected one port"};
    const Expected<std::vector<IpAddress>> addresses = resolve_addresses(*destination, context);
    if (!addresses) return addresses.error();
    std::vector<Endpoint> endpoints;
    for (const IpAddress& address : *addresses)
        endpoints.push_back(
            {address, destination->port->first, destination->protocol.value_or(Protocol::tcp)});
    return endpoints;
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

Expected<ExampleLine> ExampleLine::parse(std::string_view line, const ExampleContext& context) {
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
        Expected<std::string> program = resolve_path(object.substr(by + 4), context.patterns);
        if (!program) return program.error();
        example.program_ = std::move(*program);
        object = object.substr(0, by);
    }
    if (operations->intersects(network_operations) && !object.starts_with('@') && !is_path_text(object)) {
        Expected<std::vector<Endpoint>> endpoints = resolve_endpoints(object, context);
        if (!endpoints) return endpoints.error();
        example.endpoints_ = std::move(*endpoints);
        return example;
    }
    if (operations->intersects(network_operations)) example.unix_type_ = UnixType::stream;
    const bool abstract = object.starts_with('@') && example.unix_type_;
    Expected<std::string> path =
        abstract ? Expected<std::string>(std::string(object)) : resolve_path(object, context.patterns);
    if (!path) return path.error();
    example.path_ = std::move(*path);
    if (operations->contains(Operation::execute)) example.arguments_.push_back(example.path_);
    return example;
}

std::vector<Request> ExampleLine::requests() const {
    std::vector<Request> all;
    const auto add = [&](Object object) { all.push_back({operations_, object, program_, arguments_}); };
    for (const Endpoint& endpoint : endpoints_) add(endpoint);
    if (!endpoints_.empty()) return all;
    if (unix_type_)
        add(UnixObject{path_, *unix_type_});
    else
        add(FileObject{path_, false});
    return all;
}

void run_examples(const std::vector<ParsedExample>& examples, const RuleSet& rules,
                  const ExampleContext& context, Findings& findings) {
    for (const ParsedExample& example : examples) {
        const Expected<ExampleLine> line = ExampleLine::parse(example.text, context);
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
