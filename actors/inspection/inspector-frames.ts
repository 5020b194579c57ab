import type { ActorState } from '../../core/journal-actor-state-delta.ts'
import { isActorKind, type ActorKind } from '../machine-registry.ts'
import {
  hasStatechart,
  isEndedMachineState,
  machineDefinitionOf,
} from './machine-definitions-for-inspector.ts'
import type { RecordedCommand, RecordedActorStep } from './command-recorder.ts'
import {
  redactActorStateForInspector,
  redactEventValueForInspector,
} from './withhold-secrets-from-inspector.ts'

/**
 * The messages of @statelyai/inspect 0.7.2, as JSON. What its receivers do not know is in the member
 * `gas`.
 */

const PROTOCOL_VERSION = '0.7.2'

export const actorSessionIdOf = (kind: string, id: string): string => `${kind}:${id}`

/** The actor that carries the id of the aggregate: agent, payer, visitor, fleet, drop or bounty. */
const rootSessionOf = (aggregateKind: string, aggregateId: string) =>
  actorSessionIdOf(aggregateKind, aggregateId)

const baseOf = (at: number, rootId: string, sessionId: string) => ({
  _version: PROTOCOL_VERSION,
  createdAt: String(at),
  id: null,
  rootId,
  sessionId,
})

/** An actor as the first message about it shows it. */
export interface InspectorShownActor {
  readonly kind: ActorKind
  readonly id: string
  readonly aggregateId: string
  readonly aggregateKind: string
  readonly name: string
  readonly version: number
  readonly isArchived: boolean
  readonly state: ActorState
}

/** `@xstate.actor`. Watchers need the definition of a machine once. */
export function toInspectorActorFrame(
  actor: InspectorShownActor,
  at: number,
  withDefinition: boolean,
): string {
  const { kind, id, aggregateId, aggregateKind, name, version } = actor
  const rootId = rootSessionOf(aggregateKind, aggregateId)
  const sessionId = actorSessionIdOf(kind, id)
  return JSON.stringify({
    type: '@xstate.actor',
    ...baseOf(at, rootId, sessionId),
    name,
    definition: withDefinition && hasStatechart(kind) ? machineDefinitionOf(kind) : undefined,
    parentId: sessionId === rootId ? undefined : rootId,
    snapshot: { status: 'active', ...redactActorStateForInspector(kind, actor.state) },
    gas: {
      ...{ kind, actor_id: id, aggregate_id: aggregateId, version },
      ended: isEndedMachineState(kind, actor.state.value),
      archived: actor.isArchived,
      chart: hasStatechart(kind),
    },
  })
}

/** The frames of one step, each built when a watcher first wants it. */
export interface InspectorStepFrames {
  readonly step: RecordedActorStep
  readonly session: string
  /** The actor after the step. */
  readonly actor: InspectorShownActor
  actorFrame(withDefinition: boolean): string
  /** `@xstate.event` and `@xstate.snapshot`. */
  frames(): readonly [string, string]
}

/** The frames of a command. `nameOf` knows actors by other names than their own context does. */
export function toInspectorFramesOfCommand(
  command: RecordedCommand,
  nameOf: (kind: string, id: string) => string | undefined,
  firstSeq: number,
): InspectorStepFrames[] {
  return command.steps
    .filter(({ kind }) => isActorKind(kind))
    .map((step, at) => {
      const actor = toShownActor(command, step, nameOf)
      const rootId = rootSessionOf(actor.aggregateKind, actor.aggregateId)
      const session = actorSessionIdOf(step.kind, step.id)
      const made: { actor?: string; full?: string; pair?: readonly [string, string] } = {}
      const before = command.steps[at - 1]
      const sourceId = before === undefined ? undefined : actorSessionIdOf(before.kind, before.id)
      const build = (): readonly [string, string] => {
        const base = baseOf(command.at, rootId, session)
        const event = step.isNew
          ? { type: 'xstate.init' }
          : (redactEventValueForInspector(step.event) as { type: string })
        const gas = toGasMember(command, step, firstSeq + at)
        const snapshot = {
          status: 'active',
          ...redactActorStateForInspector(step.kind, step.snapshot),
        }
        return [
          JSON.stringify({ type: '@xstate.event', ...base, event, sourceId, gas }),
          JSON.stringify({ type: '@xstate.snapshot', ...base, event, snapshot, gas }),
        ]
      }
      return {
        step,
        session,
        actor,
        actorFrame: (withDefinition) =>
          withDefinition
            ? (made.full ??= toInspectorActorFrame(actor, command.at, true))
            : (made.actor ??= toInspectorActorFrame(actor, command.at, false)),
        frames: () => (made.pair ??= build()),
      }
    })
}

const toGasMember = (command: RecordedCommand, step: RecordedActorStep, seq: number) => ({
  kind: step.kind,
  actor_id: step.id,
  aggregate_id: step.aggregateId,
  version: versionOf(command, step),
  at: new Date(command.at).toISOString(),
  command: command.command,
  command_id: command.commandId,
  cause: command.cause,
  ...(command.callId === null ? {} : { call_id: command.callId }),
  ...(command.requestId === null ? {} : { request_id: command.requestId }),
  edges: step.edges,
  ended: isEndedMachineState(step.kind, step.snapshot.value),
  ...(step.refused === null ? {} : { refused: step.refused }),
  node: command.node,
  seq,
})

/** The version of the aggregate of a step: that of the command, or the first of one it has created. */
const versionOf = ({ aggregateId, version }: RecordedCommand, step: RecordedActorStep): number =>
  step.aggregateId === aggregateId ? version : 1

function toShownActor(
  command: RecordedCommand,
  step: RecordedActorStep,
  nameOf: (kind: string, id: string) => string | undefined,
): InspectorShownActor {
  const { kind, id, aggregateId, snapshot } = step
  const isOwn = aggregateId === command.aggregateId
  return {
    ...{ kind, id, aggregateId },
    aggregateKind: isOwn ? command.aggregateKind : kind,
    name: nameOf(kind, id) ?? readActorName(snapshot.context) ?? id,
    version: versionOf(command, step),
    isArchived: false,
    state: snapshot,
  }
}

/** The name that the context of an actor has; null for none. */
export function readActorName(context: unknown): string | null {
  const { name, agentName } = (context ?? {}) as { name?: unknown; agentName?: unknown }
  const found = typeof name === 'string' ? name : agentName
  return typeof found === 'string' && found !== '' ? found : null
}
