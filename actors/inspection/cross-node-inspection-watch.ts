import type { ActorState } from '../../core/journal-actor-state-delta.ts'
import type { MessageBus } from '../../persistence/message-bus.ts'
import { isActorKind } from '../machine-registry.ts'
import type { RecordedCommand, RecordedActorStep } from './command-recorder.ts'
import { redactEventValueForInspector } from './withhold-secrets-from-inspector.ts'

/**
 * Lets several nodes show as one. A node with watchers says so on the bus, again and again; the other
 * nodes then announce their commands there, and the node reads the states from the journal. Events and
 * rejections are in the announcement. What does not fit is left out, and counted.
 */

/** An actor as an announcement names it. */
export interface AnnouncedActor {
  readonly kind: string
  readonly id: string
  readonly aggregateId: string
  /** The version that changed it; null for its latest state. */
  readonly version: number | null
}
/** Reads states from the journal, or the latest ones; null for an unknown actor. */
export type JournalActorStateReader = (
  actors: readonly AnnouncedActor[],
) => Promise<readonly (ActorState | null)[]>

export interface RemoteInspectionWatchDeps {
  readonly node: string
  readonly bus: Pick<MessageBus, 'publish' | 'subscribe'>
  readonly readStates: JournalActorStateReader
  readonly heard: (command: RecordedCommand) => void
  readonly missed: (commands: number) => void
  /** Called when another node begins or ends to watch. */
  readonly changed: () => void
  readonly log: (message: string, error: unknown) => void
}

const TOPIC = 'inspector'
const RENEW_MS = 8_000
/** A node that has not said for this long that it watches, watches no more. */
const LEASE_MS = 20_000
const ANNOUNCE_MS = 40
/** The bus carries less than 8,000 bytes a message, its envelope included. */
const MAX_MESSAGE_BYTES = 7_400
const MAX_EVENT_CHARS = 1_000
/** Messages of one announcement; commands behind them are left out. */
const MAX_MESSAGES = 8
/** Announced commands that wait to be read. */
const MAX_UNREAD = 500

type AnnouncedStep = Pick<
  RecordedActorStep,
  'kind' | 'id' | 'aggregateId' | 'event' | 'edges' | 'refused' | 'isNew'
>
interface AnnouncedCommand extends Omit<RecordedCommand, 'steps'> {
  readonly steps: readonly AnnouncedStep[]
}
type BusMessage =
  | { readonly from: string; readonly watching: boolean }
  | { readonly from: string; readonly commands: readonly AnnouncedCommand[]; readonly left: number }

export function createRemoteInspectionWatch(parts: RemoteInspectionWatchDeps) {
  const { bus, node, log } = parts
  const leases = new Map<string, NodeJS.Timeout>()
  let renewing: NodeJS.Timeout | undefined
  let announcing: NodeJS.Timeout | undefined
  let fresh: string[] = []
  let leftOut = 0
  let unread: AnnouncedCommand[] = []
  let reading = false

  const publish = (message: BusMessage | string) => {
    const text = typeof message === 'string' ? message : JSON.stringify(message)
    bus.publish(TOPIC, text).catch((error: unknown) => log('inspector: not announced', error))
  }

  const unsubscribe = bus.subscribe(TOPIC, (text) => {
    const message = JSON.parse(text) as BusMessage
    if (message.from === node) return
    if ('watching' in message) return setLease(message.from, message.watching)
    if (renewing === undefined) return
    if (message.left > 0) parts.missed(message.left)
    const room = MAX_UNREAD - unread.length
    if (message.commands.length > room) parts.missed(message.commands.length - room)
    unread.push(...message.commands.slice(0, room))
    if (!reading) void read()
  })

  function setLease(from: string, isWatching: boolean): void {
    clearTimeout(leases.get(from))
    if (isWatching) leases.set(from, setTimeout(() => setLease(from, false), LEASE_MS).unref())
    else leases.delete(from)
    parts.changed()
  }

  function announce(): void {
    announcing = undefined
    const messages: string[][] = [[]]
    let size = 0
    for (const text of fresh) {
      size += bytesOnBus(text)
      if (size > MAX_MESSAGE_BYTES && messages.at(-1)?.length !== 0) {
        messages.push([])
        size = bytesOnBus(text)
      }
      messages.at(-1)?.push(text)
    }
    const beyond = messages.splice(MAX_MESSAGES).flat().length
    let left = leftOut + beyond
    fresh = []
    leftOut = 0
    for (const commands of messages) {
      publish(`{"from":"${node}","left":${left},"commands":[${commands.join(',')}]}`)
      left = 0
    }
  }

  /** Reads the states of announced commands, one announcement after the other. */
  async function read(): Promise<void> {
    reading = true
    while (unread.length > 0) {
      const commands = unread.splice(0, 50)
      try {
        for (const command of await withStates(commands)) parts.heard(command)
      } catch (error) {
        log('inspector: announced commands not read', error)
        parts.missed(commands.length)
      }
    }
    reading = false
  }

  async function withStates(commands: readonly AnnouncedCommand[]): Promise<RecordedCommand[]> {
    const actors = commands.flatMap(({ steps, aggregateId, version }) =>
      steps.map((step) => ({
        kind: step.kind,
        id: step.id,
        aggregateId: step.aggregateId,
        // A rejection has no version of its own; another aggregate that was created has its first one.
        version: step.refused !== null ? null : step.aggregateId === aggregateId ? version : 1,
      })),
    )
    const states = await parts.readStates(actors)
    let next = 0
    return commands.map((command) => ({
      ...command,
      steps: command.steps.flatMap((step): RecordedActorStep[] => {
        const snapshot = states[next++] ?? null
        return snapshot === null || !isActorKind(step.kind) ? [] : [{ ...step, snapshot }]
      }),
    }))
  }

  return {
    /** Whether another node watches this one. */
    isWatching: () => leases.size > 0,
    tell(command: RecordedCommand): void {
      if (leases.size === 0) return
      const text = JSON.stringify(toAnnouncement(command))
      if (bytesOnBus(text) > MAX_MESSAGE_BYTES) leftOut += 1
      else fresh.push(text)
      announcing ??= setTimeout(announce, ANNOUNCE_MS).unref()
    },
    /** This node watches the others from now on. */
    start(): void {
      const say = () => publish({ from: node, watching: true })
      say()
      renewing = setInterval(say, RENEW_MS).unref()
    },
    end(): void {
      clearInterval(renewing)
      renewing = undefined
      unread = []
      publish({ from: node, watching: false })
    },
    stop(): void {
      if (renewing !== undefined) this.end()
      unsubscribe()
      for (const timer of leases.values()) clearTimeout(timer)
      leases.clear()
      clearTimeout(announcing)
    },
  }
}

/** The bus wraps a message into another JSON text. */
const bytesOnBus = (text: string): number => Buffer.byteLength(JSON.stringify(text))

const toAnnouncement = (command: RecordedCommand): AnnouncedCommand => ({
  ...command,
  steps: command.steps.map(({ kind, id, aggregateId, event, edges, refused, isNew }) => ({
    ...{ kind, id, aggregateId, edges, refused, isNew },
    event: shortened(event),
  })),
})

function shortened(event: RecordedActorStep['event']): RecordedActorStep['event'] {
  const shown = redactEventValueForInspector(event) as RecordedActorStep['event']
  return JSON.stringify(shown).length > MAX_EVENT_CHARS ? { type: event.type } : shown
}
