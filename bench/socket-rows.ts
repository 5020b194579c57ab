import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { clientOf } from '../scripts/prove/agents.ts'
import { freePort, newDataDir, openDatabase, startStation } from '../scripts/prove/station.ts'
import type { Heard } from './listeners.ts'
import { giveKeys, populate } from './population.ts'
import { helper, type Helper } from './processes.ts'
import { ms, row, thousands, type Row, type Scale } from './rows.ts'

const SOCKETS = 1_000
const RATE = 50
const CHANNEL = 'bench:signals'
const PUBLISHERS = 8

/** Many sockets that listen to one publisher; one of them goes away and comes back meanwhile. */
export async function socketRow(env: Readonly<Record<string, string>>, scale: Scale): Promise<Row> {
  const dataDir = newDataDir()
  const plans = mkdtempSync(join(tmpdir(), 'gas-station-listeners-'))
  const station = await startStation({ dataDir, port: await freePort(), env })
  const sql = openDatabase(dataDir)
  const client = clientOf(station.url, PUBLISHERS)
  try {
    const keys = await giveKeys(dataDir, sql, await populate(client, sql, SOCKETS + 1))
    const plan = join(plans, 'plan.json')
    writeFileSync(plan, JSON.stringify({ url: station.url, channel: CHANNEL, keys: keys.slice(1) }))
    const listeners = helper('listeners.ts', [plan])
    try {
      await listeners.ask()
      const total = Math.round((scale.measureMs / 1_000) * scale.rounds * RATE)
      await listeners.ask('begin')
      const before = cpuOf(station.pid)
      await publish(client, keys[0] ?? '', total, listeners)
      const heard = JSON.parse(await listeners.ask(`end ${total}`)) as Heard
      return resultOf(heard, total, cpuOf(station.pid) - before)
    } finally {
      await listeners.stop()
    }
  } finally {
    await client.close()
    await sql.end({ timeout: 1 })
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
    rmSync(plans, { recursive: true, force: true })
  }
}

/** At a steady pace, whatever the answers take. */
async function publish(
  client: ReturnType<typeof clientOf>,
  key: string,
  total: number,
  listeners: Helper,
): Promise<void> {
  const begun = performance.now()
  const answers: Promise<{ status: number }>[] = []
  for (let n = 0; n < total; n++) {
    await pause(Math.max(0, begun + (n * 1_000) / RATE - performance.now()))
    if (n === Math.floor(total / 3)) await listeners.ask('leave')
    if (n === Math.floor((2 * total) / 3)) await listeners.ask('comeBack')
    const payload = { n, sent: Date.now() }
    const body = { channel: CHANNEL, type: 'price_alert', payload }
    answers.push(client.send('POST', '/api/signal/publish', { 'x-api-key': key }, body))
  }
  const refused = (await Promise.all(answers)).filter(({ status }) => status !== 201)
  if (refused.length > 0) throw new Error(`${refused.length} signals were refused`)
}

function resultOf(heard: Heard, total: number, stationCpu: number): Row {
  const perFrame = (heard.cpu + stationCpu) / heard.frames
  const lost = SOCKETS * total - heard.frames
  const told = `p99 ${ms(heard.p99)}, ${perFrame.toFixed(1)} us a frame, ${lost} lost`
  return row({
    what: `${thousands(SOCKETS)} sockets, one publisher at ${RATE} signals/s, request to frame`,
    measured: `p50 ${ms(heard.p50)}, p99 ${ms(heard.p99)}; CPU of station and clients ${perFrame.toFixed(1)} us a frame, of the station ${(stationCpu / heard.frames).toFixed(1)}`,
    baseline: `${thousands(heard.frames)} frames, ${heard.wrong} sockets with one missing, double or out of order; a client away for a third of them was given ${heard.replayed} of ${heard.missed} it had not seen`,
    result: told,
    target: 'nothing lost, p99 <= 50 ms, <= 25 us a frame',
    met: heard.wrong === 0 && lost === 0 && heard.p99 <= 50 && perFrame <= 25,
    n: `${thousands(total)} signals`,
  })
}

/** Microseconds of processor time a process has used, as Linux counts them in hundredths. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}
