// `callgate approve`: answers the questions of all runs of this user, in this terminal or by a program.
//
// The terminal is the person's own, and no target holds it. prompt_engine.hpp decides what answers; the end
// of input denies.
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <list>

#include "base/clock.hpp"
#include "base/write_all.hpp"
#include "supervisor/approval/external_decider.hpp"
#include "supervisor/approval/protocol/client.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"
#include "supervisor/approval/terminal/prompt_engine.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

namespace {

using approval::Client;
using approval::PromptEngine;
using approval::PromptStep;
using approval::QuestionView;
using approval::Scope;

struct Open {
    Client* client = nullptr;
    QuestionView shown;
};

class Approver {
public:
    Approver(const Arguments& arguments, Places places)
        : places_(std::move(places)),
          only_(arguments.value("run").value_or("")),
          program_(arguments.value("exec").value_or("")),
          once_(arguments.has("once")),
          notify_(arguments.has("notify")),
          terminal_(::isatty(0) != 0 && ::isatty(1) != 0),
          prompt_(terminal_ ? PromptEngine::Input::lines : PromptEngine::Input::stream, places_.config) {
        if (!arguments.rest().empty()) only_ = arguments.rest().front();
    }
    ~Approver() {
        if (paste_marked_) write("\x1b[?2004l");
    }
    int run();

private:
    void find_runs();
    void take(Client& client);
    void on_message(Client& client, const approval::FromRun& message);
    void drop(Client& client);
    [[nodiscard]] Open* current();
    void turn_to_another_run();
    void draw();
    void show();
    void withdraw(std::uint64_t id, const Client& client, const std::string& why);
    void on_input();
    void follow(const PromptStep& step);
    void decide(rules::Action action, Scope scope, const approval::Width& width = {});
    void on_decider();
    void notify();
    void wait();
    void write(std::string_view text) const;

