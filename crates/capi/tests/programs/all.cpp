// What C++ adds: owners of results, lambdas as callbacks, std::thread, and an exception that leaves a callback.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <seekless.h>

namespace {

// A result that frees what it owns.
struct Result : seekless_result {
    Result() : seekless_result() {}
    ~Result() { seekless_result_free(this); }
    Result(const Result &) = delete;
    Result &operator=(const Result &) = delete;
};

void check(bool is_right, const char *what) {
    if (!is_right) {
        std::fprintf(stderr, "not so: %s\n", what);
        std::exit(1);
    }
}

std::string content(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string read(const std::string &path) {
    Result result;
    std::string read;
    auto take = [](void *context, uint64_t, const void *bytes, size_t length) {
        static_cast<std::string *>(context)->append(static_cast<const char *>(bytes), length);
        return 0;
    };
    auto status = seekless_read_blocks(path.c_str(), 0, UINT64_MAX, take, &read, nullptr, &result);
    if (status != SEEKLESS_STATUS_OK) {
        throw std::runtime_error(result.text);
    }
    return read;
}

// Whether a process that throws through the library ends by abort.
bool aborts(const std::string &path) {
    pid_t child = fork();
    if (child == 0) {
        std::freopen("/dev/null", "w", stderr);
        auto take = [](void *, uint64_t, const void *, size_t) -> int { throw std::runtime_error("thrown"); };
        try {
            seekless_read_blocks(path.c_str(), 0, UINT64_MAX, take, nullptr, nullptr, nullptr);
        } catch (...) {
        }
        _exit(0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}

int main(int argc, char **argv) {
    check(argc == 3 && std::string(seekless_version()) == argv[2], "two arguments");
    std::string directory = argv[1], file = directory + "/file", copy = directory + "/copy";
    std::string bytes(100003, 'x');
    for (size_t n = 0; n < bytes.size(); n++) {
        bytes[n] = static_cast<char>(n * n / 7);
    }
    {
        Result result;
        seekless_options options = {};
        options.durability = SEEKLESS_DURABILITY_FSYNC;
        check(seekless_write(file.c_str(), bytes.data(), bytes.size(), &options, &result) == SEEKLESS_STATUS_OK, "writing");
        check(result.bytes == bytes.size() && content(file) == bytes, "what was written");
    }
    check(read(file) == bytes, "what was read");
    {
        Result result;
        check(seekless_copy(file.c_str(), copy.c_str(), nullptr, &result) == SEEKLESS_STATUS_OK, "copying");
        check(content(copy) == bytes, "what was copied");
    }
    {
        Result result;
        std::vector<seekless_change> changes = {{7, "seven", 5}, {50000, "more", 4}};
        bytes.replace(7, 5, "seven").replace(50000, 4, "more");
        check(seekless_update(copy.c_str(), changes.data(), changes.size(), nullptr, &result) == SEEKLESS_STATUS_OK, "updating");
        check(content(copy) == bytes, "what was updated");
    }
    {
        Result result;
        check(seekless_compare(file.c_str(), copy.c_str(), nullptr, &result) == SEEKLESS_STATUS_OK, "comparing");
        check(result.verdict == SEEKLESS_VERDICT_DIFFER && result.bytes >= 7 && result.bytes < 12, "the first difference");
    }
    {
        Result result;
        check(seekless_plan("copy/planned", file.c_str(), (copy + "2").c_str(), 0, &result) == SEEKLESS_STATUS_OK, "planning");
        check(std::string(result.method).rfind("copy/", 0) == 0, "the planned method");
    }
    try {
        read(directory + "/none");
        check(false, "a missing file is an error");
    } catch (const std::runtime_error &error) {
        check(std::string(error.what()).find(directory + "/none") != std::string::npos, "the error names the file");
    }
    std::vector<std::thread> threads;
    for (int n = 0; n < 6; n++) {
        threads.emplace_back([&] { check(read(copy) == bytes, "what a thread read"); });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    check(aborts(file), "an exception that leaves a callback ends the process");
    std::puts("all of it");
}
