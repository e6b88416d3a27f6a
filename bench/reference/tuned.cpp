// The same study, tuned as one would: xoshiro256++ with its state in registers, a ziggurat for
// normals, a table of sqrt(2 log t), 1 / sqrt(n) stored with each arm, flat arrays, nothing
// allocated in the loop. Every round searches all arms, plainly, for the policy's arm and for the
// greedy one.
//
//     g++ -std=c++17 -O3 -march=native -o tuned tuned.cpp
//
// The table is made before the clock starts: replications share it.

#include <cmath>
#include <limits>
#include <vector>

#include "branch.hpp"
#include "draws.hpp"
#include "study.hpp"

// Everything that replications share (made once) or reuse.
struct Room {
    explicit Room(const Study& study)
        : growth(study.horizon + 1), pulls(study.arms), sums(study.arms), averages(study.arms),
          widths(study.arms) {
        for (std::int64_t t = 1; t <= study.horizon; ++t) {
            growth[t] = std::sqrt(2.0 * std::log(static_cast<double>(t)));
        }
    }

    Ziggurat normal;
    std::vector<double> growth;  // sqrt(2 log t)
    std::vector<double> pulls, sums, averages;
    std::vector<double> widths;  // of each arm: 1 / sqrt(n), for Thompson 1 / sqrt(n + 1)
};

inline int highest(const double* values, int arms) {
    int best = 0;
    for (int i = 1; i < arms; ++i) {
        if (values[i] > values[best]) {
            best = i;
            keep_branch(best);
        }
    }
    return best;
}

// UCB: the highest m + sqrt(2 log t / n).
inline int ucb(const double* averages, const double* widths, int arms, double growth) {
    int best = 0;
    double top = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < arms; ++i) {
        const double bound = averages[i] + growth * widths[i];
        if (bound > top) {
            best = i;
            top = bound;
            keep_branch(best);
        }
    }
    return best;
}

// Thompson: the highest of draws from N(m, 1 / (n + 1)).
inline int thompson_sampling(const double* averages, const double* widths, int arms,
                             const Ziggurat& normal, Generator& rng) {
    int best = 0;
    double top = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < arms; ++i) {
        const double sample = averages[i] + widths[i] * normal(rng);
        if (sample > top) {
            best = i;
            top = sample;
            keep_branch(best);
        }
    }
    return best;
}

// One replication of T rounds.
template <Policy policy>
Totals replicate(const Study& study, Room& room, std::int64_t replication) {
    const int arms = study.arms;
    const std::int64_t horizon = study.horizon;
    const double* const means = study.means.data();
    const double* const growth = room.growth.data();
    double* const pulls = room.pulls.data();
    double* const sums = room.sums.data();
    double* const averages = room.averages.data();
    double* const widths = room.widths.data();
    const Ziggurat& normal = room.normal;
    constexpr double prior_pulls = policy == Policy::thompson_sampling ? 1.0 : 0.0;

    Generator rng(study.seed, static_cast<std::uint64_t>(replication));
    for (int i = 0; i < arms; ++i) {  // each arm once first, unpaid
        pulls[i] = 1.0;
        sums[i] = averages[i] = means[i] + normal(rng);
        widths[i] = 1.0 / std::sqrt(1.0 + prior_pulls);
    }

    Totals totals;
    for (std::int64_t t = arms + 1; t <= horizon; ++t) {
        const int greedy = highest(averages, arms);
        int arm = greedy;
        if constexpr (policy == Policy::ucb) {
            arm = ucb(averages, widths, arms, growth[t]);
        } else if constexpr (policy == Policy::epsilon_greedy) {
            if (rng.uniform() * static_cast<double>(t) < study.c * arms) {
                arm = rng.below(arms);
            }
        } else {
            arm = thompson_sampling(averages, widths, arms, normal, rng);
        }
        double feedback = means[arm] + normal(rng);
        const double payment = averages[greedy] - averages[arm];
        if (payment > 0.0) {
            const double drift = study.slope * payment;
            feedback += drift;
            totals.compensation += payment;
            totals.total_drift += drift;
            totals.compensated_pulls += 1.0;
        }
        pulls[arm] += 1.0;
        sums[arm] += feedback;
        averages[arm] = sums[arm] / pulls[arm];
        if constexpr (policy != Policy::epsilon_greedy) {
            widths[arm] = 1.0 / std::sqrt(pulls[arm] + prior_pulls);
        }
    }
    for (int i = 0; i < arms; ++i) {  // the first arm is the best
        totals.regret += (means[0] - means[i]) * pulls[i];
    }
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
