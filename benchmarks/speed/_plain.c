/* Plain loops that do a private sum's work, row after row: what a compiler makes of them without further thought.
   REAL is what the rows hold: double or float. */
#include <math.h>
#include <stdint.h>

static int64_t bits(double number)
{
    union { double number; int64_t bits; } both = {number};
    return both.bits;
}

static const double ROUNDER = 6755399441055744.0; /* 3 * 2^51: what is added to it is rounded to a whole number */

void plain_ball(const REAL *rows, int64_t n, int64_t d, const double *center, const double *scale, double grid,
                double *mapped, int64_t *sums)
{
    for (int64_t i = 0; i < n; i++, rows += d) {
        double lanes[8] = {0};
        int64_t j = 0;
        for (; j + 8 <= d; j += 8)
            for (int k = 0; k < 8; k++) {
                mapped[j + k] = (rows[j + k] - center[j + k]) * scale[j + k];
                lanes[k] += mapped[j + k] * mapped[j + k];
            }
        for (; j < d; j++) {
            mapped[j] = (rows[j] - center[j]) * scale[j];
            lanes[j % 8] += mapped[j] * mapped[j];
        }
        double square = 0;
        for (int k = 0; k < 8; k++)
            square += lanes[k];
        double factor = square > 1 ? grid / sqrt(square) : grid;
        for (j = 0; j < d; j++)
            sums[j] += bits(mapped[j] * factor + ROUNDER) - bits(ROUNDER);
    }
}

void plain_box(const REAL *rows, int64_t n, int64_t d, const double *center, const double *scale, double limit,
               double *unused, int64_t *sums)
{
    for (int64_t i = 0; i < n; i++, rows += d)
        for (int64_t j = 0; j < d; j++) {
            double value = (rows[j] - center[j]) * scale[j];
            value = value < limit ? value : limit;
            value = value > -limit ? value : -limit;
            sums[j] += bits(value + ROUNDER) - bits(ROUNDER);
        }
}
