import { createActorNames } from '../../actors/inspection/inspector-actor-names.ts'
import { createActorHistory } from '../../actors/inspection/actor-history.ts'
import { createInspectionFeed } from '../../actors/inspection/inspection-feed.ts'
import { createExplainedRefusalRecorder } from '../../calls/explained-refusal-recorder.ts'
import { createExplainedRefusalStore } from '../../persistence/inspector/explained-refusal-store.ts'
import type { Clock } from '../../core/clock.ts'
import { HOUR, SECOND } from '../../core/clock.ts'
import { createInspectorAccess } from '../../http/inspector/inspector-access.ts'
import { createActorSearchStore } from '../../persistence/inspector/actor-search-store.ts'
import { createInspectorCodeStore } from '../../persistence/inspector/inspector-one-time-code-store.ts'
import { createJournalHistoryStore } from '../../persistence/inspector/journal-history-store.ts'
import type { StationKeys } from '../../persistence/encrypted-station-key-store.ts'
import type { Sql, StationPostgresAndRedis } from '../../persistence/start-postgres-and-redis.ts'
import type { Config } from '../config.ts'

/** Composes the inspector: the feed of commands, stored actors, their past, and who may see them. */

export interface ComposeInspectorDeps {
  readonly config: Pick<Config, 'inspector' | 'operatorToken' | 'journalArchiveDir'>
  readonly clock: Clock
  readonly sql: Sql
  readonly plane: Pick<StationPostgresAndRedis, 'bus'>
  readonly own: StationKeys
  readonly publicUrl: string
  readonly log: (message: string, error: unknown) => void
}

/** How long the code is valid that the station prints at its start. */
const START_CODE_SECONDS = (24 * HOUR) / SECOND

export function composeInspector(parts: ComposeInspectorDeps) {
  const { config, clock, sql, plane, own, publicUrl, log } = parts
  const { operatorToken } = config
  const codes = createInspectorCodeStore(sql)
  const actorHistory = createActorHistory(createJournalHistoryStore(sql, config.journalArchiveDir))
  const readStates = actorHistory.statesOf
  const actorDirectory = createActorSearchStore(sql)
  const actorNames = createActorNames({ clock, read: actorDirectory.namesOf, log })
  const inspection = config.inspector
    ? createInspectionFeed({ bus: plane.bus, clock, readStates, names: actorNames, log })
    : null
  const key = own.inspector
  const refusalStore = createExplainedRefusalStore(sql)
  const explained = createExplainedRefusalRecorder({
    clock,
    key,
    publicUrl,
    write: refusalStore.add,
    log,
  })
  return {
    recorder: inspection,
    explained,
    served: {
      inspection,
      actorHistory,
      explained,
      refusalStore,
      actorDirectory,
      actorNames,
      inspectorAccess: createInspectorAccess({ clock, codes, operatorToken, key, publicUrl }),
    },
    /** Whether a person is offered a link at the start: the inspector is on, and the operator has no token. */
    offersLink: inspection !== null && operatorToken === null,
    async link(): Promise<string> {
      return toInspectorLink(publicUrl, await codes.issue(START_CODE_SECONDS))
    },
    stop: () => inspection?.stop(),
  }
}

/** The fragment reaches neither a server nor its logs. */
export const toInspectorLink = (publicUrl: string, code: string): string =>
  `${publicUrl}/inspector#code=${code}`
