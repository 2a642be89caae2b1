// Constants of ioprio_set(2). The kernel's own header is no C++ in some versions: a parameter of it is called
// `class`.
#pragma once

namespace callgate {

constexpr int io_priority_of_process = 1;  // IOPRIO_WHO_PROCESS
constexpr int io_class_shift = 13;         // IOPRIO_CLASS_SHIFT: the level stands below
constexpr int io_class_realtime = 1, io_class_best_effort = 2, io_class_idle = 3;

}  // namespace callgate
