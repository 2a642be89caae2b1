#include "rules/load/json_tree.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "rules/load/json_error.hpp"

namespace callgate::rules {
namespace {

/// Feeds the text to nlohmann's lexer and records the position.
class CountingIterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
    reference operator*() const { return *at_; }
    CountingIterator& operator++() {
        *furthest_ = ++at_;
        return *this;
    }
    CountingIterator operator++(int) {
        CountingIterator before = *this;
        ++*this;
        return before;
    }
    bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

private:
    const char* at_;
    const char** furthest_;
};

/// Walks forward over the text and knows line and column.
class Cursor {
public:
    explicit Cursor(std::string_view text) : text_(text) {
        if (text.starts_with("\xef\xbb\xbf")) offset_ = line_start_ = 3;
    }

    void advance_to(std::size_t offset) {
        for (; offset_ < offset && offset_ < text_.size(); ++offset_) {
            if (text_[offset_] != '\n') continue;
            ++line_;
            line_start_ = offset_ + 1;
        }
    }

    /// Skips blanks, comments and separators up to the next token. The lexer has accepted them already.
    /// Returns the last separator.
    char skip_to_token() {
        char separator = '\0';
        while (offset_ < text_.size()) {
            if (text_[offset_] == ',' || text_[offset_] == ':') separator = text_[offset_];
            if (std::string_view(" \t\r\n,:").find(text_[offset_]) != std::string_view::npos)
                advance_to(offset_ + 1);
            else if (text_.substr(offset_, 2) == "//")
                advance_to(std::min(text_.find('\n', offset_), text_.size()));
            else if (text_.substr(offset_, 2) == "/*")
                advance_to(std::min(text_.find("*/", offset_ + 2), text_.size() - 2) + 2);
            else
                break;
        }
        return separator;
    }

    [[nodiscard]] int line() const { return line_; }
    [[nodiscard]] int column() const { return static_cast<int>(offset_ - line_start_) + 1; }
    [[nodiscard]] std::size_t offset() const { return offset_; }

private:
    std::string_view text_;
    std::size_t offset_ = 0, line_start_ = 0;
    int line_ = 1;
};

/// Builds the tree from the parser's events. The events carry no positions, so tokens are located again in
/// the text.
class Builder : public nlohmann::json_sax<nlohmann::json> {
public:
    Builder(std::string_view text, Findings& findings)
        : furthest(text.data()), text_(text), cursor_(text), findings_(findings) {}

    const char* furthest;
    JsonDocument document;

    bool null() override { return literal(JsonNode::Kind::null, false); }
    bool boolean(bool value) override { return literal(JsonNode::Kind::boolean, value); }
    bool number_integer(number_integer_t) override { return number(); }
    bool number_unsigned(number_unsigned_t) override { return number(); }
    bool number_float(number_float_t, const string_t&) override { return number(); }
    bool string(string_t& value) override;
    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(JsonNode::Kind::object); }
    bool start_array(std::size_t) override { return open(JsonNode::Kind::array); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& value) override;
    bool parse_error(std::size_t position, const std::string& last,
                     const nlohmann::detail::exception& error) override;

private:
    /// A container that is not closed yet.
    struct Open {
        std::uint32_t node = 0;
        std::unordered_set<std::string> keys;
    };

    JsonNode& place(JsonNode::Kind kind);
    /// Ends the node, and its key, at the current position.
    void end_value(std::uint32_t node);
    void put_text(JsonNode& node, std::string_view text);
    [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(document.nodes.size()); }
    bool literal(JsonNode::Kind kind, bool value);
    bool number();
    bool open(JsonNode::Kind kind);
    bool close();
    void end_token() { cursor_.advance_to(static_cast<std::size_t>(furthest - text_.data())); }
    void refuse_nul(const std::string& value, const JsonNode& at);
    void error(const JsonNode& at, std::string message) {
        findings_.error(static_cast<int>(at.line), static_cast<int>(at.column), std::move(message));
    }

    std::string_view text_;
    Cursor cursor_;
    Findings& findings_;
    std::vector<Open> open_;
};

JsonNode& Builder::place(JsonNode::Kind kind) {
    cursor_.skip_to_token();
    JsonNode& node = document.nodes.emplace_back();
    node.kind = kind;
    node.line = static_cast<std::uint32_t>(cursor_.line());
    node.column = static_cast<std::uint32_t>(cursor_.column());
    node.next = count();
    return node;
}

void Builder::end_value(std::uint32_t node) {
    document.nodes[node].next = count();
    if (node > 0 && document.nodes[node - 1].kind == JsonNode::Kind::key)
        document.nodes[node - 1].next = count();
}

void Builder::put_text(JsonNode& node, std::string_view text) {
    node.text = static_cast<std::uint32_t>(document.texts.size());
    node.length = static_cast<std::uint32_t>(text.size());
    document.texts += text;
}

bool Builder::literal(JsonNode::Kind kind, bool value) {
    place(kind).boolean = value;
    end_value(count() - 1);
    end_token();
    return true;
}

bool Builder::number() {
    JsonNode& node = place(JsonNode::Kind::number);
    // The lexer has read one character beyond the number.
    const std::size_t end =
        std::min(text_.find_first_not_of("+-.0123456789eE", cursor_.offset()), text_.size());
    put_text(node, text_.substr(cursor_.offset(), end - cursor_.offset()));
    end_value(count() - 1);
    cursor_.advance_to(end);
    return true;
}

void Builder::refuse_nul(const std::string& value, const JsonNode& at) {
    if (value.find('\0') != std::string::npos)
        error(at, "the string holds a NUL character, which no name can hold");
}

