/* Calls Google Benchmark (shim.h), written for 1.7.1 and later versions alike.
 *
 * Set right on the way to the reporters: cases are timed by the wall clock, since the library's own CPU clock sees only
 * the main thread, and a name would then end in "/real_time", so that suffix is taken off, as names are ours to the
 * letter; counters that are rates would be shown as "/s" whatever they are called: their names here say the unit; and
 * the table's heading is our own, as the library's speaks mostly of itself.
 */
#include "shim.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

bool failed = false, lost = false;
std::vector<std::pair<std::string, std::string>> heading;

template <class Base> class Reporter : public Base {
  public:
    using Base::Base;

    void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run> &runs) override {
        auto copy = runs;
        for (auto &run : copy) {
            run.run_name.time_type.clear();
            for (auto &counter : run.counters)
                counter.second.flags = benchmark::Counter::kDefaults;
        }
        Base::ReportRuns(copy);
    }
};

class Table : public Reporter<benchmark::ConsoleReporter> {
  public:
    explicit Table(OutputOptions options) : Reporter(options) {}

    bool ReportContext(const Context &context) override {
        name_field_width_ = context.name_field_width;
        printed_header_ = false;
        for (const auto &line : heading)
            std::cout << line.first << ": " << line.second << '\n';
        return true;
    }
};

/* Google Benchmark does not look whether its file could be written. */
class File : public Reporter<benchmark::JSONReporter> {
  public:
    void Finalize() override {
        Reporter::Finalize();
        lost = !GetOutputStream().flush();
    }
};

void measure(benchmark::State &state, const shim_bench &bench) {
    shim_cost cost = {};
    if (const char *error = bench.begin(bench.self, &cost)) {
        failed = true;
        state.SkipWithError(error);
    } else {
        for (auto _ : state)
            bench.run(bench.self);
        const auto rate = [&](const char *name, double amount) {
            if (amount > 0)
                state.counters[name] = benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
        };
        rate("GFLOPS", cost.flops * 1e-9);
        rate("GB/s", cost.bytes * 1e-9);
        rate("Gelem/s", cost.elements * 1e-9);
        if (cost.peak > 0)
            rate("of_peak", cost.flops / cost.peak);
        if (cost.read > 0) {
            rate("of_read", cost.bytes / cost.read);
            rate("of_bound", std::max(cost.bytes / cost.read, cost.peak > 0 ? cost.flops / cost.peak : 0));
        }
    }
    bench.end(bench.self);
}

} // namespace

extern "C" void shim_context(const char *key, const char *value) {
    heading.emplace_back(key, value);
    benchmark::AddCustomContext(key, value);
}

extern "C" int shim_run(const shim_bench *benches, int count, const shim_options *options) {
    // By its command line, as per-case settings would show in the names. Plain seconds are understood by all versions.
    std::vector<std::string> words = {"fovea-bench", "--benchmark_min_time=" + std::to_string(options->min_time),
                                      "--benchmark_repetitions=" + std::to_string(options->repetitions)};
    if (options->repetitions > 1) {
        words.push_back("--benchmark_display_aggregates_only=true");
        words.push_back("--benchmark_enable_random_interleaving=true");
    }
    if (options->json)
        words.push_back(std::string("--benchmark_out=") + options->json);
    std::string file = options->json ? options->json : "", format = "json";
    for (int i = 0; i < options->passed_count; i++) {
        words.push_back(options->passed[i]);
        const std::string word = words.back(), name = word.substr(0, word.find('=') + 1);
        if (name == "--benchmark_out=")
            file = word.substr(name.size());
        if (name == "--benchmark_out_format=")
            format = word.substr(name.size());
    }
    std::vector<char *> argv;
    for (auto &word : words)
        argv.push_back(&word[0]);
    int argc = static_cast<int>(argv.size());
    benchmark::Initialize(&argc, argv.data());
    if (benchmark::ReportUnrecognizedArguments(argc, argv.data()))
        return 2;

    for (int i = 0; i < count; i++) {
        const shim_bench &bench = benches[i];
        benchmark::RegisterBenchmark(bench.name, [&bench](benchmark::State &state) { measure(state, bench); })
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
    }
    Table console(isatty(STDOUT_FILENO) ? Table::OO_Color : Table::OO_None);
    File json;
    benchmark::RunSpecifiedBenchmarks(&console, !file.empty() && format == "json" ? &json : nullptr, ".");
    benchmark::Shutdown();
    if (lost)
        std::cerr << "fovea-bench: " << file << ": not written completely\n";
    return lost || failed;
}
