// The device nodes of GPUs: what `--gpu` leaves open, and what `doctor` shows.
//
// The user chooses the GPU, and the kernel says in /proc and /sys which nodes it has. Nothing here is chosen
// by the target. A node that the kernel does not attribute to the chosen GPU stays closed.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace callgate::cli {

/// Nodes through which a program computes on one GPU or another, and that no other GPU has: literal paths.
/// `root` stands before /dev, /proc and /sys; "" outside of tests.
[[nodiscard]] std::vector<std::string> gpu_nodes(const std::string& root = "");

/// The nodes of one GPU; nothing if there is none of this name. `which` is a PCI address, or a number: the
/// NVIDIA driver's, or where that has no GPU, the place among the render nodes. Its PCI device then names its
/// other nodes.
[[nodiscard]] std::optional<std::vector<std::string>> nodes_of_gpu(const std::string& which,
                                                                   const std::string& root = "");

/// Patterns that match the nodes of all GPUs, also of those that appear later. Nodes of displays are among
/// them. The nodes that all GPUs of a driver share are not, apart from /dev/dxg, which has no others.
[[nodiscard]] const std::vector<std::string>& gpu_patterns();

}  // namespace callgate::cli
