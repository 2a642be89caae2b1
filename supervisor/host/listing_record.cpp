#include "supervisor/host/listing_record.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <tuple>

#include "base/directory.hpp"
#include "base/number.hpp"
#include "base/process/replace_file.hpp"
#include "base/read_whole.hpp"
#include "base/sha256.hpp"
#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"

namespace callgate {

namespace {

// A file has fields that end with NUL: the form, its name, the clock, the directories, and "end". A directory
// has its path, its stamp, its entries, and an empty field. An entry is a letter for the kind, and the name.
constexpr std::string_view form = "callgate listings", end_of_file = "end";
constexpr char field_end = '\0';

constexpr std::size_t max_size = std::size_t{16} << 20U;
constexpr std::size_t max_files = 32;
/// To list so many directories takes longer than to read and write the record.
constexpr std::size_t many = 128;
constexpr std::int64_t seconds_over = 2;
constexpr std::int64_t max_shift = 500'000'000;

std::int64_t nanoseconds(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// Takes the next field off; nothing if there is none.
std::optional<std::string_view> take_field(std::string_view& text) {
    const std::size_t end = text.find(field_end);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view field = text.substr(0, end);
    text.remove_prefix(end + 1);
    return field;
}

void put_field(std::string_view field, std::string& into) { into.append(field) += field_end; }

std::string letter(const rules::FileTree::Entry& entry) {
    return entry.symbolic_link ? "l" : entry.directory ? "d" : "f";
}

/// Whether this user alone can have written the file.
bool is_own(int file) {
    struct stat status {};
    return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
           status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Leaves the newest files of a directory.
void remove_oldest(const std::string& place) {
    const Directory stream(::opendir(place.c_str()));
    std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> files;  // by age
    while (const dirent* const entry = stream ? ::readdir(stream.get()) : nullptr) {
        struct stat status {};
        if (::fstatat(::dirfd(stream.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            files.emplace_back(status.st_mtim.tv_sec, status.st_mtim.tv_nsec, entry->d_name);
    }
    std::sort(files.rbegin(), files.rend());
    for (std::size_t index = max_files; index < files.size(); ++index)
        ::unlinkat(::dirfd(stream.get()), std::get<2>(files[index]).c_str(), 0);
}

}  // namespace

ListingRecord::Clock ListingRecord::Clock::now() {
    const std::int64_t real = nanoseconds(CLOCK_REALTIME);
    return {real / 1'000'000'000, real - nanoseconds(CLOCK_BOOTTIME)};
}

ListingRecord::ListingRecord(const std::string& state, std::string build, const Clock& clock)
    : place_(state.empty() ? "" : state + "/listings"), build_(std::move(build)), began_(clock) {}

std::string ListingRecord::Stamp::text() const {
    std::string text = std::to_string(device);
    for (const auto part : {static_cast<std::int64_t>(inode), seconds, nanoseconds})
        text.append(1, ' ').append(std::to_string(part));
    return text;
}

/// The file's text; "" if there is none that counts.
std::string ListingRecord::read(const std::string& name) const {
    const UniqueFd file(
        ::open((place_ + '/' + name).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file || (check_enabled("listing-owner") && !is_own(file.get()))) return "";
    Result<std::string> text = read_whole(file.get(), max_size);
    return text && text->size() <= max_size ? std::move(*text) : "";
}

/// Finds the directories in `before`. Returns false if it is not whole, or from another time.
bool ListingRecord::divide(const std::string& name, Walk& walk) const {
    std::string_view rest = walk.before;
    if (take_field(rest) != form || take_field(rest) != name) return false;
    const auto field = take_field(rest);
    const auto set_to = field ? parse_number<std::int64_t>(*field) : std::nullopt;
    if (!set_to || *set_to < began_.set_to - max_shift || *set_to > began_.set_to + max_shift) return false;
    walk.set_to = *set_to;
    while (true) {
        const auto path = take_field(rest);
        if (!path) return false;
        if (*path == end_of_file) return rest.empty();
        const std::string_view all = rest;
        auto entry = take_field(rest);
        while (entry && !entry->empty()) entry = take_field(rest);
        if (!entry) return false;
        walk.directories.emplace(*path, all.substr(0, all.size() - rest.size()));
    }
}

void ListingRecord::begin(const std::string& head, const std::vector<std::string>& patterns) {
    if (place_.empty()) return;
    std::string key;
    put_field(build_, key);
    put_field(head, key);
    for (const std::string& pattern : patterns) put_field(pattern, key);
    const std::string name = sha256_hex(key).substr(0, 32);
    walk_ = &(walks_[name] = {});
    walk_->before = read(name);
    if (divide(name, *walk_)) return;
    walk_->directories.clear();
    walk_->set_to = began_.set_to;
}

/// Whether the file system itself sets the change times of its directories.
bool ListingRecord::is_trusted(const std::string& directory, std::uint64_t device) {
    const auto known = trusted_.find(device);
    if (known != trusted_.end()) return known->second;
    const UniqueFd fd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    struct statfs system {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || status.st_dev != device ||
        ::fstatfs(fd.get(), &system) != 0)
        return false;
    constexpr std::array<std::int64_t, 5> local{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                                F2FS_SUPER_MAGIC, TMPFS_MAGIC};
    return trusted_[device] = std::ranges::find(local, std::int64_t{system.f_type}) != local.end();
}

std::optional<ListingRecord::Stamp> ListingRecord::stamp(const std::string& directory) {
    constexpr unsigned wanted = STATX_TYPE | STATX_INO | STATX_CTIME;
    struct statx status {};
    if (::statx(AT_FDCWD, directory.c_str(), AT_SYMLINK_NOFOLLOW, wanted, &status) != 0 ||
        (status.stx_mask & wanted) != wanted || !S_ISDIR(status.stx_mode))
        return std::nullopt;
    const std::uint64_t device = makedev(status.stx_dev_major, status.stx_dev_minor);
    if ((status.stx_attributes & STATX_ATTR_ENCRYPTED) != 0 || !is_trusted(directory, device))
        return std::nullopt;
    return Stamp{device, status.stx_ino, status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec};
}

std::optional<rules::KnownListings::Entries> ListingRecord::find(const std::string& directory) {
    asked_.reset();
    const auto now = walk_ != nullptr ? stamp(directory) : std::nullopt;
    if (!now) return std::nullopt;
    const auto known = walk_->directories.find(directory);
    if (known != walk_->directories.end()) {
        std::string_view rest = known->second;
        if (take_field(rest) == now->text() || !check_enabled("listing-stamp")) {
            Entries entries;
            for (auto field = take_field(rest); field && !field->empty(); field = take_field(rest))
                entries.push_back({.name = std::string(field->substr(1)),
                                   .directory = field->front() == 'd',
                                   .symbolic_link = field->front() == 'l'});
            put_field(directory, walk_->after);
            walk_->after += known->second;
            return entries;
        }
    }
    if (now->seconds + seconds_over <= began_.seconds) asked_.emplace(directory, *now);
    return std::nullopt;
}

void ListingRecord::add(Entries entries, const std::optional<rules::FileTree::Identity>& listed) {
    if (!asked_) return;
    const rules::FileTree::Identity wanted{asked_->second.device, asked_->second.inode};
    if (listed != wanted && check_enabled("listing-same")) return;
    ++walk_->listed;
    put_field(asked_->first, walk_->after);
    put_field(asked_->second.text(), walk_->after);
    for (const rules::FileTree::Entry& entry : entries) put_field(letter(entry) + entry.name, walk_->after);
    put_field("", walk_->after);
    asked_.reset();
}

void ListingRecord::save() const {
    for (const auto& [name, walk] : walks_) {
        if (walk.listed < many) continue;
        std::string text;
        put_field(form, text);
        put_field(name, text);
        put_field(std::to_string(walk.set_to), text);
        text += walk.after;
        put_field(end_of_file, text);
        if (text.size() > max_size || (::mkdir(place_.c_str(), 0700) != 0 && errno != EEXIST)) continue;
        // Another start may do so at the same time, and each writes a whole file. A cut one is thrown away.
        if (replace_file(place_ + '/' + name, text, 0600, Sync::later)) remove_oldest(place_);
    }
}

}  // namespace callgate
