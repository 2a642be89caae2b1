// JSON text as a tree in which every key and value knows its line and column.
//
// The text may be hostile. Size, NUL bytes and bytes that are not UTF-8 are checked before anything is built;
// the reader bounds nesting and does not recurse. So the tree is at most `max_nesting` deep and proportional
// to the text.
//
// A tree is one flat list of nodes without pointers. So the trees of shipped profiles are made when callgate
// is built (cmake/embed.cpp) and cost nothing at start-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/load/diagnostic.hpp"

namespace callgate::rules {

inline constexpr std::size_t max_text = 1024 * 1024;
inline constexpr std::size_t max_nesting = 64;

/// A key or a value, in the order of the text: a container before its contents, a key before its value.
struct JsonNode {
    enum class Kind : std::uint8_t { null, boolean, number, string, array, object, key };
    Kind kind = Kind::null;
    bool boolean = false;
    std::uint32_t line = 1, column = 1;  // both from 1; columns count bytes
    std::uint32_t text = 0, length = 0;  // in JsonTree::texts: a key, a string, or a number as it was written
    std::uint32_t next = 0;              // index behind this node and its contents
    bool operator==(const JsonNode&) const = default;
};

/// A view of nodes and texts that another object owns. The root is the first node.
struct JsonTree {
    std::span<const JsonNode> nodes;
    std::string_view texts;
};

struct JsonMember;

/// The contents of a container, in order: every `Item` knows the index of the next.
template <typename Item>
class JsonRange {
public:
    class Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Item;
        using difference_type = std::ptrdiff_t;
        using pointer = const Item*;
        using reference = Item;

        Iterator(const JsonTree* tree, std::uint32_t index) : tree_(tree), index_(index) {}
        Item operator*() const { return Item(*tree_, index_); }
        Iterator& operator++();
        bool operator==(const Iterator& other) const { return index_ == other.index_; }

    private:
        const JsonTree* tree_;
        std::uint32_t index_;
    };

    JsonRange(const JsonTree& tree, std::uint32_t first, std::uint32_t end)
        : tree_(&tree), first_(first), end_(end) {}
    [[nodiscard]] Iterator begin() const { return {tree_, first_}; }
    [[nodiscard]] Iterator end() const { return {tree_, end_}; }
    [[nodiscard]] bool empty() const { return first_ == end_; }
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(std::distance(begin(), end())); }

private:
    const JsonTree* tree_;
    std::uint32_t first_, end_;
};

/// A value within a tree; the tree must outlive it.
class JsonValue {
public:
    using Kind = JsonNode::Kind;
    JsonValue(const JsonTree& tree, std::uint32_t index) : tree_(&tree), index_(index) {}

    [[nodiscard]] Kind kind() const { return node().kind; }
    [[nodiscard]] bool boolean() const { return node().boolean; }
    [[nodiscard]] int line() const { return static_cast<int>(node().line); }
    [[nodiscard]] int column() const { return static_cast<int>(node().column); }
    /// A string's value, or a number as it was written.
    [[nodiscard]] std::string_view text() const { return tree_->texts.substr(node().text, node().length); }
    /// The elements of an array; empty for other kinds.
    [[nodiscard]] JsonRange<JsonValue> items() const;
    /// The members of an object; empty for other kinds.
    [[nodiscard]] JsonRange<JsonMember> members() const;
    [[nodiscard]] std::optional<JsonMember> member(std::string_view key) const;

private:
    [[nodiscard]] const JsonNode& node() const { return tree_->nodes[index_]; }

    const JsonTree* tree_;
    std::uint32_t index_;
};

struct JsonMember {
    JsonMember(const JsonTree& tree, std::uint32_t index)
        : key(tree.texts.substr(tree.nodes[index].text, tree.nodes[index].length)),
          line(static_cast<int>(tree.nodes[index].line)),
          column(static_cast<int>(tree.nodes[index].column)),
          value(tree, index + 1) {}

    std::string_view key;
    int line, column;  // of the key
    JsonValue value;
};

template <typename Item>
typename JsonRange<Item>::Iterator& JsonRange<Item>::Iterator::operator++() {
    index_ = tree_->nodes[index_].next;
    return *this;
}

inline JsonValue root(const JsonTree& tree) { return {tree, 0}; }
JsonValue root(const JsonTree&& tree) = delete;  // values look into the tree

/// A tree that was read from a text.
struct JsonDocument {
    std::vector<JsonNode> nodes;
    std::string texts;
    [[nodiscard]] JsonTree tree() const { return {nodes, texts}; }
};

/// Reads one JSON text (comments `//` and `/* */` allowed). Syntax errors, duplicate keys and strings that
/// hold a NUL go to `findings`. Returns nothing if the text could not be read to its end.
[[nodiscard]] std::optional<JsonDocument> parse_json(std::string_view text, Findings& findings);

/// The tree without comments, blanks and order of keys, as the input of a rule file's hash.
[[nodiscard]] std::string canonical_json(const JsonTree& tree);

/// "a list", "the number 3", "the string \"x\"": for messages.
[[nodiscard]] std::string describe(const JsonValue& value);

}  // namespace callgate::rules