bool Builder::string(string_t& value) {
    JsonNode& node = place(JsonNode::Kind::string);
    put_text(node, value);
    refuse_nul(value, node);
    end_value(count() - 1);
    end_token();
    return true;
}

bool Builder::open(JsonNode::Kind kind) {
    const JsonNode& node = place(kind);
    if (open_.size() == max_nesting) {
        error(node, "nested deeper than " + std::to_string(max_nesting) + " levels");
        return false;
    }
    open_.push_back({count() - 1, {}});
    end_token();
    return true;
}

bool Builder::close() {
    end_value(open_.back().node);
    open_.pop_back();
    end_token();
    return true;
}

bool Builder::key(string_t& value) {
    JsonNode& node = place(JsonNode::Kind::key);
    put_text(node, value);
    refuse_nul(value, node);
    if (!open_.back().keys.insert(value).second)
        error(node, "the key " + in_quotes(value) + " stands twice in one object");
    end_token();
    return true;
}

bool Builder::parse_error(std::size_t position, const std::string&,
                          const nlohmann::detail::exception& error) {
    JsonError found{.text = text_};
    found.separator = cursor_.skip_to_token();
    found.token = cursor_.offset();
    found.parser = error.what();
    if (!open_.empty()) {
        const JsonNode& outer = document.nodes[open_.back().node];
        found.within =
            outer.kind == JsonNode::Kind::array ? JsonError::Within::list : JsonError::Within::object;
        found.opened = static_cast<int>(outer.line);
    }
    const bool begun = !open_.empty() && open_.back().node + 1 == count();
    found.after_key = count() > 0 && document.nodes.back().kind == JsonNode::Kind::key;
    found.after_value = count() > 0 && !begun && !found.after_key;
    const JsonErrorText said = explain(found);
    if (said.inside && position > 0) cursor_.advance_to(position - 1);
    findings_.error(cursor_.line(), cursor_.column(), said.message);
    return false;
}

/// Reports the first byte that is NUL or not UTF-8. The parser takes a NUL for the end of the text, and does
/// not check bytes in comments.
bool check_bytes(std::string_view text, Findings& findings) {
    for (std::size_t offset = 0; offset < text.size();) {
        const std::size_t length = utf8_length(text, offset);
        if (length != 0 && text[offset] != '\0') {
            offset += length;
            continue;
        }
        Cursor cursor(text);
        cursor.advance_to(offset);
        findings.error(cursor.line(), cursor.column(),
                       length == 0 ? "invalid UTF-8: byte " + printable(text.substr(offset, 1))
                                   : std::string("a NUL byte: expected JSON text"));
        return false;
    }
    return true;
}

}  // namespace

JsonRange<JsonValue> JsonValue::items() const {
    const bool held = kind() == Kind::array;
    return {*tree_, index_ + 1, held ? node().next : index_ + 1};
}

JsonRange<JsonMember> JsonValue::members() const {
    const bool held = kind() == Kind::object;
    return {*tree_, index_ + 1, held ? node().next : index_ + 1};
}

std::optional<JsonMember> JsonValue::member(std::string_view key) const {
    for (const JsonMember& one : members())
        if (one.key == key) return one;
    return std::nullopt;
}

std::optional<JsonDocument> parse_json(std::string_view text, Findings& findings) {
    if (text.size() > max_text) {
        findings.error(1, 1, "the text has " + std::to_string(text.size()) + " bytes; at most 1 MiB is read");
        return std::nullopt;
    }
    if (!check_bytes(text, findings)) return std::nullopt;
    Builder builder(text, findings);
    const CountingIterator first(text.data(), &builder.furthest);
    const CountingIterator last(text.data() + text.size(), &builder.furthest);
    if (!nlohmann::json::sax_parse(first, last, &builder, nlohmann::json::input_format_t::json, true, true))
        return std::nullopt;
    return std::move(builder.document);
}

namespace {

/// Writes lengths instead of escapes: no two texts give the same bytes, and nothing has to be encoded.
void put_text(std::string& into, char kind, std::string_view text) {
    into += kind;
    into += std::to_string(text.size());
    into += ':';
    into += text;
}

void put_canonical(std::string& into, const JsonValue& value) {
    using Kind = JsonValue::Kind;
    switch (value.kind()) {
        case Kind::null:
            into += 'z';
            return;
        case Kind::boolean:
            into += value.boolean() ? 't' : 'f';
            return;
        case Kind::number:
            return put_text(into, 'n', value.text());
        case Kind::string:
            return put_text(into, 's', value.text());
        case Kind::array:
            into += '[';
            for (const JsonValue& item : value.items()) put_canonical(into, item);
            into += ']';
            return;
        case Kind::object:
        case Kind::key:
            break;
    }
    std::vector<JsonMember> sorted(value.members().begin(), value.members().end());
    std::sort(sorted.begin(), sorted.end(),
              [](const JsonMember& left, const JsonMember& right) { return left.key < right.key; });
    into += '{';
    for (const JsonMember& member : sorted) {
        put_text(into, 'k', member.key);
        put_canonical(into, member.value);
    }
    into += '}';
}

}  // namespace

std::string canonical_json(const JsonTree& tree) {
    std::string result;
    put_canonical(result, root(tree));
    return result;
}

std::string describe(const JsonValue& value) {
    using Kind = JsonValue::Kind;
    switch (value.kind()) {
        case Kind::null:
            return "null";
        case Kind::boolean:
            return value.boolean() ? "true" : "false";
        case Kind::number:
            return std::string(value.text().substr(0, 40)) + (value.text().size() <= 40 ? "" : "...");
        case Kind::string:
            return in_quotes(value.text());
        case Kind::array:
            return "a list";
        case Kind::object:
        case Kind::key:
            return "an object";
    }
    return {};
}

}  // namespace callgate::rules
