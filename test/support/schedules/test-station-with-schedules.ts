import { updateScheduleCommand } from '../../../actors/commands/schedule-aggregate-commands.ts'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { fromUsdc } from '../../../core/money.ts'
import { createScheduleSlotDriver, waitUntilTrue } from './make-schedule-slots-due.ts'
import { startInProcessTestStation, type TestAgent } from '../station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../upstreams/fixture-server.ts'

/** A station with schedules and a site that their tools call. */

export const SCHEDULES_PATH = '/api/task/schedule'
/** A tool without upstreams, and the price of a run with its fee. */
export const SCHEDULED_TOOL = 'hive_trending'
export const SCHEDULED_RUN_USDC = 0.006

/** An agent with a schedule. */
export interface AgentWithSchedule {
  readonly guest: TestAgent
  readonly id: string
}

interface ScheduleReply {
  readonly [name: string]: unknown
  readonly last_result: Record<string, unknown> | null
}

/** Starts the station and the site, with operations on schedules. */
export async function startScheduleStation(
  t: Parameters<typeof startInProcessTestStation>[0],
  settings: Readonly<Record<string, string>> = {},
) {
  let open = () => {}
  let gate = Promise.resolve()
  const upstream = await startFixtureServer(t, (request, response) => {
    const status = request.url === '/broken' ? 500 : 200
    const pair = '\ud83d\ude00'.repeat(request.url === '/long' ? 20_000 : 1)
    void gate.then(() => {
      if (request.url === '/gone') response.destroy()
      else sendJsonFixture(response, { pair, nul: '\0' }, status)
    })
  })
  const slow = { tool: 'data_retrieval', params: { url: `${upstream.base}/` } }
  let ahead = 0
  const { now, ...hands } = createDatabaseAdjustedClock()
  const clock = { ...hands, now: () => now() + ahead }
  const own = `127.0.0.1:${upstream.port}`
  const reached = [own, settings['SSRF_ALLOW']].filter((one) => one !== undefined).join()
  const main = await startInProcessTestStation(t, { ...settings, SSRF_ALLOW: reached }, { clock })
  const time = createScheduleSlotDriver(t, main.database)
  const { ask, sql } = main

  const create = (guest: TestAgent, fields: object = {}) =>
    ask('POST', SCHEDULES_PATH, {
      key: guest.key,
      json: { interval: '5m', tool: SCHEDULED_TOOL, ...fields },
    })

  async function made(fields: object = {}, usdc?: number): Promise<AgentWithSchedule> {
    const guest = await main.onboard(usdc)
    const { status, text, body } = await create(guest, fields)
    if (status !== 200) throw new Error(`${status} ${text}`)
    return { guest, id: String(body['schedule_id']) }
  }

  const look = async ({ guest, id }: AgentWithSchedule) =>
    (await ask('GET', `${SCHEDULES_PATH}/${id}`, { key: guest.key }))
      .body as unknown as ScheduleReply
  const ran = (one: AgentWithSchedule, runs: number) =>
    waitUntilTrue(`run ${runs}`, async () => (await look(one))['runs'] === runs)

  return {
    ...{ main, time, ask, sql, upstream, create, made, look, ran },
    /** Creates a schedule whose tool calls the site. */
    slow,
    /** Makes the site wait before its replies. */
    shut: () => void (gate = new Promise<void>((resolve) => (open = resolve))),
    open: () => open(),
    /** Advances the clock of the node. */
    putOn: (ms: number) => void (ahead = ms),
    patch: ({ guest, id }: AgentWithSchedule, change: object) =>
      ask('PATCH', `${SCHEDULES_PATH}/${id}`, { key: guest.key, json: change }),

    /** Sets a budget below the tool's price, as after a price increase. */
    budgeted: ({ guest, id: scheduleId }: AgentWithSchedule, usdc: number) =>
      main.station.actors.ask(
        guest.id,
        updateScheduleCommand,
        { scheduleId, budget: fromUsdc(usdc) },
        { touch: [{ kind: 'schedule', id: scheduleId }] },
      ),

    /** Waits until the tool runs and calls the site. */
    async begun(one: AgentWithSchedule): Promise<void> {
      const before = upstream.requests.length
      await time.pass(one.id)
      await waitUntilTrue('the tool runs', () => upstream.requests.length > before)
    },

    /** Charges of its agent, in USDC. */
    charges: async ({ guest }: AgentWithSchedule) =>
      (
        await sql`select cost_micros from calls
          where owner = ${guest.id} and tool is not null and status = 'ok' order by at`
      ).map(({ cost_micros: cost }) => Number(cost) / 1e6),

    /** Runs the next slot once. */
    async run(one: AgentWithSchedule): Promise<void> {
      const runs = Number((await look(one))['runs'])
      await time.pass(one.id)
      await ran(one, runs + 1)
    },
  }
}
