// Softmaxes and losses over rows of logits; each row is processed while it is in the cache.
#pragma once
#include <cmath>
#include <vector>
#include "vector.h"

// The largest number of a row; a NaN reaches the loss through the sum of exponentials.
struct Peak {
  Vector top = all(-__builtin_inff());
  void see(Vector x, Whole) { top = larger(x, top); }
  void see(Vector x, Part part) {
    for (long n = 0; n < part.numbers; n++) top[n] = x[n] > top[n] ? x[n] : top[n];
  }
  float value() const {
    float found = -__builtin_inff();
    for (long n = 0; n < WIDTH; n++) found = top[n] > found ? top[n] : found;
    return found;
  }
};

inline float peak_of(long words, const float* row) {
  Peak peak;
  sweep(words, [&](long at, auto how) { peak.see(load(row + at, how), how); });
  return peak.value();
}

// The valid part of a vector, with 0 elsewhere, for sums.
inline Vector meant(Vector x, Whole) { return x; }
inline Vector meant(Vector x, Part part) {
  for (long at = part.numbers; at < WIDTH; at++) x[at] = 0;
  return x;
}

// logits become e^(logit - peak); also returns their sum and the target's logit minus the peak.
// A target applies to `experts` rows.
extern "C" void exponentials(long words, long experts, float* logits, const int64_t* targets,
                             float* sums, float* targets_under_peak, long first, long last, long) {
  for (long number = first; number < last; number++) {
    float* row = logits + number * words;
    const float peak = peak_of(words, row);
    targets_under_peak[number] = row[targets[number / experts]] - peak;
    Vector total{};
    sweep(words, [&](long at, auto how) {
      const Vector e = exp_below_88(load(row + at, how) - peak);
      store(row + at, e, how);
      total += meant(e, how);
    });
    sums[number] = sum(total);
  }
}

// The same of logits in bfloat16, to which the bias is added before. They become the slopes of the
// loss but for a factor, e^(logit - peak) - sum at the target, in one pass while the row is in the
// cache; the difference is rounded once.
extern "C" void half_slopes(long words, long experts, uint16_t* logits, const float* bias,
                            const int64_t* targets, float* sums, float* targets_under_peak,
                            long first, long last, long) {
  std::vector<float> biased(words);
  for (long number = first; number < last; number++) {
    uint16_t* row = logits + number * words;
    Peak highest;
    sweep(words, [&](long at, auto how) {
      const Vector x = bias ? load(row + at, how) + load(bias + at, how) : load(row + at, how);
      store(biased.data() + at, x, how);
      highest.see(x, how);
    });
    const long target = targets[number / experts];
    const float peak = highest.value(), at_target = biased[target] - peak;
    Vector total{};
    sweep(words, [&](long at, auto how) {
      const Vector e = exp_below_88(load(biased.data() + at, how) - peak);
      store(row + at, e, how);
      total += meant(e, how);
    });
    targets_under_peak[number] = at_target;
    sums[number] = sum(total);
    store(row + target, exp_below_88(all(at_target)) - sums[number], Part{1});
  }
}

// Scales the logits; fills in ytilde, their softmax, and its negative entropy.
extern "C" void soft_targets(long words, float scale, float* logits, float* ytilde, float* negative,
                             long first, long last, long) {
  for (long number = first; number < last; number++) {
    float *row = logits + number * words, *soft = ytilde + number * words;
    sweep(words, [&](long at, auto how) { store(row + at, load(row + at, how) * scale, how); });
    const float peak = peak_of(words, row);
    Vector total{}, weighed{};
    sweep(words, [&](long at, auto how) {
      const Vector x = load(row + at, how), e = exp_below_88(x - peak);
      store(soft + at, e, how);
      total += meant(e, how);
      weighed += meant(e * x, how);
    });
    const float all_of_it = sum(total);
    sweep(words, [&](long at, auto how) { store(soft + at, load(soft + at, how) / all_of_it, how); });
    negative[number] = sum(weighed) / all_of_it - peak - std::log(all_of_it);
  }
}

// of_nll * J + of_divergence * J_aug of every token. The scores become their own gradient; every
// thread adds up its own gradient of the bias, [parts, V]. soft_of: each token's row of ytilde.
extern "C" void augmented(long words, float temperature, float of_nll, float of_divergence,
                          float* scores, const float* bias, const int64_t* targets,
                          const float* ytilde, const int64_t* soft_of, const float* negative,
                          float* losses, float* d_bias, long first, long last, long part) {
  std::vector<float> warm(words);
  const float cool = 1 / temperature, of_soft = of_divergence * cool;
  float* mine = d_bias ? d_bias + part * words : nullptr;
  for (long number = first; number < last; number++) {
    float* row = scores + number * words;
    const float* soft = ytilde + soft_of[number] * words;
    const long target = targets[number];
    const float peak = peak_of(words, row);
    Peak biased;
    if (bias)
      sweep(words, [&](long at, auto how) {
        biased.see(load(row + at, how) + load(bias + at, how), how);
      });
    const float biased_peak = bias ? biased.value() : peak;
    const float at_target = row[target] + (bias ? bias[target] : 0.0f);
    Vector cold{}, even{}, mean{};
    sweep(words, [&](long at, auto how) {
      const Vector x = load(row + at, how);
      const Vector e = exp_below_88((bias ? x + load(bias + at, how) : x) - biased_peak);
      const Vector w = exp_below_88((x - peak) * cool);
      mean += load(soft + at, how) * meant(x, how);
      cold += meant(e, how);
      even += meant(w, how);
      store(row + at, e, how);
      store(warm.data() + at, w, how);
    });
    const float cold_sum = sum(cold), even_sum = sum(even);
    const float nll = std::log(cold_sum) + biased_peak - at_target;
    const float divergence =
        negative[soft_of[number]] - sum(mean) * cool + std::log(even_sum) + peak * cool;
    losses[number] = of_nll * nll + of_divergence * divergence;
    const float by_cold = of_nll / cold_sum, by_even = of_soft / even_sum;
    row[target] -= cold_sum;  // onehot, before its factor
    sweep(words, [&](long at, auto how) {
      const Vector own = load(row + at, how) * by_cold;
      if (mine) store(mine + at, load(mine + at, how) + own, how);
      store(row + at, own + load(warm.data() + at, how) * by_even - load(soft + at, how) * of_soft, how);
    });
  }
}
