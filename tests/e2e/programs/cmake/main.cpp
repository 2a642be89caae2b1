#include <cstdlib>
#include <iostream>
#include <thread>

int twice(int number);

int main(int, char** arguments) {
    int result = 0;
    std::thread worker([&] { result = twice(std::atoi(arguments[1])); });
    worker.join();
    std::cout << result << '\n';
}
