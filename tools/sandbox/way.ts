import { startChild, type Child } from './child.ts'
import { launches, type Launch } from './launch.ts'
import { hostProgram } from './program.ts'

/** How hosts are started on this machine. */
export interface Way {
  /** Null until it was looked for. */
  readonly found: () => Launch | null
  /** The best that works; null where no host can be started at all. */
  find(): Promise<Launch | null>
  close(): Promise<void>
}

export interface WayParts {
  readonly searchPath: string
  readonly log: (message: string, error: unknown) => void
}

/** Found once and kept: no later accident makes the isolation weaker. */
export function createWay({ searchPath, log }: WayParts): Way {
  let found: Launch | null = null
  let looking: Promise<Launch | null> | null = null
  let trying: Child | null = null
  let closed = false

  async function look(): Promise<Launch | null> {
    const root = process.getuid?.() === 0
    for (const launch of launches(await hostProgram(), { searchPath, root })) {
      if (closed) return null
      trying = startChild(launch, 'javascript')
      const works = await trying.ready()
      trying.kill()
      await trying.ended
      if (works) return (found = launch)
      log('sandbox hosts do not start this way', new Error(launch.isolation))
    }
    return null
  }

  return {
    found: () => found,
    find() {
      if (found !== null) return Promise.resolve(found)
      looking ??= look().finally(() => (looking = null))
      return looking
    },
    async close() {
      closed = true
      trying?.kill()
      await looking?.catch(() => {})
    },
  }
}
