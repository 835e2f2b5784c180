// x_t = w_t + r x_{t-1}, every unit independently, and its backward pass.
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

extern "C" void scan_forward(long steps, long units, const float* w, const float* before,
                             const float* r, float* x, long first, long last, long) {
  by_units(first, last, [&](long at, auto how, auto vectors) {
    constexpr long N = decltype(vectors)::value;
    Vector state[N], keep[N];
    for (long j = 0; j < N; j++) {
      state[j] = load(before + at + j * WIDTH, how);
      keep[j] = load(r + at + j * WIDTH, how);
    }
    for (long t = 0; t < steps; t++)
      for (long j = 0; j < N; j++) {
        const long here = t * units + at + j * WIDTH;
        state[j] = load(w + here, how) + keep[j] * state[j];
        store(x + here, state[j], how);
      }
  });
}

// slope: dL/dw, of all steps; d_before and d_r have the size of one step.
extern "C" void scan_backward(long steps, long units, const float* given, const float* x,
                              const float* before, const float* r, float* slope, float* d_before,
                              float* d_r, long first, long last, long) {
  by_units(first, last, [&](long at, auto how, auto vectors) {
    constexpr long N = decltype(vectors)::value;
    Vector later[N]{}, total[N]{}, keep[N];
    for (long j = 0; j < N; j++) keep[j] = load(r + at + j * WIDTH, how);
    for (long t = steps - 1; t >= 0; t--)
      for (long j = 0; j < N; j++) {
        const long column = at + j * WIDTH, here = t * units + column;
        later[j] = load(given + here, how) + keep[j] * later[j];
        store(slope + here, later[j], how);
        total[j] += later[j] * load(t ? x + here - units : before + column, how);
      }
    for (long j = 0; j < N; j++) {
      store(d_before + at + j * WIDTH, keep[j] * later[j], how);
      store(d_r + at + j * WIDTH, total[j], how);
    }
  });
}
