import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  startFixtureServer,
  UPSTREAM_FAULTS,
  type FixtureServer,
  type TeardownScope,
  type UpstreamFault,
} from './fixture-server.ts'

/**
 * The behaviour of one model. `stall` sends a word and then nothing; `cut` drops the connection.
 * `mute` and `strange` report usage with an empty or malformed answer; `open` reports it and never
 * ends.
 */
export type TestLlmBehaviour =
  | 'ok'
  | 'plain'
  | 'priced'
  | 'uncounted'
  | 'empty'
  | 'mute'
  | 'strange'
  | 'open'
  | 'stall'
  | 'cut'
  | 'error'
  | 'garbage'
  | 'drift'
  | 'refuses'
  | 'badkey'
  | UpstreamFault

/** Fields of a request that tests read. */
export interface ChatRequestBody {
  readonly model: string
  readonly messages: readonly { readonly role: string; readonly content: string }[]
  readonly response_format?: unknown
  readonly stream_options?: { readonly include_usage?: boolean }
}

export interface RecordedChatRequest {
  readonly authorization: string | undefined
  readonly body: ChatRequestBody
}

export interface LlmApiServer extends FixtureServer {
  /** By model; default `ok`. */
  readonly behaviours: Record<string, TestLlmBehaviour>
  /** Every request so far, by model. */
  readonly requestsByModel: Record<string, RecordedChatRequest[]>
  /** The answer of the models; by default the last word of the prompt, three times. */
  answer: (body: ChatRequestBody) => string
  /** `LLM_PROVIDERS` with these models at this address. */
  providers(models: Record<string, Partial<ModelSpec>>, id?: string, keyEnv?: string): string
}

interface ModelSpec {
  readonly in_per_mtok: number
  readonly out_per_mtok: number
  readonly quality: number
  readonly ctx: number
}

/** Prices and qualities of three models. */
export const SAMPLE_LLM_MODEL_SETTINGS = {
  cheap: { in_per_mtok: 0.1, out_per_mtok: 0.2, quality: 1 },
  middling: { in_per_mtok: 1, out_per_mtok: 2, quality: 5 },
  clever: { in_per_mtok: 3, out_per_mtok: 15, quality: 9 },
}

/** The reported cost of every answer of a `priced` model, in USD. */
export const TEST_LLM_REPORTED_COST_USD = 0.000321

/**
 * An OpenAI-compatible API at `/v1/chat/completions`, streaming and plain, in the documented format
 * (`recorded: false`). An answer has one token per word, a prompt ten.
 */
export async function startTestLlmApi(t: TeardownScope): Promise<LlmApiServer> {
  const behaviours: Record<string, TestLlmBehaviour> = {}
  const requestsByModel: Record<string, RecordedChatRequest[]> = {}
  const served = await startFixtureServer(t, (request, response) => {
    void readChatRequest(request).then((body) => {
      const { model } = body
      const { authorization } = request.headers
      requestsByModel[model] = [...(requestsByModel[model] ?? []), { authorization, body }]
      respondAs(behaviours[model] ?? 'ok', house.answer(body), body, request, response)
    })
  })
  const house: LlmApiServer = {
    ...served,
    behaviours,
    requestsByModel,
    answer: ({ messages }) => {
      const word = (messages.at(-1)?.content ?? '').trim().split(/\s+/).at(-1)
      return `${word} ${word} ${word}`
    },
    providers: (models, id = 'local', keyEnv) =>
      JSON.stringify([
        {
          id,
          base_url: `${served.base}/v1/`,
          ...(keyEnv === undefined ? {} : { key_env: keyEnv }),
          models: Object.entries(models).map(([name, card]) => ({
            id: name,
            in_per_mtok: 1,
            out_per_mtok: 2,
            quality: 1,
            ctx: 16_000,
            ...card,
          })),
        },
      ]),
  }
  return house
}

async function readChatRequest(request: IncomingMessage): Promise<ChatRequestBody> {
  let text = ''
  for await (const piece of request) text += String(piece)
  return JSON.parse(text)
}

function respondAs(
  mood: TestLlmBehaviour,
  answer: string,
  body: ChatRequestBody,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  if (mood in UPSTREAM_FAULTS) return UPSTREAM_FAULTS[mood as UpstreamFault](request, response)
  if (mood === 'refuses') return void response.writeHead(400).end('{"error":{"message":"no"}}')
  if (mood === 'badkey') return void response.writeHead(401).end('{"error":{"message":"sk-…"}}')
  const words = answer.split(/(?<= )/)
  const usage = {
    prompt_tokens: 10,
    completion_tokens: words.length,
    total_tokens: 10 + words.length,
    ...(mood === 'priced' ? { cost: TEST_LLM_REPORTED_COST_USD } : {}),
  }
  if (mood === 'plain' || mood === 'mute' || mood === 'strange') {
    const message = { role: 'assistant', content: mood === 'mute' ? null : answer }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    response.writeHead(200, { 'content-type': 'application/json', 'x-fixture': '1' })
    const said = mood === 'strange' ? { output: answer } : { choices }
    return void response.end(JSON.stringify({ ...said, usage }))
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', 'x-fixture': '1' })
  const say = (data: unknown) => response.write(`data: ${JSON.stringify(data)}\n\n`)
  const piece = (content: string, finish: string | null = null) =>
    say({ choices: [{ index: 0, delta: { content }, finish_reason: finish }] })
  if (mood === 'garbage') return void response.end('data: {"choices":[{"del\n\n')
  if (mood === 'drift') return void response.end('data: {"output":[{"text":"hello"}]}\n\n')
  response.write(': a comment\n\n')
  if (mood === 'stall' || mood === 'cut' || mood === 'error') {
    piece(words[0] ?? '')
    if (mood === 'cut') setImmediate(() => response.destroy())
    if (mood === 'error') say({ error: { message: 'out of memory' } })
    return
  }
  for (const word of mood === 'empty' ? [] : words) piece(word)
  piece('', 'stop')
  if (mood !== 'uncounted' && body.stream_options?.include_usage === true)
    say({ choices: [], usage })
  if (mood !== 'open') response.end('data: [DONE]\n\n')
}
