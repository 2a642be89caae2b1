// Which nodes a GPU has, by stand-ins for /dev, /proc and /sys.
#include "supervisor/cli/gpu.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_directory.hpp"

using namespace callgate::cli;
namespace fs = std::filesystem;

namespace {

struct Machine : callgate::tests::TemporaryDirectory {
    void file(const std::string& name, const std::string& content = "") const {
        fs::create_directories(fs::path(path + name).parent_path());
        std::ofstream(path + name) << content;
    }
    /// A PCI device with a card and a render node.
    void drm(const std::string& address, const std::string& card, const std::string& render) const {
        const std::string device = "/sys/devices/pci0000:00/" + address;
        for (const std::string& node : {card, render}) {
            file("/dev/dri/" + node);
            fs::create_directories(path + device + "/drm/" + node);
        }
        fs::create_directories(path + "/sys/class/drm");
        fs::create_directories(path + "/sys/bus/pci/devices");
        fs::create_directory_symlink("../../../devices/pci0000:00/" + address,
                                     path + "/sys/bus/pci/devices/" + address);
        fs::create_directory_symlink("../../devices/pci0000:00/" + address + "/drm/" + render,
                                     path + "/sys/class/drm/" + render);
        fs::create_directory_symlink("../..", path + device + "/drm/" + render + "/device");
    }
    void nvidia(const std::string& address, const std::string& number) const {
        file("/dev/nvidia" + number);
        file("/proc/driver/nvidia/gpus/" + address + "/information",
             "Model: \t\t X\nDevice Minor: \t " + number + "\n");
    }
    [[nodiscard]] std::string nodes(const std::string& which) const {
        const auto found = nodes_of_gpu(which, path);
        if (!found) return "none";
        std::string text;
        for (const std::string& node : *found) text += (text.empty() ? "" : " ") + node;
        return text;
    }
};

}  // namespace

TEST_CASE("a GPU of NVIDIA is found by its number and its PCI address, with the render node of that device") {
    const Machine machine;
    machine.drm("0000:00:02.0", "card0", "renderD128");  // the processor's own
    machine.drm("0000:01:00.0", "card1", "renderD129");
    machine.drm("0000:02:00.0", "card2", "renderD130");
    machine.nvidia("0000:01:00.0", "1");  // the driver's numbers need not go with the addresses
    machine.nvidia("0000:02:00.0", "0");
    machine.file("/dev/nvidiactl");
    machine.file("/proc/driver/nvidia-caps/mig-minors",
                 "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu1/gi1/access 147\ngpu10/gi1/access 999\n");
    CHECK(machine.nodes("0") == "/dev/nvidia0 /dev/dri/renderD130 /dev/nvidia-caps/nvidia-cap12");
    CHECK(machine.nodes("1") == "/dev/nvidia1 /dev/dri/renderD129 /dev/nvidia-caps/nvidia-cap147");
    CHECK(machine.nodes("0000:01:00.0") == machine.nodes("1"));
    CHECK(machine.nodes("0000:00:02.0") == "/dev/dri/renderD128");
    for (const char* wrong : {"2", "-1", "0x0", "", "0000:09:00.0", "../../../dev", "card0"})
        CHECK(machine.nodes(wrong) == "none");
    CHECK(gpu_nodes(machine.path).size() == 5);
}

TEST_CASE("other GPUs are counted by their render nodes") {
    const Machine machine;
    machine.drm("0000:03:00.0", "card1", "renderD128");
    machine.drm("0000:00:02.0", "card0", "renderD129");
    CHECK(machine.nodes("0") == "/dev/dri/renderD128");
    CHECK(machine.nodes("1") == "/dev/dri/renderD129");
    CHECK(machine.nodes("0000:00:02.0") == "/dev/dri/renderD129");
    CHECK(machine.nodes("2") == "none");
}

TEST_CASE("a node without what the kernel says of it is open by itself alone") {
    const Machine machine;
    machine.file("/dev/nvidia0");
    machine.file("/dev/nvidia1");
    machine.file("/dev/dri/renderD128");
    CHECK(machine.nodes("1") == "/dev/nvidia1");
}

TEST_CASE("WSL has one node for all its GPUs") {
    const Machine machine;
    machine.file("/dev/dxg");
    CHECK(machine.nodes("0") == "none");
    CHECK(gpu_nodes(machine.path) == std::vector<std::string>{"/dev/dxg"});
}
