#include "supervisor/calls/network/send_batch.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

constexpr std::size_t max_elements = 64;
constexpr std::size_t max_batch_payload = std::size_t{256} << 10;
constexpr std::size_t max_datagram = 0xffff;

using Headers = std::array<mmsghdr, max_elements>;
using Parts = std::array<iovec, max_elements>;

bool plain(const msghdr& header, const msghdr& first) {
    return header.msg_iovlen == 1 && header.msg_controllen == 0 && (header.msg_flags & MSG_EOR) == 0 &&
           header.msg_namelen == first.msg_namelen &&
           (header.msg_name == nullptr) == (first.msg_name == nullptr);
}

/// How many elements there are whose headers are plain and alike.
std::size_t read_headers(pid_t thread, std::uint64_t at, std::size_t count, Headers& headers) {
    const iovec place{reinterpret_cast<void*>(at), count * sizeof(mmsghdr)};  // NOLINT: the target's
    const std::size_t got =
        kernel::read_scattered(thread, {&place, 1}, std::as_writable_bytes(std::span(headers.data(), count)));
    std::size_t alike = 0;
    while (alike < got / sizeof(mmsghdr) && plain(headers[alike].msg_hdr, headers[0].msg_hdr)) ++alike;
    return alike;
}

/// How many of the parts that the headers name can be read and are short enough, all together too.
std::size_t read_parts(pid_t thread, std::span<const mmsghdr> headers, Parts& parts) {
    std::array<iovec, max_elements> places;
    for (std::size_t index = 0; index < headers.size(); ++index)
        places[index] = {headers[index].msg_hdr.msg_iov, sizeof(iovec)};
    const std::size_t got =
        kernel::read_scattered(thread, std::span(places.data(), headers.size()),
                               std::as_writable_bytes(std::span(parts.data(), headers.size())));
    std::size_t good = 0, total = 0;
    for (; good < got / sizeof(iovec) && parts[good].iov_len <= max_datagram; ++good) {
        total += parts[good].iov_len;
        if (total > max_batch_payload) break;
    }
    return good;
}

/// How many of the addresses, all of one length, are the first one.
std::size_t read_names(pid_t thread, std::span<const mmsghdr> headers, SocketAddress& first) {
    std::array<iovec, max_elements> places;
    std::array<std::byte, max_elements * sizeof(sockaddr_storage)> names;
    const std::size_t length = headers[0].msg_hdr.msg_namelen;
    if (length > sizeof(sockaddr_storage)) return 0;
    for (std::size_t index = 0; index < headers.size(); ++index)
        places[index] = {headers[index].msg_hdr.msg_name, length};
    const std::size_t got = kernel::read_scattered(thread, std::span(places.data(), headers.size()),
                                                   std::span(names.data(), length * headers.size()));
    std::size_t same = 0;
    while (same < got / length && std::memcmp(names.data(), names.data() + same * length, length) == 0)
        ++same;
    first.length = static_cast<socklen_t>(length);
    std::memcpy(first.bytes.data(), names.data(), length);
    return same;
}

std::size_t write_all(pid_t thread, std::uint64_t at, std::span<const unsigned> lengths) {
    std::array<iovec, max_elements> places;
    for (std::size_t index = 0; index < lengths.size(); ++index) {
        const std::uint64_t place = at + index * sizeof(mmsghdr) + offsetof(mmsghdr, msg_len);
        places[index] = {reinterpret_cast<void*>(place), sizeof(unsigned)};  // NOLINT: the target's
    }
    return kernel::write_scattered(thread, std::span(places.data(), lengths.size()), std::as_bytes(lengths)) /
           sizeof(unsigned);
}

}  // namespace

bool Batch::possible(const SocketKind& kind, int flags) {
    return kind.internet() && kind.type == SOCK_DGRAM && (flags & MSG_ZEROCOPY) == 0;
}

Batch Batch::read(pid_t thread, std::uint64_t at, std::size_t count) {
    Batch batch;
    Headers headers;
    Parts parts;
    std::size_t alike = read_headers(thread, at, std::min(count, max_elements), headers);
    const auto heads = [&] { return std::span<const mmsghdr>(headers.data(), alike); };
    if (alike > 1) alike = read_parts(thread, heads(), parts);
    const msghdr& first = headers[0].msg_hdr;
    if (alike > 1 && first.msg_name != nullptr && first.msg_namelen != 0)
        alike = read_names(thread, heads(), batch.address.emplace());
    if (alike < 2) return {};
    std::size_t total = 0;
    for (std::size_t index = 0; index < alike; ++index) total += parts[index].iov_len;
    batch.payload_.resize(total);
    if (kernel::read_scattered(thread, std::span(parts.data(), alike), batch.payload_) != total) return {};
    for (std::size_t index = 0; index < alike; ++index) {
        batch.sizes_.push_back(static_cast<unsigned>(parts[index].iov_len));
        batch.lengths_before_.push_back(headers[index].msg_len);
    }
    return batch;
}

int Batch::send(int socket, int flags) {
    Headers headers{};
    Parts parts;
    std::byte* next = payload_.data();
    for (std::size_t index = 0; index < size(); ++index) {
        parts[index] = {next, sizes_[index]};
        next += sizes_[index];
        msghdr& header = headers[index].msg_hdr;
        header.msg_iov = &parts[index];
        header.msg_iovlen = 1;
        if (!address) continue;
        header.msg_name = address->bytes.data();
        header.msg_namelen = address->length;
    }
    return ::sendmmsg(socket, headers.data(), static_cast<unsigned>(size()), flags);
}

std::size_t Batch::write_lengths(pid_t thread, std::uint64_t at) const {
    return write_all(thread, at, sizes_);
}

void Batch::take_back(pid_t thread, std::uint64_t at, std::size_t from) const {
    write_all(thread, at + from * sizeof(mmsghdr), std::span(lengths_before_).subspan(from));
}

void Batch::shorten(std::size_t count) {
    sizes_.resize(count);
    lengths_before_.resize(count);
}

}  // namespace callgate::calls
