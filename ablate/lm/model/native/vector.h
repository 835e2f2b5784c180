// Vectors as wide as the processor's registers, and the functions that gates and softmaxes need, by
// GCC's and Clang's vector extensions: the same source for AVX-512, AVX2, NEON and later ones.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr long WIDTH = 16, MOST_ROWS = 10;  // 32 registers: 10 x 2 sums, 2 for B, the rest spare
#elif defined(__AVX2__)
constexpr long WIDTH = 8, MOST_ROWS = 6;  // 16 registers
#else
constexpr long WIDTH = 4, MOST_ROWS = 10;  // NEON has 32
#endif

typedef float Vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

// How much of a vector is used: all of it, or its first numbers (at the end of a row).
struct Whole {};
struct Part { long numbers; };

inline Vector load(const float* from, Whole = {}) { return *(const Vector*)from; }
inline void store(float* to, Vector x, Whole = {}) { *(Vector*)to = x; }
inline Vector load(const float* from, Part part) {
  Vector x{};
  std::memcpy(&x, from, 4 * part.numbers);
  return x;
}
inline void store(float* to, Vector x, Part part) { std::memcpy(to, &x, 4 * part.numbers); }

// Numbers in bfloat16: the upper half of a float. Stored rounded to the nearest, ties to even.
typedef uint16_t Halves __attribute__((vector_size(2 * WIDTH), aligned(2), may_alias));
typedef uint32_t Pattern __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

inline Vector widened(Halves x) { return (Vector)(__builtin_convertvector(x, Pattern) << 16); }
inline Vector load(const uint16_t* from, Whole = {}) { return widened(*(const Halves*)from); }
inline Vector load(const uint16_t* from, Part part) {
  Halves x{};
  std::memcpy(&x, from, 2 * part.numbers);
  return widened(x);
}
inline Halves narrowed(Vector x) {
  const Pattern bits = (Pattern)x, even = (bits >> 16) & 1;
  return __builtin_convertvector((bits + 0x7fff + even) >> 16, Halves);
}
inline void store(uint16_t* to, Vector x, Whole = {}) { *(Halves*)to = narrowed(x); }
inline void store(uint16_t* to, Vector x, Part part) {
  const Halves half = narrowed(x);
  std::memcpy(to, &half, 2 * part.numbers);
}

// Calls work(at, how much) along a row.
template <class Work>
inline void sweep(long numbers, Work work) {
  long at = 0;
  for (; at + WIDTH <= numbers; at += WIDTH) work(at, Whole{});
  if (at < numbers) work(at, Part{numbers - at});
}

inline Vector all(float x) { return Vector{} + x; }
inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

inline float sum(Vector x) {
  float total = 0;
  for (long at = 0; at < WIDTH; at++) total += x[at];
  return total;
}

// e^x to 2e-7 for x up to 88; 0 below -87; NaN stays NaN.
inline Vector exp_below_88(Vector x) {
  const Vector low = all(-87.0f);
  const Vector kept = x < low ? low : x;
  const Vector magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  const Vector shifted = kept * 1.44269504088896341f + magic;
  const Vector whole = shifted - magic;
  const Vector rest = (kept - whole * 0.693359375f) - whole * -2.12194440e-4f;
  Vector p = all(1.9875691500e-4f);
  p = p * rest + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  p = p * (rest * rest) + rest + 1.0f;
  const Bits scaled = (Bits)p + ((Bits)shifted << 23);
  return x < low ? Vector{} : (x == x ? (Vector)scaled : x);
}

inline Vector exp(Vector x) {
  const Vector high = all(88.5f);
  return x > high ? all(__builtin_inff()) : exp_below_88(x);
}

inline Vector sigmoid(Vector x) { return 1.0f / (1.0f + exp(-x)); }

// By a polynomial near 0, where 1 - 2 / (e^2x + 1) would lose precision.
inline Vector tanh(Vector x) {
  const Vector square = x * x;
  Vector p = all(-5.70498872745e-3f);
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const Vector near = p * square * x + x;
  const Vector far = 1.0f - 2.0f / (exp(2.0f * x) + 1.0f);
  return square < 0.390625f ? near : far;
}
