#include "supervisor/container/questions.hpp"

#include <unistd.h>

#include <utility>

namespace callgate::container {

namespace {

approval::AskSettings settings_of(const Asking& asking) {
    approval::AskSettings settings;
    settings.who = approval::AskSettings::Who::socket;
    settings.timeout = asking.timeout;
    return settings;
}

}  // namespace

Questions::Questions(Needs needs)
    : needs_(std::move(needs)),
      work_(loop_.get_executor()),
      service_(settings_of(needs_.asking),
               {.loop = loop_,
                .run = needs_.run,
                .log = needs_.log,
                .guardian = needs_.first,
                .of_container = true,
                .socket = std::move(needs_.asking.socket)},
               *this) {}

void Questions::start() {
    service_.start();
    thread_ = std::thread([this] { loop_.run(); });
}

void Questions::stop() {
    loop_.stop();
    if (!thread_.joinable()) return;
    thread_.join();
    service_.stop();
}

approval::RunStatus Questions::run_status() {
    const audit::Counts counts = needs_.counts();
    return {.command = {"container", needs_.container},
            .workdir = "/",
            .pid = ::getpid(),
            .allowed = counts.allow,
            .denied = counts.ask + counts.deny + counts.kill};
}

}  // namespace callgate::container
