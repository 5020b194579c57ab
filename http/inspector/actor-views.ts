import type { ActorHistoryEntry } from '../../actors/inspection/actor-history.ts'
import {
  toActiveLeafStatesText,
  redactActorContextForInspector,
  redactActorStateForInspector,
  redactEventValueForInspector,
} from '../../actors/inspection/withhold-secrets-from-inspector.ts'
import { isEndedMachineState } from '../../actors/inspection/machine-definitions-for-inspector.ts'
import { isActorKind, type ActorKind } from '../../actors/machine-registry.ts'
import type { ActorSearchResult } from '../../persistence/inspector/actor-search-store.ts'
import { toIsoTime } from '../schemas/shared-schemas.ts'

/** Actors and their past as responses show them. */

/** A stored actor in a list. */
export const toActorListItem = (actor: ActorSearchResult) => ({
  kind: actor.kind,
  id: actor.id,
  aggregate_id: actor.aggregateId,
  aggregate_kind: actor.aggregateKind,
  parent_id:
    actor.kind === actor.aggregateKind && actor.id === actor.aggregateId
      ? null
      : `${actor.aggregateKind}:${actor.aggregateId}`,
  name: actor.name,
  state: toActiveLeafStatesText(actor.state.value),
  value: actor.state.value,
  ended: isActorKind(actor.kind) && isEndedMachineState(actor.kind, actor.state.value),
  archived: actor.isArchived,
  version: actor.version,
})

/** An entry of a history, with what it changed. */
export function toActorHistoryView(kind: string, entry: ActorHistoryEntry) {
  const known: ActorKind = isActorKind(kind) ? kind : 'agent'
  const { value, context } = redactActorStateForInspector(known, entry.state)
  const before =
    entry.before === null ? null : redactActorContextForInspector(known, entry.before.context)
  const { name, input } = entry.command
  const isSameState =
    entry.before === null || JSON.stringify(entry.before.value) === JSON.stringify(value)
  return {
    version: entry.version,
    at: toIsoTime(entry.at),
    command: name,
    command_id: entry.commandId,
    input: input === undefined ? null : redactEventValueForInspector(input),
    state: toActiveLeafStatesText(value),
    value,
    value_from: isSameState ? null : entry.before?.value,
    context,
    diff: before === null ? [] : compareContexts(before, context),
    machine_version: entry.machineVersion,
    full: before === null,
  }
}

/** A difference of two contexts: `from` is absent for an added member, `to` for a removed one. */
interface ContextDifference {
  /** A JSON Pointer. */
  readonly path: string
  readonly from?: unknown
  readonly to?: unknown
}

const MAX_DIFFERENCES = 200

function compareContexts(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): ContextDifference[] {
  const found: ContextDifference[] = []
  const visit = (path: string, from: unknown, to: unknown) => {
    if (found.length >= MAX_DIFFERENCES || JSON.stringify(from) === JSON.stringify(to)) return
    if (!isRecord(from) || !isRecord(to)) {
      found.push({
        path,
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
      })
      return
    }
    for (const name of new Set([...Object.keys(from), ...Object.keys(to)]))
      visit(`${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, from[name], to[name])
  }
  visit('', before, after)
  return found
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
