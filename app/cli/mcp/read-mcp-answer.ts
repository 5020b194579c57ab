import { parseExactJson } from '../../../core/json/exact.ts'

/** A JSON-RPC message of either direction. */
export interface JsonRpcMessage {
  readonly jsonrpc: '2.0'
  readonly id?: string | number
  readonly method?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}

/**
 * Reads the messages of an HTTP answer: one JSON document, or an event stream. An error without an id belongs
 * to the request `id`. Throws for anything else, which is no answer of a station.
 */
export async function* readMcpAnswer(
  response: Response,
  id: JsonRpcMessage['id'],
): AsyncGenerator<JsonRpcMessage> {
  if (response.status === 202) return
  const type = response.headers.get('content-type') ?? ''
  if (type.startsWith('text/event-stream')) yield* readEvents(response)
  else yield toAnswer(response, await response.text(), id)
}

function toAnswer(response: Response, text: string, id: JsonRpcMessage['id']): JsonRpcMessage {
  const { url, status } = response
  try {
    const value = parseExactJson(text) as JsonRpcMessage
    if (value.jsonrpc === '2.0') return id === undefined ? value : { ...value, id }
  } catch {
    // Answered below: a proxy, or no station.
  }
  throw new Error(`${url} answers ${status} without a message of MCP: is it a gas station?`)
}

async function* readEvents({ body }: Response): AsyncGenerator<JsonRpcMessage> {
  if (body === null) return
  let rest = ''
  const decoder = new TextDecoder()
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines)
      if (line.startsWith('data: '))
        yield parseExactJson(line.slice('data: '.length)) as JsonRpcMessage
  }
}
