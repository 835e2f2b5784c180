// A Mogrifier LSTM's steps: rounds in which input and state gate each other, then the cell.
// The values in the rounds are numbered as in `ablate/model/fast/mogrifier_window.py`.
#pragma once
#include "lstm.h"

// One round, as Python fills it in. `left` maps `inner` units to `outputs`; `right`, if not null,
// maps the value's `inputs` to `inner`. Both are packed for the forward or for the backward pass.
struct Round {
  long outputs, inner, inputs;
  const float *left, *right, *bias, *mask;
  float *gate, *between, *result;  // [T, B, outputs], [T, B, inner] or null, [T, B, outputs]
  float *slope, *d_between;        // [T, B, outputs], [T, B, inner] or null
};

struct Cell {
  long steps, batch, inputs, units, rounds, capped;
  const float *weight_ih, *weight_hh, *bias;  // packed for the forward or for the backward pass
  const float* mask;                          // on the state, [B, H], or null
  float* x;       // [T, B, I]
  float* read_h;  // [T, B, H]: v_1
  float *gates, *h, *c, *squashed;
};

// Values with even numbers are inputs, those with odd numbers are states.
inline long value_width(const Cell& cell, long number) {
  return number % 2 ? cell.units : cell.inputs;
}

inline float* value_at(const Cell& cell, const Round* rounds, long number, long t, long row) {
  float* all = number == 0 ? cell.x : number == 1 ? cell.read_h : rounds[number - 2].result;
  return all + (t * cell.batch + row) * value_width(cell, number);
}

inline long last_of(const Cell& cell, long parity) {
  const long last = cell.rounds + 1;
  return last % 2 == parity ? last : last - 1;
}

extern "C" void mogrifier_forward(const Cell* given, const Round* rounds, long first, long last, long) {
  const Cell& cell = *given;
  const long rows = last - first, units = cell.units, plane = cell.batch * units;
  for (long t = 0; t < cell.steps; t++) {
    const long here = t * plane + first * units;
    if (cell.mask)
      under_mask(rows, units, cell.h + here, cell.mask + first * units, cell.read_h + here);
    for (long number = 0; number < cell.rounds; number++) {
      const Round& round = rounds[number];
      const long from = t * cell.batch + first;
      const float* read = value_at(cell, rounds, number + 1, t, first);
      if (round.between) {
        float* between = round.between + from * round.inner;
        if (round.right) {
          std::memset(between, 0, 4 * rows * round.inner);
          add_product(rows, round.inputs, round.inner, read, round.inputs, round.right, between,
                      round.inner);
          read = between;
        }
        if (round.mask)
          under_mask(rows, round.inner, read, round.mask + first * round.inner, between);
        read = between;
      }
      float* gate = round.gate + from * round.outputs;
      for (long row = 0; row < rows; row++)
        std::memcpy(gate + row * round.outputs, round.bias, 4 * round.outputs);
      add_product(rows, round.inner, round.outputs, read, round.inner, round.left, gate,
                  round.outputs);
      const float* target = value_at(cell, rounds, number, t, first);
      float* result = round.result + from * round.outputs;
      sweep(rows * round.outputs, [&](long at, auto how) {
        const Vector open = sigmoid(load(gate + at, how));
        store(gate + at, open, how);
        store(result + at, 2.0f * open * load(target + at, how), how);
      });
    }
    float* a = cell.gates + 4 * here;
    for (long row = 0; row < rows; row++) std::memcpy(a + row * 4 * units, cell.bias, 16 * units);
    add_product(rows, cell.inputs, 4 * units, value_at(cell, rounds, last_of(cell, 0), t, first),
                cell.inputs, cell.weight_ih, a, 4 * units);
    add_product(rows, units, 4 * units, value_at(cell, rounds, last_of(cell, 1), t, first), units,
                cell.weight_hh, a, 4 * units);
    const auto work = cell.capped ? lstm_cell<true> : lstm_cell<false>;
    for (long row = 0; row < rows; row++) {
      const long at = here + row * units, to = at + plane;
      work(units, cell.gates + 4 * at, cell.c + at, cell.c + to, cell.squashed + at, cell.h + to);
    }
  }
}

// given [T, B, H]: dL/dh of every step. dh, dc [B, H]: none and of the last c; then of the state
// before the window. slopes [T, B, 4H] and d_x [T, B, I] are filled in, and every round's.
extern "C" void mogrifier_backward(const Cell* all, const Round* rounds, const float* given,
                                   float* dh, float* dc, float* slopes, float* d_x, long first,
                                   long last, long) {
  const Cell& cell = *all;
  const long rows = last - first, units = cell.units, plane = cell.batch * units;
  const long start = first * units;
  long widest = std::max(cell.inputs, units);
  for (long number = 0; number < cell.rounds; number++)
    widest = std::max(widest, rounds[number].inner);
  std::vector<float> room(rows * widest);
  for (long t = cell.steps - 1; t >= 0; t--) {
    const long here = t * plane + start;
    float* d_state = dh + start;
    float* d_input = d_x + (t * cell.batch + first) * cell.inputs;
    sweep(rows * units, [&](long at, auto how) {
      store(d_state + at, load(d_state + at, how) + load(given + here + at, how), how);
    });
    const auto back = cell.capped ? lstm_slopes<true> : lstm_slopes<false>;
    for (long row = 0; row < rows; row++) {
      const long at = here + row * units;
      back(units, cell.gates + 4 * at, cell.c + at, cell.squashed + at, d_state + row * units,
           dc + start + row * units, slopes + 4 * at);
    }
    std::memset(d_input, 0, 4 * rows * cell.inputs);
    std::memset(d_state, 0, 4 * rows * units);
    add_product(rows, 4 * units, cell.inputs, slopes + 4 * here, 4 * units, cell.weight_ih, d_input,
                cell.inputs);
    add_product(rows, 4 * units, units, slopes + 4 * here, 4 * units, cell.weight_hh, d_state, units);
    for (long number = cell.rounds - 1; number >= 0; number--) {
      const Round& round = rounds[number];
      const long from = t * cell.batch + first;
      float* d = number % 2 ? d_state : d_input;  // of this round's result, then of its target
      float* other = number % 2 ? d_input : d_state;
      const float* gate = round.gate + from * round.outputs;
      const float* result = round.result + from * round.outputs;
      float* slope = round.slope + from * round.outputs;
      sweep(rows * round.outputs, [&](long at, auto how) {
        const Vector open = load(gate + at, how), by = load(d + at, how);
        store(slope + at, by * load(result + at, how) * (1.0f - open), how);
        store(d + at, 2.0f * by * open, how);
      });
      const float* mask = round.mask ? round.mask + first * round.inner : nullptr;
      if (!round.right) {
        add_back(rows, round.outputs, round.inner, slope, round.outputs, round.left, mask,
                 other, room.data());
        continue;
      }
      float* through = round.d_between + from * round.inner;
      std::memset(through, 0, 4 * rows * round.inner);
      add_back(rows, round.outputs, round.inner, slope, round.outputs, round.left, mask,
               through, room.data());
      add_product(rows, round.inner, round.inputs, through, round.inner, round.right, other,
                  round.inputs);
    }
    if (cell.mask) under_mask(rows, units, d_state, cell.mask + start, d_state);
  }
}
