#include "supervisor/names/hosts.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "rules/model/address.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::names {

namespace {

constexpr const char* hosts_file = "/etc/hosts";
constexpr std::size_t max_file = std::size_t{16} << 20U, max_hosts = 65'536;

std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view blank = " \t\r";
    std::vector<std::string_view> words;
    for (std::size_t begin = line.find_first_not_of(blank); begin != std::string_view::npos;) {
        const std::size_t end = std::min(line.find_first_of(blank, begin), line.size());
        words.push_back(line.substr(begin, end - begin));
        begin = line.find_first_not_of(blank, end);
    }
    return words;
}

const std::vector<rules::IpAddress>& loopback() {
    static const std::vector<rules::IpAddress> both = [] {
        rules::IpAddress six{.bytes = {}, .v6 = true};
        six.bytes[15] = 1;
        return std::vector<rules::IpAddress>{{{127, 0, 0, 1}, false}, six};
    }();
    return both;
}

std::string own_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return {};
    const auto parsed = rules::parse_host(name.data());
    return parsed && !parsed->suffix ? parsed->text : "";
}

}  // namespace

std::map<std::string, std::vector<rules::IpAddress>, std::less<>> parse_hosts(std::string_view text) {
    std::map<std::string, std::vector<rules::IpAddress>, std::less<>> all;
    while (!text.empty() && all.size() < max_hosts) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::vector<std::string_view> words = words_of(line.substr(0, line.find('#')));
        if (words.size() < 2) continue;
        const auto address = rules::parse_address(words[0].substr(0, words[0].find('%')));
        if (!address) continue;
        for (std::size_t index = 1; index < words.size(); ++index) {
            const auto host = rules::parse_host(words[index]);
            if (!host || host->suffix) continue;
            auto& addresses = all[host->text];
            if (std::ranges::find(addresses, *address) == addresses.end()) addresses.push_back(*address);
        }
    }
    return all;
}

bool local_name(std::string_view name) {
    return name.find('.') == std::string_view::npos || name.ends_with(".local") ||
           name.ends_with(".internal");
}

bool named_by(const rules::Rule* rule, std::string_view name) {
    return rule != nullptr && std::ranges::any_of(rule->when.host, [name](const rules::HostPattern& host) {
               return host.matches(name);
           });
}

std::string mark_of(const char* path) {
    struct stat status {};
    if (::stat(path, &status) != 0) return "absent";
    return std::to_string(status.st_dev) + ' ' + std::to_string(status.st_ino) + ' ' +
           std::to_string(status.st_size) + ' ' + std::to_string(status.st_mtim.tv_sec) + ' ' +
           std::to_string(status.st_mtim.tv_nsec);
}

bool Hosts::refresh() {
    std::string mark = mark_of(hosts_file);
    if (mark == read_) return false;
    read_ = std::move(mark);
    own_ = own_name();
    const auto text = read_regular_file(hosts_file, max_file);
    all_ = text ? parse_hosts(*text) : decltype(all_){};
    all_.try_emplace("localhost", loopback());
    if (!own_.empty()) all_.try_emplace(own_, loopback());
    return true;
}

const std::vector<rules::IpAddress>* Hosts::find(std::string_view name) const {
    if (const auto found = all_.find(name); found != all_.end()) return &found->second;
    return name.ends_with(".localhost") ? &loopback() : nullptr;
}

}  // namespace callgate::names
