// sendmmsg: several messages of one socket, as many as go (send.cpp).
//
// An attacker controls the elements and where they lie. Each is read once, when its turn comes or together
// with others that are alike (send_batch.hpp). Each is judged, those that are alike by one decision. The
// first that is refused or fails ends the call, and the messages sent before it count.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/network/needs.hpp"
#include "supervisor/calls/network/sending.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

/// For an element that was sent, but whose length cannot be written: an error for the caller, not of the act.
int length_unwritable(Outcome& outcome) {
    outcome.error = EFAULT;
    outcome.sequence = 0;
    return 0;
}

/// Sends one element as sendmmsg(2) does. Returns the number sent, or 0 with the error in `outcome`; -1:
/// nobody waits for an answer.
int send_element(NetworkCall& context, PinnedSocket& socket, std::uint64_t at, int flags, Outcome& outcome) {
    const auto element = kernel::read_object<mmsghdr>(context.thread(), at);
    auto message = element ? read_message(context, element->msg_hdr, socket.kind) : element.error();
    if (!context.call.waiting()) return -1;
    if (!message) return outcome.error = message.error().value(), 0;
    outcome = Sending(context, socket, *message, flags | (element->msg_hdr.msg_flags & MSG_EOR)).run();
    if (!outcome.answer) return -1;
    if (outcome.error != 0) return 0;
    if (!context.call.waiting()) return -1;  // its number may be another's after a send that took its time
    const auto length = static_cast<unsigned>(outcome.sent);
    const auto written = kernel::write_memory(context.thread(), at + offsetof(mmsghdr, msg_len),
                                              std::as_bytes(std::span<const unsigned, 1>(&length, 1)));
    return written ? 1 : length_unwritable(outcome);
}

/// The same for elements that are alike, by one decision.
int send_alike(NetworkCall& context, PinnedSocket& socket, std::uint64_t at, Batch& batch, int flags,
               Outcome& outcome) {
    if (!context.call.waiting()) return -1;
    Message first;
    first.address = batch.address;
    first.size = batch.first_size();
    Sending sending(context, socket, first, flags);
    outcome = sending.judge_batch(batch);
    if (outcome.error != 0) return 0;
    if (!context.call.waiting()) return -1;
    const std::size_t written = batch.write_lengths(context.thread(), at);
    batch.shorten(std::max<std::size_t>(written, 1));
    std::size_t sent = 0;
    outcome = sending.send_batch(batch, sent);
    if (written == 0) return sent == 0 ? 0 : length_unwritable(outcome);
    if (sent == batch.size()) return static_cast<int>(sent);
    if (!context.call.waiting()) return -1;  // its number may be another's after a send that took its time
    batch.take_back(context.thread(), at, sent);
    return static_cast<int>(sent);
}

}  // namespace

void handle_sendmmsg(NetworkCall& context) {
    if ((context.integer(3) & internal_flag) != 0) return context.fail(EINVAL);
    auto socket = pin_socket(context, context.integer(0));
    if (!socket)
        return fail_descriptor_unavailable(context, rules::Operation::connect, socket.error().value());
    constexpr std::size_t max_count = 1024;  // UIO_MAXIOV
    const std::size_t count = std::min<std::size_t>(static_cast<unsigned>(context.integer(2)), max_count);
    std::size_t done = 0;
    Outcome outcome{.whole = true};
    bool alike = Batch::possible(socket->kind, context.integer(3));
    while (done < count && outcome.whole) {
        const std::uint64_t at = context.word(1) + done * sizeof(mmsghdr);
        outcome = {};
        Batch batch;
        if (alike) batch = Batch::read(context.thread(), at, count - done);
        alike = batch.size() > 1;
        const int sent = alike ? send_alike(context, *socket, at, batch, context.integer(3), outcome)
                               : send_element(context, *socket, at, context.integer(3), outcome);
        if (sent < 0) return;
        done += static_cast<std::size_t>(sent);
        if (sent == 0) break;
        context.asking = Asking::later;  // handled again, it would be sent twice
    }
    // Sent messages count, and an error shows only if none was sent.
    if (done > 0 && outcome.error != 0 && outcome.sequence != 0)
        note_failed_act(context, outcome.sequence, outcome.error);
    finish(context, *socket, outcome.sequence, static_cast<std::int64_t>(done), done > 0 ? 0 : outcome.error);
}

}  // namespace callgate::calls
