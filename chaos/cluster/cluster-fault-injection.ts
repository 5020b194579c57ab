import { setTimeout as sleep } from 'node:timers/promises'
import type { ClusterEnvironment } from './start-three-station-cluster.ts'
import { readPostmasterPid } from '../station-process.ts'

/** Faults during load; `none` is the baseline. */
export const CLUSTER_FAULT_KINDS = ['none', 'node', 'postgres', 'redis', 'flush', 'freeze'] as const
export type ClusterFaultKind = (typeof CLUSTER_FAULT_KINDS)[number] | 'lapse'

/** Longer than the longest lease of a node without a heartbeat: 30 s. */
const LONG_FREEZE_MS = 32_000
const RECOVERY_TIMEOUT_MS = 30_000
const POLL_MS = 20

/** Injects a fault and repairs it; resolves to the port of the affected station, if any. */
type ClusterFaultInjector = (ground: ClusterEnvironment) => Promise<number | null>

export const CLUSTER_FAULT_INJECTORS: Readonly<Record<ClusterFaultKind, ClusterFaultInjector>> = {
  async none({ chance }) {
    await sleep(chance.integer(1_500, 2_500))
    return null
  },
  async node({ stations, ports, start, chance }) {
    const at = chance.integer(0, stations.length - 1)
    await stations[at]?.kill()
    stations[at] = await start(at)
    return ports[at] ?? null
  },
  async postgres({ dataDir, sql }) {
    const pid = readPostmasterPid(dataDir)
    if (pid === null) throw new Error('there is no postgres to kill')
    process.kill(pid, 'SIGKILL')
    const until = performance.now() + RECOVERY_TIMEOUT_MS
    while (
      !(await sql`select 1`.then(
        () => true,
        () => false,
      ))
    ) {
      if (performance.now() > until) throw new Error('postgres has not come back')
      await sleep(POLL_MS)
    }
    return null
  },
  async redis({ redis, chance }) {
    await redis.kill()
    await sleep(chance.integer(300, 2_000))
    await redis.start()
    return null
  },
  async flush({ redis, chance }) {
    for (let time = 0; time < 4; time++) {
      await redis.flush()
      await sleep(chance.integer(50, 400))
    }
    return null
  },
  freeze: (ground) => freezeNode(ground, ground.chance.integer(1_500, 3_500)),
  /** Other nodes take over everything the frozen node had claimed before it resumes. */
  async lapse(ground) {
    ground.receiver.setDelay(400)
    await sleep(500)
    const port = await freezeNode(ground, LONG_FREEZE_MS)
    ground.receiver.setDelay(0)
    return port
  },
}

async function freezeNode(
  { stations, ports, chance }: ClusterEnvironment,
  ms: number,
): Promise<number | null> {
  const at = chance.integer(0, stations.length - 1)
  const pid = stations[at]?.pid ?? 0
  process.kill(pid, 'SIGSTOP')
  try {
    await sleep(ms)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  return ports[at] ?? null
}
