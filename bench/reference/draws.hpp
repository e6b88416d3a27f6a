// Random numbers as both tuned references draw them, with nothing kept in memory that fits into
// registers.

#pragma once

#include <cmath>
#include <cstdint>

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
