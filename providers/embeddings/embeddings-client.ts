import Type from 'typebox'
import { Compile } from 'typebox/compile'
import { ServiceError } from '../../core/errors.ts'
import type {
  StreamedUpstreamReply,
  StreamingPostClient,
} from '../upstream/streaming-post-client.ts'
import type { EmbeddingsClient } from './embeddings-port.ts'

/** Client of an embeddings provider. */

export interface EmbeddingsClientSettings {
  /** Base URL of an OpenAI-compatible `/embeddings`. */
  readonly url: string
  readonly model: string
  readonly key: string | null
  readonly postClient: StreamingPostClient
}

const Answer = Compile(
  Type.Object({
    data: Type.Array(
      Type.Object({ index: Type.Integer({ minimum: 0 }), embedding: Type.Array(Type.Number()) }),
    ),
  }),
)
const MAX_EMBEDDINGS_BYTES = 32 * 1024 * 1024
const PROVIDER = 'embeddings'

/** Creates a client of an OpenAI-compatible `/embeddings` endpoint. */
export function createEmbeddingsClient({
  url,
  model,
  key,
  postClient,
}: EmbeddingsClientSettings): EmbeddingsClient {
  return {
    model,
    async embed(texts, signal) {
      const posted = await postClient.post({
        url: `${url.replace(/\/+$/, '')}/embeddings`,
        headers: key === null ? {} : { authorization: `Bearer ${key}` },
        body: { model, input: texts },
        signal,
        details: { provider: PROVIDER },
      })
      const answer = parse(await readEmbeddingsReply(posted))
      if (!Answer.Check(answer) || answer.data.length !== texts.length)
        throw embeddingsSchemaError()
      const sorted = [...answer.data].sort((a, b) => a.index - b.index)
      const size = sorted[0]?.embedding.length ?? 0
      if (sorted.some(({ embedding }) => embedding.length !== size || size === 0))
        throw embeddingsSchemaError()
      return sorted.map(({ embedding }) => toUnitVector(Float32Array.from(embedding)))
    },
  }
}

const embeddingsSchemaError = () => new ServiceError('upstream_schema', { provider: PROVIDER })

async function readEmbeddingsReply({
  status,
  body,
  headers,
}: StreamedUpstreamReply): Promise<string> {
  if (status === 429) {
    const after = Number(headers['retry-after'])
    const retry_after = Number.isFinite(after) && after > 0 ? after : 30
    throw new ServiceError('upstream_rate_limited', { provider: PROVIDER, retry_after })
  }
  if (status < 200 || status > 299)
    throw new ServiceError('upstream_error', { provider: PROVIDER, upstream_status: status })
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > MAX_EMBEDDINGS_BYTES)
      throw new ServiceError('response_too_large', { provider: PROVIDER })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw embeddingsSchemaError()
  }
}

/** Normalises a vector, so that dot products are cosines; a zero vector stays unchanged. */
function toUnitVector(vector: Float32Array): Float32Array {
  const length = Math.hypot(...vector)
  return length === 0 ? vector : vector.map((value) => value / length)
}
