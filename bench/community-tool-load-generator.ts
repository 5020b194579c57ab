import { setTimeout as pause } from 'node:timers/promises'
import { Agent as Connections, request } from 'undici'

/** Callers that call tools once a second each, in a process of their own, until its input ends. */

const [, , url = '', slugs = '', keys = ''] = process.argv
/** A caller whose call takes longer makes the next one at once. */
const CALL_INTERVAL_MS = 1_000
const connections = new Connections({ headersTimeout: 0, bodyTimeout: 0, connections: 256 })
const names = slugs.split(',')
const answers: Record<string, number> = {}

async function callForever(slug: string, key: string): Promise<void> {
  await pause(Math.random() * CALL_INTERVAL_MS)
  for (;;) {
    const nextAt = performance.now() + CALL_INTERVAL_MS
    const reply = await request(`${url}/api/tools/${slug}/invoke`, {
      method: 'POST',
      dispatcher: connections,
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: '{"city":"Rome"}',
    })
    await reply.body.dump()
    answers[reply.statusCode] = (answers[reply.statusCode] ?? 0) + 1
    await pause(Math.max(0, nextAt - performance.now()))
  }
}

for (const [at, key] of keys.split(',').entries())
  void callForever(names[at % names.length] as string, key)
process.stdin.resume().on('end', () => {
  console.log(JSON.stringify(answers))
  process.exit(0)
})
console.log('ready')
