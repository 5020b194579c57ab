import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { createRuleBasedTextAnalysis } from '../memory/text/text-analysis.ts'

/** A local embeddings API. */
export interface FakeEmbeddingsServer {
  readonly url: string
  readonly model: string
  stop(): Promise<void>
}

/**
 * Serves OpenAI's `/embeddings` without a model: a vector is the direction of the text's stems and
 * trigrams. It measures the provider code path, not the quality of a trained model.
 */
export async function startFakeEmbeddingsServer(): Promise<FakeEmbeddingsServer> {
  const text = createRuleBasedTextAnalysis()
  const answer = async (request: IncomingMessage) => {
    const { input } = (await json(request)) as { input: string[] }
    const vectors = await Promise.all(input.map((one) => text.vector(one)))
    return { data: vectors.map((embedding, index) => ({ index, embedding })) }
  }
  const server = createServer((request, response) => {
    answer(request)
      .then((body) =>
        response.setHeader('content-type', 'application/json').end(JSON.stringify(body)),
      )
      .catch(() => response.writeHead(400).end())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    model: 'stems-and-trigrams',
    async stop() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}
