import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate'
import { toMachineTransitionIds } from '../../../actors/machine-transition-ids.ts'

/** Reads a machine's states and transitions as a graph to lay out. */

/** Transitions without a target, listed inside their state: equal outcomes share a row. */
export interface StatechartTargetlessTransitionsRow {
  readonly label: string
  /** The guard, or the code of a rejection. */
  readonly note: string
  readonly refused: boolean
  readonly ids: string[]
}

export interface StatechartState {
  readonly path: string
  readonly name: string
  readonly type: 'atomic' | 'compound' | 'parallel' | 'final' | 'history'
  readonly ended: boolean
  readonly rows: readonly StatechartTargetlessTransitionsRow[]
  /** The path of the initial child. */
  readonly initial: string | null
  /** By distance from the initial state, final states last. */
  readonly children: readonly StatechartState[]
}

export interface StatechartTransition {
  readonly id: string
  readonly source: string
  readonly target: string
  readonly label: string
  readonly guard: string
}

export interface MachineGraph {
  readonly root: StatechartState
  readonly transitions: readonly StatechartTransition[]
}

interface NamedImplementation {
  readonly type: string
  readonly params?: unknown
}

const pathOf = (node: AnyStateNode): string => node.path.join('.')

export function toMachineGraph(machine: AnyStateMachine): MachineGraph {
  const ids = toMachineTransitionIds(machine)
  const idOf = (transition: AnyTransitionDefinition): string => ids.get(transition) ?? ''
  const transitions = allNodes(machine.root).flatMap((node) =>
    transitionsOf(node).flatMap((transition) =>
      (transition.target ?? []).map((target) => ({
        id: idOf(transition),
        source: pathOf(node),
        target: pathOf(target),
        label: eventLabel(transition.eventType),
        guard: guardLabel(transition),
      })),
    ),
  )
  return { root: toState(machine.root, machine.id, idOf), transitions }
}

const allNodes = (node: AnyStateNode): AnyStateNode[] => [
  node,
  ...Object.values(node.states).flatMap(allNodes),
]

const transitionsOf = (node: AnyStateNode): AnyTransitionDefinition[] => [
  ...(node.always ?? []),
  ...[...node.transitions.values()].flat(),
]

function toState(
  node: AnyStateNode,
  name: string,
  idOf: (transition: AnyTransitionDefinition) => string,
): StatechartState {
  const initial = node.type === 'compound' ? (node.initial.target?.[0] ?? null) : null
  return {
    path: pathOf(node),
    name,
    type: node.type,
    ended: node.type === 'final' || node.tags.includes('ended'),
    rows: toRows(node, idOf),
    initial: initial === null ? null : pathOf(initial),
    children: rankChildren(node).map((child) => toState(child, child.key, idOf)),
  }
}

/** Orders siblings breadth first from the initial state; final states come last. */
function rankChildren(node: AnyStateNode): AnyStateNode[] {
  const children = Object.values(node.states)
  const first = node.type === 'compound' ? node.initial.target?.[0] : undefined
  const start = first === undefined ? undefined : childToward(node, first)
  const queue = start === undefined ? [...children] : [start]
  const seen = new Set(queue)
  for (const state of queue) {
    for (const inner of allNodes(state)) {
      for (const target of transitionsOf(inner).flatMap((one) => one.target ?? [])) {
        const next = childToward(node, target)
        if (next === undefined || seen.has(next)) continue
        seen.add(next)
        queue.push(next)
      }
    }
  }
  const ranked = [...queue, ...children.filter((child) => !seen.has(child))]
  const isLast = (child: AnyStateNode) => child.type === 'final'
  return [...ranked.filter((child) => !isLast(child)), ...ranked.filter(isLast)]
}

function childToward(node: AnyStateNode, target: AnyStateNode): AnyStateNode | undefined {
  const key = target.path[node.path.length]
  const within = node.path.every((part, at) => target.path[at] === part)
  return within && key !== undefined ? node.states[key] : undefined
}

/** One row for each guard of an accepted event, and one for each code of a rejection. */
function toRows(
  node: AnyStateNode,
  idOf: (transition: AnyTransitionDefinition) => string,
): StatechartTargetlessTransitionsRow[] {
  const rows = new Map<string, { row: StatechartTargetlessTransitionsRow; events: Set<string> }>()
  for (const transition of transitionsOf(node)) {
    if (transition.target !== undefined) continue
    const code = rejectionCode(transition)
    const event = eventLabel(transition.eventType)
    const note = code ?? guardLabel(transition)
    const key = code === null ? `${event} ${note}` : `refused ${note}`
    const found = rows.get(key) ?? {
      row: { label: '', note, refused: code !== null, ids: [] },
      events: new Set(),
    }
    found.row.ids.push(idOf(transition))
    found.events.add(event)
    rows.set(key, found)
  }
  const listed = [...rows.values()].map(({ row, events }) => ({
    ...row,
    label: [...events].join(' '),
  }))
  return [...listed.filter(({ refused }) => !refused), ...listed.filter(({ refused }) => refused)]
}

/** The code with which a transition rejects its event; null when it accepts. */
function rejectionCode({ actions }: AnyTransitionDefinition): string | null {
  for (const action of actions as unknown[]) {
    const { type, params } = action as NamedImplementation
    const { code } = (params ?? {}) as { code?: unknown }
    if (type === 'reject' && typeof code === 'string') return code
  }
  return null
}

function guardLabel({ guard }: AnyTransitionDefinition): string {
  if (guard === undefined) return ''
  if (typeof guard === 'string') return guard
  const { type, params } = guard as NamedImplementation
  const values = typeof params === 'object' && params !== null ? Object.values(params) : []
  return [type, ...values.map(String)].join(' ')
}

const SECOND = 1_000
const UNITS = [
  ['d', 86_400 * SECOND],
  ['h', 3_600 * SECOND],
  ['m', 60 * SECOND],
  ['s', SECOND],
] as const

function durationLabel(ms: number): string {
  const unit = UNITS.find(([, length]) => ms >= length && ms % length === 0)
  return unit === undefined ? `${ms}ms` : `${ms / unit[1]}${unit[0]}`
}

const AFTER = /^xstate\.after\.([^.]+)\./

/** The words for an event on the chart: `after 5m`, `done`, `always`. */
function eventLabel(type: string): string {
  const delay = AFTER.exec(type)?.[1]
  if (delay !== undefined)
    return `after ${/^\d+$/.test(delay) ? durationLabel(Number(delay)) : delay}`
  if (type.startsWith('xstate.done.')) return 'done'
  if (type === '*') return 'anything else'
  return type === '' ? 'always' : type
}
