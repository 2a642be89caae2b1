// The modes of the person's terminal, in memory that supervisor and guardian share. If the supervisor is
// lost, the guardian puts the terminal back.
//
// The supervisor sets raw mode while the command has the keys (approval/terminal/person_terminal). If it is
// killed then, a shell that restores no modes would neither echo nor take Ctrl-C. The target reaches neither
// the terminal nor this memory. Only the thread that relays writes. Another process may have set modes of its
// own since, such as the shell's line editor. So only modes that are still callgate's are put back.
#pragma once

#include <termios.h>

#include <atomic>
#include <boost/system/result.hpp>

namespace callgate::agent {

[[nodiscard]] bool same_modes(const termios& one, const termios& other);

struct PersonModes {
    std::atomic<bool> taken;
    termios usual, raw;  // of the person, and callgate's

    /// Before the terminal is set to `raw_modes`.
    void take(const termios& usual_modes, const termios& raw_modes);
    void give_back() { taken.store(false); }
};

/// Owns a mapping that children inherit.
class SharedModes {
public:
    /// Errors: ENOMEM.
    [[nodiscard]] static boost::system::result<SharedModes> make();
    SharedModes(SharedModes&& other) noexcept;
    SharedModes& operator=(SharedModes&&) = delete;
    ~SharedModes();

    [[nodiscard]] PersonModes& modes() const { return *modes_; }

private:
    explicit SharedModes(PersonModes* modes) : modes_(modes) {}
    PersonModes* modes_;
};

/// For the guardian, before the caller of a lost supervisor goes on. Waits for nobody.
void put_back(int terminal, const PersonModes& modes);

}  // namespace callgate::agent
