import { setTimeout as pause } from 'node:timers/promises'
import { SECOND, type Clock } from '../../core/clock.ts'
import { isActorKind, type ActorKind } from '../machine-registry.ts'
import type { RecordedCommand } from './command-recorder.ts'

/**
 * Names of actors that their contexts do not have: those of agents and the titles of bounties. They are
 * read once, before the first command of an actor is told, so that a new agent never shows as an id.
 */

export interface NamedActor {
  readonly kind: string
  readonly id: string
  readonly name: string
}

export interface ActorNames {
  /** The name, if it is known and not in the context of the actor. */
  nameOf(kind: string, id: string): string | undefined
  remember(actors: readonly NamedActor[]): void
  /** Reads the names that these commands need; null when all are known. Never rejects. */
  learn(commands: readonly RecordedCommand[]): Promise<void> | null
}

export interface ActorNamesDeps {
  readonly clock: Pick<Clock, 'mono'>
  /** The stored names of these actors; those without one are absent. */
  readonly read: (actors: readonly Omit<NamedActor, 'name'>[]) => Promise<readonly NamedActor[]>
  readonly log: (message: string, error: unknown) => void
}

const NAMED_ELSEWHERE: ReadonlySet<ActorKind> = new Set(['agent', 'bounty'])
/** Above this number the oldest one is dropped. */
const MAX_NAMES = 20_000
/** Commands are told without names after this time. */
const MAX_WAIT_MS = 500
/** After a failure no name is read for this long. */
const REST_MS = 5 * SECOND

export function createActorNames({ clock, read, log }: ActorNamesDeps): ActorNames {
  /** Null for an actor without a stored name. */
  const names = new Map<string, string | null>()
  let restsUntil = -Infinity

  function keep(kind: string, id: string, name: string | null): void {
    names.set(`${kind}:${id}`, name)
    if (names.size > MAX_NAMES) names.delete(names.keys().next().value ?? '')
  }

  async function readAll(unknown: readonly Omit<NamedActor, 'name'>[]): Promise<void> {
    try {
      const found = await read(unknown)
      for (const { kind, id } of unknown) keep(kind, id, null)
      for (const { kind, id, name } of found) keep(kind, id, name)
    } catch (error) {
      restsUntil = clock.mono() + REST_MS
      log('inspector: names not read', error)
    }
  }

  return {
    nameOf: (kind, id) => names.get(`${kind}:${id}`) ?? undefined,
    remember(actors) {
      for (const { kind, id, name } of actors) if (isNamedElsewhere(kind)) keep(kind, id, name)
    },
    learn(commands) {
      if (clock.mono() < restsUntil) return null
      const unknown = new Map<string, Omit<NamedActor, 'name'>>()
      for (const { steps } of commands)
        for (const { kind, id } of steps) {
          const key = `${kind}:${id}`
          if (isNamedElsewhere(kind) && !names.has(key)) unknown.set(key, { kind, id })
        }
      if (unknown.size === 0) return null
      return Promise.race([
        readAll([...unknown.values()]),
        pause(MAX_WAIT_MS, undefined, { ref: false }),
      ])
    },
  }
}

const isNamedElsewhere = (kind: string): boolean => isActorKind(kind) && NAMED_ELSEWHERE.has(kind)
