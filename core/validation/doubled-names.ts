/** Finds objects in JSON text that have a name twice. */

const [QUOTE, BACKSLASH, COLON, ARRAY, OBJECT, ARRAY_END, OBJECT_END] = Buffer.from('"\\:[{]}')
const MAX_NAME_CHARS = 60

/**
 * Returns what is wrong with a JSON text in which an object has a name twice, also where one is written with escapes;
 * null for none. A parser takes the last one, and its sender may have meant the first (decision 494). Its shape must be
 * bounded.
 */
export function findDoubledName(bytes: Buffer): string | null {
  const open: (Set<string> | null)[] = []
  let text = { start: 0, end: 0 }
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) {
      text = { start: at, end: findStringEnd(bytes, at) }
      at = text.end
    } else if (byte === OBJECT) open.push(new Set())
    else if (byte === ARRAY) open.push(null)
    else if (byte === ARRAY_END || byte === OBJECT_END) open.pop()
    else if (byte === COLON) {
      const [names, name] = [
        open.at(-1),
        readName(bytes.toString('utf8', text.start, text.end + 1)),
      ]
      if (names?.has(name) === true)
        return `must not have the field ${name.slice(0, MAX_NAME_CHARS)} twice in one object`
      names?.add(name)
    }
  }
  return null
}

/** The index of the quote that ends a string; beyond the bytes for none. */
export function findStringEnd(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return at
}

function readName(literal: string): string {
  if (!literal.includes('\\')) return literal.slice(1, -1)
  try {
    return String(JSON.parse(literal))
  } catch {
    // No JSON: the parser refuses it.
    return literal
  }
}
