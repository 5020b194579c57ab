/**
 * Quantizes a unit vector to one signed byte per component, as PostgreSQL hex `bytea`. Changes
 * cosines by less than 0.01.
 */
export function quantizeVector(vector: readonly number[]): string {
  const bytes = vector.map((value) => Math.max(-127, Math.min(127, Math.round(value * 127))))
  return `\\x${Buffer.from(Int8Array.from(bytes).buffer).toString('hex')}`
}

/** Reads the bytes as numbers, without normalization. */
export const dequantizeVector = (bytes: Buffer): Int8Array =>
  new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Cosine similarity of two vectors of any length. Negative values become 0. */
export function cosineSimilarity(one: ArrayLike<number>, other: ArrayLike<number>): number {
  let [product, first, second] = [0, 0, 0]
  for (let at = 0; at < one.length; at += 1) {
    const [a, b] = [one[at] ?? 0, other[at] ?? 0]
    product += a * b
    first += a * a
    second += b * b
  }
  if (first === 0 || second === 0) return 0
  return Math.max(0, Math.min(1, product / Math.sqrt(first * second)))
}
