import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { clientOf } from '../scripts/prove/agents.ts'
import { quantile } from '../scripts/prove/figures.ts'
import { freePort, newDataDir, openDatabase, startStation } from '../scripts/prove/station.ts'
import { diskTimes, type DiskTimes } from './disk.ts'
import type { Heard } from './listeners.ts'
import { giveKeys, populate } from './population.ts'
import { helper, type Helper } from './processes.ts'
import { ms, row, thousands, type Row, type Scale } from './rows.ts'

const SOCKETS = 1_000
const RATE = 50
const CHANNEL = 'bench:signals'
const PUBLISHERS = 8
/** Signals whose time does not count. */
const WARM_UP = 100

type Env = Readonly<Record<string, string>>
const MEMORY = '/dev/shm'

/**
 * On the disk of this machine, whose own times are measured beside it, and with the database in
 * memory: what is left of a delay there is the service's.
 */
export async function socketRows(env: Env, scale: Scale): Promise<Row[]> {
  const [onDisk, disk] = await diskTimes(tmpdir(), () => measured(env, scale, tmpdir()))
  const rows = [resultOf(onDisk, disk)]
  if (existsSync(MEMORY)) rows.push(resultOf(await measured(env, scale, MEMORY), null))
  return rows
}

interface Measured {
  readonly heard: Heard
  readonly total: number
  readonly stationCpu: number
  readonly answered: readonly number[]
}

/** Many sockets that listen to one publisher; one of them goes away and comes back meanwhile. */
async function measured(env: Env, scale: Scale, where: string): Promise<Measured> {
  const dataDir = newDataDir(where)
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
      await publish(client, keys[0] ?? '', { from: 0, to: WARM_UP })
      await listeners.ask(`begin ${WARM_UP}`)
      const before = cpuOf(station.pid)
      const to = WARM_UP + total
      const answered = await publish(client, keys[0] ?? '', { from: WARM_UP, to }, listeners)
      const heard = JSON.parse(await listeners.ask(`end ${to}`)) as Heard
      return { heard, total, stationCpu: cpuOf(station.pid) - before, answered }
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

/**
 * At a steady pace, whatever the answers take; resolves to their times in milliseconds. One listener is
 * away for the second third.
 */
async function publish(
  client: ReturnType<typeof clientOf>,
  key: string,
  { from, to }: { from: number; to: number },
  listeners?: Helper,
): Promise<number[]> {
  const took: number[] = []
  const begun = performance.now()
  const answers: Promise<{ status: number }>[] = []
  const third = Math.floor((to - from) / 3)
  for (let n = from; n < to; n++) {
    await pause(Math.max(0, begun + ((n - from) * 1_000) / RATE - performance.now()))
    if (n === from + third) await listeners?.ask('leave')
    if (n === from + 2 * third) await listeners?.ask('comeBack')
    const payload = { n, sent: Date.now() }
    const body = { channel: CHANNEL, type: 'price_alert', payload }
    const asked = client.send('POST', '/api/signal/publish', { 'x-api-key': key }, body)
    answers.push(asked.finally(() => took.push(Date.now() - payload.sent)))
  }
  const refused = (await Promise.all(answers)).filter(({ status }) => status !== 200)
  if (refused.length > 0) throw new Error(`${refused.length} signals were refused`)
  return took
}

function resultOf({ heard, total, stationCpu, answered }: Measured, disk: DiskTimes | null): Row {
  const perFrame = (heard.cpu + stationCpu) / heard.frames
  const lost = SOCKETS * total - heard.frames
  const told = `p99 ${ms(heard.p99)}, ${perFrame.toFixed(1)} us a frame, ${lost} lost`
  const [q50, q99] = [quantile(answered, 0.5), quantile(answered, 0.99)]
  const where =
    disk === null
      ? 'the database in memory'
      : `the disk alone p50 ${ms(disk.p50)}, p99 ${ms(disk.p99)}, at most ${ms(disk.max)}`
  return row({
    what: `${thousands(SOCKETS)} sockets, one publisher at ${RATE} signals/s, request to frame; ${where}`,
    measured: `p50 ${ms(heard.p50)}, p99 ${ms(heard.p99)}; the publisher's own answers p50 ${ms(q50)}, p99 ${ms(q99)}; CPU of station and clients ${perFrame.toFixed(1)} us a frame, of the station ${(stationCpu / heard.frames).toFixed(1)}`,
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
