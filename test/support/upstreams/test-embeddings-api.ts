import { sendJsonFixture, startFixtureServer, type TeardownScope } from './fixture-server.ts'

/** A local embeddings API with synonyms. */

/** Words of one meaning share a direction; all other words share another. */
const MEANINGS = [
  ['liquidation', 'liquidations', 'margin', 'seized', 'collateral'],
  ['fee', 'fees', 'gas', 'costs', 'price'],
  ['bridge', 'withdrawal', 'withdrawals', 'moving'],
]

function vectorOf(text: string): number[] {
  const words = text.toLowerCase().split(/\W+/)
  const counts = MEANINGS.map((meaning) => words.filter((word) => meaning.includes(word)).length)
  return [...counts, 0.1]
}

/** Serves OpenAI's `/embeddings` format (`recorded: false`). */
export async function startTestEmbeddingsApi(t: TeardownScope) {
  const house = { mood: 'ok' as 'ok' | 'down' | 'drift' | 'strict', refuses: 'poison', asked: 0 }
  const served = await startFixtureServer(t, (request, response) => {
    house.asked += 1
    if (house.mood === 'down') return void response.writeHead(500).end()
    void bodyOf(request).then(({ input }) => {
      if (house.mood === 'strict' || input.some((text) => text.includes(house.refuses)))
        return void response.writeHead(400).end()
      const data = input.map((text, index) => ({ index, embedding: vectorOf(text) })).reverse()
      sendJsonFixture(response, house.mood === 'drift' ? { data: data.slice(1) } : { data })
    })
  })
  return Object.assign(house, { url: served.base })
}

async function bodyOf(request: AsyncIterable<Buffer>): Promise<{ input: string[] }> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as { input: string[] }
}
