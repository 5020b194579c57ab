import { WebSocket } from 'ws'

/** Samples what a running Node process allocates, over its inspector port. */

/** Bytes between two samples, on average. */
const SAMPLING_INTERVAL = 16_384

export interface AllocationSite {
  readonly place: string
  readonly bytes: number
}

/** Allocations of a period, garbage included. */
export interface AllocationProfile {
  readonly bytes: number
  /** The functions that allocated most, the largest first. */
  readonly sites: readonly AllocationSite[]
}

interface ProfileNode {
  readonly callFrame: {
    readonly functionName: string
    readonly url: string
    readonly lineNumber: number
  }
  readonly selfSize: number
  readonly children: readonly ProfileNode[]
}

export interface HeapProfiler {
  start(): Promise<void>
  /** Ends the period. */
  stop(): Promise<AllocationProfile>
  close(): void
}

/** Connects to a process that was started with `--inspect=127.0.0.1:<port>`. */
export async function connectHeapProfiler(port: number): Promise<HeapProfiler> {
  const listed = await fetch(`http://127.0.0.1:${port}/json/list`)
  const [target] = (await listed.json()) as { webSocketDebuggerUrl: string }[]
  if (target === undefined) throw new Error('the process has no inspector')
  const socket = new WebSocket(target.webSocketDebuggerUrl, { perMessageDeflate: false })
  await new Promise<void>((open, fail) => socket.once('open', () => open()).once('error', fail))
  const waiting = new Map<number, (result: unknown) => void>()
  let count = 0
  socket.on('message', (data: Buffer) => {
    const { id, result } = JSON.parse(data.toString()) as { id?: number; result?: unknown }
    if (id === undefined) return
    waiting.get(id)?.(result)
    waiting.delete(id)
  })
  const send = (method: string, params: object = {}): Promise<unknown> =>
    new Promise((resolve) => {
      count += 1
      waiting.set(count, resolve)
      socket.send(JSON.stringify({ id: count, method, params }))
    })
  return {
    async start() {
      await send('HeapProfiler.enable')
      await send('HeapProfiler.startSampling', {
        samplingInterval: SAMPLING_INTERVAL,
        includeObjectsCollectedByMajorGC: true,
        includeObjectsCollectedByMinorGC: true,
      })
    },
    async stop() {
      const { profile } = (await send('HeapProfiler.stopSampling')) as {
        profile: { head: ProfileNode }
      }
      return toAllocationProfile(profile.head)
    },
    close: () => socket.terminate(),
  }
}

function toAllocationProfile(head: ProfileNode): AllocationProfile {
  const sizes = new Map<string, number>()
  const open: (readonly [node: ProfileNode, caller: string])[] = [[head, '']]
  let bytes = 0
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [node, caller] = next
    const place = describePlace(node, caller)
    for (const child of node.children) open.push([child, place])
    bytes += node.selfSize
    sizes.set(place, (sizes.get(place) ?? 0) + node.selfSize)
  }
  const sites = [...sizes].map(([place, size]) => ({ place, bytes: size }))
  return { bytes, sites: sites.sort((a, b) => b.bytes - a.bytes) }
}

/** What is built into the engine, such as `Set`, says nothing without the function that calls it. */
function describePlace(
  { callFrame: { functionName, url, lineNumber } }: ProfileNode,
  caller: string,
): string {
  const file = url.split('/').at(-1) ?? ''
  const name = functionName === '' ? 'anonymous' : functionName
  if (file === '' && caller === '') return name
  return file === '' ? `${name} of ${caller}` : `${name} (${file}:${lineNumber + 1})`
}
