// An LSTM layer's steps with masks on the state; the gates already contain the input's part.
// Gates i, f, g, o side by side. Rows of a batch are independent: each call takes a range of them.
#pragma once
#include <vector>
#include "packed.h"

// The state as a share of the gates reads it, under its mask if there is one.
inline const float* under_mask(long rows, long units, const float* state, const float* mask,
                               float* room) {
  if (!mask) return state;
  sweep(rows * units, [&](long at, auto how) {
    store(room + at, load(state + at, how) * load(mask + at, how), how);
  });
  return room;
}

// into += mask * (slopes B), for one share.
inline void add_back(long rows, long outputs, long units, const float* slopes, long step,
                     const float* packed, const float* mask, float* into, float* room) {
  if (!mask) return add_product(rows, outputs, units, slopes, step, packed, into, units);
  std::memset(room, 0, 4 * rows * units);
  add_product(rows, outputs, units, slopes, step, packed, room, units);
  sweep(rows * units, [&](long at, auto how) {
    store(into + at, load(into + at, how) + load(room + at, how) * load(mask + at, how), how);
  });
}

// The input gate as the cell uses it; capped: at most 1 - the forget gate.
template <bool CAPPED>
inline Vector used_input(Vector input, Vector forget) {
  const Vector rest = 1.0f - forget;
  return CAPPED ? (input < rest ? input : rest) : input;
}

// A row's cell; pre-activations become gates in place.
template <bool CAPPED>
inline void lstm_cell(long units, float* gates, const float* before, float* c, float* squashed,
                      float* h) {
  float *i = gates, *f = i + units, *g = f + units, *o = g + units;
  sweep(units, [&](long at, auto how) {
    const Vector input = sigmoid(load(i + at, how)), forget = sigmoid(load(f + at, how));
    const Vector fresh = tanh(load(g + at, how)), output = sigmoid(load(o + at, how));
    const Vector used = used_input<CAPPED>(input, forget);
    const Vector cell = forget * load(before + at, how) + used * fresh;
    const Vector bent = tanh(cell);
    store(i + at, input, how);
    store(f + at, forget, how);
    store(g + at, fresh, how);
    store(o + at, output, how);
    store(c + at, cell, how);
    store(squashed + at, bent, how);
    store(h + at, output * bent, how);
  });
}

// gates [T, B, 4H]: before and after their nonlinearities. h, c [T+1, B, H]; squashed: tanh(c).
extern "C" void lstm_forward(long steps, long batch, long units, long shares, const float* packed,
                             const float* masks, float* gates, float* h, float* c, float* squashed,
                             long first, long last, long) {
  const long rows = last - first, plane = batch * units, outputs = 4 * units / shares;
  const long share_size = packed_size(units, outputs), start = first * units;
  std::vector<float> room(rows * units);
  for (long t = 0; t < steps; t++) {
    float* a = gates + t * 4 * plane + 4 * start;
    const long here = t * plane + start;
    for (long s = 0; s < shares; s++) {
      const float* mask = masks ? masks + s * plane + start : nullptr;
      const float* read = under_mask(rows, units, h + here, mask, room.data());
      add_product(rows, units, outputs, read, units, packed + s * share_size, a + s * outputs,
                  4 * units);
    }
    for (long row = 0; row < rows; row++) {
      const long from = here + row * units, to = from + plane;
      lstm_cell<false>(units, gates + 4 * from, c + from, c + to, squashed + from, h + to);
    }
  }
}

// A row's slopes of the gates, given all of d h and d c; d c moves one step back.
template <bool CAPPED>
inline void lstm_slopes(long units, const float* gates, const float* before, const float* squashed,
                        const float* dh, float* dc, float* slopes) {
  const float *i = gates, *f = i + units, *g = f + units, *o = g + units;
  sweep(units, [&](long at, auto how) {
    const Vector input = load(i + at, how), forget = load(f + at, how);
    const Vector fresh = load(g + at, how), output = load(o + at, how);
    const Vector bent = load(squashed + at, how), of_h = load(dh + at, how);
    const Vector of_c = load(dc + at, how) + of_h * output * (1.0f - bent * bent);
    const Vector used = used_input<CAPPED>(input, forget);
    Vector of_input = of_c * fresh, of_forget = of_c * load(before + at, how);
    if (CAPPED) {  // if the gate is capped, its value depends on f
      const Vector held = input > used ? of_input : Vector{};
      of_input -= held;
      of_forget -= held;
    }
    store(slopes + at, of_input * input * (1.0f - input), how);
    store(slopes + units + at, of_forget * forget * (1.0f - forget), how);
    store(slopes + 2 * units + at, of_c * used * (1.0f - fresh * fresh), how);
    store(slopes + 3 * units + at, of_h * bent * output * (1.0f - output), how);
    store(dc + at, of_c * forget, how);
  });
}

// given [T, B, H]: dL/dh of every step from elsewhere. dh, dc [B, H]: initially of the state after
// the window, finally of the state before it.
extern "C" void lstm_backward(long steps, long batch, long units, long shares, const float* packed,
                              const float* masks, const float* gates, const float* c,
                              const float* squashed, const float* given, float* dh, float* dc,
                              float* slopes, long first, long last, long) {
  const long rows = last - first, plane = batch * units, outputs = 4 * units / shares;
  const long share_size = packed_size(outputs, units), start = first * units;
  std::vector<float> room(rows * units);
  for (long t = steps - 1; t >= 0; t--) {
    const long here = t * plane + start;
    sweep(rows * units, [&](long at, auto how) {
      store(dh + start + at, load(dh + start + at, how) + load(given + here + at, how), how);
    });
    for (long row = 0; row < rows; row++) {
      const long at = here + row * units, state = start + row * units;
      lstm_slopes<false>(units, gates + 4 * at, c + at, squashed + at, dh + state, dc + state,
                  slopes + 4 * at);
    }
    std::memset(dh + start, 0, 4 * rows * units);
    for (long s = 0; s < shares; s++)
      add_back(rows, outputs, units, slopes + 4 * here + s * outputs, 4 * units,
               packed + s * share_size, masks ? masks + s * plane + start : nullptr, dh + start,
               room.data());
  }
}
