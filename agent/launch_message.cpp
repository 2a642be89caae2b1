#include "agent/launch_message.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace callgate::agent {

namespace {

enum Section : std::size_t {
    arguments_section,
    environment_section,
    executables_section,
    limits_section,
    filter_section,
    grants_section,
    connect_section,
    bind_section,
    udp_connect_section,
    udp_bind_section,
    section_count
};

struct Place {
    std::uint32_t at = 0, count = 0;  // offset in bytes; number of elements
};

constexpr std::size_t alignment = 8;

}  // namespace

/// The beginning of every block.
struct LaunchMessage::Header {
    std::uint64_t size = 0;  // of the whole block
    std::array<Place, section_count> sections;
    landlock::RulesetAttributes attributes;
    int abi = 0;
    int nice = 0, io_priority = 0;
    bool has_landlock = false, has_io_priority = false;
};

/// Appends texts and arrays to the header. In arrays of pointers, offsets stand in their place.
class LaunchMessage::Packer {
public:
    Packer() : bytes_(sizeof(Header)) {}

    std::uint32_t text(const char* text) {
        const std::uint32_t at = position();
        const auto* const first = reinterpret_cast<const std::byte*>(text);
        bytes_.insert(bytes_.end(), first, first + std::strlen(text) + 1);
        return at;
    }
    template <typename T>
    Place array(std::span<const T> elements) {
        bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
        const Place place{position(), static_cast<std::uint32_t>(elements.size())};
        const auto raw = std::as_bytes(elements);
        bytes_.insert(bytes_.end(), raw.begin(), raw.end());
        return place;
    }
    /// `before` empty elements, the texts, `after` empty ones.
    Place texts(const std::vector<std::string>& all, std::size_t before, std::size_t after) {
        std::vector<std::uint64_t> positions(before);
        for (const std::string& one : all) positions.push_back(text(one.c_str()));
        positions.resize(positions.size() + after);
        return array(std::span<const std::uint64_t>(positions));
    }
    std::vector<std::byte> finish(Header header) {
        header.size = bytes_.size();
        std::memcpy(bytes_.data(), &header, sizeof header);
        return std::move(bytes_);
    }

private:
    [[nodiscard]] std::uint32_t position() const {
        if (bytes_.size() > std::numeric_limits<std::uint32_t>::max() / 2)
            throw std::length_error("arguments and environment are too long");
        return static_cast<std::uint32_t>(bytes_.size());
    }
    std::vector<std::byte> bytes_;
};

namespace {

bool read_all(int pipe, void* into, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
        const ssize_t got = ::read(pipe, static_cast<char*>(into) + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += static_cast<std::size_t>(got);
    }
    return true;
}

}  // namespace

std::vector<std::byte> pack_ruleset(const RulesetParts* landlock) {
    LaunchMessage::Header header;
    LaunchMessage::Packer packer;
    if (landlock != nullptr) {
        std::vector<GrantedPath> grants(landlock->grants.begin(), landlock->grants.end());
        for (GrantedPath& one : grants)
            one.path = reinterpret_cast<const char*>(std::uintptr_t{packer.text(one.path)});
        header.sections[grants_section] = packer.array(std::span<const GrantedPath>(grants));
        header.sections[connect_section] = packer.array(landlock->tcp.connect);
        header.sections[bind_section] = packer.array(landlock->tcp.bind);
        header.sections[udp_connect_section] = packer.array(landlock->udp.connect);
        header.sections[udp_bind_section] = packer.array(landlock->udp.bind);
        header.has_landlock = true;
        header.attributes = landlock->attributes;
        header.abi = landlock->abi;
    }
    return packer.finish(header);
}

std::vector<std::byte> pack_filter(std::span<const sock_filter> filter) {
    LaunchMessage::Header header;
    LaunchMessage::Packer packer;
    header.sections[filter_section] = packer.array(filter);
    return packer.finish(header);
}

std::vector<std::byte> pack_command(const CommandSpec& spec) {
    LaunchMessage::Header header;
    LaunchMessage::Packer packer;
    auto& sections = header.sections;
    sections[arguments_section] = packer.texts(spec.command, 1, 1);
    sections[environment_section] = packer.texts(spec.environment, 0, 1);
    sections[executables_section] = packer.texts(spec.executables, 0, 0);
    sections[limits_section] = packer.array(std::span<const Limit>(spec.limits));
    header.nice = spec.nice;
    header.has_io_priority = spec.io_priority.has_value();
    header.io_priority = spec.io_priority.value_or(0);
    return packer.finish(header);
}

template <typename T>
std::span<T> LaunchMessage::section(std::size_t which) const {
    const Place& place = header_->sections[which];
    auto* const first = reinterpret_cast<const char*>(header_) + place.at;
    return {reinterpret_cast<T*>(const_cast<char*>(first)), place.count};
}

int LaunchMessage::receive(int pipe) {
    std::uint64_t size = 0;
    if (!read_all(pipe, &size, sizeof size)) return EPIPE;
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return errno;
    if (!read_all(pipe, static_cast<char*>(memory) + sizeof size, size - sizeof size)) return EPIPE;
    header_ = static_cast<const Header*>(memory);
    const auto base = reinterpret_cast<std::uintptr_t>(memory);
    for (const std::size_t which : {arguments_section, environment_section, executables_section}) {
        for (std::uint64_t& position : section<std::uint64_t>(which))
            if (position != 0) position += base;
    }
    for (GrantedPath& one : section<GrantedPath>(grants_section))
        one.path = reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(one.path) + base);
    landlock_ = {header_->abi,
                 header_->attributes,
                 section<const GrantedPath>(grants_section),
                 {section<const PortRange>(connect_section), section<const PortRange>(bind_section)},
                 {section<const PortRange>(udp_connect_section), section<const PortRange>(udp_bind_section)}};
    return 0;
}

char** LaunchMessage::arguments() const { return section<char*>(arguments_section).data() + 1; }
char** LaunchMessage::environment() const { return section<char*>(environment_section).data(); }
std::span<char* const> LaunchMessage::executables() const {
    return section<char* const>(executables_section);
}
std::span<const Limit> LaunchMessage::limits() const { return section<const Limit>(limits_section); }
std::span<const sock_filter> LaunchMessage::filter() const {
    return section<const sock_filter>(filter_section);
}
const RulesetParts* LaunchMessage::landlock() const { return header_->has_landlock ? &landlock_ : nullptr; }
int LaunchMessage::nice() const { return header_->nice; }
const int* LaunchMessage::io_priority() const {
    return header_->has_io_priority ? &header_->io_priority : nullptr;
}

}  // namespace callgate::agent
