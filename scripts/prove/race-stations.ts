import { LIMITS } from '../../core/limits.ts'
import { clientOf, type Client } from './agents.ts'
import type { Chance } from './chance.ts'
import { race, type Race } from './races.ts'
import { freePort, startStation, type Station } from './station.ts'

const RACE_CREDITS = 1
/** Longer than the service lets a command wait: what it gives up is refused, and counted. */
const ANSWER_MS = LIMITS.contendedAnswerMs + 5_000

export interface Proof {
  /** The folder of the built service. */
  readonly code: string
  readonly dataDir: string
  readonly chance: Chance
}

/** Runs each race so often on a number of processes over one database; `told` hears their plane. */
export async function raceOn(
  nodes: number,
  times: number,
  { code, dataDir, chance }: Proof,
  told: (plane: string) => void,
): Promise<Race[]> {
  const stations: Station[] = []
  const clients: Client[] = []
  const env = { STARTER_CREDITS_USDC: String(RACE_CREDITS) }
  try {
    while (stations.length < nodes) {
      const station = await startStation({ code, dataDir, port: await freePort(), env })
      stations.push(station)
      clients.push(clientOf(station.url, 64, ANSWER_MS))
    }
    told(stations[0]?.plane ?? '')
    const races: Race[] = []
    for (let at = 0; at < times; at++) {
      races.push(...(await race({ clients, chance, starter: RACE_CREDITS })))
    }
    return races
  } finally {
    await Promise.all(clients.map((client) => client.close()))
    // The first one owns the database.
    for (const station of stations.reverse()) await station.stop()
  }
}
