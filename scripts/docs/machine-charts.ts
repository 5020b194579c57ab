import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate'
import { machineRegistry } from '../../actors/machine-registry.ts'
import { writeGeneratedFile, markdownTable } from './write-generated.ts'

/** Writes the Mermaid charts of all machines. */

const INTRO = `# The state machines

Generated from \`actors/machine-registry.ts\`; do not edit. Each machine has a chart of its transitions
and a table of the events that change no state. In the table the first row whose condition holds
applies, and \`refuse\` with its code rejects the event. A labelled arrow from a start point inside a
composite state is a transition of that composite state itself.
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

function draw(node: AnyStateNode): string[] {
  const children = Object.values(node.states)
  const body = [
    ...(node.type === 'compound' ? [`[*] --> ${mermaidId(entryOf(node))}`] : []),
    ...children.flatMap(drawChild),
    ...arrows(node).flatMap(({ inside, line }) => (inside ? [line] : [])),
    ...children.flatMap((child) =>
      arrows(child).flatMap(({ inside, line }) => (inside ? [] : [line])),
    ),
  ]
  return body.map((line) => `  ${line}`)
}

function drawChild(node: AnyStateNode): string[] {
  const title = `state "${node.key}" as ${mermaidId(node)}`
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

writeGeneratedFile(
  'docs/machines.md',
  [INTRO, ...Object.values(machineRegistry).map(({ machine }) => machineSection(machine))].join(
    '\n',
  ),
)
