#include "supervisor/cli/gpu.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "base/number.hpp"

namespace callgate::cli {

namespace {

namespace fs = std::filesystem;

constexpr unsigned first_render_node = 128;

/// The names in a directory, sorted; none if it cannot be read.
std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    std::error_code none;
    for (fs::directory_iterator one(directory, none), end; !none && one != end; one.increment(none))
        names.push_back(one->path().filename());
    std::ranges::sort(names);
    return names;
}

bool is_number(std::string_view text) {
    return !text.empty() && text.size() <= 6 &&
           std::ranges::all_of(text, [](char one) { return one >= '0' && one <= '9'; });
}

bool is_numbered(std::string_view name, std::string_view prefix) {
    return name.starts_with(prefix) && is_number(name.substr(prefix.size()));
}

std::vector<std::string> lines_of(const std::string& file) {
    std::vector<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

/// NVIDIA's GPUs: PCI address to the number in the node's name.
std::map<std::string, std::string> nvidia_numbers(const std::string& root) {
    std::map<std::string, std::string> numbers;
    const std::string gpus = root + "/proc/driver/nvidia/gpus";
    for (const std::string& address : names_in(gpus))
        for (const std::string& line : lines_of(gpus + '/' + address + "/information")) {
            constexpr std::string_view key = "Device Minor:";
            if (!line.starts_with(key)) continue;
            const std::size_t from = line.find_first_not_of(" \t", key.size());
            if (from != std::string::npos && is_number(line.substr(from)))
                numbers[address] = line.substr(from);
        }
    return numbers;
}

/// The nodes of the parts into which this GPU is divided (MIG).
void add_parts(const std::string& root, const std::string& number, std::vector<std::string>& nodes) {
    for (const std::string& line : lines_of(root + "/proc/driver/nvidia-caps/mig-minors")) {
        std::istringstream words(line);
        std::string part, minor;
        if (words >> part >> minor && part.starts_with("gpu" + number + "/") && is_number(minor))
            nodes.push_back("/dev/nvidia-caps/nvidia-cap" + minor);
    }
}

}  // namespace

const std::vector<std::string>& gpu_patterns() {
    static const std::vector<std::string> patterns = {"/dev/nvidia[0-9]*", "/dev/nvidia-caps/**",
                                                      "/dev/dri/**", "/dev/dxg"};
    return patterns;
}

std::vector<std::string> gpu_nodes(const std::string& root) {
    std::vector<std::string> nodes;
    for (const std::string& name : names_in(root + "/dev"))
        if (is_numbered(name, "nvidia") || name == "dxg") nodes.push_back("/dev/" + name);
    for (const std::string& name : names_in(root + "/dev/dri"))
        if (is_numbered(name, "renderD")) nodes.push_back("/dev/dri/" + name);
    return nodes;
}

std::optional<std::vector<std::string>> nodes_of_gpu(const std::string& which, const std::string& root) {
    const std::vector<std::string> all = gpu_nodes(root);
    const auto there = [&all](const std::string& node) { return std::ranges::find(all, node) != all.end(); };
    const std::map<std::string, std::string> numbers = nvidia_numbers(root);
    std::string address, number, render;
    if (!is_number(which)) {
        address = which;
        if (const auto known = numbers.find(address); known != numbers.end()) number = known->second;
    } else if (std::ranges::any_of(
                   all, [](const std::string& node) { return is_numbered(node, "/dev/nvidia"); })) {
        number = which;
        for (const auto& [at, minor] : numbers)
            if (minor == number) address = at;
    } else {
        render = "renderD" + std::to_string(first_render_node + parse_number<unsigned>(which).value_or(0));
        if (!there("/dev/dri/" + render)) return std::nullopt;
        std::error_code none;
        address = fs::canonical(root + "/sys/class/drm/" + render + "/device", none).filename();
    }
    std::vector<std::string> nodes;
    const auto add = [&](const std::string& node) {
        if (there(node) && std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
    };
    if (!number.empty()) add("/dev/nvidia" + number);
    if (!render.empty()) add("/dev/dri/" + render);
    if (!address.empty() && address.find('/') == std::string::npos)
        for (const std::string& name : names_in(root + "/sys/bus/pci/devices/" + address + "/drm"))
            if (is_numbered(name, "renderD")) add("/dev/dri/" + name);
    if (nodes.empty()) return std::nullopt;
    if (!number.empty()) add_parts(root, number, nodes);
    return nodes;
}

}  // namespace callgate::cli
