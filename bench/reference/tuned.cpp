// The same study by an expert, still one replication at a time and one round after the other:
// xoshiro256++ with its state in registers, a ziggurat for normals, tables of sqrt(2 log t),
// 1 / n and 1 / sqrt(n), the greedy arm kept up to date rather than searched for, flat arrays,
// nothing allocated in the loop. No SIMD over replications, no skipping of rounds or arms.
//
//     g++ -std=c++17 -O3 -march=native -o tuned tuned.cpp
//
// The tables are made before the clock starts: replications share them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "study.hpp"

// xoshiro256++ (Blackman and Vigna 2021). Passed and kept by value: as long as nobody takes its
// address, the compiler holds the four words in registers.
struct Generator {
    std::uint64_t s0, s1, s2, s3;

    // The stream of one replication, by SplitMix64 (Steele, Lea and Flood 2014).
    Generator(std::uint64_t seed, std::uint64_t replication) {
        std::uint64_t state = mix(seed + golden) ^ mix(replication);
        s0 = mix(state += golden);
        s1 = mix(state += golden);
        s2 = mix(state += golden);
        s3 = mix(state += golden);
    }

    std::uint64_t word() {
        const std::uint64_t result = rotate(s0 + s3, 23) + s0;
        const std::uint64_t shifted = s1 << 17;
        s2 ^= s0;
        s3 ^= s1;
        s1 ^= s2;
        s0 ^= s3;
        s2 ^= shifted;
        s3 = rotate(s3, 45);
        return result;
    }

    // Uniform on [0, 1), a multiple of 2^-53.
    double uniform() {
        return static_cast<double>(static_cast<std::int64_t>(word() >> 11)) * 0x1p-53;
    }

    // Uniform on 0 ... count - 1: the high half of a product (the bias is below count / 2^64).
    int below(int count) {
        const auto product = static_cast<unsigned __int128>(word()) * static_cast<unsigned>(count);
        return static_cast<int>(product >> 64);
    }

private:
    static constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;
    static std::uint64_t rotate(std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
    static std::uint64_t mix(std::uint64_t x) {
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
        return x ^ (x >> 31);
    }
};

// The ziggurat (Marsaglia and Tsang 2000): the half bell curve under 256 layers of equal area.
class Ziggurat {
public:
    Ziggurat() {
        const auto density = [](double x) { return std::exp(-0.5 * x * x); };
        // The area of each layer: the lowest is a rectangle up to `tail` and all that lies beyond.
        const double beyond = std::sqrt(std::acos(-1.0) / 2) * std::erfc(tail / std::sqrt(2.0));
        const double area = tail * density(tail) + beyond;
        edge_[0] = area / density(tail);
        edge_[1] = tail;
        for (int i = 2; i < 256; ++i) {
            edge_[i] = std::sqrt(-2.0 * std::log(area / edge_[i - 1] + density(edge_[i - 1])));
        }
        edge_[256] = 0.0;
        for (int i = 0; i <= 256; ++i) {
            density_[i] = density(edge_[i]);
        }
        for (int i = 0; i < 256; ++i) {
            layer_[i] = {edge_[i] * 0x1p-52, edge_[i + 1]};
        }
    }

    // A standard normal. The low byte of a word picks the layer, the top 53 bits, signed, the
    // place in it; 98.8 % of the time that is all.
    double operator()(Generator& rng) const {
        const std::uint64_t bits = rng.word();
        const Layer layer = layer_[bits & 255];
        const double x = static_cast<double>(static_cast<std::int64_t>(bits) >> 11) * layer.scale;
        if (__builtin_expect(std::fabs(x) < layer.inner, 1)) {
            return x;
        }
        const Drawn drawn = at_the_edge(rng, static_cast<int>(bits & 255), x);
        rng = drawn.rng;
        return drawn.x;
    }

private:
    static constexpr double tail = 3.6541528853610088;  // for 256 layers
    struct Layer {
        double scale, inner;
    };
    struct Drawn {
        Generator rng;
        double x;
    };

    // The rest: between the curve and the layer's inner rectangle, or in the tail. The generator
    // comes and goes by value, so that the caller's stays in registers.
    __attribute__((noinline)) Drawn at_the_edge(Generator rng, int i, double x) const {
        for (;;) {
            if (i == 0) {
                for (;;) {  // Marsaglia's exact tail
                    const double beyond = -std::log(1.0 - rng.uniform()) / tail;
                    if (-2.0 * std::log(1.0 - rng.uniform()) > beyond * beyond) {
                        return {rng, std::copysign(tail + beyond, x)};
                    }
                }
            }
            const double height = density_[i] + rng.uniform() * (density_[i + 1] - density_[i]);
            if (height < std::exp(-0.5 * x * x)) {
                return {rng, x};
            }
            const std::uint64_t bits = rng.word();
            i = static_cast<int>(bits & 255);
            x = static_cast<double>(static_cast<std::int64_t>(bits) >> 11) * layer_[i].scale;
            if (std::fabs(x) < layer_[i].inner) {
                return {rng, x};
            }
        }
    }

    Layer layer_[256];
    double edge_[257], density_[257];
};

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

// Let a rare case stay a branch. The compiler would make it a conditional move, and then each
// comparison waits for the one before; a branch that is guessed right waits for nothing.
inline void keep_branch(int& value) { asm volatile("" : "+r"(value)); }

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
