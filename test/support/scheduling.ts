import { scheduleSet } from '../../actors/commands/schedules.ts'
import { systemClock } from '../../core/clock.ts'
import { fromUsdc } from '../../core/money.ts'
import { dueSlots, until } from './due-slots.ts'
import { startStation, type Guest } from './station.ts'
import { json, serve } from './upstreams/serve.ts'

export const SCHEDULES = '/api/task/schedule'
/** A tool that needs nobody, and what a run of it costs with its fee. */
export const TOOL = 'hive_trending'
export const RUN = 0.006

/** An agent with a schedule. */
export interface Made {
  readonly guest: Guest
  readonly id: string
}

interface Shown {
  readonly [name: string]: unknown
  readonly last_result: Record<string, unknown> | null
}

/** A station, a site that a tool asks, and what is done with schedules in it. */
export async function scheduling(
  t: Parameters<typeof startStation>[0],
  settings: Readonly<Record<string, string>> = {},
) {
  let open = () => {}
  let gate = Promise.resolve()
  const upstream = await serve(t, (request, response) => {
    const status = request.url === '/broken' ? 500 : 200
    const pair = '\ud83d\ude00'.repeat(request.url === '/long' ? 20_000 : 1)
    void gate.then(() => {
      if (request.url === '/gone') response.destroy()
      else json(response, { pair, nul: '\0' }, status)
    })
  })
  const slow = { tool: 'data_retrieval', params: { url: `${upstream.base}/` } }
  let ahead = 0
  const { now, ...hands } = systemClock()
  const clock = { ...hands, now: () => now() + ahead }
  const own = `127.0.0.1:${upstream.port}`
  const reached = [own, settings['SSRF_ALLOW']].filter((one) => one !== undefined).join()
  const main = await startStation(t, { ...settings, SSRF_ALLOW: reached }, { clock })
  const time = dueSlots(t, main.database)
  const { ask, sql } = main

  const create = (guest: Guest, fields: object = {}) =>
    ask('POST', SCHEDULES, { key: guest.key, json: { interval: '5m', tool: TOOL, ...fields } })

  async function made(fields: object = {}, usdc?: number): Promise<Made> {
    const guest = await main.onboard(usdc)
    const { status, text, body } = await create(guest, fields)
    if (status !== 200) throw new Error(`${status} ${text}`)
    return { guest, id: String(body['schedule_id']) }
  }

  const look = async ({ guest, id }: Made) =>
    (await ask('GET', `${SCHEDULES}/${id}`, { key: guest.key })).body as unknown as Shown
  const ran = (one: Made, runs: number) =>
    until(`run ${runs}`, async () => (await look(one))['runs'] === runs)

  return {
    ...{ main, time, ask, sql, upstream, create, made, look, ran },
    /** A schedule whose tool asks the site. */
    slow,
    /** The site answers only when it is told to. */
    shut: () => void (gate = new Promise<void>((resolve) => (open = resolve))),
    open: () => open(),
    /** The clock of the node is put on. */
    putOn: (ms: number) => void (ahead = ms),
    patch: ({ guest, id }: Made, change: object) =>
      ask('PATCH', `${SCHEDULES}/${id}`, { key: guest.key, json: change }),

    /** Sets a budget below what its tool costs: it cost less when the budget was asked for. */
    budgeted: ({ guest, id: scheduleId }: Made, usdc: number) =>
      main.station.actors.ask(
        guest.id,
        scheduleSet,
        { scheduleId, budget: fromUsdc(usdc) },
        { touch: [{ kind: 'schedule', id: scheduleId }] },
      ),

    /** Until its tool runs, and waits for the site. */
    async begun(one: Made): Promise<void> {
      const before = upstream.seen.length
      await time.pass(one.id)
      await until('the tool runs', () => upstream.seen.length > before)
    },

    /** What its agent was charged, in USDC. */
    charges: async ({ guest }: Made) =>
      (
        await sql`select cost_micros from calls
          where owner = ${guest.id} and tool is not null and status = 'ok' order by at`
      ).map(({ cost_micros: cost }) => Number(cost) / 1e6),

    /** One run of the next slot. */
    async run(one: Made): Promise<void> {
      const runs = Number((await look(one))['runs'])
      await time.pass(one.id)
      await ran(one, runs + 1)
    },
  }
}
