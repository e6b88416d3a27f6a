// The same study by somebody who does this for a living, still one replication at a time and one
// round after the other. On top of what tuned.cpp does: the greedy arm is kept up to date rather
// than searched for, the search for the highest bound starts from the arm of the last round and
// stays a branch, and a table of 1 / n saves the division. No SIMD over replications, no skipping
// of rounds or arms.
//
//     g++ -std=c++17 -O3 -march=native -o expert expert.cpp
//
// The tables are made before the clock starts: replications share them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "branch.hpp"
#include "draws.hpp"
#include "study.hpp"

// Everything that replications share (made once) or reuse.
struct Room {
    explicit Room(const Study& study)
        : growth(study.horizon + 1), inverse(study.horizon + 2), inverse_root(study.horizon + 2),
          pulls(study.arms), sums(study.arms), averages(study.arms), widths(study.arms),
          samples(study.arms) {
        for (std::int64_t n = 1; n <= study.horizon; ++n) {
            growth[n] = std::sqrt(2.0 * std::log(static_cast<double>(n)));
        }
        for (std::int64_t n = 1; n <= study.horizon + 1; ++n) {
            inverse[n] = 1.0 / static_cast<double>(n);
            inverse_root[n] = 1.0 / std::sqrt(static_cast<double>(n));
        }
    }

    Ziggurat normal;
    std::vector<double> growth;                 // sqrt(2 log t)
    std::vector<double> inverse, inverse_root;  // 1 / n, 1 / sqrt(n)
    std::vector<std::int64_t> pulls;
    std::vector<double> sums, averages;
    std::vector<double> widths;   // of each arm: 1 / sqrt(n), for Thompson 1 / sqrt(n + 1)
    std::vector<double> samples;  // Thompson's
};

// The arm that players choose by themselves, the one with the highest average, without a search
// in most rounds: `rival` is never below the average of any other arm.
struct Leader {
    int arm = 0;
    double average = 0.0;
    double rival = 0.0;

    void search(const double* averages, int arms) {
        arm = 0;
        average = averages[0];
        rival = -std::numeric_limits<double>::infinity();
        for (int i = 1; i < arms; ++i) {
            if (__builtin_expect(averages[i] > rival, 0)) {
                keep_branch(arm);
                if (averages[i] > average) {
                    rival = average;
                    average = averages[i];
                    arm = i;
                } else {
                    rival = averages[i];
                }
            }
        }
    }

    // Arm `changed` has a new average.
    void update(int changed, const double* averages, int arms) {
        const double now = averages[changed];
        if (changed == arm) {
            average = now;
            if (now < rival) {
                search(averages, arms);
            }
        } else if (now > average) {
            rival = average;
            average = now;
            arm = changed;
        } else if (now > rival) {
            rival = now;
        }
    }
};

// UCB: the highest m + sqrt(2 log t / n). The search begins with the arm of the last round,
// which mostly is that of this one: then no other comparison succeeds.
inline int ucb(const double* averages, const double* widths, int arms, double growth, int last) {
    int best = last;
    double top = averages[last] + growth * widths[last];
    for (int i = 0; i < arms; ++i) {
        const double bound = averages[i] + growth * widths[i];
        if (__builtin_expect(bound > top, 0)) {
            best = i;
            top = bound;
            keep_branch(best);
        }
    }
    return best;
}

// Thompson: the highest of draws from N(m, 1 / (n + 1)). First its value, then where it is: one
// pass would guess wrong too often, as draws change their order every round.
inline int thompson_sampling(const double* averages, const double* widths, int arms,
                             double* samples, const Ziggurat& normal, Generator& rng) {
    double top = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < arms; ++i) {
        samples[i] = averages[i] + widths[i] * normal(rng);
        top = std::max(top, samples[i]);
    }
    int best = 0;
    while (samples[best] != top) {
        ++best;
    }
    return best;
}

// One replication of T rounds.
template <Policy policy>
Totals replicate(const Study& study, Room& room, std::int64_t replication) {
    // Locals for everything the loop reads: the compiler need not ask whether a store changed it.
    const int arms = study.arms;
    const std::int64_t horizon = study.horizon;
    const double slope = study.slope;
    const double c_arms = study.c * arms;
    const double* const means = study.means.data();
    const double* const growth = room.growth.data();
    const double* const inverse = room.inverse.data();
    const double* const inverse_root = room.inverse_root.data();
    std::int64_t* const pulls = room.pulls.data();
    double* const sums = room.sums.data();
    double* const averages = room.averages.data();
    double* const widths = room.widths.data();
    double* const samples = room.samples.data();
    const Ziggurat& normal = room.normal;
    constexpr int prior_pulls = policy == Policy::thompson_sampling ? 1 : 0;

    Generator rng(study.seed, static_cast<std::uint64_t>(replication));
    for (int i = 0; i < arms; ++i) {  // each arm once first, unpaid
        pulls[i] = 1;
        sums[i] = averages[i] = means[i] + normal(rng);
        widths[i] = inverse_root[1 + prior_pulls];
    }
    Leader greedy;
    greedy.search(averages, arms);

    double compensation = 0.0, total_drift = 0.0;
    std::int64_t compensated_pulls = 0;
    int arm = 0;
    for (std::int64_t t = arms + 1; t <= horizon; ++t) {
        if constexpr (policy == Policy::ucb) {
            arm = ucb(averages, widths, arms, growth[t], arm);
        } else if constexpr (policy == Policy::epsilon_greedy) {
            // u < min(1, c K / t), without the division
            const bool explore = rng.uniform() * static_cast<double>(t) < c_arms;
            arm = explore ? rng.below(arms) : greedy.arm;
        } else {
            arm = thompson_sampling(averages, widths, arms, samples, normal, rng);
        }
        double feedback = means[arm] + normal(rng);
        const double payment = greedy.average - averages[arm];
        if (payment > 0.0) {
            const double drift = slope * payment;
            feedback += drift;
            compensation += payment;
            total_drift += drift;
            ++compensated_pulls;
        }
        const std::int64_t n = ++pulls[arm];
        sums[arm] += feedback;
        averages[arm] = sums[arm] * inverse[n];
        if constexpr (policy != Policy::epsilon_greedy) {
            widths[arm] = inverse_root[n + prior_pulls];
        }
        greedy.update(arm, averages, arms);
    }

    Totals totals;
    for (int i = 0; i < arms; ++i) {  // the first arm is the best
        totals.regret += (means[0] - means[i]) * static_cast<double>(pulls[i]);
    }
    totals.compensation = compensation;
    totals.compensated_pulls = static_cast<double>(compensated_pulls);
    totals.total_drift = total_drift;
    return totals;
}

template <Policy policy>
void run(const Study& study) {
    Room room(study);
    measure(study, [&](std::int64_t r) { return replicate<policy>(study, room, r); });
}

int main(int argc, char** argv) {
    const Study study = study_from(argc, argv);
    switch (study.policy) {
        case Policy::ucb:
            run<Policy::ucb>(study);
            break;
        case Policy::epsilon_greedy:
            run<Policy::epsilon_greedy>(study);
            break;
        case Policy::thompson_sampling:
            run<Policy::thompson_sampling>(study);
            break;
    }
    return 0;
}
