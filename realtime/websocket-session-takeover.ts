import type { Clock } from '../core/clock.ts'
import { newPrefixedId } from '../core/ids-and-api-keys.ts'
import type { MessageBus } from '../persistence/message-bus.ts'

/** WebSocket sessions that a new socket can take over on any node. */

const SESSION_TAKEOVER_TOPIC = 'sessions'

/** A session has one socket: the newest one on any node. */
export interface WebSocketSessionTakeoverService {
  /** Starts a session of an agent. `replaced` is called when a newer socket resumes it. */
  begin(agentId: string, replaced: () => void): HeldSession
  /** Takes over a session from its current socket. */
  resume(session: string, agentId: string, replaced: () => void): HeldSession
}

interface HeldSession {
  readonly session: string
  release(): void
}

/** Sessions by agent: another agent's session cannot be reached. */
export function createWebSocketSessionTakeover(
  bus: Pick<MessageBus, 'publish' | 'subscribe'>,
  clock: Pick<Clock, 'now'>,
) {
  const node = newPrefixedId('node')
  const holders = new Map<string, { readonly since: number; replace(): void }>()

  const unsubscribe = bus.subscribe(SESSION_TAKEOVER_TOPIC, (message) => {
    const [from, name = '', at] = message.split(' ')
    if (from === node) return
    const holder = holders.get(name)
    // Ignores late messages about sockets older than this one.
    if (holder !== undefined && holder.since <= Number(at)) holder.replace()
  })

  function hold(session: string, agentId: string, replaced: () => void): HeldSession {
    const name = `${agentId}/${session}`
    const release = () => {
      if (holders.get(name) === holder) holders.delete(name)
    }
    const holder = {
      since: clock.now(),
      replace() {
        release()
        replaced()
      },
    }
    holders.get(name)?.replace()
    holders.set(name, holder)
    return { session, release }
  }

  return {
    begin: (agentId: string, replaced: () => void) => hold(newPrefixedId('ses'), agentId, replaced),
    resume(session: string, agentId: string, replaced: () => void) {
      const held = hold(session, agentId, replaced)
      // If the message is lost, the old socket ends when its heartbeats fail.
      bus
        .publish(SESSION_TAKEOVER_TOPIC, `${node} ${agentId}/${session} ${clock.now()}`)
        .catch(() => {})
      return held
    },
    stop: unsubscribe,
  } satisfies WebSocketSessionTakeoverService & { stop(): void }
}
