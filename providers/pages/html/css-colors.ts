/** Red, green and blue. */
export type RgbColor = readonly [number, number, number]

const NAMED_COLORS: Readonly<Record<string, RgbColor>> = {
  white: [255, 255, 255],
  snow: [255, 250, 250],
  ivory: [255, 255, 240],
  whitesmoke: [245, 245, 245],
  black: [0, 0, 0],
  red: [255, 0, 0],
  green: [0, 128, 0],
  blue: [0, 0, 255],
  yellow: [255, 255, 0],
  gray: [128, 128, 128],
  grey: [128, 128, 128],
  silver: [192, 192, 192],
}
export const WHITE_RGB: RgbColor = [255, 255, 255]

/** Parses the first colour in a value; returns null for none or an unknown one. */
export function parseCssColor(value: string): RgbColor | null {
  const hex = /#([0-9a-f]{6}|[0-9a-f]{3})(?![0-9a-f])/.exec(value)?.[1]
  if (hex !== undefined) {
    const wide = hex.length === 3 ? hex.replace(/./g, '$&$&') : hex
    return toRgbColor(wide.match(/../g) ?? [], 16)
  }
  const rgb = /rgba?\(\s*(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})/.exec(value)
  if (rgb !== null) return toRgbColor(rgb.slice(1), 10)
  const name = /[a-z]+/.exec(value)?.[0] ?? ''
  return Object.hasOwn(NAMED_COLORS, name) ? (NAMED_COLORS[name] ?? null) : null
}

const toRgbColor = ([r = '0', g = '0', b = '0']: readonly string[], base: number): RgbColor => [
  Number.parseInt(r, base),
  Number.parseInt(g, base),
  Number.parseInt(b, base),
]

/** Returns whether text of one colour is unreadable on the other. */
export const areIndistinguishableColors = (one: RgbColor, other: RgbColor): boolean =>
  one.every((part, at) => Math.abs(part - (other[at] ?? 0)) <= 12)
