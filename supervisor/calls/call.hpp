// The call that a handler works on: what handlers need beyond deciding (decide/context.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/decide/context.hpp"

namespace callgate::calls {

/// A handler announces here that its next step may block. Other threads then go on receiving, and the step is
/// interrupted when its caller dies or has a signal to handle.
class Blocking {
public:
    virtual ~Blocking() = default;
    /// Returns false if too many calls are blocked already: deny this one.
    virtual bool enter() = 0;
    virtual void leave() = 0;
    /// Whether calls lately blocked unannounced. Announce then also steps that usually return at once.
    virtual bool expects_blocking() = 0;
    enum class Interruption : std::uint8_t { none, signal, gone };
    /// Why a blocking call of ours returned EINTR.
    virtual Interruption interruption() = 0;
};

/// Buffers that live as long as the receiving thread, so that a call allocates little.
struct WorkerBuffers {
    std::string path, second_path, directory, directory_second;
    std::vector<std::string_view> flags;
    unsigned umask = 0;
    bool shares_umask = false;  // with every thread of the process
};

using enforce::PathArgument;

/// Each family of handlers adds a reference to its own needs: FileCall, ExecCall, NetworkCall, IpcCall,
/// ProcessCall.
struct Call : CallContext {
    Blocking& blocking;
    WorkerBuffers& buffers;
};

}  // namespace callgate::calls
