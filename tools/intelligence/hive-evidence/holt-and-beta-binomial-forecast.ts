/** A forecast day: the expected value and its 90 % interval. */
export interface ForecastInterval {
  readonly expected: number
  readonly low: number
  readonly high: number
}

const SMOOTHING_WEIGHTS = [0.1, 0.2, 0.3, 0.5, 0.7, 0.9]
const DAMPING = 0.9
const Z_SCORE_90 = 1.645

/**
 * Forecasts with Holt's method and a damped trend; the parameters minimise the one-day error on the series.
 * Values are not negative. `slope` is the trend per day at the end.
 */
export function holtForecast(
  series: readonly number[],
  days: number,
): { forecast: ForecastInterval[]; slope: number } {
  let best = run(series, 0.1, 0.1)
  for (const alpha of SMOOTHING_WEIGHTS) {
    for (const beta of SMOOTHING_WEIGHTS) {
      const tried = run(series, alpha, beta)
      if (tried.error < best.error - 1e-12) best = tried
    }
  }
  const deviation = Math.sqrt(best.error / Math.max(1, series.length - 2))
  let damped = 0
  const forecast = Array.from({ length: days }, (_, day) => {
    damped += DAMPING ** (day + 1)
    const expected = Math.max(0, best.level + damped * best.trend)
    const spread = Z_SCORE_90 * deviation * Math.sqrt(1 + day * best.alpha ** 2)
    return {
      expected: roundTo4Places(expected),
      low: roundTo4Places(Math.max(0, expected - spread)),
      high: roundTo4Places(expected + spread),
    }
  })
  return { forecast, slope: best.trend }
}

function run(series: readonly number[], alpha: number, beta: number) {
  let level = series[0] ?? 0
  let trend = 0
  let error = 0
  for (const value of series.slice(1)) {
    const expected = level + DAMPING * trend
    error += (value - expected) ** 2
    const next = alpha * value + (1 - alpha) * expected
    trend = beta * (next - level) + (1 - beta) * DAMPING * trend
    level = next
  }
  return { level, trend, error, alpha }
}

/**
 * Estimates the probability that the next author affirms, after `yes` and `no` (fractions allowed), with a
 * Beta(1, 1) prior. Returns it with its 90 % interval by the normal approximation.
 */
export function betaBinomialEstimate(yes: number, no: number) {
  const [a, b] = [1 + yes, 1 + no]
  const mean = a / (a + b)
  const deviation = Math.sqrt((a * b) / ((a + b) ** 2 * (a + b + 1)))
  return {
    probability: roundTo4Places(mean),
    low: roundTo4Places(Math.max(0, mean - Z_SCORE_90 * deviation)),
    high: roundTo4Places(Math.min(1, mean + Z_SCORE_90 * deviation)),
  }
}

const roundTo4Places = (value: number): number => Math.round(value * 1e4) / 1e4
