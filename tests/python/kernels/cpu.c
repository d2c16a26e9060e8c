// Kernels for the CPU as a user would write them: one call for each block of the grid, see `jaxator.call_kernel`.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define ARGUMENTS void *const *arguments, const int64_t *grid, const int64_t *block

// out = a x + y. Arguments: x, y, out; n, a.
void saxpy(ARGUMENTS) {
  const float *x = arguments[0], *y = arguments[1];
  float* out = arguments[2];
  const int64_t n = *(const int32_t*)arguments[3], each = (n + grid[0] - 1) / grid[0];
  const float a = *(const float*)arguments[4];
  for (int64_t i = block[0] * each; i < n && i < (block[0] + 1) * each; i++) out[i] = a * x[i] + y[i];
}

// A row of softmax(scale x). Arguments: x, y; columns, scale.
void softmax_forward(ARGUMENTS) {
  const int64_t columns = *(const int32_t*)arguments[2];
  const float scale = *(const float*)arguments[3];
  const float* x = (const float*)arguments[0] + block[0] * columns;
  float* y = (float*)arguments[1] + block[0] * columns;
  float most = -INFINITY, sum = 0;
  for (int64_t c = 0; c < columns; c++) most = fmaxf(most, scale * x[c]);
  for (int64_t c = 0; c < columns; c++) sum += y[c] = expf(scale * x[c] - most);
  for (int64_t c = 0; c < columns; c++) y[c] /= sum;
}

// Its gradient. Arguments: y, dy, dx; columns, scale.
void softmax_backward(ARGUMENTS) {
  const int64_t columns = *(const int32_t*)arguments[3], row = block[0] * columns;
  const float scale = *(const float*)arguments[4];
  const float *y = (const float*)arguments[0] + row, *dy = (const float*)arguments[1] + row;
  float *dx = (float*)arguments[2] + row, sum = 0;
  for (int64_t c = 0; c < columns; c++) sum += y[c] * dy[c];
  for (int64_t c = 0; c < columns; c++) dx[c] = scale * y[c] * (dy[c] - sum);
}

// out[m, n] = sum over k of a[m, k] b[k, n], a row for each block. Arguments: a, b, out; n, k.
void matmul(ARGUMENTS) {
  const int64_t n = *(const int64_t*)arguments[3], k = *(const int64_t*)arguments[4], row = block[0];
  const float *a = (const float*)arguments[0] + row * k, *b = arguments[1];
  float* out = (float*)arguments[2] + row * n;
  memset(out, 0, n * sizeof(float));
  for (int64_t i = 0; i < k; i++)
    for (int64_t c = 0; c < n; c++) out[c] += a[i] * b[i * n + c];
}

// out[z, y, x] = 10000 z + 100 y + x. Arguments: out.
void coordinates(ARGUMENTS) {
  int32_t* out = arguments[0];
  out[(block[2] * grid[1] + block[1]) * grid[0] + block[0]] = 10000 * block[2] + 100 * block[1] + block[0];
}

// The bytes of eight scalars, eight places for each. Arguments: out; scalars.
void scalars(ARGUMENTS) {
  static const int sizes[] = {1, 4, 8, 4, 8, 2, 1, 2};
  for (int i = 0; i < 8; i++) memcpy((char*)arguments[0] + 8 * i, arguments[1 + i], sizes[i]);
}

// Adds one in place. Arguments: x, counter of elements, both also results (x is argument 2, the counter 3).
void increment(ARGUMENTS) {
  int32_t *x = arguments[2], *count = arguments[3];
  if (arguments[0] != arguments[2] || arguments[1] != arguments[3]) {
    *count = -1;
    return;
  }
  for (int i = 0; i < *count; i++) x[i]++;
}
