import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate'
import { machineRegistry } from '../../actors/machine-registry.ts'
import type { AnyReducer } from '../../machines/aggregate-reducer.ts'
import { writeMachineLayouts } from './write-machine-layouts.ts'
import { writeGeneratedFile, markdownTable } from './write-generated-docs.ts'

/** Writes the Mermaid charts of all machines, and the charts that the inspector draws. */

const INTRO = `# The state machines

Generated from \`actors/machine-registry.ts\`; do not edit. Each machine has a chart of its transitions
and a table of the events that change no state. In the table the first row whose condition holds
applies; an empty last column accepts the event without a change, and \`reject\` with its code rejects
it. In the chart a rejection is an arrow to \`rejected\`, which is no state: the machine stays where it
is. A labelled arrow from a start point inside a composite state is a transition of that composite
state itself. \`(ended)\` marks the end of a life.

A guard or action without parameters in these charts receives the event. The config of each machine
is one literal with named guards and actions: its JSON opens in an editor for state machines.
`

interface NamedAction {
  readonly type: string
  readonly params?: Readonly<Record<string, unknown>>
}

/** A guard or an action with its static parameters: `refuse payment_required`. */
function label(one: unknown): string {
  if (typeof one === 'string') return one
  if (typeof one !== 'object' || one === null || !('type' in one)) {
    throw new Error('a machine uses an inline guard or action')
  }
  const { type, params = {} } = one as NamedAction
  return [type, ...Object.values(params).map(String)].join(' ')
}

const AFTER = /^xstate\.after\.(\w+)\./
const eventName = (type: string): string => {
  const delay = AFTER.exec(type)?.[1]
  if (delay !== undefined) return `after ${delay}`
  return type === '*' ? 'anything else' : type
}

const isWithin = (node: AnyStateNode, other: AnyStateNode): boolean =>
  node === other || (node.parent !== undefined && isWithin(node.parent, other))

const mermaidId = (node: AnyStateNode): string => node.path.join('_')
const entryOf = (node: AnyStateNode): AnyStateNode => {
  const [first] = node.initial.target ?? []
  return first === undefined ? node : first
}

function transitionsOf(node: AnyStateNode): AnyTransitionDefinition[] {
  return [...(node.always ?? []), ...[...node.transitions.values()].flat()]
}

/** The guard, or `otherwise` for the last of several transitions of an event. */
function condition({ source, eventType, guard }: AnyTransitionDefinition): string {
  if (guard !== undefined) return label(guard)
  const siblings = transitionsOf(source).filter((other) => other.eventType === eventType)
  return siblings.length > 1 ? 'otherwise' : ''
}

function caption(transition: AnyTransitionDefinition): string {
  const does = transition.actions.map(label).join(', ')
  const when = condition(transition)
  const parts = [
    eventName(transition.eventType),
    when === '' ? '' : `[${when}]`,
    does === '' ? '' : `/ ${does}`,
  ]
  return parts.filter((part) => part !== '').join(' ')
}

/**
 * Mermaid cannot draw an arrow from a composite state to itself, so the arrow starts at an inner
 * state.
 */
function arrow(transition: AnyTransitionDefinition, target: AnyStateNode) {
  const { source } = transition
  const inside = source.type === 'compound' && isWithin(target, source)
  const [from, to] = inside
    ? ['[*]', target === source ? entryOf(source) : target]
    : [mermaidId(source), target]
  return { inside, line: `${from} --> ${mermaidId(to)}: ${caption(transition)}` }
}

const arrows = (node: AnyStateNode) =>
  transitionsOf(node).flatMap((one) => (one.target ?? []).map((target) => arrow(one, target)))

/** The code of a rejection and its details: `FUSE_TRIPPED per_day`; null for another transition. */
function rejectionOf({ actions }: AnyTransitionDefinition): string | null {
  const reject = (actions as unknown as NamedAction[]).find(({ type }) => type === 'reject')
  return reject === undefined ? null : Object.values(reject.params ?? {}).join(' ')
}

/** One arrow for each code with which a state rejects events. */
function rejections(node: AnyStateNode, from: string, to: string): string[] {
  const events = new Map<string, Set<string>>()
  for (const transition of transitionsOf(node)) {
    const code = rejectionOf(transition)
    if (code === null) continue
    const ofCode = events.get(code) ?? new Set()
    events.set(code, ofCode.add(eventName(transition.eventType)))
  }
  return [...events].map(([code, names]) => `${from} --> ${to}: ${[...names].join(', ')} / ${code}`)
}

/** The rejections of the children of a state, and at the top those of the machine itself. */
function drawRejections(node: AnyStateNode): string[] {
  const id = [...node.path, 'rejected'].join('_')
  const lines = [
    ...(node.parent === undefined ? rejections(node, '[*]', id) : []),
    ...Object.values(node.states).flatMap((child) => rejections(child, mermaidId(child), id)),
  ]
  return lines.length === 0 ? [] : [`state "rejected" as ${id}`, `class ${id} rejected`, ...lines]
}

function draw(node: AnyStateNode): string[] {
  const children = Object.values(node.states)
  const body = [
    ...(node.parent === undefined ? ['classDef rejected stroke:#c3332f,color:#c3332f'] : []),
    ...(node.type === 'compound' ? [`[*] --> ${mermaidId(entryOf(node))}`] : []),
    ...children.flatMap(drawChild),
    ...arrows(node).flatMap(({ inside, line }) => (inside ? [line] : [])),
    ...children.flatMap((child) =>
      arrows(child).flatMap(({ inside, line }) => (inside ? [] : [line])),
    ),
    ...drawRejections(node),
  ]
  return body.map((line) => `  ${line}`)
}

function drawChild(node: AnyStateNode): string[] {
  const name = node.tags.includes('ended') ? `${node.key} (ended)` : node.key
  const title = `state "${name}" as ${mermaidId(node)}`
  return node.type === 'compound' ? [`${title} {`, ...draw(node), '}'] : [title]
}

/** Events that change no state, by state: accepted or rejected. */
function transitionRows(node: AnyStateNode): string[][] {
  const own = transitionsOf(node)
    .filter(({ target }) => target === undefined)
    .map((transition) => [
      node.path.length === 0 ? 'any' : node.path.join('.'),
      eventName(transition.eventType),
      condition(transition),
      transition.actions.map(label).join(', '),
    ])
  return [...own, ...Object.values(node.states).flatMap(transitionRows)]
}

function machineSection({ id, root }: AnyStateMachine): string {
  const chart = ['```mermaid', 'stateDiagram-v2', ...draw(root), '```'].join('\n')
  return `## ${id}\n\n${chart}\n\n${markdownTable(['in', 'on', 'if', 'then'], transitionRows(root))}\n`
}

const reducerSection = ({ id, on }: AnyReducer): string => {
  const events = Object.keys(on).map((event) => `\`${event}\``)
  return `## ${id}\n\nA reducer: it has no states. Events: ${events.join(', ')}.\n`
}

writeGeneratedFile(
  'docs/machines.md',
  [
    INTRO,
    ...Object.values(machineRegistry).map((entry) =>
      entry.type === 'reducer' ? reducerSection(entry.reducer) : machineSection(entry.machine),
    ),
  ].join('\n'),
)
await writeMachineLayouts()
