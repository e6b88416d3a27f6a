// The study as a textbook would write it: the standard library's generator and distributions, one
// function for each policy, every index worked out anew in every round.
//
//     g++ -std=c++17 -O3 -march=native -o textbook textbook.cpp

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "study.hpp"

class Simulation {
public:
    explicit Simulation(const Study& study) : study_(study), engine_(study.seed) {}

    // One replication of T rounds.
    Totals run() {
        pulls_.assign(study_.arms, 0);
        sums_.assign(study_.arms, 0.0);
        averages_.assign(study_.arms, 0.0);
        const double best_mean = *std::max_element(study_.means.begin(), study_.means.end());
        Totals totals;
        for (std::int64_t t = 1; t <= study_.horizon; ++t) {
            int arm;
            double payment = 0.0;
            if (t <= study_.arms) {
                arm = static_cast<int>(t - 1);  // each arm once first, unpaid
            } else {
                arm = select(t);
                payment = averages_[greedy()] - averages_[arm];
            }
            const double drift = study_.slope * payment;
            const double feedback = study_.means[arm] + normal_(engine_) + drift;
            pulls_[arm] += 1;
            sums_[arm] += feedback;
            averages_[arm] = sums_[arm] / static_cast<double>(pulls_[arm]);
            totals.regret += best_mean - study_.means[arm];
            totals.compensation += payment;
            totals.total_drift += drift;
            if (payment > 0.0) {
                totals.compensated_pulls += 1.0;
            }
        }
        return totals;
    }

private:
    // The arm that a player would choose: the highest average, of equals the first.
    int greedy() const {
        const auto best = std::max_element(averages_.begin(), averages_.end());
        return static_cast<int>(best - averages_.begin());
    }

    int select(std::int64_t t) {
        switch (study_.policy) {
            case Policy::ucb:
                return ucb(t);
            case Policy::epsilon_greedy:
                return epsilon_greedy(t);
            default:
                return thompson_sampling();
        }
    }

    int ucb(std::int64_t t) const {
        int best = 0;
        double top = -std::numeric_limits<double>::infinity();
        for (int i = 0; i < study_.arms; ++i) {
            const double n = static_cast<double>(pulls_[i]);
            const double bound = averages_[i] + std::sqrt(2.0 * std::log(t) / n);
            if (bound > top) {
                best = i;
                top = bound;
            }
        }
        return best;
    }

    int epsilon_greedy(std::int64_t t) {
        const double epsilon = std::min(1.0, study_.c * study_.arms / static_cast<double>(t));
        if (uniform_(engine_) < epsilon) {
            return any_arm_(engine_);
        }
        return greedy();
    }

    int thompson_sampling() {
        int best = 0;
        double top = -std::numeric_limits<double>::infinity();
        for (int i = 0; i < study_.arms; ++i) {
            const double deviation = 1.0 / std::sqrt(static_cast<double>(pulls_[i] + 1));
            const double sample = averages_[i] + deviation * normal_(engine_);
            if (sample > top) {
                best = i;
                top = sample;
            }
        }
        return best;
    }

    Study study_;
    std::mt19937_64 engine_;
    std::normal_distribution<double> normal_{0.0, 1.0};
    std::uniform_real_distribution<double> uniform_{0.0, 1.0};
    std::uniform_int_distribution<int> any_arm_{0, study_.arms - 1};
    std::vector<std::int64_t> pulls_;
    std::vector<double> sums_, averages_;
};

int main(int argc, char** argv) {
    const Study study = study_from(argc, argv);
    Simulation simulation(study);
    measure(study, [&](std::int64_t) { return simulation.run(); });
    return 0;
}
