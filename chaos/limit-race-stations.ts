import { LIMITS } from '../core/limits.ts'
import { createStationHttpClient, type StationHttpClient } from './station-http-client.ts'
import type { SeededRandom } from './seeded-random.ts'
import { runLimitRaces, type LimitRaceResult } from './limit-races.ts'
import { spawnStationProcess, type StationProcess } from './station-process.ts'
import { findFreePort } from './free-port.ts'

/** Runs the limit races against several station processes over one database. */

const RACE_CREDITS = 1
/**
 * Longer than the command timeout of the service: a timed-out command returns an error and is
 * counted.
 */
const ANSWER_MS = LIMITS.contendedTimeoutMs + 5_000

export interface StationRaceSetup {
  /** The folder of the built service. */
  readonly code: string
  readonly dataDir: string
  readonly chance: SeededRandom
  /** Runs no further race after one for which it returns true. */
  readonly endsAfter?: (race: LimitRaceResult) => boolean
  /** How long a client waits for an answer, in ms. */
  readonly answerMs?: number
}

/** Runs each race the given number of times; reports the plane of the stations. */
export async function raceLimitsOnStations(
  nodes: number,
  times: number,
  { code, dataDir, chance, endsAfter, answerMs = ANSWER_MS }: StationRaceSetup,
  reportPlane: (plane: string) => void,
): Promise<LimitRaceResult[]> {
  const stations: StationProcess[] = []
  const clients: StationHttpClient[] = []
  const env = { STARTER_CREDITS_USDC: String(RACE_CREDITS) }
  try {
    while (stations.length < nodes) {
      const station = await spawnStationProcess({ code, dataDir, port: await findFreePort(), env })
      stations.push(station)
      clients.push(createStationHttpClient(station.url, 64, answerMs))
    }
    reportPlane(stations[0]?.bootLine ?? '')
    const races: LimitRaceResult[] = []
    for (let at = 0; at < times; at++) {
      races.push(...(await runLimitRaces({ clients, chance, starter: RACE_CREDITS, endsAfter })))
    }
    return races
  } finally {
    await Promise.all(clients.map((client) => client.close()))
    // The first station owns the database and stops last.
    for (const station of stations.reverse()) await station.stop()
  }
}
