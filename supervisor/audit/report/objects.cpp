#include "supervisor/audit/report/objects.hpp"

namespace callgate::audit::report {

namespace {

constexpr std::uint32_t others = 0;
/// Leaves room for directories that stand for the objects beneath them.
constexpr std::size_t max_with_directories = Objects::most + 20'000;

ObjectKind kind_of(const Entry& entry) {
    if (!entry.host.empty()) return ObjectKind::host;
    if (entry.object.starts_with('@')) return ObjectKind::name;
    return entry.socket_type.empty() ? ObjectKind::path : ObjectKind::socket;
}

}  // namespace

Objects::Objects(Strings& strings) : strings_(&strings) { objects_.emplace_back(); }

std::uint32_t Objects::add(const Entry& entry, Outcome outcome) {
    const std::uint32_t number = find_or_add(entry);
    Object& object = objects_[number];
    count(object.calls, outcome);
    if (const auto operation = rules::parse_operations(entry.operation)) object.operations |= *operation;
    if (object.kind == ObjectKind::beneath || object.kind == ObjectKind::others) ++rolled_up_;
    return number;
}

std::uint32_t Objects::find_or_add(const Entry& entry) {
    const auto text = strings_->add(entry.object);
    const ObjectKind kind = kind_of(entry);
    const bool has_path = kind == ObjectKind::path || kind == ObjectKind::socket;
    Object object{.text = text.value_or(Object::none), .kind = kind};
    if (!entry.second_object.empty())
        object.second = strings_->add(entry.second_object).value_or(Object::none);
    if (kind == ObjectKind::host) object.host = strings_->add(entry.host).value_or(Object::none);
    const bool room = text && (kind != ObjectKind::host || object.host != Object::none);
    if (room)
        if (const std::uint32_t number = insert(object, most); number != others) return number;
    return has_path ? roll_up(entry.object) : others;
}

std::uint32_t Objects::roll_up(std::string_view path) {
    while (path.size() > 1) {
        path = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
        if (path.find('/') == std::string_view::npos) return others;
        const auto text = strings_->add(path);
        if (!text) continue;
        const std::uint32_t number =
            insert({.text = *text, .kind = ObjectKind::beneath}, max_with_directories);
        if (number != others) return number;
    }
    return others;
}

std::uint32_t Objects::insert(const Object& object, std::size_t limit) {
    const Key key{object.text, object.second, object.host, object.kind};
    if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
    if (objects_.size() >= limit) return others;
    const auto number = static_cast<std::uint32_t>(objects_.size());
    numbers_.emplace(key, number);
    objects_.push_back(object);
    return number;
}

}  // namespace callgate::audit::report
