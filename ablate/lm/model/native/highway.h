// A recurrent highway layer's micro-steps: s <- s + t (h - s), of pre-activations h, t side by side.
#pragma once
#include "lstm.h"

// given [T, B, 2H]: the input's part of the first micro-step; biases [L - 1, 2H]: of the others.
// packed: by level, then by share. states [T L + 1, B, H]; reads [S, T L, B, H], null without masks;
// gates [L, T, B, 2H].
extern "C" void highway_forward(long steps, long batch, long units, long depth, long shares,
                                const float* packed, const float* masks, const float* biases,
                                const float* given, float* states, float* reads, float* gates,
                                long first, long last, long) {
  const long rows = last - first, plane = batch * units, start = first * units;
  const long outputs = 2 * units / shares, share_size = packed_size(units, outputs);
  for (long t = 0; t < steps; t++)
    for (long level = 0; level < depth; level++) {
      const long number = t * depth + level;
      float* a = gates + (level * steps + t) * 2 * plane + 2 * start;
      float* s = states + number * plane + start;
      if (level == 0) std::memcpy(a, given + t * 2 * plane + 2 * start, 8 * rows * units);
      else
        for (long row = 0; row < rows; row++)
          std::memcpy(a + row * 2 * units, biases + (level - 1) * 2 * units, 8 * units);
      for (long share = 0; share < shares; share++) {
        const float* mask = masks ? masks + share * plane + start : nullptr;
        float* room = reads ? reads + (share * steps * depth + number) * plane + start : nullptr;
        const float* read = under_mask(rows, units, s, mask, room);
        add_product(rows, units, outputs, read, units,
                    packed + (level * shares + share) * share_size, a + share * outputs, 2 * units);
      }
      for (long row = 0; row < rows; row++) {
        float *h = a + row * 2 * units, *carry = h + units, *from = s + row * units;
        sweep(units, [&](long at, auto how) {
          const Vector fresh = tanh(load(h + at, how)), taken = sigmoid(load(carry + at, how));
          const Vector old = load(from + at, how);
          store(h + at, fresh, how);
          store(carry + at, taken, how);
          store(from + plane + at, old + taken * (fresh - old), how);
        });
      }
    }
}

// given [T, B, H]: dL/ds after every step; d [B, H]: initially 0, finally of the state before the
// window.
extern "C" void highway_backward(long steps, long batch, long units, long depth, long shares,
                                 const float* packed, const float* masks, const float* states,
                                 const float* gates, const float* given, float* d, float* slopes,
                                 long first, long last, long) {
  const long rows = last - first, plane = batch * units, start = first * units;
  const long outputs = 2 * units / shares, share_size = packed_size(outputs, units);
  std::vector<float> room(rows * units);
  for (long t = steps - 1; t >= 0; t--) {
    sweep(rows * units, [&](long at, auto how) {
      store(d + start + at, load(d + start + at, how) + load(given + t * plane + start + at, how), how);
    });
    for (long level = depth - 1; level >= 0; level--) {
      const long here = (level * steps + t) * 2 * plane + 2 * start;
      for (long row = 0; row < rows; row++) {
        const float *h = gates + here + row * 2 * units, *carry = h + units;
        const float* s = states + (t * depth + level) * plane + start + row * units;
        float *of = d + start + row * units, *slope = slopes + here + row * 2 * units;
        sweep(units, [&](long at, auto how) {
          const Vector fresh = load(h + at, how), taken = load(carry + at, how);
          const Vector by = load(of + at, how), keep = 1.0f - taken;
          const Vector moved = load(s + plane + at, how) - load(s + at, how);
          store(slope + at, by * taken * (1.0f - fresh * fresh), how);
          store(slope + units + at, by * moved * keep, how);
          store(of + at, by * keep, how);
        });
      }
      for (long share = 0; share < shares; share++)
        add_back(rows, outputs, units, slopes + here + share * outputs, 2 * units,
                 packed + (level * shares + share) * share_size,
                 masks ? masks + share * plane + start : nullptr, d + start, room.data());
    }
  }
}
