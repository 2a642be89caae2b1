#include "supervisor/calls/files/shared_memory.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/directory.hpp"
#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"
#include "rules/model/rule.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::OperationSet;

constexpr OperationSet decided = rules::write_operations | OperationSet(Operation::read);

const rules::Rule& others_objects() {
    static const rules::Rule rule = [] {
        rules::Rule made;
        made.id = "callgate-shared-memory";
        made.operations = decided;
        made.reason = "POSIX shared memory or a semaphore that this run did not make";
        made.built_in = true;
        made.source.file = "built-in";
        return made;
    }();
    return rule;
}

/// The errno that another user gets in a sticky directory.
int error_for(Operation operation) {
    return operation == Operation::remove || operation == Operation::metadata ? EPERM : EACCES;
}

/// Whether `rest` leads from the pinned entry to the object with this identity, by no link.
bool leads_to(const UniqueFd& entry, const std::string& rest, const audit::FileIdentity& expected) {
    const open_how way{O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    const UniqueFd there(
        static_cast<int>(::syscall(SYS_openat2, entry.get(), rest.c_str(), &way, sizeof way)));
    struct stat status {};
    return there && ::fstat(there.get(), &status) == 0 && status.st_ino == expected.inode &&
           status.st_dev == expected.device;
}

}  // namespace

SharedMemory::SharedMemory(agent::CreatedIpc::Files& list, std::string place, SharedMemory* also)
    : place_(std::move(place)), list_(list), also_(also) {}

std::optional<std::string_view> SharedMemory::beneath(std::string_view path) const {
    if (path.size() <= place_.size() + 1 || !path.starts_with(place_) || path[place_.size()] != '/')
        return std::nullopt;
    return path.substr(place_.size() + 1);
}

bool SharedMemory::owns(const agent::SharedFile& file) const {
    const auto found = own_.find(file.inode);
    return found != own_.end() && found->second == file.born;
}

SharedMemory::Standing SharedMemory::standing(std::string_view path, const audit::FileIdentity* expected) {
    const auto rest = beneath(path);
    if (!rest) return Standing::nothing;
    const std::size_t slash = rest->find('/');
    const std::string name = place_ + '/' + std::string(rest->substr(0, slash));
    const std::unique_lock<std::mutex> held(mutex_);
    const UniqueFd entry(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    const bool there = entry && ::fstat(entry.get(), &status) == 0;
    if (!there && expected == nullptr) return errno == ENOENT ? Standing::nothing : Standing::foreign;
    const bool itself = slash == std::string_view::npos;
    if (itself && expected != nullptr && (!there || status.st_ino != expected->inode))
        return own_.contains(expected->inode) ? Standing::own : Standing::foreign;  // it has lost this name
    if (there && S_ISSOCK(status.st_mode)) return Standing::nothing;
    const auto file = there ? agent::shared_file(entry.get(), "") : std::nullopt;
    if (!file || !owns(*file)) return Standing::foreign;
    const bool reached =
        itself || expected == nullptr || leads_to(entry, std::string(rest->substr(slash + 1)), *expected);
    return reached ? Standing::own : Standing::foreign;
}

std::optional<rules::Verdict> SharedMemory::refuses(const Subject& subject) {
    const auto* const object = std::get_if<rules::FileObject>(&subject.object);
    const OperationSet wanted = subject.operations & decided;
    if (object == nullptr || wanted.empty() || !check_enabled("objects-of-others")) return std::nullopt;
    const audit::FileIdentity* const identity = subject.identity ? &*subject.identity : nullptr;
    Operation operation = *wanted.begin();
    // The identity is that of the file that gets another name.
    const bool link = !subject.source.empty();
    bool foreign = link && standing(subject.source, identity) == Standing::foreign;
    if (!foreign && !object->unlinked)
        foreign = standing(object->path, link ? nullptr : identity) == Standing::foreign;
    if (!foreign && subject.second_object) {
        foreign = standing(subject.second_object->path, nullptr) == Standing::foreign;
        operation = *subject.second_operations.begin();
    }
    if (!foreign) return std::nullopt;
    rules::Verdict verdict;
    verdict.action = rules::Action::deny;
    verdict.decided_by = rules::DecidedBy::rule;
    verdict.rule = &others_objects();
    verdict.operation = operation;
    verdict.error = error_for(operation);
    return verdict;
}

SharedMemory::Making SharedMemory::making(std::string_view path) {
    Making making;
    const auto rest = beneath(path);
    if (!rest || rest->find('/') != std::string_view::npos) return making;
    making.memory_ = this;
    making.lock_ = std::unique_lock(mutex_);
    if (list_.count.load() >= agent::CreatedIpc::max_files) forget_removed_locked();
    if (list_.count.load() >= agent::CreatedIpc::max_files) making.error_ = ENOSPC;
    return making;
}

void SharedMemory::Making::note(int directory, const char* leaf) {
    if (memory_ == nullptr) return;
    if (const auto file = agent::shared_file(directory, leaf)) memory_->add(*file);
}

void SharedMemory::Making::note(int directory, const char* leaf, const struct stat& expected) {
    if (memory_ == nullptr) return;
    const auto file = agent::shared_file(directory, leaf);
    if (file && file->inode == expected.st_ino) memory_->add(*file);
}

void SharedMemory::add(const agent::SharedFile& file) {
    if (owns(file)) return;
    if (also_ != nullptr) {
        const std::lock_guard held(also_->mutex_);
        if (also_->list_.count.load() >= also_->list_.values.size()) also_->forget_removed_locked();
        also_->add(file);
    }
    const std::uint32_t count = list_.count.load();
    if (count >= list_.values.size()) return;
    list_.values[count].inode.store(file.inode);
    list_.values[count].born.store(file.born);
    list_.count.store(count + 1);
    own_[file.inode] = file.born;
}

/// Keeps what still stands there. At every moment the list names objects of the run alone: none is moved but
/// over one that is gone.
void SharedMemory::forget_removed() {
    const std::lock_guard held(mutex_);
    forget_removed_locked();
}

void SharedMemory::forget_removed_locked() {
    std::unordered_map<std::uint64_t, std::uint64_t> there;
    const Directory place(::opendir(place_.c_str()));
    if (!place) return;
    while (const dirent* entry = ::readdir(place.get())) {
        const auto file = agent::shared_file(::dirfd(place.get()), entry->d_name);
        if (file && owns(*file)) there[file->inode] = file->born;
    }
    std::uint32_t kept = 0;
    for (const auto& [inode, born] : there) {
        list_.values[kept].inode.store(inode);
        list_.values[kept].born.store(born);
        ++kept;
    }
    list_.count.store(kept);
    own_ = std::move(there);
}

}  // namespace callgate::calls
