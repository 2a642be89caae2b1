#include "relay/client_hello.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace callgate::relay {

namespace {

constexpr std::uint8_t message_client_hello = 1, message_server_hello = 2;
constexpr std::size_t longest_record = 16 * 1024;

/// Takes numbers and vectors off the front of a message, as TLS encodes them. After a length that leads
/// beyond the end it is `bad` for good.
class Reader {
public:
    explicit Reader(std::string_view bytes) : rest_(bytes) {}

    std::size_t number(std::size_t size) {
        std::size_t value = 0;
        for (const char byte : take(size)) value = value << 8 | static_cast<std::uint8_t>(byte);
        return value;
    }
    std::string_view take(std::size_t size) {
        if (size > rest_.size()) {
            bad_ = true;
            rest_ = {};
            return {};
        }
        const std::string_view taken = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return taken;
    }
    /// A vector whose length is a number of `size` bytes before it.
    std::string_view vector(std::size_t size) { return take(number(size)); }
    [[nodiscard]] bool empty() const { return rest_.empty(); }
    [[nodiscard]] bool bad() const { return bad_; }

private:
    std::string_view rest_;
    bool bad_ = false;
};

struct Gathered {
    std::string message;     // the fragments of leading handshake records
    std::size_t length = 0;  // of these records
    bool foreign = false;    // something else than a handshake record came first, or between
};

/// Joins leading handshake records until a whole handshake message is there.
Gathered gather(std::string_view bytes) {
    Gathered gathered;
    const auto complete = [&gathered] {
        if (gathered.message.size() < 4) return false;
        Reader head(std::string_view(gathered.message).substr(1, 3));
        return gathered.message.size() >= 4 + head.number(3);
    };
    while (!complete()) {
        if (!bytes.empty() && static_cast<std::uint8_t>(bytes[0]) != Record::handshake) {
            gathered.foreign = true;
            break;
        }
        const Record record = read_record(bytes);
        if (record.length == 0) {
            gathered.foreign = bytes.size() >= Record::header;
            break;
        }
        if (bytes.size() < record.length) break;
        gathered.message += bytes.substr(Record::header, record.length - Record::header);
        gathered.length += record.length;
        bytes.remove_prefix(record.length);
    }
    return gathered;
}

std::string small_letters(std::string_view name) {
    std::string small(name);
    std::transform(small.begin(), small.end(), small.begin(), [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    if (small.ends_with('.')) small.pop_back();
    return small;
}

/// The one name in a server_name extension; nullopt if it is malformed.
std::optional<std::string> read_server_name(std::string_view extension) {
    constexpr std::size_t host_name = 0;
    Reader outer(extension);
    Reader list(outer.vector(2));
    const std::size_t type = list.number(1);
    const std::string_view name = list.vector(2);
    if (outer.bad() || list.bad() || !outer.empty() || !list.empty() || type != host_name)
        return std::nullopt;
    return small_letters(name);
}

/// Reads the part of a hello behind its type and length.
ClientHello read_body(std::string_view body) {
    constexpr std::size_t server_name = 0, encrypted_hello = 0xfe0d, first_draft = 0xfe08;
    ClientHello foreign{ClientHello::State::foreign, {}, 0}, hello{ClientHello::State::unnamed, {}, 0};
    Reader reader(body);
    static_cast<void>(reader.take(2 + 32));  // version, random
    static_cast<void>(reader.vector(1));     // session
    static_cast<void>(reader.vector(2));     // cipher suites
    static_cast<void>(reader.vector(1));     // compression methods
    if (reader.bad()) return foreign;
    if (reader.empty()) return hello;
    Reader extensions(reader.vector(2));
    if (reader.bad() || !reader.empty()) return foreign;
    bool hidden = false;
    while (!extensions.empty()) {
        const std::size_t type = extensions.number(2);
        const std::string_view content = extensions.vector(2);
        if (extensions.bad()) return foreign;
        hidden = hidden || (type >= first_draft && type <= encrypted_hello);
        if (type != server_name) continue;
        const auto name = read_server_name(content);
        // A second name could be the one that the server reads.
        if (!name || hello.state != ClientHello::State::unnamed) return foreign;
        hello.state = ClientHello::State::named;
        hello.name = *name;
    }
    if (hidden) hello.state = ClientHello::State::hidden;
    return hello;
}

}  // namespace

Record read_record(std::string_view bytes) {
    if (bytes.size() < Record::header) return {};
    Reader reader(bytes);
    const auto type = static_cast<std::uint8_t>(reader.number(1));
    const std::size_t major = reader.number(1);
    static_cast<void>(reader.number(1));
    const std::size_t length = reader.number(2);
    if (type < Record::change_cipher_spec || type > Record::application_data || major != 3) return {};
    // An encrypted record may be longer by what encryption adds.
    if (length == 0 || length > longest_record + 2048) return {};
    return {type, Record::header + length};
}

ClientHello read_client_hello(std::string_view bytes) {
    const Gathered gathered = gather(bytes.substr(0, longest_hello));
    const std::string_view message = gathered.message;
    if (!message.empty() && static_cast<std::uint8_t>(message[0]) != message_client_hello)
        return {ClientHello::State::foreign, {}, 0};
    Reader reader(message);
    static_cast<void>(reader.number(1));
    const std::string_view body = reader.vector(3);
    if (message.empty() || reader.bad()) {
        const bool foreign = gathered.foreign || bytes.size() >= longest_hello;
        return {foreign ? ClientHello::State::foreign : ClientHello::State::incomplete, {}, 0};
    }
    // Another message in the hello's last record would be read by the server, and by nobody here.
    if (!reader.empty()) return {ClientHello::State::foreign, {}, 0};
    ClientHello hello = read_body(body);
    hello.length = gathered.length;
    return hello;
}

FirstAnswer read_first_answer(std::string_view bytes) {
    // The random of a HelloRetryRequest: SHA-256 of its name (RFC 8446, 4.1.3).
    static constexpr std::array<std::uint8_t, 32> retry_random{
        0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91,
        0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C};
    constexpr std::size_t before_random = 1 + 3 + 2;
    if (!bytes.empty() && static_cast<std::uint8_t>(bytes[0]) != Record::handshake) return FirstAnswer::other;
    const Gathered gathered = gather(bytes.substr(0, longest_hello));
    const std::string_view message = gathered.message;
    if (!message.empty() && static_cast<std::uint8_t>(message[0]) != message_server_hello)
        return FirstAnswer::other;
    if (message.size() >= before_random + retry_random.size()) {
        const bool retry = std::equal(
            retry_random.begin(), retry_random.end(), message.begin() + before_random,
            [](std::uint8_t wanted, char byte) { return wanted == static_cast<std::uint8_t>(byte); });
        return retry ? FirstAnswer::retry : FirstAnswer::other;
    }
    const bool over = gathered.foreign || bytes.size() >= longest_hello;
    return over ? FirstAnswer::other : FirstAnswer::incomplete;
}

}  // namespace callgate::relay
