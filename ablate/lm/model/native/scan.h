// x_t = w_t + r_t x_{t-1}, every unit independently, and its backward pass: real or complex, with
// one r for all steps or one for each.
#pragma once
#include <algorithm>
#include <type_traits>
#include "vector.h"

// Calls work(at, how much, vectors) over a range of units, several vectors at a time, so that their
// states stay in registers through all steps.
template <class Work>
inline void by_units(long first, long last, Work work) {
  constexpr long MANY = 8;
  for (; first + MANY * WIDTH <= last; first += MANY * WIDTH)
    work(first, Whole{}, std::integral_constant<long, MANY>{});
  for (; first < last; first += WIDTH)
    if (last - first >= WIDTH) work(first, Whole{}, std::integral_constant<long, 1>{});
    else work(first, Part{last - first}, std::integral_constant<long, 1>{});
}

// A number's product with a factor, and with the factor's conjugate.
struct Real {
  typedef Vector Factor;
  static constexpr long FLOATS = 1;
  static inline Factor factor(Vector a) { return a; }
  static inline Vector times(Factor a, Vector x) { return a * x; }
  static inline Vector back(Factor a, Vector x) { return a * x; }
};

// Real and imaginary parts alternate, as in torch's complex tensors: pairs of floats as one number
// of 64 bits, whose lower half is the real part.
typedef uint64_t Pairs __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

struct Complex {
  struct Factor { Vector real, cross; };  // (re, re), and (-im, im)
  static constexpr long FLOATS = 2;
  static inline Factor factor(Vector a) {
    const Pairs pairs = (Pairs)a, low = pairs << 32, high = pairs >> 32;
    const Pairs negative = Pairs{} + 0x80000000u;
    return {(Vector)(low | (low >> 32)), (Vector)((high | (high << 32)) ^ negative)};
  }
  static inline Vector swapped(Vector x) {
    return (Vector)(((Pairs)x << 32) | ((Pairs)x >> 32));
  }
  static inline Vector times(Factor a, Vector x) { return a.real * x + a.cross * swapped(x); }
  static inline Vector back(Factor a, Vector x) { return a.real * x - a.cross * swapped(x); }
};

template <class Number, bool EACH_STEP>
inline void forward_scan(long steps, long units, const float* w, const float* before,
                         const float* r, float* x, long first, long last) {
  by_units(first, last, [&](long at, auto how, auto vectors) {
    constexpr long N = decltype(vectors)::value;
    Vector state[N];
    typename Number::Factor keep[N];
    for (long j = 0; j < N; j++) {
      state[j] = load(before + at + j * WIDTH, how);
      keep[j] = Number::factor(load(r + at + j * WIDTH, how));
    }
    for (long t = 0; t < steps; t++)
      for (long j = 0; j < N; j++) {
        const long here = t * units + at + j * WIDTH;
        if (EACH_STEP) keep[j] = Number::factor(load(r + here, how));
        state[j] = load(w + here, how) + Number::times(keep[j], state[j]);
        store(x + here, state[j], how);
      }
  });
}

// d_r has the size of r; where one r is for all steps, it is their sum.
template <class Number, bool EACH_STEP>
inline void backward_scan(long steps, long units, const float* given, const float* x,
                          const float* before, const float* r, float* slope, float* d_before,
                          float* d_r, long first, long last) {
  by_units(first, last, [&](long at, auto how, auto vectors) {
    constexpr long N = decltype(vectors)::value;
    Vector later[N]{}, total[N]{};
    typename Number::Factor keep[N];
    for (long j = 0; j < N; j++) keep[j] = Number::factor(load(r + at + j * WIDTH, how));
    for (long t = steps - 1; t >= 0; t--)
      for (long j = 0; j < N; j++) {
        const long column = at + j * WIDTH, here = t * units + column;
        later[j] = load(given + here, how) + Number::back(keep[j], later[j]);  // r of step t + 1
        store(slope + here, later[j], how);
        const Vector last_x = load(t ? x + here - units : before + column, how);
        const Vector of_r = Number::back(Number::factor(last_x), later[j]);
        if (EACH_STEP) {
          store(d_r + here, of_r, how);
          keep[j] = Number::factor(load(r + here, how));
        } else total[j] += of_r;
      }
    for (long j = 0; j < N; j++) {
      store(d_before + at + j * WIDTH, Number::back(keep[j], later[j]), how);
      if (!EACH_STEP) store(d_r + at + j * WIDTH, total[j], how);
    }
  });
}

// `units` are numbers, of one float or two; each: whether every step has its own r.
template <class Number>
inline void any_forward(long steps, long units, long each, const float* w, const float* before,
                        const float* r, float* x, long first, long last) {
  const auto scan = each ? forward_scan<Number, true> : forward_scan<Number, false>;
  constexpr long K = Number::FLOATS;
  scan(steps, K * units, w, before, r, x, K * first, K * last);
}

template <class Number>
inline void any_backward(long steps, long units, long each, const float* given, const float* x,
                         const float* before, const float* r, float* slope, float* d_before,
                         float* d_r, long first, long last) {
  const auto scan = each ? backward_scan<Number, true> : backward_scan<Number, false>;
  constexpr long K = Number::FLOATS;
  scan(steps, K * units, given, x, before, r, slope, d_before, d_r, K * first, K * last);
}

extern "C" void scan_forward(long steps, long units, long each, const float* w,
                             const float* before, const float* r, float* x, long first, long last,
                             long) {
  any_forward<Real>(steps, units, each, w, before, r, x, first, last);
}

extern "C" void complex_scan_forward(long steps, long units, long each, const float* w,
                                     const float* before, const float* r, float* x, long first,
                                     long last, long) {
  any_forward<Complex>(steps, units, each, w, before, r, x, first, last);
}

// slope: dL/dw, of all steps; d_before has the size of one step.
extern "C" void scan_backward(long steps, long units, long each, const float* given,
                              const float* x, const float* before, const float* r, float* slope,
                              float* d_before, float* d_r, long first, long last, long) {
  any_backward<Real>(steps, units, each, given, x, before, r, slope, d_before, d_r, first, last);
}

extern "C" void complex_scan_backward(long steps, long units, long each, const float* given,
                                      const float* x, const float* before, const float* r,
                                      float* slope, float* d_before, float* d_r, long first,
                                      long last, long) {
  any_backward<Complex>(steps, units, each, given, x, before, r, slope, d_before, d_r, first,
                        last);
}
