#include "supervisor/names/name_files.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/unit/rules/rule_maker.hpp"

using namespace callgate;
using namespace callgate::names;
using rules::tests::address;

TEST_CASE("programs are sent to the name servers first, and everything else stays") {
    CHECK(switch_text("passwd: files\n hosts:  resolve [!UNAVAIL=return] files mymachines mdns4_minimal dns\n"
                      "hosts : dns\ngroup: files") == "passwd: files\ngroup: files\nhosts: file dns files\n");
    CHECK(switch_text("hostsx: files\n# hosts: dns\n") ==
          "hostsx: files\n# hosts: dns\nhosts: file dns files\n");
    CHECK(switch_text("") == "hosts: file dns files\n");
}

TEST_CASE("one name server is left, by TCP, and programs wait where a question may come") {
    const std::string own =
        "search corp.example.org\nnameserver 192.0.2.53\n  nameserver ::1\noptions ndots:2\n";
    const std::string rest = "search corp.example.org\noptions ndots:2\nnameserver 127.0.0.1\noptions use-vc";
    CHECK(servers_text(own, false) == rest + "\n");
    CHECK(servers_text(own, true) == rest + " timeout:30 attempts:5\n");
    CHECK(servers_text("nameserver\t192.0.2.53", false) == "nameserver 127.0.0.1\noptions use-vc\n");
}

TEST_CASE("addresses of allowed names stand behind the user's own lines, a few of each family") {
    std::vector<rules::IpAddress> many;
    for (int count = 0; count < 20; ++count) {
        many.push_back(address("203.0.113." + std::to_string(count)));
        many.push_back(address("2001:db8::" + std::to_string(count)));
    }
    const std::string text =
        hosts_text("127.0.0.1 localhost", {{"www.example.org", many}, {"none.example.org", {}}});
    CHECK(text.starts_with("127.0.0.1 localhost\n203.0.113.0 www.example.org\n2001:db8::"));
    CHECK(text.find("203.0.113.7 www") != std::string::npos);
    CHECK(text.find("203.0.113.8 www") == std::string::npos);
    CHECK(text.find("2001:db8::7 www") != std::string::npos);
    CHECK(text.find("2001:db8::8 www") == std::string::npos);
    CHECK(text.find("none.example.org") == std::string::npos);
    CHECK(hosts_text("", {}) == "");
}

TEST_CASE("a file about name servers is known by what it is, and others are not") {
    for (const std::string& path : paths_of_name_files()) {
        struct stat status {};
        REQUIRE(::stat(path.c_str(), &status) == 0);
        CHECK(name_file(status));
    }
    struct stat other {};
    REQUIRE(::stat("/etc/passwd", &other) == 0);
    CHECK_FALSE(name_file(other));
}
