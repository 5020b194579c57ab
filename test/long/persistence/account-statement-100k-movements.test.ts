import { request } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { createAccountStatementStore } from '../../../persistence/account-statement/account-statement-store.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'

const ROWS = 100_000
const NEW_LINE = 10

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
/** Bytes of the heap that something still refers to. */
function kept(): number {
  collect()
  return process.memoryUsage().heapUsed
}

/** Calls of an agent at 5 000 micro-USDC each, a millisecond apart, as the ledger books them. */
async function plantCalls(
  { sql }: InProcessStation,
  agentId: string,
  count: number,
): Promise<void> {
  await sql`insert into ledger (id, owner, kind, source, amount_micros, fee_micros, promo_micros, call_id, at)
    select (lpad(to_hex(ms), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid, ${agentId},
           'price', 'free', 5000, 900, 5000,
           (lpad(to_hex(ms), 12, '0') || '7000' || '9' || lpad(to_hex(n), 15, '0'))::uuid,
           to_timestamp(ms / 1000.0)
      from generate_series(1, ${count}) n,
           lateral (select (extract(epoch from now()) * 1000)::bigint - ${count} + n as ms) x`
  await sql`analyze ledger`
}

t.test('a statement of 100,000 movements', async (t) => {
  const main = await startInProcessTestStation(t)
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  await plantCalls(main, ann.id, ROWS)
  await plantCalls(main, bob.id, 1_000)

  t.test('its pages are read by the indexes at any depth', async (t) => {
    const store = createAccountStatementStore(main.sql)
    const walk = await store.begin(ann.id, {})
    const first = await store.page(ann.id, {}, walk, 50)
    const line = first.lines.at(-1)
    t.equal(first.lines.length, 50)
    const plan = await main.sql<{ 'QUERY PLAN': string }[]>`
      explain select * from ledger where owner = ${ann.id} and id < ${line?.id ?? ''}::uuid
        order by id desc limit 232`
    const text = plan.map((row) => row['QUERY PLAN']).join('\n')
    t.match(text, /Index Scan Backward/)
    t.notMatch(text, /Seq Scan|-> {2}Sort/)
    const received = await main.sql<{ 'QUERY PLAN': string }[]>`
      explain select * from ledger where credit = ${`agent:${ann.id}:cash`}
         and credit like 'agent:%' and split_part(credit, ':', 2) <> owner
       order by id desc limit 232`
    t.match(received.map((row) => row['QUERY PLAN']).join('\n'), /ledger_\w*credit/)
  })

  t.test('the CSV is read a page at a time, at the speed of its reader', async (t) => {
    const before = kept()
    let [records, chunks, looks, most] = [0, 0, 0, 0]
    await new Promise<void>((resolve, reject) => {
      const url = `${main.url}/api/agent/statement?format=csv`
      const asked = request(url, { headers: { 'x-api-key': ann.key } }, (reply) => {
        t.equal(reply.headers['content-length'], undefined, 'its length is not known beforehand')
        reply.on('data', (chunk: Buffer) => {
          records += chunk.reduce((count, byte) => count + Number(byte === NEW_LINE), 0)
          chunks += 1
          if (chunks % 100 !== 0) return
          looks += 1
          most = Math.max(most, kept() - before)
        })
        reply.on('end', resolve).on('error', reject)
      })
      asked.on('error', reject).end()
    })
    t.equal(records, ROWS + 2, 'the header, the calls and the starter credits')
    t.ok(looks > 2, 'it was looked at on the way')
    t.comment(`${Math.round(most / 1e6)} MB more in use at most`)
    t.ok(most < 30e6, 'far below the whole of it')
  })
})
