import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'

/** Parses the settings of language model providers. */

const Model = Type.Object(
  {
    id: Type.String({ minLength: 1, maxLength: 200 }),
    /** USD per million tokens. */
    in_per_mtok: Type.Number({ minimum: 0, maximum: 10_000 }),
    out_per_mtok: Type.Number({ minimum: 0, maximum: 10_000 }),
    /** Any scale; higher is smarter. */
    quality: Type.Number({ minimum: 0 }),
    /** Tokens of prompt and answer together. */
    ctx: Type.Integer({ minimum: 256 }),
    /** Name of the output limit; some models accept the newer name only. */
    token_limit: Type.Optional(Type.Enum(['max_tokens', 'max_completion_tokens'])),
  },
  { additionalProperties: false },
)
const Provider = Type.Object(
  {
    id: Type.String({ pattern: '^[a-z0-9][a-z0-9._-]{0,39}$' }),
    base_url: Type.String({ pattern: '^https?://[^\\s?#]+$' }),
    key_env: Type.Optional(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' })),
    models: Type.Array(Model, { minItems: 1, maxItems: 50 }),
  },
  { additionalProperties: false },
)
const ProviderListValidator = Compile(Type.Array(Provider, { maxItems: 20 }))

export type LlmModelSettings = Static<typeof Model>

/** An OpenAI-compatible service: a hosted vendor, Ollama, vLLM or llama.cpp. */
export interface LlmProvider {
  readonly id: string
  /** Without a trailing slash; `/chat/completions` is appended. */
  readonly baseUrl: string
  readonly key: { reveal(): string } | null
  readonly models: readonly LlmModelSettings[]
}

/** The engine's own message quotes the text, which may hold a key that was put there by mistake. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const [at = 'it is no JSON'] = /at position \d+/.exec((error as Error).message) ?? []
    throw new Error(at === 'it is no JSON' ? at : `it is no JSON ${at}`, { cause: error })
  }
}

/**
 * Parses `LLM_PROVIDERS`. Keys are in variables named by `key_env`. Throws for malformed text, duplicate
 * provider names, and a variable that is not set.
 */
export function parseLlmProviders(
  text: string,
  keyOf: (name: string) => LlmProvider['key'],
): LlmProvider[] {
  const given = parseJson(text)
  if (!ProviderListValidator.Check(given)) {
    const [first] = ProviderListValidator.Errors(given)
    throw new Error(`${first?.instancePath || 'the list'} ${first?.message ?? 'is not a list'}`)
  }
  if (new Set(given.map(({ id }) => id)).size !== given.length)
    throw new Error('duplicate provider name')
  return given.map(({ id, base_url, key_env, models }) => {
    const key = key_env === undefined ? null : keyOf(key_env)
    if (key_env !== undefined && key === null) throw new Error(`${key_env} is not set`)
    return { id, baseUrl: base_url.replace(/\/+$/, ''), key, models }
  })
}
