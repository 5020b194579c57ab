import { setTimeout as pause } from 'node:timers/promises'
import { Agent as Connections, request } from 'undici'

/** Callers that call tools all the time, in a process of their own, until its input ends. */

const [, , url = '', slugs = '', keys = ''] = process.argv
/** After a refusal; shorter than any client should. */
const REFUSED_PAUSE_MS = 20
const connections = new Connections({ headersTimeout: 0, bodyTimeout: 0, connections: 256 })
const names = slugs.split(',')
const answers: Record<string, number> = {}

async function callForever(slug: string, key: string): Promise<void> {
  for (;;) {
    const reply = await request(`${url}/api/tools/${slug}/invoke`, {
      method: 'POST',
      dispatcher: connections,
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: '{"city":"Rome"}',
    })
    await reply.body.dump()
    answers[reply.statusCode] = (answers[reply.statusCode] ?? 0) + 1
    if (reply.statusCode === 429 || reply.statusCode === 503) await pause(REFUSED_PAUSE_MS)
  }
}

for (const [at, key] of keys.split(',').entries())
  void callForever(names[at % names.length] as string, key)
process.stdin.resume().on('end', () => {
  console.log(JSON.stringify(answers))
  process.exit(0)
})
console.log('ready')
