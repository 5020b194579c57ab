/** A request to an external server. */
export interface JsonHttpRequest {
  readonly url: string
  readonly send: typeof fetch
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON by POST; undefined sends a GET. */
  readonly body?: unknown
  readonly timeoutMs: number
  /** Limit of the reply; a longer one is not read. */
  readonly maxBytes: number
}

/**
 * Requests JSON: no redirects, one deadline for the whole exchange, a bounded reply. Throws if
 * there is no such reply.
 */
export async function requestJson(
  exchange: JsonHttpRequest,
): Promise<{ readonly status: number; readonly json: unknown }> {
  const { url, send, body, timeoutMs, maxBytes } = exchange
  const response = await send(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      accept: 'application/json',
      'content-type': 'application/json',
      ...exchange.headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    redirect: 'error',
    signal: AbortSignal.timeout(timeoutMs),
  })
  const text = (await readAtMost(response, maxBytes)).toString('utf8')
  if (response.status >= 500) throw new Error(`status ${response.status}`)
  return { status: response.status, json: JSON.parse(text) as unknown }
}

/** Reads a body; throws for a longer one than `most` bytes, which is not read to its end. */
export async function readAtMost(response: Response, most: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    // leaving the loop cancels the body
    if (size > most) throw new Error(`more than ${most} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