    Places places_;
    std::string only_, program_;
    bool once_, notify_, terminal_;
    bool paste_marked_ = false, finished_ = false, input_ended_ = false;
    UniqueFd presence_, watch_, signals_;
    std::list<Client> clients_;
    std::vector<Open> questions_;
    std::string served_run_;
    PromptEngine prompt_;
    approval::ExternalDecider decider_;
};

void Approver::write(std::string_view text) const { static_cast<void>(write_all(1, text)); }

void Approver::find_runs() {
    for (const std::string& run : approval::runs_at(places_.runtime)) {
        if (!only_.empty() && run != only_) continue;
        if (std::ranges::any_of(clients_, [&](const Client& one) { return one.run() == run; })) continue;
        if (auto client = Client::open(places_.runtime, run)) clients_.push_back(std::move(*client));
    }
}

void Approver::take(Client& client) {
    const bool alive = client.receive();
    while (const auto message = client.next()) on_message(client, *message);
    if (!alive) drop(client);
}

void Approver::on_message(Client& client, const approval::FromRun& message) {
    const auto same = [&](const Open& one) { return one.client == &client && one.shown.id == message.id; };
    if (message.ask) {
        questions_.push_back({&client, *message.ask});
        if (notify_) notify();
    } else if (message.type == "withdrawn") {
        withdraw(message.id, client, message.why);
    } else if (message.type == "count") {
        for (Open& one : questions_)
            if (same(one)) one.shown.count = message.count;
        if (prompt_.shows(client.run(), message.id)) prompt_.set_count(message.count);
    } else if (message.type == "ack" && !message.applied) {
        say("the answer to question " + std::to_string(message.id) + " of run " + client.run() +
            " did not count: " + message.why);
    }
}

void Approver::withdraw(std::uint64_t id, const Client& client, const std::string& why) {
    if (prompt_.shows(client.run(), id)) {
        write("\n");
        say("question " + std::to_string(id) + " of run " + client.run() + ": " + why);
        prompt_.close();
    }
    if (decider_.decides(client.run(), id)) decider_.end();
    std::erase_if(questions_, [&](const Open& one) { return one.client == &client && one.shown.id == id; });
}

void Approver::drop(Client& client) {
    if (const QuestionView* const shown = prompt_.question(); shown != nullptr && shown->run == client.run())
        withdraw(shown->id, client, "the run has ended");
    if (decider_.run() == client.run()) decider_.end();
    std::erase_if(questions_, [&](const Open& one) { return one.client == &client; });
    if (!only_.empty()) finished_ = true;
    clients_.remove_if([&](const Client& one) { return &one == &client; });
}

Open* Approver::current() { return questions_.empty() ? nullptr : &questions_.front(); }

/// Runs take turns, so that one that asks much does not keep the questions of others waiting until they are
/// denied.
void Approver::turn_to_another_run() {
    const auto other =
        std::ranges::find_if(questions_, [&](const Open& one) { return one.client->run() != served_run_; });
    if (other != questions_.end()) std::rotate(questions_.begin(), other, std::next(other));
    if (!questions_.empty()) served_run_ = questions_.front().client->run();
}

/// Rings the bell, and puts the number of questions into the title.
void Approver::notify() { write("\a\x1b]2;callgate: " + std::to_string(questions_.size()) + " waiting\a"); }

void Approver::show() {
    prompt_.open(current()->shown);
    draw();
}

void Approver::draw() {
    winsize size{};
    approval::Look look;
    if (::ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        look.columns = size.ws_col;
        look.rows = size.ws_row;
    }
    const char* const kind = std::getenv("TERM");
    const std::string_view term = kind == nullptr ? "" : kind;
    look.plain = !terminal_ || term.empty() || term == "dumb" || term == "linux";
    look.total = questions_.size();
    look.now_ns = monotonic_ns();
    const std::string frame = prompt_.draw(look);
    if (terminal_) {
        if (!look.plain && !paste_marked_) {
            write("\x1b[?2004h");
            paste_marked_ = true;
        }
        ::tcflush(0, TCIFLUSH);
    }
    write(frame);
    prompt_.drawn(monotonic_ns());
}

void Approver::decide(rules::Action action, Scope scope, const approval::Width& width) {
    Open* const open = current();
    static_cast<void>(
        open->client->send(approval::decision_line(open->shown, rules::name(action), scope, {}, width)));
    prompt_.close();
    // The run counts callers that still wait again, under the same number.
    if (open->shown.count <= 1 || action != rules::Action::allow || scope != Scope::once) {
        questions_.erase(questions_.begin());
    } else {
        --open->shown.count;
    }
    if (once_) finished_ = true;
}

void Approver::follow(const PromptStep& step) {
    // The terminal may hold half a line that was typed while the guard time lasted.
    if (step.kind == PromptStep::Kind::opened) ::tcflush(0, TCIFLUSH);
    write(step.text);
    if (step.began)
        static_cast<void>(
            current()->client->send(approval::plain_line("rest", "id", prompt_.question()->id)));
    if (step.kind == PromptStep::Kind::answer) decide(step.action, step.scope, step.width);
    if (step.kind == PromptStep::Kind::redraw) draw();
}

void Approver::on_input() {
    char bytes[4096];
    const ssize_t got = ::read(0, bytes, sizeof bytes);
    if (got < 0) return;
    if (got > 0) return follow(prompt_.feed({bytes, static_cast<std::size_t>(got)}, monotonic_ns()));
    follow(prompt_.end_of_input());
    input_ended_ = finished_ = true;
}

/// A program that fails, is silent or answers nonsense denies.
void Approver::on_decider() {
    const auto answer = decider_.take();
    if (!answer) return;
    Open* const open = current();
    if (open != nullptr && decider_.decides(open->client->run(), open->shown.id)) {
        if (!answer->problem.empty()) say(program_ + ": " + answer->problem + ": denied");
        static_cast<void>(open->client->send(
            approval::decision_line(open->shown, answer->verdict, answer->scope, answer->reason)));
        questions_.erase(questions_.begin());
        if (once_) finished_ = true;
    }
    decider_.end();
}

/// Waits for runs, messages, a line, a program's answer, a signal, or time.
void Approver::wait() {
    std::vector<pollfd> all = {{signals_.get(), POLLIN, 0}, {watch_.get(), POLLIN, 0}};
    const bool reads = program_.empty() && !input_ended_;
    all.push_back({reads ? 0 : -1, POLLIN, 0});
    all.push_back({decider_.descriptor(), POLLIN, 0});
    std::vector<Client*> order;
    for (Client& one : clients_) {
        all.push_back({one.descriptor(), POLLIN, 0});
        order.push_back(&one);
    }
    int timeout = 1000;
    if (const auto due = prompt_.due_ns())
        timeout =
            static_cast<int>(std::clamp<std::int64_t>((*due - monotonic_ns()) / 1'000'000 + 1, 0, 1000));
    ::poll(all.data(), all.size(), timeout);
    const PromptStep step = prompt_.tick(monotonic_ns());
    follow(step);
    if (step.kind == PromptStep::Kind::opened) all[2].revents = 0;  // looked at anew
    if (all[0].revents != 0) {
        finished_ = true;
        return;
    }
    if (all[1].revents != 0) {
        char events[4096];
        static_cast<void>(::read(watch_.get(), events, sizeof events));
    }
    if (all[2].revents != 0) on_input();
    if (all[3].revents != 0) on_decider();
    for (std::size_t index = 0; index < order.size(); ++index)
        if (all[index + 4].revents != 0) take(*order[index]);
    find_runs();
}

int Approver::run() {
    if (const auto made = approval::make_runtime_directory(places_.runtime); !made)
        throw Failure("cannot use " + places_.runtime + ": " + made.error().message());
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC));
    ::signal(SIGPIPE, SIG_IGN);
    if (auto presence = approval::announce_approver(places_.runtime)) presence_ = std::move(*presence);
    watch_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    ::inotify_add_watch(watch_.get(), places_.runtime.c_str(), IN_CREATE | IN_MOVED_TO);
    find_runs();
    if (!only_.empty() && clients_.empty())
        throw Failure("no run " + only_ + " answers; callgate ps lists those that do");
    if (terminal_ && program_.empty() && questions_.empty())
        say("waiting for questions of " + (only_.empty() ? "all runs" : "run " + only_) +
            "; Ctrl-C ends this");
    while (!finished_) {
        if (prompt_.question() == nullptr && !decider_.busy()) turn_to_another_run();
        Open* const open = current();
        if (open != nullptr && !program_.empty() && !decider_.busy() &&
            !decider_.start(program_, open->client->run(), open->shown))
            decide(rules::Action::deny, Scope::once);
        if (open != nullptr && program_.empty() && prompt_.question() == nullptr) show();
        if (!finished_) wait();
        if (decider_.overdue(monotonic_ns())) decider_.end();
    }
    return 0;
}

}  // namespace

int approve(const Arguments& arguments) { return Approver(arguments, find_places()).run(); }

}  // namespace callgate::cli
