import { LIMITS } from '../../core/limits.ts'
import { createStationClient, type StationClient } from '../../chaos/station-client.ts'
import type { SeededRandom } from '../../chaos/seeded-random.ts'
import { runLimitRaces, type LimitRaceResult } from '../../chaos/limit-races.ts'
import { spawnStationProcess, type StationProcess } from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'

const RACE_CREDITS = 1
/** Longer than the service lets a command wait: what it gives up is refused, and counted. */
const ANSWER_MS = LIMITS.contendedTimeoutMs + 5_000

export interface Proof {
  /** The folder of the built service. */
  readonly code: string
  readonly dataDir: string
  readonly chance: SeededRandom
}

/** Runs each race so often on a number of processes over one database; `told` hears their plane. */
export async function raceOn(
  nodes: number,
  times: number,
  { code, dataDir, chance }: Proof,
  told: (plane: string) => void,
): Promise<LimitRaceResult[]> {
  const stations: StationProcess[] = []
  const clients: StationClient[] = []
  const env = { STARTER_CREDITS_USDC: String(RACE_CREDITS) }
  try {
    while (stations.length < nodes) {
      const station = await spawnStationProcess({ code, dataDir, port: await findFreePort(), env })
      stations.push(station)
      clients.push(createStationClient(station.url, 64, ANSWER_MS))
    }
    told(stations[0]?.bootLine ?? '')
    const races: LimitRaceResult[] = []
    for (let at = 0; at < times; at++) {
      races.push(...(await runLimitRaces({ clients, chance, starter: RACE_CREDITS })))
    }
    return races
  } finally {
    await Promise.all(clients.map((client) => client.close()))
    // The first one owns the database.
    for (const station of stations.reverse()) await station.stop()
  }
}
