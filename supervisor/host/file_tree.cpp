#include "supervisor/host/file_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "base/open_without_links.hpp"

namespace callgate {

namespace {

rules::FileTree::Entry make_entry(int directory, const char* name, unsigned char type) {
    rules::FileTree::Entry entry{.name = name};
    if (type != DT_UNKNOWN) {
        entry.directory = type == DT_DIR;
        entry.symbolic_link = type == DT_LNK;
        return entry;
    }
    struct stat status {};
    if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return entry;
    entry.directory = S_ISDIR(status.st_mode);
    entry.symbolic_link = S_ISLNK(status.st_mode);
    return entry;
}

/// linux_dirent64 of getdents64(2); its name follows.
struct DirectoryRecord {
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short length;
    unsigned char type;
};
constexpr std::size_t name_offset = offsetof(DirectoryRecord, type) + 1;

struct Read {
    rules::FileTree::Identity directory;
    std::vector<rules::FileTree::Entry> entries;
};

/// The entries of a directory; readdir(3) would allocate its buffer each time. Returns nothing if it cannot
/// be read, has more than `max_entries`, or does not end within `max_reads` readings of 32 KiB.
std::optional<Read> read_directory(const std::string& path, std::size_t max_entries, int max_reads) {
    const UniqueFd directory = open_without_links(path.c_str(), O_RDONLY | O_DIRECTORY);
    struct stat status {};
    if (!directory || ::fstat(directory.get(), &status) != 0) return std::nullopt;
    std::array<char, 32768> buffer;
    Read read{.directory = {status.st_dev, status.st_ino}, .entries = {}};
    std::vector<rules::FileTree::Entry>& all = read.entries;
    while (true) {
        const long got =
            ::syscall(SYS_getdents64, directory.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
        if (got < 0) return std::nullopt;
        if (got == 0) return read;
        if (max_reads-- == 0) return std::nullopt;
        for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
            DirectoryRecord record{};
            std::memcpy(&record, buffer.data() + at, name_offset);
            const char* const name = buffer.data() + at + name_offset;
            at += record.length;
            if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
            if (all.size() == max_entries) return std::nullopt;
            all.push_back(make_entry(directory.get(), name, record.type));
        }
    }
}

}  // namespace

rules::FileTree::Kind RealFileTree::kind(const std::string& path) const { return look(path).kind; }

bool RealFileTree::may_be_link(const std::string& path) const { return look(path).link; }

namespace {

/// Any order serves the search for a name; the length tells most names apart.
bool before(std::string_view one, std::string_view other) {
    return one.size() != other.size() ? one.size() < other.size() : one < other;
}

}  // namespace

const RealFileTree::Entry* RealFileTree::Listing::find(std::string_view name) const {
    const auto found = std::lower_bound(
        by_name.begin(), by_name.end(), name,
        [this](std::uint32_t index, std::string_view wanted) { return before(entries[index].name, wanted); });
    return found == by_name.end() || entries[*found].name != name ? nullptr : &entries[*found];
}

/// Looks only at entries of real directories, so it follows no link on the way. What a kept answer about the
/// directory implies is not kept again. What is kept of an entry was asked before its directory was listed.
RealFileTree::Answer RealFileTree::look(std::string_view path) const {
    if (path == "/") return {.kind = Kind::directory};
    const std::size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return {};
    const std::string_view parent = path.substr(0, std::max<std::size_t>(slash, 1));
    Place& above = place(parent);
    if (above.answer.kind != Kind::directory) return {};
    if (above.keeps_entries)
        if (const auto known = places_.find(path); known != places_.end()) return known->second.answer;
    const std::string_view leaf = path.substr(slash + 1);
    const Listing* const listing = listing_for_question(above, parent);
    if (listing != nullptr && !leaf.empty() && leaf != "." && leaf != "..") {
        const Entry* const entry = listing->find(leaf);
        if (entry == nullptr) return {};
        return {.kind = entry->directory ? Kind::directory : Kind::file, .link = entry->symbolic_link};
    }
    above.keeps_entries = true;
    return places_.emplace(path, Place{.answer = look_at(std::string(path))}).first->second.answer;
}

RealFileTree::Place& RealFileTree::place(std::string_view path) const {
    if (last_ != nullptr && last_->first == path) return last_->second;
    auto known = places_.find(path);
    if (known == places_.end()) {
        const Answer answer = look(path);
        known = places_.emplace(path, Place{.answer = answer}).first;
    }
    last_ = &*known;
    return known->second;
}

/// Reads a directory as a whole once it is asked for often, unless it is large.
const RealFileTree::Listing* RealFileTree::listing_for_question(Place& directory, std::string_view path) {
    constexpr unsigned often = 8;
    if (++directory.asked == often && !directory.listing) {
        if (auto read = read_directory(std::string(path), SIZE_MAX, 1))
            directory.listing = make_listing(read->directory, std::move(read->entries));
    }
    return directory.listing ? &*directory.listing : nullptr;
}

RealFileTree::Answer RealFileTree::look_at(const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return {};
    return {.kind = S_ISDIR(status.st_mode) ? Kind::directory : Kind::file, .link = S_ISLNK(status.st_mode)};
}

RealFileTree::Listing RealFileTree::make_listing(const Identity& directory, std::vector<Entry> entries) {
    Listing listing{directory, std::move(entries), {}};
    listing.by_name.resize(listing.entries.size());
    std::iota(listing.by_name.begin(), listing.by_name.end(), 0U);
    std::sort(listing.by_name.begin(), listing.by_name.end(), [&](std::uint32_t one, std::uint32_t other) {
        return before(listing.entries[one].name, listing.entries[other].name);
    });
    return listing;
}

std::optional<std::vector<rules::FileTree::Entry>> RealFileTree::entries(const std::string& directory,
                                                                         std::size_t limit) const {
    listed_.reset();
    const auto known = places_.find(directory);
    if (known == places_.end() || !known->second.listing) {
        auto read = read_directory(directory, limit, INT_MAX);
        if (!read) return std::nullopt;
        listed_ = read->directory;
        return std::move(read->entries);
    }
    const Listing& listing = *known->second.listing;
    if (listing.entries.size() > limit) return std::nullopt;
    listed_ = listing.directory;
    return listing.entries;
}

}  // namespace callgate
