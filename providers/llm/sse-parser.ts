import { ServiceError } from '../../core/errors.ts'

/** Yields the `data` of each server-sent event; throws above `maxBytes`. */
export async function* parseSseData(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<string> {
  let rest = ''
  let data: string[] = []
  for await (const piece of decodeTextChunks(body, maxBytes)) {
    const lines = `${rest}${piece}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines.map((one) => one.replace(/\r$/, ''))) {
      if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
      if (line !== '' || data.length === 0) continue
      yield data.join('\n')
      data = []
    }
  }
  // Some servers omit the blank line after the last event.
  if (rest.startsWith('data:')) data.push(rest.slice(5).replace(/^ /, ''))
  if (data.length > 0) yield data.join('\n')
}

/** Decodes a body chunk by chunk; characters split between chunks stay intact. */
export async function* decodeTextChunks(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let size = 0
  for await (const piece of body) {
    size += piece.byteLength
    if (size > maxBytes) throw new ServiceError('response_too_large', { limit_bytes: maxBytes })
    yield decoder.decode(piece, { stream: true })
  }
}
