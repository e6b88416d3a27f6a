// What both references share and what is not measured: the command line, the instance, the JSON.
//
//     ./textbook policy K T replications seed c l
//
// policy is ucb, epsilon_greedy or thompson_sampling; c belongs to epsilon-greedy and is ignored by
// the others; l is the slope of the drift, b = l x. Arm i of K has the true mean
// 0.9 - 0.8 i / (K - 1), which for K = 9 is the paper's instance, and unit Gaussian noise.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

enum class Policy { ucb, epsilon_greedy, thompson_sampling };

struct Study {
    Policy policy;
    int arms;
    std::int64_t horizon;
    std::int64_t replications;
    std::uint64_t seed;
    double c;
    double slope;
    std::vector<double> means;  // the true ones
};

// What one replication comes to. The pulls per arm are in the arrays of the references.
struct Totals {
    double regret = 0.0;
    double compensation = 0.0;
    double compensated_pulls = 0.0;
    double total_drift = 0.0;
};

// Mean and standard error over replications (Welford).
class Average {
public:
    void add(double x) {
        count_ += 1.0;
        const double off = x - mean_;
        mean_ += off / count_;
        squares_ += off * (x - mean_);
    }
    double mean() const { return mean_; }
    double sem() const {
        return count_ > 1.0 ? std::sqrt(squares_ / (count_ - 1.0) / count_) : 0.0;
    }

private:
    double count_ = 0.0, mean_ = 0.0, squares_ = 0.0;
};

inline double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline Study study_from(int argc, char** argv) {
    const char* usage =
        "usage: %s ucb|epsilon_greedy|thompson_sampling K T replications seed c l\n";
    if (argc != 8) {
        std::fprintf(stderr, usage, argv[0]);
        std::exit(2);
    }
    Study study;
    const std::string policy = argv[1];
    if (policy == "ucb") {
        study.policy = Policy::ucb;
    } else if (policy == "epsilon_greedy") {
        study.policy = Policy::epsilon_greedy;
    } else if (policy == "thompson_sampling") {
        study.policy = Policy::thompson_sampling;
    } else {
        std::fprintf(stderr, usage, argv[0]);
        std::exit(2);
    }
    study.arms = std::atoi(argv[2]);
    study.horizon = std::atoll(argv[3]);
    study.replications = std::atoll(argv[4]);
    study.seed = std::strtoull(argv[5], nullptr, 10);
    study.c = std::atof(argv[6]);
    study.slope = std::atof(argv[7]);
    if (study.arms < 2 || study.horizon < study.arms || study.replications < 1) {
        std::fprintf(stderr, "%s: takes K >= 2, T >= K and replications >= 1\n", argv[0]);
        std::exit(2);
    }
    for (int i = 0; i < study.arms; ++i) {
        study.means.push_back(0.9 - 0.8 * i / (study.arms - 1));
    }
    return study;
}

// Run all replications, `replicate(r)` for each, and print how long it took and what came out.
template <class Replicate>
void measure(const Study& study, Replicate replicate) {
    Average regret, compensation, compensated_pulls, total_drift;
    const double start = cpu_seconds();
    for (std::int64_t r = 0; r < study.replications; ++r) {
        const Totals totals = replicate(r);
        regret.add(totals.regret);
        compensation.add(totals.compensation);
        compensated_pulls.add(totals.compensated_pulls);
        total_drift.add(totals.total_drift);
    }
    const double seconds = cpu_seconds() - start;
    std::printf(
        "{\"cpu_seconds\": %.9g, \"regret_mean\": %.17g, \"compensation_mean\": %.17g, "
        "\"compensated_pulls_mean\": %.17g, \"total_drift_mean\": %.17g, "
        "\"regret_sem\": %.17g, \"compensation_sem\": %.17g}\n",
        seconds, regret.mean(), compensation.mean(), compensated_pulls.mean(),
        total_drift.mean(), regret.sem(), compensation.sem());
}
