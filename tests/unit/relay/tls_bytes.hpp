// Messages of TLS, composed byte by byte for tests.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace callgate::relay::test {

inline std::string number(std::size_t value, std::size_t size) {
    std::string bytes;
    for (std::size_t left = size; left-- > 0;) bytes += static_cast<char>(value >> (8 * left) & 0xff);
    return bytes;
}

inline std::string vector(std::string_view content, std::size_t size) {
    return number(content.size(), size) + std::string(content);
}

inline std::string extension(std::size_t type, std::string_view content) {
    return number(type, 2) + vector(content, 2);
}

inline std::string name_extension(std::string_view name) {
    return extension(0, vector(number(0, 1) + vector(name, 2), 2));
}

inline std::string hello_without_extensions() {
    const std::string body = "\x03\x03" + std::string(32, 'r') + vector("", 1) + vector("\x13\x01", 2) +
                             vector(std::string(1, '\0'), 1);
    return number(1, 1) + vector(body, 3);
}

inline std::string hello_with(std::string_view extensions) {
    const std::string body = hello_without_extensions().substr(4) + vector(extensions, 2);
    return number(1, 1) + vector(body, 3);
}

/// The handshake message of a client, without a record around it.
inline std::string hello_message(std::optional<std::string_view> name) {
    return hello_with((name ? name_extension(*name) : "") + extension(43, "\x02\x03\x04"));
}

inline std::string server_hello(bool retry) {
    const std::string random = retry ? "\xCF\x21\xAD\x74\xE5\x9A\x61\x11\xBE\x1D\x8C\x02\x1E\x65\xB8\x91"
                                       "\xC2\xA2\x11\x16\x7A\xBB\x8C\x5E\x07\x9E\x09\xE2\xC8\xA8\x33\x9C"
                                     : std::string(32, 's');
    const std::string body = "\x03\x03" + random + vector("", 1) + "\x13\x01" + number(0, 1) +
                             vector(extension(43, "\x03\x04"), 2);
    return number(2, 1) + vector(body, 3);
}

/// Handshake records of at most `size` bytes each around a message.
inline std::string in_records(std::string_view message, std::size_t size) {
    std::string bytes;
    for (; !message.empty(); message.remove_prefix(std::min(size, message.size())))
        bytes += "\x16\x03\x01" + vector(message.substr(0, size), 2);
    return bytes;
}

inline std::string client_hello(std::string_view name) { return in_records(hello_message(name), 16384); }

}  // namespace callgate::relay::test
